"""`tightrope certify` and `tightrope verify` as a stranger meets them: exit codes, one line for a
mistake, whole folders or none.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from recordings import recording, short_fits

from tightrope.certificates import load_certificate, verify
from tightrope.certificates.certificate import document_digest, schema_problem
from tightrope.cli import main
from tightrope.environments import recipe
from tightrope.rollouts import export_arrays, load, save

FILES = ["certificate.json", "predictor.safetensors", "rollouts.safetensors"]
BARS = ("rolling out", "fitting", "evaluating")
QUICK = (  # one short fit: no pilot to pretrain on, one portion to fit
    *("--scheme", "holdout", "--pilot-episodes", "0", "--return-range", "-5", "5"),
    *("--mc-passes", "2", "--thin", "1"),
)


def tightrope(*arguments, cwd):
    """One thread: several would wait for each other where tests run side by side."""
    return subprocess.run(
        [sys.executable, "-m", "tightrope", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def lines(stderr):
    """What was said on standard error, progress bars left out."""
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith(BARS)]


def write_log(path, **changes):
    export_arrays(recording(24, seed=1, **changes), path)


# --- good runs, in processes of their own --------------------------------------------------------


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder with a log, certified once into `certificate` in words."""
    folder = tmp_path_factory.mktemp("workshop")
    write_log(folder / "log.npz")
    answer = tightrope("certify", "log.npz", "--out", "certificate", *QUICK, cwd=folder)
    return folder, answer


def test_a_good_run_writes_the_files_and_prints_the_certificate_in_words(workshop):
    folder, answer = workshop
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    assert set(FILES) <= set(os.listdir(folder / "certificate"))
    assert {"certificate", "log.npz"} <= set(os.listdir(folder))
    document = json.loads((folder / "certificate" / FILES[0]).read_text())
    assert schema_problem(document) is None
    assert answer.stdout.startswith("Risk certificate for log.npz")
    for words in (
        "is at most ",
        "confidence 96.5%",
        "assumes independent steps",
        "unit episode",
        "hold-out: risk",
        "24 validation episodes",
        "tightrope verify certificate",
    ):
        assert words in answer.stdout, words


def test_verify_says_that_every_number_follows_and_exits_with_0(workshop):
    folder, _ = workshop
    answer = tightrope("verify", "certificate", cwd=folder)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.count("\n") == 1
    assert "verified" in answer.stdout


