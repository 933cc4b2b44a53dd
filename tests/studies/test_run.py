"""A study gives what its certificates would be one by one, and resumes wherever it was stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inline import Inline
from recordings import short_fits
from waiting import wait_until

from tightrope.certificates import Options, certify_many
from tightrope.errors import InputError
from tightrope.policies import load_record
from tightrope.posteriors import Scaling, range_from_training
from tightrope.rollouts import collect, join
from tightrope.studies.graph import build_graph
from tightrope.studies.run import describe, run_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A place for the one study that several tests look at."""
    return tmp_path_factory.mktemp("kept") / "out"


@pytest.fixture
def finished(small, kept, tmp_path):
    """Its folder, run by the first test that asks for it."""
    if not kept.exists():
        run_study(small(), kept, engine=Inline)
    return kept


def test_the_table_has_a_row_for_each_certificate_that_says_what_it_says(finished):
    table = pd.read_csv(finished / "results/table.csv")
    assert len(table) == 2 * 3 * 2 * 2
    axes = ["instance", "scheme", "episodes", "repetition"]
    assert not table.duplicated(axes).any()
    for _, row in table.iterrows():
        document = json.loads((finished / row["certificate"]).read_text())
        assert document["bound"] == row["bound"]
        assert document["test_error"] == row["test_error"]
        assert document["scheme"] == row["scheme"]
        assert document["episodes"]["validation"] == row["episodes"]
        assert row["tightness"] == pytest.approx(row["bound"] - row["test_error"])


def test_a_certificate_of_a_study_is_the_one_that_the_same_episodes_give_alone(finished):
    """Oracle: roll out, cut and certify by hand, from the seeds that are on record."""
    table = pd.read_csv(finished / "results/table.csv")
    rows = table[(table.instance == 0) | (table.instance.astype(str) == "one")]
    row = rows[(rows.scheme == "rec-2") & (rows.episodes == 6) & (rows.repetition == 1)].iloc[0]
    document = json.loads((finished / row.certificate).read_text())
    seed = document["subject"]["seed"]
    whole = collect("mine/one", "Pendulum-v1", 10 + 10 + 3, seed, workers=1)
    pilot = document["episodes"]["pilot"]
    chosen = [*whole[:pilot], *whole[10:16], *whole[20:]] if pilot else [*whole[10:16], *whole[20:]]
    record = load_record(Path("mine/one/policy.json"))
    low, high = range_from_training(record)
    scaling = Scaling(low, high, "training", record.observation_mean, record.observation_deviation)
    options = Options(
        scheme="rec-2",
        episodes=6,
        test_episodes=3,
        pilot_episodes=pilot,
        mc_passes=2,
        thin=20,
    )
    with short_fits():
        alone = certify_many(
            join(chosen, whole.subject), [options], [int(row.seed)], training=scaling
        )[0][0]
    assert alone.bound == pytest.approx(row.bound, rel=1e-6)
    assert alone.test_error == pytest.approx(row.test_error, rel=1e-6)


def test_test_episodes_are_the_same_whatever_the_validation_size(finished):
    table = pd.read_csv(finished / "results/table.csv")
    assert (table.groupby("instance").mean_return.nunique() == 1).all()


def test_an_interrupted_study_goes_on_and_ends_as_an_undisturbed_one(small, finished, tmp_path):
    for jobs in (1, 2):
        with pytest.raises(InputError, match="goes on where it stopped"):
            run_study(small(), tmp_path / "cut", engine=lambda f, n=jobs: Inline(f, stop_after=n))
    resumed = run_study(small(), tmp_path / "cut", engine=Inline)
    assert len(resumed.results.table) == 24
    same = [(each / "results/table.csv").read_text() for each in (finished, tmp_path / "cut")]
    assert same[0] == same[1]


def test_a_finished_study_runs_nothing(small, finished):
    def refuse(folder):
        raise AssertionError("there was nothing to run")

    assert not run_study(small(), finished, engine=refuse).failed


def test_a_job_that_fails_is_named_and_the_rest_goes_on(small, tmp_path, trained):
    """A policy that is damaged fails when it is rolled out."""
    (tmp_path / "mine/bad.safetensors").write_bytes(b"not a policy")
    study = small(policies=[{"folder": "mine", "environment": "Pendulum-v1"}])
    graph = build_graph(study, Path())
    assert len(graph.of("policy")) == 3
    ended = run_study(study, tmp_path / "out", engine=Inline)
    assert [label for label, _ in ended.failed] == ["collect own Pendulum-v1 bad own"]
    assert ended.blocked == 1
    assert len(ended.results.table) == 24
    said = describe(study, tmp_path / "out", slots=2)
    assert "failed: collect own Pendulum-v1 bad own: " in said


