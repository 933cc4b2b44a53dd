"""Files made with intent: code that should run, paths that lead out, sizes that are not there."""

import base64
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tables import write_lerobot

from tightrope.certificates.folder import read_document
from tightrope.certificates.verify import verify
from tightrope.deploy.check import is_table
from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.files import load_tensors, save_tensors
from tightrope.policies import check_fit, find_record, find_run, load_policy
from tightrope.policies.vecnormalize import read_statistics
from tightrope.reports.index import entries
from tightrope.rollouts import load_episodes
from tightrope.rollouts.results_table import is_results, read_results
from tightrope.studies.config import load_study

STEPS = 10
HUGE = 10**12


class Bomb:
    """Unpickling it creates the marker, a folder."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def arrays():
    return {
        "observations": np.arange(2.0 * STEPS).reshape(STEPS, 2).astype(np.float32),
        "rewards": np.arange(float(STEPS)),
        "terminals": np.ones(STEPS),
        "timeouts": np.zeros(STEPS),
    }


def pendulum():
    return make_env("Pendulum-v1")


def acting(path, **given):
    env = pendulum()
    check_fit(load_policy(path, env, **given), env)


def refused(call, words):
    with pytest.raises(InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 1500


# --- code ------------------------------------------------------------------------------------


def test_pickled_arrays_are_never_unpickled(tmp_path):
    marker, log = tmp_path / "marker", tmp_path / "log.npz"
    objects = np.array([Bomb(marker)] * STEPS, dtype=object)
    for name in arrays():
        np.savez(log, **{**arrays(), name: objects})
        refused(lambda: load_episodes(log), "cannot read")
    np.savez(tmp_path / "statistics.npz", mean=objects, var=np.ones(3))
    refused(lambda: read_statistics(tmp_path / "statistics.npz", pendulum()), "cannot read")
    (tmp_path / "statistics.pkl").write_bytes(pickle.dumps(Bomb(marker)))
    refused(lambda: read_statistics(tmp_path / "statistics.pkl", pendulum()), "a VecNormalize")
    log.write_bytes(pickle.dumps(Bomb(marker)))  # numpy reads a bare pickle as well, if allowed
    refused(lambda: load_episodes(log), "cannot read")
    assert not marker.exists()


def sb3(path, original, **members):
    """An SB3 zip with some members exchanged or added."""
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w") as new:
        kept = {name: old.read(name) for name in old.namelist()}
        for name, content in {**kept, **members}.items():
            new.writestr(name, content)
    return path


def saved(content):
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def test_pickles_in_an_sb3_zip_are_never_unpickled(sb3_file, tmp_path):
    marker, original = tmp_path / "marker", sb3_file("PPO", "Pendulum-v1")
    with zipfile.ZipFile(original) as archive:
        data = json.loads(archive.read("data"))
    bomb = base64.b64encode(pickle.dumps(Bomb(marker))).decode()
    for entry in data.values():
        if isinstance(entry, dict) and ":serialized:" in entry:
            entry[":serialized:"] = bomb
    data["_last_original_obs"] = {":type:": "bomb", ":serialized:": bomb}
    armed = sb3(tmp_path / "data.zip", original, data=json.dumps(data))
    acting(armed, normalize=False)  # the weights are there, and nothing else is needed
    for content in (saved(Bomb(marker)), pickle.dumps(Bomb(marker)), b""):
        armed = sb3(tmp_path / "weights.zip", original, **{"policy.pth": content})
        refused(lambda path=armed: acting(path), "cannot read the weights")
    assert not marker.exists()


def state_of(original):
    with zipfile.ZipFile(original) as archive:
        return torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)


def test_weights_that_are_not_plain_numbers_are_refused(sb3_file, tmp_path):
    """One number that stands for 10¹², a sparse or complex tensor, a number for a name."""
    original = sb3_file("PPO", "Pendulum-v1")
    state, name = state_of(original), "mlp_extractor.policy_net.0.weight"
    others = {
        "repeated": {name: torch.zeros(1).expand(10**6, 10**6)},
        "sparse": {name: torch.eye(3).to_sparse()},
        "complex": {name: state[name] * 1j},
        "named by a number": {5: state[name]},
        "of no tensor": {name: [1.0]},
    }
    for case, change in others.items():
        path = sb3(tmp_path / f"{case}.zip", original, **{"policy.pth": saved({**state, **change})})
        refused(lambda path=path: acting(path), "expected named tensors")


def packed_again(content):
    """The same archive with its members deflated, as torch never has them."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return made.getvalue()


