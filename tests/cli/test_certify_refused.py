"""`tightrope certify` of what cannot be certified: one line, exit code 2, and nothing written."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command import options, run, tightrope

GOOD = {"--out": "new", "--scheme": "rec-2", "--mc-passes": 2, "--pilot-episodes": 4}
WRONG = {
    "too few episodes for a scheme": ({"--episodes": 5, "--scheme": "rec-6"}, "at least 6"),
    "too few episodes in the log": ({"--episodes": 30}, "found 24"),
    "delta of 0": ({"--delta": 0}, "--delta must be above 0, found '0'"),
    "deltas that add up to 1": ({"--delta": 0.5, "--delta-prime": 0.5}, "below 1"),
    "an empty range": ({"--return-range": (2, 2)}, "--return-range LO < HI"),
    "a range without end": ({"--return-range": (0, "inf")}, "--return-range[1] must be"),
    "a floor above a return": (
        {"--return-floor": 1},
        "a lower one may be certified on other episodes, or with --candidates",
    ),
    "a recursion without a pilot": ({"--pilot-episodes": 0}, "--pilot-episodes of at least 1"),
    "a pilot of no bound": ({"--scheme": "auto"}, "no --pilot-episodes with auto"),
    "a fitting set of a recursion": ({"--fit-episodes": 3}, "no --fit-episodes with rec-2"),
    "a search in a recording": (
        {"--until": "rms<=3", "--scheme": None, "--pilot-episodes": None},
        "a policy to roll out with --until",
    ),
    "a row of evaluations": ({"--evaluation": 2}, "expected --evaluation for a table of results"),
    "an unknown scheme": ({"--scheme": "rec-x"}, "rec-T"),
    "no passes": ({"--mc-passes": 0}, "--mc-passes must be at least 1"),
    "a negative seed": ({"--seed": -1}, "--seed must be"),
    "an unknown device": ({"--device": "gpu"}, "--device must be auto, cpu, cuda or such as"),
    "a GPU that is not there": ({"--device": "cuda:99"}, "expected a GPU for --device cuda:99"),
    "a limit for no clock": (
        {"--clock": "off", "--time-limit": 6},
        "--time-limit with --clock off",
    ),
    "a threshold that is none": ({"--fail-below": "nan"}, "--fail-below must be a finite number"),
    "an environment for a recording": ({"--env": "Hopper-v4"}, "no --env for"),
    "workers for a recording": ({"--workers": 2}, "no --workers for"),
    "trust for a recording": ({"--trust": ()}, "no --trust for"),
    "an existing folder": ({"--out": "there"}, "'there'"),
    "an existing file": ({"--out": "log.npz"}, "'log.npz'"),
    "a folder inside a file": ({"--out": "log.npz/new"}, "log.npz"),
}


def refused(capfd, *arguments):
    """The one line on standard error; the working directory must be as it was."""
    Path("there").mkdir(exist_ok=True)
    before = sorted(os.listdir())
    code, out, said = run(capfd, "certify", *arguments)
    assert code == 2, (out, said)
    assert out == ""
    assert len(said) == 1, said
    assert said[0].startswith("tightrope: ")
    assert sorted(os.listdir()) == before
    assert os.listdir("there") == []
    return said[0]


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_answered_with_one_line_and_exit_code_2(changes, words, folder, capfd):
    assert words in refused(capfd, "log.npz", *options({**GOOD, **changes}))


def spoil(**arrays):
    with np.load("log.npz") as log:
        content = dict(log)
    for name, change in arrays.items():
        content[name] = change(content[name])
    np.savez("spoilt.npz", **content)


def nan_at(place):
    def change(array):
        array = array.copy()
        array[place] = np.nan
        return array

    return change


SPOILT = {
    "observations with NaN": ({"observations": nan_at(100)}, "NaN"),
    "rewards with NaN": ({"rewards": nan_at(100)}, "NaN"),
    "constant returns": ({"rewards": np.zeros_like}, "returns that vary"),
    "no ends": (
        {"terminals": np.zeros_like, "timeouts": np.zeros_like},
        "at least one episode with an end",
    ),
}


@pytest.mark.parametrize(("changes", "words"), SPOILT.values(), ids=SPOILT)
def test_a_log_that_cannot_be_certified_is_one_line(changes, words, folder, capfd):
    spoil(**changes)
    assert words in refused(capfd, "spoilt.npz", *options(GOOD))


def test_constant_validation_returns_are_one_line_although_a_range_is_given(folder, capfd):
    spoil(rewards=np.zeros_like)
    given = {**GOOD, "--return-range": (-1, 1)}
    assert "returns that vary" in refused(capfd, "spoilt.npz", *options(given))


LOGS = (
    "recorded episodes (.safetensors, .npz, .hdf5, .csv, .tsv, .parquet, the folder of a "
    "LeRobot dataset, or the id or folder of a Minari dataset)"
)
ARRAYS = "observations, rewards, terminals, timeouts"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["policy or recorded episodes, or --demo"]),
        (["--demo", "log.npz"], ["--demo alone"]),
        (["--demo", "--env", "Hopper-v4"], ["--demo alone"]),
        (["policy.py:act"], ["--env", "'policy.py:act'"]),
        (["nothing"], [LOGS, "nothing at 'nothing'"]),
        (["nothing.npz"], ["log", "nothing at 'nothing.npz'"]),
        (["nothing.safetensors"], ["episodes", "nothing at 'nothing.safetensors'"]),
        (["nothing.csv"], ["expected a table", "nothing at 'nothing.csv'"]),
        (["there"], ["Minari", "there"]),
        (
            ["log.csv"],
            ["column of returns or successes in 'log.csv'", "found a, b", "--columns return=a"],
        ),
        (["log.parquet"], ["cannot read 'log.parquet'"]),
        (["log.pkl"], [LOGS, "found 'log.pkl'", "executes code", ARRAYS]),
        (["policy.py"], [LOGS, "file.py:name", "found 'policy.py'"]),
        (["nothing.zip", "--env", "Pendulum-v1"], ["nothing.zip"]),
        (["policy.py:act", "--env", "Pendlum-v1"], ["Pendulum-v1"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0] != LOGS else "",
)
def test_a_wrong_source_is_one_line(arguments, words, folder, capfd):
    for name in ("log.csv", "log.parquet", "log.pkl"):
        Path(name).write_bytes(b"a,b\n1,2\n")
    line = refused(capfd, *arguments, "--out", "new")
    for each in words:
        assert each in line, (each, line)


EARLY = {
    "too few episodes": {"--episodes": 5, "--scheme": "rec-6"},
    "deltas that add up to 1": {"--delta": 0.5, "--delta-prime": 0.5},
    "a recursion without a pilot": {"--pilot-episodes": 0},
    "an existing folder": {"--out": "there"},
    "a folder inside a file": {"--out": "policy.py/new"},
}


@pytest.mark.parametrize("changes", EARLY.values(), ids=EARLY)
def test_what_options_show_to_be_wrong_is_said_before_anything_is_rolled_out(
    changes, folder, capfd, monkeypatch
):
    def too_late(*_, **__):
        raise AssertionError("rolled out first")

    monkeypatch.setattr("tightrope.certificates.certify.collect", too_late)
    refused(capfd, "policy.py:act", *options({**GOOD, "--env": "Pendulum-v1", **changes}))


def test_wrong_input_in_a_process_of_its_own_is_one_line(tmp_path, folder):
    answer = tightrope("certify", "log.npz", *options({**GOOD, "--delta": 2}))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "--delta must be below 1, found '2'" in answer.stderr
    assert sorted(os.listdir(tmp_path)) == ["log.npz", "policy.py"]


@pytest.mark.parametrize("what", ["save_predictor", "save", "as_text"])
def test_a_failure_while_writing_leaves_no_folder(what, folder, capfd, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"tightrope.certificates.folder.{what}", full)
    line = refused(capfd, "log.npz", *options(GOOD))
    assert line == "tightrope: cannot write 'new': No space left on device"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs to mount a disk")
@pytest.mark.parametrize("file", ["predictor.safetensors", "rollouts.safetensors", "report.html"])
def test_a_really_full_disk_is_one_line_and_leaves_nothing(file, issued, folder, capfd):
    """A file system of 8 MB, filled until half of that file fits; may be forbidden even to root."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is forbidden here")
    order = ["predictor.safetensors", "rollouts.safetensors", "certificate.json", "report.html"]
    before = [(issued / name).stat().st_size for name in order[: order.index(file)]]
    room = sum(size + 4096 for size in before) + (issued / file).stat().st_size // 2
    try:
        (disk / "ballast").write_bytes(bytes(8 * 2**20 - 4096 - room))
        line = refused(capfd, "log.npz", *options({**GOOD, "--out": str(disk / "new")}))
        assert line == f"tightrope: cannot write '{disk / 'new'}': No space left on device"
        assert os.listdir(disk) == ["ballast"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_an_existing_certificate_is_left_as_it_is(folder, capfd):
    Path("new").mkdir()
    Path("new", "certificate.json").write_text("precious")
    assert "already there" in refused(capfd, "log.npz", *options(GOOD))
    assert Path("new", "certificate.json").read_text() == "precious"
    assert os.listdir("new") == ["certificate.json"]


# --- training records ----------------------------------------------------------------------------

TRAINED = {
    "--out": "new",
    "--episodes": 3,
    "--test-episodes": 1,
    "--workers": 1,
    "--scheme": "rec-2",
    "--preset": "paper",
}


UNUSABLE = {
    "no finished episode": {"episodes": 0, "return_low": np.inf, "return_high": -np.inf},
    "a range of one point": {"return_low": 0.5},
}


@pytest.mark.parametrize("changes", UNUSABLE.values(), ids=UNUSABLE)
def test_a_training_without_a_range_is_one_line_before_anything_is_rolled_out(
    changes, folder, trained, capfd, monkeypatch
):
    monkeypatch.setattr("tightrope.certificates.certify.collect", lambda *_, **__: 1 / 0)
    trained("run", **changes)
    assert "--pilot-episodes" in refused(capfd, "run", *options(TRAINED))


def test_a_policy_that_was_changed_after_training_is_one_line(folder, trained, capfd):
    trained("run", digests={"policy.safetensors": "0" * 64})
    assert "changed after training" in refused(capfd, "run", *options(TRAINED))


def test_a_record_of_another_width_is_one_line(folder, trained, capfd):
    width = {name: np.ones(4, np.float32) for name in ("observation_mean", "observation_deviation")}
    trained("run", **width)
    line = refused(capfd, "run", *options(TRAINED))
    assert "expected a training record for 3 features, found one for 4" in line
