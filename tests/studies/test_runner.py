"""A study gives what its certificates would be one by one, and resumes wherever it was stopped."""

import json
import os
import signal
import subprocess

import pandas as pd
import pytest
from command import STUDY, words
from inline import Inline
from waiting import wait_until

from tightrope.certificates import Options, settle
from tightrope.certificates.certify import issue
from tightrope.certificates.settings import training_scaling
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS
from tightrope.rollouts import collect, join, policy_source
from tightrope.studies.config import load_study
from tightrope.studies.runner import describe, run_study


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A place for the one study that several tests look at."""
    return tmp_path_factory.mktemp("kept") / "out"


@pytest.fixture
def finished(small, kept):
    """Its folder, run by the first test that asks for it."""
    if not kept.exists():
        run_study(small(), kept, executor=Inline)
    return kept


def table_of(folder):
    return pd.read_csv(folder / "results/table.csv", dtype={"instance": str})


def test_the_table_has_a_row_for_each_certificate_that_says_what_it_says(finished):
    table = table_of(finished)
    assert len(table) == 2 * 3 * 2 * 2
    assert not table.duplicated(["instance", "scheme", "episodes", "repetition"]).any()
    for _, row in table.iterrows():
        document = json.loads((finished / row["certificate"]).read_text())
        for name in ("bound", "test_error", "scheme"):
            assert document[name] == row[name]
        assert document["settings"]["validation"] == row["episodes"]
        assert row["tightness"] == pytest.approx(row["bound"] - row["test_error"])
    # Repetitions have episodes of their own, sizes the same test episodes.
    assert (table.groupby(["instance", "repetition"]).mean_return.nunique() == 1).all()
    assert table.mean_return.nunique() == 2 * 2


def test_a_certificate_of_a_study_is_the_one_that_the_same_episodes_give_alone(finished):
    """Oracle: roll out, cut and certify by hand, from the seeds that are on record."""
    table = table_of(finished)
    wanted = {"instance": "one", "scheme": "rec-2", "episodes": 6, "repetition": 1}
    row = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)].iloc[0]
    document = json.loads((finished / row.certificate).read_text())
    source = policy_source("mine/one")
    whole = collect(source.policy, "Pendulum-v1", 23, document["subject"]["seed"], workers=1)
    pilot = document["episodes"]["pilot"]
    chosen = join([*whole[:pilot], *whole[10:16], *whole[20:]], whole.subject)
    options = Options(
        scheme="rec-2", episodes=6, test_episodes=3, mc_passes=2, thin=20, seed=int(row.seed)
    )
    training = training_scaling(options, source)
    preset = PRESETS["tight"].shortened(updates=20, width=16)
    settings = settle(options, source, preset=preset, training=training)
    alone = issue(chosen, settings, options=options, training=training)
    assert alone.bound == pytest.approx(row.bound, rel=1e-6)
    assert alone.test_error == pytest.approx(row.test_error, rel=1e-6)


def test_a_finished_study_runs_nothing_and_another_one_is_refused_in_its_folder(
    small, finished, tmp_path
):
    def refuse(folder):
        raise AssertionError("there was nothing to run")

    assert not run_study(small(), finished, executor=refuse).failed
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").touch()
    (tmp_path / "file").touch()
    for out, expected in (
        (finished, r"\(seed 0\), found 5: give the same"),
        (tmp_path / "other", "with other content"),
        (tmp_path / "file", "with other content"),
    ):
        with pytest.raises(InputError, match=expected):
            run_study(small(seed=5), out, executor=refuse)


def test_layer_norm_is_a_setting_whose_two_values_are_both_certified(small, tmp_path):
    block = {"schemes": ["nonrec-inf"], "presets": ["paper"], "episodes": [6], "repetitions": 1}
    block |= {"layer_norm": [True, False], "options": {"mc_passes": 2, "thin": 20}}
    study = small(certify=[block], policies=[{"folder": "mine", "names": ["one"]}])
    run_study(study, tmp_path / "out", executor=Inline)
    documents = [
        json.loads(path.read_text()) for path in (tmp_path / "out/jobs").glob("certify-*/0000.json")
    ]
    norms = {each["settings"]["preset"]["layer_norm"]: each["bound"] for each in documents}
    assert set(norms) == {True, False}
    assert norms[True] != norms[False]
    named = {"paper": norms[True], "paper-without-layer-norm": norms[False]}
    assert dict(table_of(tmp_path / "out")[["preset", "bound"]].values) == named


def test_a_job_that_fails_is_named_and_the_rest_goes_on(small, tmp_path):
    """A policy that is damaged fails when it is rolled out."""
    (tmp_path / "mine/bad.safetensors").write_bytes(b"not a policy")
    block = {"schemes": ["auto"], "repetitions": 1, "episodes": [8], "options": {"thin": 20}}
    policies = [{"folder": "mine", "environment": "Pendulum-v1", "names": ["*", "gone-*"]}]
    study = small(policies=policies, certify=[block])
    ended = run_study(study, tmp_path / "out", executor=Inline)
    bad = "collect own Pendulum-v1 bad own, repetition 0"
    assert list(ended.failed) == [bad]
    assert ended.blocked == 1
    assert len(ended.results.table) == 2
    assert ended.skipped == ("not in mine: gone-*",)
    said = describe(study, tmp_path / "out")
    assert f"\nfailed: {bad}: " in said
    assert "\nskipped: not in mine: gone-*" in said


def test_the_levels_of_a_training_are_certified_without_training_again(small, tmp_path, write_run):
    write_run(tmp_path / "runs/sac-7", seed=7)
    block = {"schemes": ["auto"], "repetitions": 1, "episodes": [8], "options": {"thin": 20}}
    study = small(policies=[{"folder": "runs"}], certify=[block])
    ended = run_study(study, tmp_path / "out", executor=Inline)
    assert not ended.failed
    table = table_of(tmp_path / "out")
    found = table[["agent", "environment", "instance", "level"]].to_numpy().tolist()
    levels = ("expert", "intermediate", "starter")
    assert sorted(found) == [["sac", "Pendulum-v1", "7", level] for level in levels]
    files = (tmp_path / "out/jobs").glob("policy-*/**/*")
    assert not any("replay" in path.name for path in files)


ONCE = (("instances = [0, 1]", "instances = [0]"), ("repetitions = 2", "repetitions = 1"))


def test_a_study_that_is_interrupted_then_killed_resumes_to_the_undisturbed_numbers(
    tmp_path, monkeypatch, import_path, interruptible
):
    """Through the command, with real processes: Ctrl-C in one stage, SIGKILL in the next."""
    monkeypatch.chdir(tmp_path)
    text = STUDY + 'levels = ["expert"]\noptions = { mc_passes = 2, thin = 20 }\n'
    for several, one in ONCE:
        text = text.replace(several, one)
    (tmp_path / "kill.toml").write_text(text)
    command = words("study", "kill.toml", "--out", "out", "--workers", "1")
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": import_path}, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    jobs = tmp_path / "out/jobs"

    process = subprocess.Popen(command, **options)
    wait_until(lambda: list(jobs.glob("train-*")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert said.splitlines()[-1].endswith("the same command resumes")

    process = subprocess.Popen(command, **options)
    wait_until(lambda: list(jobs.glob("collect-*")))
    process.kill()
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in jobs.glob("*/job.json")}

    done = subprocess.run(command, **options, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 certificates" in done.stdout
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert not [path for path in jobs.iterdir() if path.name.startswith(".")]
    run_study(load_study(tmp_path / "kill.toml"), tmp_path / "undisturbed", executor=Inline)
    pd.testing.assert_frame_equal(table_of(tmp_path / "out"), table_of(tmp_path / "undisturbed"))
