"""`tightrope certify`: whatever is brought becomes a folder with a certificate."""

import json
import os
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from command import lines, options, run, tightrope
from recordings import recording

from tightrope.certificates import load_certificate
from tightrope.certificates.text import details, summary
from tightrope.certificates.verify import verify
from tightrope.environments import EnvInfo
from tightrope.rollouts import export_arrays, load, save

VERIFIED = "verified: every number in {} follows from its files\n"
PAGE = "report.html was not looked at; tightrope report draws it again\n"
FILES = ["certificate.json", "predictor.safetensors", "report.html", "rollouts.safetensors"]
RANGE = ("--return-range", "-20", "20")


def read_document(name):
    return json.loads(Path(name, FILES[0]).read_text())


# --- in processes of their own -------------------------------------------------------------------


def test_a_good_run_writes_the_files_and_prints_the_summary(tmp_path):
    export_arrays(recording(24, seed=1), tmp_path / "log.npz")
    given = ("certify", "log.npz", "--thin", 1, *RANGE)
    timed = {"PYTHONPROFILEIMPORTTIME": "1"}
    answer = tightrope(*given, cwd=tmp_path, short=True, env=timed)
    assert answer.returncode == 0, answer.stderr
    said = lines(answer.stderr)
    imported = {line.rpartition("|")[2].strip() for line in said if line.startswith("import time")}
    assert all(line.startswith("import time:") for line in said)
    assert "torch" in imported
    assert not imported & {"torch._dynamo", "torch._inductor", "pandas", "matplotlib", "gymnasium"}
    assert sorted(os.listdir(tmp_path)) == ["certificate-log", "log.npz"]
    made = tmp_path / "certificate-log"
    assert sorted(os.listdir(made)) == FILES
    assert set(load_certificate(made).digests) == {"predictor", "rollouts"}  # not the page
    *printed, last = answer.stdout.splitlines()
    assert "\n".join(printed) == summary(load_certificate(made))
    assert len(printed) <= 21
    assert last == (
        "Written to certificate-log. More: --details, report.html. Check: tightrope verify "
        "certificate-log"
    )


def test_the_demo_is_rolled_out_certified_and_verified(tmp_path):
    given = ("--demo", "--episodes", 8, "--workers", 2, "--out", "demo")
    answer = tightrope("certify", *given, cwd=tmp_path, short=True)
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    document = json.loads((tmp_path / "demo" / FILES[0]).read_text())
    assert document["episodes"] == {"pilot": 0, "fit": 2, "calibration": 6, "test": 0}
    assert (document["thin"], document["scheme"]) == (3, "auto")
    assert document["subject"]["environment"]["id"] == "Hopper-v4"
    assert str(tmp_path) not in answer.stdout + json.dumps(document)
    assert len(load(tmp_path / "demo" / "rollouts.safetensors")) == 8
    assert verify(tmp_path / "demo") == []


# --- options, with short fits --------------------------------------------------------------------

PENDULUM = EnvInfo.of("Pendulum-v1").to_json()


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
        "--discounted-floor": -40.0,
        "--termination": "failure",
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
    rest = {"return_range": "auto", "until": "off", "max_episodes": 500, "paper": False}
    assert {**asked, **rest, "fit_episodes": "auto"} == document["options"]
    assert document["episodes"] == {"pilot": 4, "fit": 0, "calibration": 12, "test": 3}
    assert document["confidence"] == pytest.approx(0.85)
    assert verify("c") == []


def test_by_default_a_quarter_fits_and_episodes_are_what_counts(folder, capfd):
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c")
    assert (code, said) == (0, [])
    document = read_document("c")
    assert [document[name] for name in ("scheme", "preset", "unit")] == [
        *("auto", "tight", "episode")
    ]
    assert document["episodes"] == {"pilot": 0, "fit": 6, "calibration": 18, "test": 0}
    assert [document[n] for n in ("delta", "delta_prime")] == [0.025, 0.01]
    assert document["pac_bayes"] is False
    assert "no PAC-Bayes" in out
    assert "no PAC-Bayes" in Path("c", "report.html").read_text()


def test_the_paper_is_one_word(folder, capfd):
    given = ("--paper", "--episodes", 6, "--test-episodes", 4, "--mc-passes", 2)
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", *given)
    assert (code, said) == (0, [])
    document = read_document("c")
    assert [document[name] for name in ("scheme", "preset", "unit", "pac_bayes")] == [
        *("rec-6", "paper", "step", True)
    ]
    assert "PAC-Bayes bound, scheme rec-6, preset paper" in out
    assert verify("c") == []


