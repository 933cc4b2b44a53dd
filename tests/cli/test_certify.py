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
FEW = "--episodes 3 --test-episodes 1 --workers 1 --scheme rec-2 --mc-passes 2 --thin 40"
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
    asked = {
        "scheme": "2,3,7",
        "unit": "episode",
        "preset": "paper",
        "clock": "on",
        "time_limit": 6,
        "episodes": 12,
        "test_episodes": 3,
        "pilot_episodes": 4,
        "return_floor": -50.0,
        "discounted_floor": -40.0,
        "termination": "failure",
        "delta": 0.1,
        "delta_prime": 0.05,
        "gamma": 0.9,
        "thin": 2,
        "mc_passes": 3,
        "sampling": "weights",
        "kappa": 0.4,
        "candidates": 2,
        "fail_below": 0.5,
        "device": "cpu",
        "seed": 7,
    }
    given = {f"--{name.replace('_', '-')}": value for name, value in asked.items()}
    code, _, said = run(capfd, "certify", "log.npz", "--out", "c", *options(given))
    assert (code, said) == (0, [])
    document = read_document("c")
    rest = {"return_range": "auto", "until": "off", "max_episodes": 500, "paper": False}
    assert {**asked, **rest, "fit_episodes": "auto"} == document["options"]
    assert document["episodes"] == {"pilot": 4, "fit": 0, "calibration": 12, "test": 3}
    assert document["confidence"] == pytest.approx(0.85)
    assert verify("c") == []


def test_by_default_a_quarter_fits_and_the_paper_is_one_word(folder, capfd):
    code, out, said = run(capfd, "certify", "log.npz", "--out", "c")
    assert (code, said) == (0, [])
    document = read_document("c")
    names = ("scheme", "preset", "unit", "pac_bayes", "delta", "delta_prime")
    assert [document[n] for n in names] == ["auto", "tight", "episode", False, 0.025, 0.01]
    assert document["episodes"] == {"pilot": 0, "fit": 6, "calibration": 18, "test": 0}
    assert "no PAC-Bayes" in out
    assert "no PAC-Bayes" in Path("c", "report.html").read_text()
    given = ("--paper", "--episodes", 6, "--test-episodes", 4, "--mc-passes", 2)
    code, out, said = run(capfd, "certify", "log.npz", "--out", "d", *given)
    assert (code, said) == (0, [])
    assert [read_document("d")[n] for n in names[:4]] == ["rec-6", "paper", "step", True]
    assert "PAC-Bayes bound, scheme rec-6, preset paper" in out
    assert verify("d") == []


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
    def peak(episode):
        return float(episode.observations.max())

    def late(episode):
        return 1.0
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
    given = f"policy.py:act --env Pendulum-v1 {FEW} --pilot-episodes 1 --out c"
    code, out, said = run(capfd, "certify", *given.split())
    assert (code, said) == (0, []), said
    assert "Pendulum-v1" in out
    assert read_document("c")["episodes"] == {"pilot": 1, "fit": 0, "calibration": 3, "test": 1}
    assert verify("c") == []


@pytest.mark.parametrize("source", ["run", "run/policy.safetensors"])
def test_a_trained_policy_needs_neither_an_environment_nor_a_pilot(source, folder, trained, capfd):
    trained("run")
    given = (*FEW.split(), "--pilot-episodes", 0, "--seed", 5)
    code, _, said = run(capfd, "certify", source, *given, "--out", "c")
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
    run(capfd, "certify", source, *given, "--env", "Pendulum-v1", "--out", "again")
    assert read_document("again") == document  # the environment of the training


BESIDE = {  # flags: pilot episodes, source of the range, what is warned of
    "--preset tight": (10, "training", None),
    "--preset paper": (0, "training", None),  # its prior is drawn from the seed
    "--pilot-episodes 2": (2, "pilot", None),
    "--return-range -3000 0": (10, "user", None),
    "--gamma 0.9": (10, "pilot", "gamma 0.99, not 0.9"),
    "--env Pendulum-v1": (10, "pilot", "in Elsewhere-v1, not Pendulum-v1"),
}


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("flags", BESIDE)
def test_what_is_taken_from_a_training_record_and_what_goes_before_it(
    flags, folder, trained, capfd
):
    pilot, source, warned = BESIDE[flags]
    trained(
        "run", **({"environment": {**PENDULUM, "id": "Elsewhere-v1"}} if "--env" in flags else {})
    )
    code, _, said = run(capfd, "certify", "run", *FEW.split(), *flags.split(), "--out", "c")
    assert (code, len(said)) == (0, warned is not None)
    if warned:
        assert warned in said[0]
        assert "10 pilot episodes" in said[0]
    document = read_document("c")
    assert document["episodes"]["pilot"] == pilot
    assert document["return_range"]["source"] == source
    assert verify("c") == []


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