@pytest.mark.parametrize("content", ["study", "other", "file"])
def test_a_folder_of_something_else_is_refused(small, finished, tmp_path, content):
    out = finished if content == "study" else tmp_path / "out"
    if content == "other":
        out.mkdir()
        (out / "thesis.tex").touch()
    else:
        out.touch()
    with pytest.raises(InputError, match="expected"):
        run_study(small(seed=5), out, engine=Inline)
    if content == "study":
        with pytest.raises(InputError, match="found another `seed`"):
            run_study(small(seed=5), out, engine=Inline)


def test_the_kept_trainings_are_those_that_the_small_study_asks_for(tmp_path):
    """And a run that does not say a setting is none of them: its default was another."""
    from tightrope.studies import folder
    from tightrope.studies.spec import load_study

    graph = build_graph(load_study(ROOT / "studies/mini.toml"), ROOT / "studies")
    runs = [folder._run(path) for path in (ROOT / "results/mini/trained").glob("*/run.json")]
    assert {folder._key(job.spec) for job in graph.of("train")} == set(map(folder._key, runs))
    # of the machine that it runs on, a job asks nothing
    assert {job.spec["settings"].get("precision") for job in graph.of("train")} <= {"float32", None}
    shutil.copytree(ROOT / "results/mini/trained/redq-hopper-0", tmp_path / "run")
    content = json.loads((tmp_path / "run/run.json").read_text())
    del content["settings"]["scaled_observations"]
    (tmp_path / "run/run.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match=r"other settings \(scaled_observations\): not taken"):
        assert folder._run(tmp_path / "run/run.json") is None


def test_trainings_that_were_run_before_are_taken_over(tmp_path, monkeypatch, trained):
    from tightrope.studies import graph as graphs
    from tightrope.studies.spec import study_from

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(graphs, "_WORK", "trivial_jobs")
    asked = {
        "name": "again",
        "test_episodes": 2,
        "train": [
            {
                "agent": "ppo",
                "environments": ["Pendulum-v1"],
                "instances": [0],
                "levels": [256, 512, 768],
                "settings": {"hidden": [8], "rollout": 256, "batch": 32, "epochs": 1},
            }
        ],
        "certify": [{"schemes": ["nonrec-inf"], "repetitions": 1, "episodes": [4]}],
    }
    asked["certify"][0]["options"] = {"mc_passes": 2, "thin": 20}
    first = run_study(study_from(asked), tmp_path / "first", engine=Inline)
    assert len(first.results.table) == 3
    runs = tmp_path / "runs"
    runs.mkdir()
    for path in (tmp_path / "first/jobs").glob("train-*"):
        os.rename(path, runs / "any-name")
    (runs / "any-name/job.json").unlink()
    for zipped in runs.rglob("policy.zip"):
        zipped.unlink()  # weights alone will do

    class NoTraining(Inline):
        def submit(self, job):
            assert job.stage != "train"
            super().submit(job)

    again = study_from({**asked, "trained": "runs"})
    run_study(again, tmp_path / "second", engine=NoTraining)
    bounds = [
        pd.read_csv(tmp_path / name / "results/table.csv").bound for name in ("first", "second")
    ]
    assert np.array_equal(*bounds)


def test_ctrl_c_ends_a_study_with_its_processes_and_the_same_command_goes_on(
    small, tmp_path, import_path, interruptible
):
    """With the local engine and real processes, through the command."""
    (tmp_path / "small.toml").write_text(
        'name = "small"\ntest_episodes = 3\n[[policies]]\nfolder = "mine"\n'
        '[[certify]]\nschemes = ["rec-2"]\nrepetitions = 1\nepisodes = [6]\n'
        "options = { mc_passes = 2, thin = 20 }\n"
    )
    script = (
        "import sys\nfrom tightrope.studies import graph\ngraph._WORK = 'trivial_jobs'\n"
        "from tightrope.cli import main\n"
        "sys.exit(main(['study', 'small.toml', '--out', 'out', '--workers', '1']))"
    )
    command = [sys.executable, "-c", script]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": import_path}, "text": True}
    process = subprocess.Popen(command, **options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: list((tmp_path / "out/jobs").glob("collect-*")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert said.splitlines()[-1].endswith("goes on where it stopped")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/jobs").glob("*/job.json")}
    done = subprocess.run(command, **options, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 certificates" in done.stdout
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert not [p for p in (tmp_path / "out/jobs").iterdir() if p.name.startswith(".")]