def test_weights_that_are_packed_twice_or_named_without_end_fill_no_memory(sb3_file, tmp_path):
    """Some kilobytes of zip that would be gigabytes of weights."""
    original = sb3_file("PPO", "Pendulum-v1")
    state, name = state_of(original), "mlp_extractor.policy_net.0.weight"
    large = packed_again(saved({**state, name: torch.zeros(1 << 24)}))
    path = sb3(tmp_path / "packed.zip", original, **{"policy.pth": large})
    refused(lambda: acting(path), "made to fill the memory: its weights state")
    half = torch.zeros(1 << 12, dtype=torch.float16)
    many = saved({**state, **{f"w{index}": half for index in range(5000)}})
    path = sb3(tmp_path / "named.zip", original, **{"policy.pth": many})
    refused(lambda: acting(path), "expected named tensors")


def test_weights_that_were_to_be_trained_are_weights(sb3_file, tmp_path):
    original = sb3_file("PPO", "Pendulum-v1")
    state = {name: torch.nn.Parameter(value) for name, value in state_of(original).items()}
    acting(sb3(tmp_path / "parameters.zip", original, **{"policy.pth": saved(state)}))


# --- paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped-from-a-zip", "a/../../escaped"])
def test_members_of_archives_with_paths_are_not_unpacked(name, sb3_file, tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    acting(sb3(inner / "model.zip", sb3_file("PPO", "Pendulum-v1"), **{name: b"out"}))
    with zipfile.ZipFile(inner / "log.npz", "w") as archive:
        archive.writestr(name, b"out")
        for key, value in arrays().items():
            content = io.BytesIO()
            np.save(content, value)
            archive.writestr(f"{key}.npy", content.getvalue())
    load_episodes(inner / "log.npz")
    assert not list(tmp_path.rglob("escaped*"))
    assert not Path("/tmp/escaped-from-a-zip").exists()


@pytest.mark.parametrize("name", ["../escaped-v0", "/escaped-v0", "a/../../escaped-v0", "..-v0/x"])
def test_ids_with_paths_are_no_ids(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    refused(lambda: load_episodes(name), "nothing at")
    assert not list(tmp_path.rglob("*escaped*"))


def hdf5(path, **changes):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as archive:
        for name, value in arrays().items():
            if name in changes:
                changes[name](h5py, archive, name)
            else:
                archive[name] = value
    return path


def test_hdf5_that_leads_out_of_its_file_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(range(8 * STEPS)))
    other = hdf5(tmp_path / "other.hdf5")

    def link(h5py, archive, name):
        archive[name] = h5py.ExternalLink(str(other), name)

    def stored(h5py, archive, name):
        place = [(str(tmp_path / "secret"), 0, 8 * STEPS)]
        archive.create_dataset(name, (STEPS, 2), "f4", external=place)

    def virtual(h5py, archive, name):
        layout = h5py.VirtualLayout((STEPS, 2), "f4")
        layout[:] = h5py.VirtualSource(str(other), name, (STEPS, 2))
        archive.create_virtual_dataset(name, layout)

    for lead in (link, stored, virtual):
        path = hdf5(tmp_path / f"{lead.__name__}.hdf5", observations=lead)
        refused(lambda path=path: load_episodes(path), "'observations' in another file")


# --- sizes -----------------------------------------------------------------------------------


def test_a_zip_that_states_more_than_it_holds_is_refused_before_memory_is_taken(tmp_path):
    """Arrays and tables: tests/rollouts/test_hostile.py."""
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("data", bytes(1 << 25))  # bzip2 packs zeros 45,000 to 1
    refused(lambda: acting(path), "made to fill the memory")


# --- what the campaign found -----------------------------------------------------------------


DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [f"name = {DEEP}", f"seed = {'9' * 5000}", "\x00", "a = 0x" * 9])
def test_a_study_of_depths_and_endless_numbers_is_one_line(text, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    refused(lambda: load_study(tmp_path / "study.toml"), "expected TOML")


def test_lerobot_features_of_an_odd_shape_are_one_line(tmp_path):
    pytest.importorskip("pyarrow")
    rows = {
        "observation.state": np.zeros((3, 2), np.float32),
        "next.reward": np.zeros(3, np.float32),
    }
    folder = write_lerobot(tmp_path / "robot", [rows], "v3.0")
    path = folder / "meta" / "info.json"
    info = json.loads(path.read_text())
    for shape in (5, None, "wide", {"rows": 3}):
        info["features"]["observation.state"]["shape"] = shape
        path.write_text(json.dumps(info))
        refused(lambda: load_episodes(folder), "is damaged")
    path.write_text(DEEP)
    refused(lambda: load_episodes(folder), "is damaged")


def test_minari_metadata_of_another_kind_are_one_line(tmp_path, monkeypatch):
    for library in ("minari", "h5py"):
        pytest.importorskip(library)
    from readers import make_minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    make_minari(tmp_path / "walk-v0")
    path = tmp_path / "walk-v0" / "data" / "metadata.json"
    good = json.loads(path.read_text())
    for name in ("dataset_id", "env_spec"):
        for value in (5, {}, "no id", "x" * 10_000):
            path.write_text(json.dumps({**good, name: value}))
            refused(lambda: load_episodes(tmp_path / "walk-v0"), "cannot read")


def test_long_or_unreadable_names_are_not_repeated_in_full(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"episode,obs_\xff,reward\n0,1,2\n")
    refused(lambda: load_episodes(path), "cannot read")
    save_tensors(tmp_path / "x.safetensors", {"a": np.zeros(1)}, {"format": "x" * 10_000})
    refused(lambda: load_tensors(tmp_path / "x.safetensors", "wanted/1"), "expected the format")


# --- what the second afternoon found -------------------------------------------------------------


LAUGHS = "x0: &a0\n- 1\n- 1\n" + "".join(
    f"x{i}: &a{i}\n- *a{i - 1}\n- *a{i - 1}\n" for i in range(1, 60)
)


YAML_KEYS = ("env", "algo", "env_kwargs", "frame_stack", "env_wrapper")


def test_aliases_of_aliases_in_a_zoo_folder_are_not_followed_without_end(tmp_path):
    (tmp_path / "model.zip").write_bytes(b"")
    for key in YAML_KEYS:
        for name in ("config.yml", "args.yml"):
            (tmp_path / "args.yml").write_text("env: Pendulum-v1\n")
            (tmp_path / name).write_text(f"{LAUGHS}{key}: *a59\n")
            refused(lambda: find_run(tmp_path), "more than 10,000 values")
            (tmp_path / name).unlink()


YAML = {
    "merges of merges": "a0: &a0 {k: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 50)),
    "pairs of pairs": "a0: &a0 !!pairs [x: 1]\n"
    + "".join(f"a{i}: &a{i} !!pairs [x: *a{i - 1}, y: *a{i - 1}]\n" for i in range(1, 50)),
    "itself": "a: &a [*a]",
    "a flag that is none": "a: !!bool x",
    "a date that is none": "a: 2020-13-45",
    "a number without end": f"a: {'9' * 6000}",
    "lists without end": "[" * 9000,
    "a list for a name": "? [a]\n: b",
    "an escape": "a: \x1b",
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_yaml_that_no_zoo_writes_is_one_line(text, tmp_path):
    (tmp_path / "model.zip").write_bytes(b"")
    (tmp_path / "args.yml").write_text(f"env: Pendulum-v1\n{text}\n")
    refused(lambda: find_run(tmp_path), "cannot read .*args.yml")


META = '"__metadata__":{"tightrope":"{\\"format\\":\\"x/1\\"}"}'
ONE = '"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}'
HEADERS = {  # and the bytes of data that follow
    "a name twice, the last too short": (f"{{{META},{ONE.replace('8', '16')},{ONE}}}", 16),
    "a shape twice": (f"{{{META},{ONE[:-1]},{ONE[19:30]}}}}}", 8),
    "two headers": (f"{{{META},{META},{ONE}}}", 8),
    "two names for the same bytes": (f"{{{META},{ONE},{ONE.replace('a', 'b', 1)}}}", 8),
    "bytes beyond the end": (f"{{{META},{ONE.replace('8', '16').replace('[1]', '[2]')}}}", 8),
    "fewer bytes than the shape": (f"{{{META},{ONE.replace('[1]', '[2]')}}}", 8),
    "a shape that overflows": (f"{{{META},{ONE.replace('[1]', f'[{2**32},{2**32},0]')}}}", 8),
    "a shape below zero": (f"{{{META},{ONE.replace('[1]', '[-1]')}}}", 8),
    "an unknown type": (f"{{{META},{ONE.replace('F64', 'BF16')}}}", 8),
    "lists without end": (DEEP, 0),
    "a header of lists without end": (f'{{"__metadata__":{{"tightrope":"{DEEP}"}},{ONE}}}', 8),
    "another kind of header": ('{"__metadata__":{"tightrope":"[]"}}', 0),
    "no JSON": ("{", 0),
}


@pytest.mark.parametrize(("header", "data"), HEADERS.values(), ids=HEADERS)
def test_headers_of_safetensors_that_lie_are_refused(header, data, tmp_path):
    path = tmp_path / "lying.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(data))
    refused(lambda: load_tensors(path, "x/1"), "damaged or no file of tightrope")
    path.write_bytes((2**62).to_bytes(8, "little") + header.encode())
    refused(lambda: load_tensors(path, "x/1"), "damaged or no file of tightrope")


def test_pipes_and_devices_are_neither_documents_nor_tables(tmp_path):
    """Reading one would never end."""
    for number, make in enumerate((os.mkfifo, lambda path: path.symlink_to("/dev/zero"))):
        place = tmp_path / str(number)
        place.mkdir()
        for name in ("certificate.json", "policy.json", "args.yml", "results.csv", "study.toml"):
            make(place / name)
        refused(lambda place=place: read_document(place), "found no file")
        refused(lambda place=place: verify(place), "expected a certificate")
        refused(lambda place=place: read_results(place / "results.csv"), "found nothing")
        refused(lambda place=place: load_study(place / "study.toml"), "found no file")
        assert not is_results(place / "results.csv")
        make(place / "model.zip")
        assert find_run(place) is None
        assert not is_table(place / "certificate.json")
        assert find_record(place) is None
        (entry,) = entries(place)
        assert "found no file" in entry.problem


RESULTS = {
    "a number without end": ("x.jsonl", '{"return": %s}' % ("9" * 400)),
    "a number too long for Python": ("x.jsonl", '{"return": %s}' % ("9" * 5000)),
    "infinity by its exponent": ("x.jsonl", '{"return": 1e400}'),
    "lists without end": ("eval_info.json", '{"per_task": ' + DEEP),
    "a cell without end": ("x.csv", 'return,a\n1,"' + "x\n" * 200_000),
    "another shape of evaluation": (
        "eval_info.json",
        '{"per_task": [{"metrics": {"sum_rewards": 5}}]}',
    ),
}


@pytest.mark.parametrize(("name", "text"), RESULTS.values(), ids=RESULTS)
def test_tables_of_results_that_are_none_are_one_line(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    refused(lambda: read_results(tmp_path / name), "expected|cannot read")