def test_a_seed_that_is_not_given_is_fresh_printed_and_gives_the_same_again(folder, capfd):
    seeds = []
    for name in ("first", "second"):
        code, out, said = run(capfd, "certify", "log.npz", "--out", name)
        assert (code, said) == (0, [])
        seeds.append(read_document(name)["settings"]["seed"])
        assert f"seed {seeds[-1]}.\n" in out
    assert seeds[0] != seeds[1]
    run(capfd, "certify", "log.npz", "--out", "again", "--seed", seeds[0])
    for file in ("predictor.safetensors", "rollouts.safetensors"):
        assert Path("again", file).read_bytes() == Path("first", file).read_bytes()
    assert read_document("again")["statements"] == read_document("first")["statements"]


def test_json_prints_the_document_alone_and_details_everything(folder, capfd):
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", "--json")
    assert (code, said) == (0, [])
    assert out == Path("c", FILES[0]).read_text()
    code, out, said = run(capfd, "certify", "log.npz", "--out", "d", "--details")
    assert (code, said) == (0, [])
    assert out.startswith(details(load_certificate("d")))


# --- properties and searches ---------------------------------------------------------------------

OWN = dedent(
    """
    calls = []

    def peak(episode):
        return float(episode.observations.max())

    def late(episode):
        return float("nan") if episode.seed == 5 else 1.0

    def broken(episode):
        return 1 / (episode.seed - 7)

    def counting(episode):
        calls.append(episode)
        return len(calls)
    """
)


def test_a_property_of_ones_own_is_certified_printed_and_verified(folder, capfd):
    save(recording(24, seed=1), "own.safetensors")
    Path("mine.py").write_text(OWN)
    given = ("--property", "peak torque=mine.py:peak", "--property-limit", "peak torque<=2.5")
    code, out, said = run(capfd, "certify", "own.safetensors", "--out", "c", *given)
    assert (code, said) == (0, [])
    assert "    peak torque, " in out
    assert "    peak torque is above 2.5 " in out
    made = load_certificate("c")
    peaks = [float(episode.observations.max()) for episode in recording(24, seed=1)]
    np.testing.assert_array_equal(made.rollouts.properties["peak torque"], peaks)
    assert made.statement("property limit: peak torque").note == (
        f"{np.greater(peaks[6:], 2.5).sum()} of 18 episodes"
    )
    assert "peak torque" in Path("c", "report.html").read_text()
    said = "not recomputed, but taken as recorded: peak torque; give --property"
    assert run(capfd, "verify", "c")[:2] == (0, f"{VERIFIED.format('c')}{said}\n{PAGE}")
    recomputed = run(capfd, "verify", "c", *given[:2])
    assert recomputed[:2] == (0, f"{VERIFIED.format('c')}{PAGE}")
    code, out, _ = run(capfd, "verify", "c", "--property", "peak torque=mine.py:late")
    assert code == 1
    assert "property 'peak torque'" in out
    again = ("certify", "c/rollouts.safetensors", "--property", "peak torque=", "--out", "d")
    assert run(capfd, *again)[0] == 0  # as recorded, without the function


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("x=mine.py:late",), "property 'x' of episode 5 (seed 5), found nan"),
        (("x=mine.py:broken",), "property 'x' of episode 7 (seed 7) failed: ZeroDivisionError"),
        (("x=mine.py:counting",), "24.0 and then 25.0 for episode 23 (seed 23): it depends on"),
        (("x=mine.py:nothing",), "nothing"),
        (("=mine.py:peak",), "expected --property NAME=FILE.py:FUNCTION, found"),
        (("x=",), "expected a function for property 'x', found none"),
        (("x=mine.py:peak", "--property-limit", "y<=3"), "NAME of a --property (x)"),
        (("x=mine.py:peak", "--property-limit", "x=3"), "NAME<=LIMIT or NAME>=LIMIT"),
    ],
)
def test_a_property_that_is_none_is_one_line_that_names_the_episode(given, words, folder, capfd):
    save(recording(24, seed=1), "own.safetensors")
    Path("mine.py").write_text(OWN)
    code, out, said = run(capfd, "certify", "own.safetensors", "--out", "c", "--property", *given)
    assert (code, out, len(said)) == (2, "", 1)
    assert words in said[0]
    assert not Path("c").exists()


@pytest.mark.parametrize(("target", "code"), [("rms<=5000", 0), ("rms<=642", 1)])
def test_a_search_says_at_its_end_what_was_certified(target, code, folder, capfd):
    given = ("--until", target, "--fit-episodes", 3, "--max-episodes", 16, "--workers", 1)
    where = ("--env", "Pendulum-v1", "--out", "c", "--gamma", 0.5, "--return-range", -4000, 4000)
    found, out, _ = run(capfd, "certify", "policy.py:act", *where, *given, "--unit", "step")
    assert found == code
    last = out.splitlines()[-1]
    assert last.startswith(f"{target} (mean over steps, clipped to [-4000, 4000])")
    assert "if steps were independent" in last
    assert ("NOT certified" in last) is bool(code)


