"""Recorded episodes and policies by any name: what they are, and how they are read."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from tables import write_minari

from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.rollouts import (
    Episode,
    check_destination,
    is_recording,
    join,
    load_episodes,
    policy_source,
    write_episodes,
)


def episodes(count):
    """Episode i has seed i and i + 1 steps."""
    return join(
        [
            Episode(
                np.full((index + 1, 2), index, np.float32),
                np.full(index + 1, float(index)),
                terminated=True,
                truncated=False,
                seed=index,
                actions=np.zeros((index + 1, 1), np.float32),
                final_observation=np.zeros(2, np.float32),
            )
            for index in range(count)
        ]
    )


# --- what a source names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        *("episodes.safetensors", "log.npz", "log.hdf5", "log.h5", "deep/er/log.npz"),
        *("log.csv", "log.tsv", "log.parquet", "log.feather"),
        *("mujoco/hopper/expert-v0", "pendulum-v0", "D4RL/kitchen/mixed-v2", "a_b/c-d-v10"),
        Path("episodes.safetensors"),
    ],
)
def test_recordings_are_known_by_their_names(source):
    assert is_recording(source)


@pytest.mark.parametrize(
    "source",
    [
        *("policy.zip", "policy.pt", "policy.pt2", "policy.onnx", "policy.py:act"),
        *("package.module:act", "model", "", "policy.zip-v", "a b/c-v0"),
        Path("policy.zip"),
    ],
)
def test_policies_are_not_taken_for_recordings(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source:
        assert not is_recording(source)
        with pytest.raises(InputError, match="expected recorded episodes"):
            load_episodes(source)


def test_what_is_in_memory_is_told_apart_as_well():
    single = list(episodes(2))
    for recorded in (episodes(2), single, tuple(single), {"rewards": [1.0]}):
        assert is_recording(recorded)
    for other in (len, object(), ["log.npz"], 3):
        assert not is_recording(other)


UNKNOWN = {
    "a pickle": ("log.pkl", "unpickling executes code, so load it yourself"),
    "something else": ("log.txt", "found 'log.txt'"),
    "no suffix": ("log", "found 'log'"),
}


@pytest.mark.parametrize("read", [policy_source, load_episodes])
@pytest.mark.parametrize(("name", "words"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_file_of_an_unknown_kind_is_answered_with_the_kinds_of_logs(
    name, words, read, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path(name).touch()
    assert not is_recording(name)
    with pytest.raises(InputError, match=words) as refusal:
        read(name)
    said = str(refusal.value)
    for kind in (".safetensors", ".npz", ".hdf5", ".csv", ".parquet", "LeRobot", "Minari"):
        assert kind in said
    if "txt" not in name and name != "log":
        assert "write them as an .npz" in said
    assert "env" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "name",
    [
        *("log.pkl", "policy.zip", "policy.pt", "policy.onnx", "runs/final", "model"),
        *("policy.txt", "policy.safetensors"),
    ],
)
def test_a_missing_policy_is_a_missing_file_with_and_without_an_environment(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for env in (None, "Pendulum-v1"):
        with pytest.raises(InputError, match=f"found nothing at '{name}'"):
            policy_source(name, env)


@pytest.mark.parametrize("name", ["log.csv", "log.npz", "log.h5", "log.safetensors", "model"])
def test_a_missing_recording_is_a_missing_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"found nothing at '{name}'"):
        load_episodes(name)


def test_a_module_that_is_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"found nothing at '.*policy\.py'"):
        policy_source(f"{tmp_path}/policy.py:act", "Pendulum-v1")


def test_recorded_episodes_are_no_policy(tmp_path):
    write_episodes(episodes(1), tmp_path / "log.npz")
    write_episodes(episodes(1), tmp_path / "log.safetensors")
    own = (tmp_path / "log.npz", tmp_path / "log.safetensors")
    for name in (*own, "walks/mine-v0", "log.csv", "log.parquet"):
        with pytest.raises(InputError, match=r"expected a policy, found.* recorded episodes"):
            policy_source(name, "Pendulum-v1")


def test_an_id_that_is_no_dataset_is_said_not_to_be_in_the_database(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(InputError, match="found no 'walks/mine-v0' in the local database"):
        load_episodes("walks/mine-v0")


def test_a_folder_is_a_recording_and_an_existing_file_of_another_kind_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset").mkdir()
    (tmp_path / "agent-v1").touch()
    assert is_recording("dataset")
    assert not is_recording("agent-v1")


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors", "policy.zip"])
def test_a_folder_that_training_wrote_is_not_taken_for_a_dataset(name, tmp_path):
    (tmp_path / name).touch()
    assert not is_recording(tmp_path)
    assert not is_recording(str(tmp_path))


# --- a policy and where it acts -------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, trained):
    """A function that writes a training folder with this environment and returns its name."""

    def write(environment):
        trained(tmp_path / "run", environment=environment)
        return str(tmp_path / "run")

    return write


def test_a_trained_policy_brings_its_environment_and_its_record(run):
    pendulum = EnvInfo.of("Pendulum-v1")
    folder = run(pendulum.to_json())
    for source in (folder, f"{folder}/policy.safetensors"):
        found = policy_source(source, None)
        assert found.policy == Path(folder, "policy.safetensors")
        assert found.environment == pendulum
        assert found.record.agent == "sac"


def test_an_environment_that_the_user_names_goes_first(run):
    found = policy_source(run(EnvInfo.of("Pendulum-v1").to_json()), "CartPole-v1")
    assert found.environment == EnvInfo.of("CartPole-v1")
    assert found.record is not None


def test_other_policies_need_an_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.py").touch()
    for policy in ("policy.py:act", "package.module:act", len):
        found = policy_source(policy, "Pendulum-v1")
        assert (found.policy, found.record) == (policy, None)
        with pytest.raises(InputError, match="expected `env`"):
            policy_source(policy)


OWN = "custom_environments:Counting-v0"


def test_a_record_whose_module_the_user_names_as_well_is_used(run):
    """What train prints, certify --env module:Name-v0, keeps the range of the training."""
    folder = run(EnvInfo.of(OWN).to_json())
    found = policy_source(folder, OWN)
    assert found.environment.id == OWN
    assert found.record.mismatch(environment=found.environment.to_json(), gamma=0.99) is None


@pytest.mark.parametrize(
    "changes", [{"thin": 0}, {"thin": "3"}, {"id": 3}, {"suite": "casino"}, {"colour": "red"}]
)
def test_an_environment_that_is_none_is_an_input_error(changes, run):
    folder = run({**EnvInfo.of("Pendulum-v1").to_json(), **changes})
    with pytest.raises(InputError, match="expected the record of an environment"):
        policy_source(folder, None)


# --- reading and writing --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "hdf5", "h5"])
def test_what_is_written_is_read_by_the_suffix(suffix, tmp_path):
    if suffix in ("hdf5", "h5"):
        pytest.importorskip("h5py")
    path = tmp_path / f"episodes.{suffix}"
    write_episodes(episodes(3), path)
    found = load_episodes(str(path))
    np.testing.assert_array_equal(found.rewards, episodes(3).rewards)
    np.testing.assert_array_equal(found.observations, episodes(3).observations)
    assert found.lengths.tolist() == [1, 2, 3]


def test_a_minari_dataset_is_read_by_id_and_folder(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari("walks/mine-v0", episodes(3))
    for source in ("walks/mine-v0", tmp_path / "walks" / "mine-v0"):
        assert load_episodes(source).lengths.tolist() == [1, 2, 3]


def test_episodes_in_memory_are_read(tmp_path):
    whole = episodes(3)
    assert load_episodes(whole) is whole
    write_episodes(whole, tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as archive:
        arrays = dict(archive)
    for source in (list(whole), tuple(whole), arrays):
        found = load_episodes(source)
        np.testing.assert_array_equal(found.observations, whole.observations)
        np.testing.assert_array_equal(found.rewards, whole.rewards)
        assert found.lengths.tolist() == [1, 2, 3]


@pytest.mark.parametrize("source", [3, None, object(), ["log.npz"], [1, 2], np.zeros((3, 2))])
def test_what_holds_no_episodes_is_answered_with_what_does(source):
    with pytest.raises(InputError, match="dictionary of arrays, a data frame or a list") as refusal:
        load_episodes(source)
    assert type(source).__name__ in str(refusal.value)


def test_an_empty_list_holds_no_episodes():
    with pytest.raises(InputError, match="at least one episode"):
        load_episodes([])


@pytest.mark.parametrize("name", ["episodes.csv", "episodes", "episodes.zip", ".npz"])
def test_a_destination_of_no_known_format_is_refused(name, tmp_path):
    for refuse in (check_destination, lambda path: write_episodes(episodes(1), path)):
        with pytest.raises(InputError, match=r"\.safetensors, \.npz or \.hdf5"):
            refuse(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_destination_that_exists_is_refused(tmp_path):
    (tmp_path / "episodes.npz").touch()
    for refuse in (check_destination, lambda path: write_episodes(episodes(1), path)):
        with pytest.raises(InputError, match="already there"):
            refuse(tmp_path / "episodes.npz")


def test_a_destination_that_cannot_be_written_is_refused_before_anything_is_collected(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write|not a (folder|directory)"):
        check_destination(tmp_path / "file" / "episodes.npz")


def test_a_destination_whose_package_is_missing_is_refused_before_anything_is_collected(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r'pip install "tightrope\[minari\]"'):
        check_destination(tmp_path / "episodes.hdf5")


def test_checking_a_destination_leaves_nothing_behind(tmp_path):
    check_destination(tmp_path / "new" / "episodes.safetensors")
    assert os.listdir(tmp_path) == []
