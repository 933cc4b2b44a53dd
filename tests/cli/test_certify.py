"""`tightrope certify`: whatever is brought becomes a folder with a certificate."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command import lines, options, run, tightrope
from recordings import recording

from tightrope.certificates import load_certificate
from tightrope.certificates.document import schema_problem
from tightrope.certificates.verify import verify
from tightrope.environments import EnvInfo
from tightrope.rollouts import export_arrays, load, save

FILES = [
    *("certificate.json", "predictor.safetensors"),
    *("report.html", "rollouts.safetensors"),
]
QUICK = (  # the predictor is only regressed, and nothing is drawn
    *("--scheme", "holdout", "--pilot-episodes", "0", "--return-range", "-20", "20"),
    *("--mc-passes", "2", "--thin", "1"),
)


# --- good runs, in processes of their own --------------------------------------------------------


def test_a_good_run_writes_the_files_and_prints_the_certificate_in_words(tmp_path):
    export_arrays(recording(24, seed=1), tmp_path / "log.npz")
    given = ("log.npz", "--out", "certificate", *QUICK)
    answer = tightrope("certify", *given, cwd=tmp_path, short=True)
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    assert sorted(os.listdir(tmp_path)) == ["certificate", "log.npz"]
    assert sorted(os.listdir(tmp_path / "certificate")) == FILES
    document = json.loads((tmp_path / "certificate" / FILES[0]).read_text())
    assert schema_problem(document) is None
    assert set(document["digests"]) == {"certificate", "predictor", "rollouts"}  # not the page
    assert answer.stdout.startswith("Risk certificate for log.npz")
    for words in (
        "at most ",
        "confidence 96.5 %",
        "assumes independent steps",
        "needs only independent episodes",
        "hold-out: risk",
        "24 validation",
        f"seed {document['options']['seed']}",
        "tightrope verify certificate",
    ):
        assert words in answer.stdout, words


def test_the_demo_is_rolled_out_certified_and_verified(tmp_path):
    counts = ("--episodes", 6, "--test-episodes", 0, "--pilot-episodes", 2, "--workers", 2)
    scheme = ("--scheme", "holdout", "--out", "demo")  # the quickest
    answer = tightrope("certify", "--demo", *counts, *scheme, cwd=tmp_path, short=True)
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    assert "Hopper-v4" in answer.stdout
    document = json.loads((tmp_path / "demo" / FILES[0]).read_text())
    assert document["episodes"] == {"pilot": 2, "validation": 6, "free": 3, "test": 0}
    assert document["thin"] == 3
    assert document["subject"]["environment"]["id"] == "Hopper-v4"
    assert len(document["portions"]) == 1
    assert str(tmp_path) not in answer.stdout + json.dumps(document)
    assert len(load(tmp_path / "demo" / "rollouts.safetensors")) == 8
    assert verify(tmp_path / "demo") == []


# --- good runs, with short fits ------------------------------------------------------------------

PENDULUM = EnvInfo.of("Pendulum-v1").to_json()


def read_document(name):
    return json.loads(Path(name, FILES[0]).read_text())


def test_options_reach_the_certificate(folder, capfd):
    given = {
        "--scheme": "2,3,7",
        "--unit": "episode",
        "--preset": "paper",
        "--clock": "on",
        "--time-limit": 6,
        "--episodes": 12,
        "--test-episodes": 3,
        "--pilot-episodes": 4,
        "--return-floor": -50.0,
        "--delta": 0.1,
        "--delta-prime": 0.05,
        "--gamma": 0.9,
        "--thin": 2,
        "--mc-passes": 3,
        "--sampling": "weights",
        "--kappa": 0.4,
        "--candidates": 2,
        "--fail-below": 0.5,
        "--device": "cpu",
        "--seed": 7,
    }
    code, _, said = run(capfd, "certify", "log.npz", "--out", "c", *options(given))
    assert (code, said) == (0, [])
    document = read_document("c")
    asked = {name[2:].replace("-", "_"): value for name, value in given.items()}
    rest = {"return_range": "auto", "until": "off", "max_episodes": 500}
    assert {**asked, **rest} == document["options"]
    assert document["episodes"] == {"pilot": 4, "validation": 12, "free": 0, "test": 3}
    assert document["confidence"] == pytest.approx(0.85)
    assert verify("c") == []


def test_the_defaults_are_auto_tight_step_and_everything_after_ten_pilot_episodes(folder, capfd):
    code, out, said = run(capfd, "certify", "log.npz")
    assert (code, said) == (0, [])
    document = read_document("certificate-log")
    assert [document[name] for name in ("scheme", "preset", "unit")] == ["auto", "tight", "step"]
    counts = document["episodes"]
    assert (counts["pilot"], counts["validation"], counts["test"]) == (10, 14, 0)
    assert [document[n] for n in ("delta", "delta_prime")] == [0.025, 0.01]
    assert document["options"]["gamma"] == 0.99
    assert "certificate-log" in out
    assert verify("certificate-log") == []


def test_a_seed_that_is_not_given_is_fresh_printed_and_gives_the_same_again(folder, capfd):
    few = ("--scheme", "holdout", "--pilot-episodes", 4, "--mc-passes", 2)
    seeds = []
    for name in ("first", "second"):
        code, out, said = run(capfd, "certify", "log.npz", "--out", name, *few)
        assert (code, said) == (0, [])
        seeds.append(read_document(name)["options"]["seed"])
        assert f"seed {seeds[-1]}\n" in out
    assert seeds[0] != seeds[1]
    run(capfd, "certify", "log.npz", "--out", "again", *few, "--seed", seeds[0])
    for file in FILES:
        assert Path("again", file).read_bytes() == Path("first", file).read_bytes(), file


def test_json_prints_the_document_and_nothing_else(folder, capfd):
    few = ("--scheme", "holdout", "--pilot-episodes", 4, "--mc-passes", 2, "--json")
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", *few)
    assert (code, said) == (0, [])
    assert json.loads(out) == read_document("c")
    assert out == Path("c", FILES[0]).read_text()


def test_a_policy_is_rolled_out_here(folder, capfd):
    counts = ("--episodes", 3, "--test-episodes", 1, "--pilot-episodes", 1, "--workers", 1)
    code, out, said = run(
        capfd,
        *("certify", "policy.py:act", "--env", "Pendulum-v1", "--scheme", "rec-2"),
        *(*counts, "--mc-passes", 2, "--thin", 40, "--seed", 5, "--out", "c"),
    )
    assert (code, said) == (0, []), said
    assert "Pendulum-v1" in out
    assert read_document("c")["episodes"] == {"pilot": 1, "validation": 3, "free": 0, "test": 1}
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
    assert document["episodes"] == {"pilot": 0, "validation": 3, "free": 0, "test": 1}
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
    run(capfd, "certify", "run", *ALONE, *FEW, "--seed", 5)
    first = read_document("c")
    here = ("again", "--env", "Pendulum-v1", "--seed", 5)
    code, _, said = run(capfd, "certify", "run", *ALONE, *FEW[:-1], *here)
    assert (code, said) == (0, [])
    assert read_document("again") == first


OVERRIDES = {
    "pilot episodes": (("--pilot-episodes", 2), 2, "pilot"),
    "a range": (("--return-range", -3000, 0), 10, "user"),
    "both": (("--pilot-episodes", 0, "--return-range", -3000, 0), 0, "user"),
}


@pytest.mark.parametrize(("asked", "pilot", "source"), OVERRIDES.values(), ids=OVERRIDES)
def test_what_the_user_says_goes_before_the_training_record(
    asked, pilot, source, folder, trained, capfd
):
    trained("run")
    code, _, said = run(capfd, "certify", "run", *FEW, *asked)
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
@pytest.mark.parametrize(("asked", "reason"), ANOTHER.values(), ids=ANOTHER)
def test_a_record_for_other_returns_is_left_aside_with_one_line(
    asked, reason, folder, trained, capfd
):
    where = {"environment": {**PENDULUM, "id": "Elsewhere-v1"}} if "--env" in asked else {}
    trained("run", **where)
    code, _, said = run(capfd, "certify", "run", *FEW, *asked)
    assert code == 0
    (warning,) = said
    assert warning.startswith("tightrope: warning: ")
    assert reason in warning
    assert "10 pilot episodes" in warning
    document = read_document("c")
    assert document["episodes"]["pilot"] == 10
    assert document["return_range"]["source"] == "pilot"


def test_tightropes_own_recordings_are_certified(folder, capfd):
    save(recording(16, seed=3), "own.safetensors")
    few = ("--scheme", "rec-2", "--mc-passes", 2, "--pilot-episodes", 4, "--out", "c")
    code, _, said = run(capfd, "certify", "own.safetensors", *few)
    assert (code, said) == (0, [])
    assert verify("c") == []


@pytest.mark.filterwarnings("always")
def test_a_range_that_clips_more_than_half_warns_in_one_line_with_the_share(folder, capfd):
    few = ("--scheme", "rec-2", "--mc-passes", 2, "--return-range", "-20", "-2")
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", *few)
    assert code == 0
    (warning,) = said
    share = read_document("c")["clipped_share"]
    assert share > 0.5
    assert warning.startswith("tightrope: warning: ")
    assert f"{share:.0%}" in warning
    assert f"{share:.2%}" in out


@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_finite_observations_too_large_for_float32_arithmetic_are_certified(preset, folder, capfd):
    """1e25 is finite; its square is not. Without a pilot nothing scales it down."""
    with np.load("log.npz") as log:
        content = dict(log)
    content["observations"][66] = 1e25
    np.savez("large.npz", **content)
    few = ("--scheme", "rec-2", "--mc-passes", 2, "--pilot-episodes", 0, "--out", "c")
    given = ("--return-range", -20, 20, "--preset", preset)
    code, _, said = run(capfd, "certify", "large.npz", *few, *given)
    assert (code, said) == (0, [])
    assert 0 < read_document("c")["train_error"] < 1