def test_what_an_episode_that_terminates_means_is_said(folder, capfd):
    save(recording(24, seed=1, terminated=True), "goal.safetensors")
    for meaning, words in (
        ("neutral", "terminates early"),
        ("failure", "fails (terminates early)"),
        ("success", "reaches its goal (terminates)"),
    ):
        given = ("--termination", meaning, "--out", meaning)
        code, out, said = run(capfd, "certify", "goal.safetensors", *given)
        assert (code, said) == (0, [])
        assert f"    {words} " in out
    assert "at least 7" in out  # 18 of 18 reach it


# --- policies ------------------------------------------------------------------------------------


def test_a_policy_is_rolled_out_here(folder, capfd):
    counts = ("--episodes", 3, "--test-episodes", 1, "--pilot-episodes", 1, "--workers", 1)
    code, out, said = run(
        capfd,
        *("certify", "policy.py:act", "--env", "Pendulum-v1", "--scheme", "rec-2"),
        *(*counts, "--mc-passes", 2, "--thin", 40, "--seed", 5, "--out", "c"),
    )
    assert (code, said) == (0, []), said
    assert "Pendulum-v1" in out
    assert read_document("c")["episodes"] == {"pilot": 1, "fit": 0, "calibration": 3, "test": 1}
    assert verify("c") == []


ALONE = ("--pilot-episodes", 0)  # nothing but the training record
FEW = (  # of a policy with a training record: 3 validation episodes and 1 for testing
    *("--episodes", 3, "--test-episodes", 1, "--workers", 1, "--scheme", "rec-2"),
    *("--mc-passes", 2, "--thin", 40, "--out", "c"),
)


@pytest.mark.parametrize("source", ["run", "run/policy.safetensors"])
def test_a_trained_policy_needs_neither_an_environment_nor_a_pilot(source, folder, trained, capfd):
    trained("run")
    code, _, said = run(capfd, "certify", source, *ALONE, *FEW)
    assert (code, said) == (0, [])
    document = read_document("c")
    assert document["episodes"] == {"pilot": 0, "fit": 0, "calibration": 3, "test": 1}
    assert document["return_range"] == {"low": -900.0, "high": 0.5, "source": "training"}
    assert document["subject"]["environment"]["id"] == "Pendulum-v1"
    assert "fixed by the training log" in "".join(document["assumptions"])
    scaling = load_certificate("c").predictor.scaling
    np.testing.assert_array_equal(scaling.mean, np.float32([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(scaling.deviation, np.float32([1.0, 2.0, 3.0]))
    assert verify("c") == []


@pytest.mark.parametrize(("preset", "pilot"), [("tight", 10), ("paper", 0)])
def test_beside_a_training_record_a_pilot_only_fits_the_first_prior(
    preset, pilot, folder, trained, capfd
):
    """The paper's prior is drawn from the seed: there a pilot would be for nothing."""
    trained("hopper-1.5e6")
    few = (*FEW[:-2], "--preset", preset)
    code, _, said = run(capfd, "certify", "hopper-1.5e6", *few)
    assert (code, said) == (0, [])
    document = read_document("certificate-hopper-1.5e6")
    assert document["episodes"]["pilot"] == pilot
    assert document["return_range"]["source"] == "training"
    assert verify("certificate-hopper-1.5e6") == []


def test_naming_the_environment_of_the_training_changes_nothing(folder, trained, capfd):
    trained("run")
    run(capfd, "certify", "run", *ALONE, *FEW, "--seed", 5)
    here = ("again", "--env", "Pendulum-v1", "--seed", 5)
    code, _, said = run(capfd, "certify", "run", *ALONE, *FEW[:-1], *here)
    assert (code, said) == (0, [])
    assert read_document("again") == read_document("c")


OVERRIDES = {
    "pilot episodes": (("--pilot-episodes", 2), 2, "pilot"),
    "a range": (("--return-range", -3000, 0), 10, "user"),
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


# --- recordings ----------------------------------------------------------------------------------


def test_a_range_that_clips_is_marked_with_the_share_and_nothing_else_is_said(folder, capfd):
    few = ("--scheme", "rec-2", "--mc-passes", 2, "--return-range", "-20", "-2")
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c", *few)
    assert (code, said) == (0, [])
    share = read_document("c")["clipped_share"]
    assert share > 0.5
    assert f"! Returns clipped ({100 * share:.3g} %)" in out


@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_finite_observations_too_large_for_float32_arithmetic_are_certified(preset, folder, capfd):
    """1e25 is finite; its square is not."""
    with np.load("log.npz") as log:
        content = dict(log)
    content["observations"][66] = 1e25
    np.savez("large.npz", **content)
    few = ("--scheme", "rec-2", "--mc-passes", 2, "--pilot-episodes", 2, "--out", "c")
    code, _, said = run(capfd, "certify", "large.npz", *few, *RANGE, "--preset", preset)
    assert (code, said) == (0, [])
    assert 0 < read_document("c")["train_error"] < 1