def test_verify_lists_what_does_not_agree_and_exits_with_1(workshop, tmp_path):
    folder, _ = workshop
    spoilt = shutil.copytree(folder / "certificate", tmp_path / "spoilt")
    document = json.loads((spoilt / FILES[0]).read_text())
    document["bound"] /= 2
    document["confidence"] = 0.99
    document["digests"]["certificate"] = document_digest(document)
    (spoilt / FILES[0]).write_text(json.dumps(document))
    answer = tightrope("verify", "spoilt", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (1, "")
    named = [line.partition(":")[0] for line in answer.stdout.splitlines()]
    assert "bound" in named
    assert "confidence" in named
    assert answer.stdout.splitlines()[-1].startswith("NOT verified")


def test_json_prints_the_document_and_nothing_else_and_the_same_seed_the_same_numbers(workshop):
    folder, _ = workshop
    answer = tightrope("certify", "log.npz", "--out", "again", "--json", *QUICK, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document == json.loads((folder / "again" / FILES[0]).read_text())
    first = json.loads((folder / "certificate" / FILES[0]).read_text())
    assert document == first
    for name in FILES[1:]:
        assert (folder / "again" / name).read_bytes() == (
            folder / "certificate" / name
        ).read_bytes()


def test_the_demo_is_rolled_out_certified_and_verified(tmp_path):
    counts = ("--episodes", 6, "--test-episodes", 0, "--pilot-episodes", 2, "--workers", 2)
    options = ("--scheme", "rec-2", "--mc-passes", 2, "--out", "demo")
    answer = tightrope("certify", "--demo", *counts, *options, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    assert "Hopper-v4" in answer.stdout
    document = json.loads((tmp_path / "demo" / FILES[0]).read_text())
    assert document["episodes"] == {"pilot": 2, "validation": 6, "test": 0}
    assert document["thin"] == 3
    assert document["subject"]["environment"]["id"] == "Hopper-v4"
    assert len(document["portions"]) == 2
    assert str(tmp_path) not in answer.stdout + json.dumps(document)
    assert len(load(tmp_path / "demo" / FILES[2])) == 8
    assert verify(tmp_path / "demo") == []


# --- good runs, with short fits ------------------------------------------------------------------

PENDULUM = recipe("Pendulum-v1").to_json()
POLICY = dedent(
    """
    import numpy as np

    def act(observations):
        return np.tanh(observations[:, :1])
    """
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An otherwise empty working directory with logs and a policy."""
    monkeypatch.chdir(tmp_path)
    write_log(Path("log.npz"))
    Path("policy.py").write_text(POLICY)
    with short_fits():
        yield tmp_path


def run(capfd, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return code, out, lines(err)


def read_document(name):
    return json.loads(Path(name, FILES[0]).read_text())


def test_options_reach_the_certificate(folder, capfd):
    options = {
        "--scheme": "2,3,7",
        "--unit": "episode",
        "--preset": "paper",
        "--episodes": 12,
        "--test-episodes": 3,
        "--pilot-episodes": 4,
        "--delta": 0.1,
        "--delta-prime": 0.05,
        "--gamma": 0.9,
        "--thin": 2,
        "--mc-passes": 3,
        "--sampling": "weights",
        "--fail-below": 0.5,
        "--seed": 7,
    }
    words = [word for option in options.items() for word in option]
    code, _, said = run(capfd, "certify", "log.npz", "--out", "c", *words)
    assert (code, said) == (0, [])
    document = read_document("c")
    expected = {
        **{name: document[name] for name in ("scheme", "unit", "preset", "sampling")},
    }
    assert expected == {
        "scheme": "2,3,7",
        "unit": "episode",
        "preset": "paper",
        "sampling": "weights",
    }
    numbers = ("delta", "delta_prime", "gamma", "thin", "mc_passes", "fail_below", "seed")
    assert [document[name] for name in numbers] == [0.1, 0.05, 0.9, 2, 3, 0.5, 7]
    assert document["episodes"] == {"pilot": 4, "validation": 12, "test": 3}
    assert document["confidence"] == pytest.approx(0.85)
    assert verify("c") == []


def test_the_defaults_are_rec_6_tight_step_and_everything_after_ten_pilot_episodes(folder, capfd):
    code, out, said = run(capfd, "certify", "log.npz")
    assert (code, said) == (0, [])
    document = read_document("certificate-log")
    assert [document[name] for name in ("scheme", "preset", "unit")] == ["rec-6", "tight", "step"]
    assert document["episodes"] == {"pilot": 10, "validation": 14, "test": 0}
    assert [document[n] for n in ("delta", "delta_prime", "gamma")] == [0.025, 0.01, 0.99]
    assert "certificate-log" in out


def test_a_policy_is_rolled_out_here(folder, capfd):
    counts = ("--episodes", 3, "--test-episodes", 1, "--pilot-episodes", 1, "--workers", 1)
    code, out, said = run(
        capfd,
        *("certify", "policy.py:act", "--env", "Pendulum-v1", "--scheme", "rec-2"),
        *(*counts, "--mc-passes", 2, "--thin", 40, "--seed", 5, "--out", "c"),
    )
    assert (code, said) == (0, []), said
    assert "Pendulum-v1" in out
    assert read_document("c")["episodes"] == {"pilot": 1, "validation": 3, "test": 1}
    assert verify("c") == []


ALONE = ("--pilot-episodes", 0)  # nothing but the training record
FEW = (  # of a policy with a training record: 3 validation episodes and 1 for testing
    *("--episodes", 3, "--test-episodes", 1, "--workers", 1, "--scheme", "rec-2"),
    *("--mc-passes", 2, "--thin", 40, "--out", "c"),
)


@pytest.mark.parametrize("source", ["run", "run/policy.safetensors"])
def test_a_trained_policy_needs_neither_an_environment_nor_a_pilot(source, folder, trained, capfd):
    trained("run")
    code, out, said = run(capfd, "certify", source, *ALONE, *FEW)
    assert (code, said) == (0, [])
    document = read_document("c")
    assert document["episodes"] == {"pilot": 0, "validation": 3, "test": 1}
    assert document["return_range"] == {"low": -900.0, "high": 0.5, "source": "training"}
    assert document["subject"]["environment"]["id"] == "Pendulum-v1"
    assert "from the training log" in out
    assert "fixed by the training log" in "".join(document["assumptions"])
    chain = load_certificate("c").chain
    np.testing.assert_array_equal(chain.scaling.mean, np.float32([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(chain.scaling.deviation, np.float32([1.0, 2.0, 3.0]))
    assert verify("c") == []


@pytest.mark.parametrize(("preset", "pilot"), [("tight", 10), ("paper", 0)])
def test_beside_a_training_record_a_pilot_only_fits_the_first_prior(
    preset, pilot, folder, trained, capfd
):
    """The paper's prior is drawn from the seed: there a pilot would be for nothing."""
    trained("run")
    code, _, said = run(capfd, "certify", "run", *FEW, "--preset", preset)
    assert (code, said) == (0, [])
    document = read_document("c")
    assert document["episodes"]["pilot"] == pilot
    assert document["return_range"]["source"] == "training"
    assert verify("c") == []


def test_a_folder_is_certified_under_its_own_name(folder, trained, capfd):
    trained("hopper-1.5e6")
    code, _, said = run(capfd, "certify", "hopper-1.5e6", *ALONE, *FEW[:-2])
    assert (code, said) == (0, [])
    assert read_document("certificate-hopper-1.5e6")["scheme"] == "rec-2"


def test_naming_the_environment_of_the_training_changes_nothing(folder, trained, capfd):
    trained("run")
    run(capfd, "certify", "run", *ALONE, *FEW)
    first = read_document("c")
    here = ("again", "--env", "Pendulum-v1")
    code, _, said = run(capfd, "certify", "run", *ALONE, *FEW[:-1], *here)
    assert (code, said) == (0, [])
    assert read_document("again") == first


OVERRIDES = {
    "pilot episodes": (("--pilot-episodes", 2), 2, "pilot"),
    "a range": (("--return-range", -800, 0), 10, "user"),
    "both": (("--pilot-episodes", 0, "--return-range", -800, 0), 0, "user"),
}


@pytest.mark.parametrize(("options", "pilot", "source"), OVERRIDES.values(), ids=OVERRIDES)
def test_what_the_user_says_goes_before_the_training_record(
    options, pilot, source, folder, trained, capfd
):
    trained("run")
    code, _, said = run(capfd, "certify", "run", *FEW, *options)
    assert (code, said) == (0, [])
    document = read_document("c")
    assert document["episodes"]["pilot"] == pilot
    assert document["return_range"]["source"] == source
    assert verify("c") == []


ANOTHER = {
    "another discount factor": (("--gamma", 0.9), "gamma 0.99, not 0.9"),
    "another environment": (("--env", "Pendulum-v1"), "in Elsewhere-v1, not Pendulum-v1"),
}


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("options", "reason"), ANOTHER.values(), ids=ANOTHER)
def test_a_record_for_other_returns_is_left_aside_with_one_line(
    options, reason, folder, trained, capfd
):
    where = {"environment": {**PENDULUM, "id": "Elsewhere-v1"}} if "--env" in options else {}
    trained("run", **where)
    code, _, said = run(capfd, "certify", "run", *FEW, *options)
    assert code == 0
    (warning,) = said
    assert warning.startswith("tightrope: warning: ")
    assert reason in warning
    assert "10 pilot episodes" in warning
    document = read_document("c")
    assert document["episodes"]["pilot"] == 10
    assert document["return_range"]["source"] == "pilot"


UNUSABLE = {
    "no finished episode": {"episodes": 0, "return_low": np.inf, "return_high": -np.inf},
    "a range of one point": {"return_low": 0.5},
}


@pytest.mark.parametrize("changes", UNUSABLE.values(), ids=UNUSABLE)
def test_a_training_without_a_range_is_one_line_before_anything_is_rolled_out(
    changes, folder, trained, capfd, monkeypatch
):
    monkeypatch.setattr("tightrope.rollouts.collect", lambda *_, **__: 1 / 0)
    trained("run", **changes)
    assert "--pilot-episodes" in refused(capfd, "run", *FEW)


def test_a_policy_that_was_changed_after_training_is_one_line(folder, trained, capfd):
    trained("run", digests={"policy.safetensors": "0" * 64})
    assert "changed after training" in refused(capfd, "run", *FEW)


def test_a_record_of_another_width_is_one_line(folder, trained, capfd):
    width = {name: np.ones(4, np.float32) for name in ("observation_mean", "observation_deviation")}
    trained("run", **width)
    assert "expected a scaling for 3 features, found one for 4" in refused(capfd, "run", *FEW)


def test_tightropes_own_recordings_are_certified(folder, capfd):
    save(recording(16, seed=3), "own.safetensors")
    options = ("--scheme", "rec-2", "--mc-passes", 2, "--pilot-episodes", 4, "--out", "c")
    code, _, said = run(capfd, "certify", "own.safetensors", *options)
    assert (code, said) == (0, [])
    assert verify("c") == []


@pytest.mark.filterwarnings("always")
def test_a_range_that_clips_more_than_half_warns_in_one_line_with_the_share(folder, capfd):
    options = ("--scheme", "rec-2", "--mc-passes", 2, "--return-range", "0.1", "0.11")
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", *options)
    assert code == 0
    (warning,) = said
    share = read_document("c")["clipped_share"]
    assert share > 0.5
    assert warning.startswith("tightrope: warning: ")
    assert f"{share:.0%}" in warning
    assert f"{share:.2%}" in out


# --- wrong input -------------------------------------------------------------------------------

GOOD = {"--out": "new", "--scheme": "rec-2", "--mc-passes": "2", "--pilot-episodes": "4"}
WRONG = {
    "too few episodes for a scheme": ({"--episodes": "5", "--scheme": "rec-6"}, "at least 6"),
    "too few episodes in the log": ({"--episodes": "30"}, "found 24"),
    "more test episodes than there are": ({"--test-episodes": "25"}, "found 24"),
    "delta of 0": ({"--delta": "0"}, "delta must be in (0, 1), found 0"),
    "delta of 1": ({"--delta": "1"}, "delta must be in (0, 1), found 1"),
    "delta that is none": ({"--delta": "nan"}, "delta must be in (0, 1), found nan"),
    "delta prime above 1": ({"--delta-prime": "1.5"}, "delta_prime must be in (0, 1)"),
    "deltas that add up to 1": ({"--delta": "0.5", "--delta-prime": "0.5"}, "below 1"),
    "delta in words": ({"--delta": "small"}, "--delta"),
    "an empty range": ({"--return-range": ("2", "2")}, "LO < HI"),
    "a range upside down": ({"--return-range": ("2", "1")}, "LO < HI"),
    "a range without end": ({"--return-range": ("0", "inf")}, "LO < HI"),
    "half a range": ({"--return-range": ("1",)}, "--return-range"),
    "neither a pilot nor a range": ({"--pilot-episodes": "0"}, "--return-range"),
    "an unknown scheme": ({"--scheme": "rec-x"}, "rec-T"),
    "auto, which is not there yet": ({"--scheme": "auto"}, "'auto'"),
    "an unknown unit": ({"--unit": "row"}, "--unit"),
    "an unknown preset": ({"--preset": "loose"}, "--preset"),
    "an unknown option": ({"--colour": "red"}, "--colour"),
    "no passes": ({"--mc-passes": "0"}, "mc_passes must be at least 1"),
    "a negative seed": ({"--seed": "-1"}, "seed must be at least 0"),
    "gamma above 1": ({"--gamma": "1.1"}, "gamma must be in [0, 1]"),
    "no thinning": ({"--thin": "0"}, "thin must be"),
    "negative pilot": ({"--pilot-episodes": "-1"}, "pilot"),
    "negative test": ({"--test-episodes": "-1"}, "test"),
    "negative validation": ({"--episodes": "-1"}, "validation"),
    "an environment for a recording": ({"--env": "Hopper-v4"}, "--env"),
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


def words_of(options):
    for name, value in options.items():
        yield name
        yield from [value] if isinstance(value, str) else value


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_answered_with_one_line_and_exit_code_2(changes, words, folder, capfd):
    assert words in refused(capfd, "log.npz", *words_of({**GOOD, **changes}))


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
    "no ends": ({"terminals": np.zeros_like, "timeouts": np.zeros_like}, "terminal or timeout"),
}


@pytest.mark.parametrize(("changes", "words"), SPOILT.values(), ids=SPOILT)
def test_a_log_that_cannot_be_certified_is_one_line(changes, words, folder, capfd):
    spoil(**changes)
    assert words in refused(capfd, "spoilt.npz", *words_of(GOOD))


def test_constant_validation_returns_are_one_line_although_a_range_is_given(folder, capfd):
    spoil(rewards=np.zeros_like)
    options = {**GOOD, "--return-range": ("-1", "1")}
    assert "returns that vary" in refused(capfd, "spoilt.npz", *words_of(options))


@pytest.mark.parametrize("threshold", ["nan", "inf", "-inf"])
def test_a_threshold_that_is_no_number_is_one_line(threshold, folder, capfd):
    options = {**GOOD, "--fail-below": threshold}
    assert "fail_below" in refused(capfd, "log.npz", *words_of(options))


@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_finite_observations_too_large_for_float32_arithmetic_are_certified(preset, folder, capfd):
    """1e25 is finite; its square is not. Without a pilot nothing scales it down."""
    spoil(observations=lambda array: np.where(np.arange(len(array))[:, None] == 66, 1e25, array))
    options = {**GOOD, "--pilot-episodes": "0", "--return-range": ("-5", "5"), "--preset": preset}
    code, _, said = run(capfd, "certify", "spoilt.npz", *words_of(options))
    assert (code, said) == (0, [])
    assert 0 < read_document("new")["train_error"] < 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--demo"),
        (["--demo", "log.npz"], "--demo alone"),
        (["--demo", "--env", "Hopper-v4"], "--demo alone"),
        (["policy.py:act"], "--env"),
        (["nothing.npz"], "nothing.npz"),
        (["nothing.safetensors"], "nothing.safetensors"),
        (["nothing.zip", "--env", "Pendulum-v1"], "nothing.zip"),
        (["policy.py:act", "--env", "Pendlum-v1"], "Pendulum-v1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_source_is_one_line(arguments, words, folder, capfd):
    assert words in refused(capfd, *arguments, "--out", "new")


EARLY = {
    "too few episodes": {"--episodes": "5", "--scheme": "rec-6"},
    "an unknown scheme": {"--scheme": "rec-x"},
    "deltas that add up to 1": {"--delta": "0.5", "--delta-prime": "0.5"},
    "an empty range": {"--return-range": ("2", "2")},
    "neither a pilot nor a range": {"--pilot-episodes": "0"},
    "gamma above 1": {"--gamma": "1.1"},
    "no thinning": {"--thin": "0"},
    "no validation": {"--episodes": "0"},
    "negative test": {"--test-episodes": "-1"},
    "no passes": {"--mc-passes": "0"},
    "an existing folder": {"--out": "there"},
    "a threshold that is no number": {"--fail-below": "nan"},
    "a folder inside a file": {"--out": "policy.py/new"},
}


@pytest.mark.parametrize("changes", EARLY.values(), ids=EARLY)
def test_what_options_show_to_be_wrong_is_said_before_anything_is_rolled_out(
    changes, folder, capfd, monkeypatch
):
    def too_late(*_, **__):
        raise AssertionError("rolled out first")

    monkeypatch.setattr("tightrope.rollouts.collect", too_late)
    options = {**GOOD, "--env": "Pendulum-v1", **changes}
    refused(capfd, "policy.py:act", *words_of(options))


def test_wrong_input_in_a_process_of_its_own_is_one_line(tmp_path):
    write_log(tmp_path / "log.npz")
    options = words_of({**GOOD, "--delta": "2"})
    answer = tightrope("certify", "log.npz", *options, cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "delta must be in (0, 1), found 2.0" in answer.stderr
    assert os.listdir(tmp_path) == ["log.npz"]


def test_a_failure_while_writing_leaves_no_folder(folder, capfd, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tightrope.certificates.certificate.save_chain", full)
    assert "No space left" in refused(capfd, "log.npz", *words_of(GOOD))


def test_an_existing_certificate_is_left_as_it_is(folder, capfd):
    Path("new").mkdir()
    Path("new", "certificate.json").write_text("precious")
    assert "already there" in refused(capfd, "log.npz", *words_of(GOOD))
    assert Path("new", "certificate.json").read_text() == "precious"
    assert os.listdir("new") == ["certificate.json"]


@pytest.mark.parametrize("place", ["nowhere", ".", "log.npz"])
def test_verify_where_there_is_no_certificate_is_one_line_and_exit_code_2(place, folder, capfd):
    code, out, said = run(capfd, "verify", place)
    assert (code, out) == (2, "")
    assert len(said) == 1
    assert "certificate" in said[0]


def test_verify_without_a_folder_is_one_line(folder, capfd):
    code, out, said = run(capfd, "verify")
    assert (code, out) == (2, "")
    assert len(said) == 1
