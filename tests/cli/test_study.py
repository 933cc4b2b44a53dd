"""`tightrope study` as a user sees it: what it refuses, and what it tells without running."""

from pathlib import Path

import pytest
from command import run

STUDY = """
name = "small"
test_episodes = 3
[[train]]
agent = "ppo"
environments = ["Pendulum-v1"]
instances = [0, 1]
levels = [256, 512, 768]
settings = { hidden = [8], rollout = 256, batch = 32, epochs = 1 }
[[certify]]
schemes = ["rec-2"]
repetitions = 2
episodes = [6]
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(STUDY)
    return tmp_path


def test_a_dry_run_tells_jobs_time_and_disk_and_writes_nothing(place, capsys):
    code, out, err = run(capsys, "study", "small.toml", "--dry-run")
    assert (code, err) == (0, [])
    first, _, train, collect, certify, left = out.splitlines()
    assert first == "study small: 14 jobs, 12 certificates"
    assert train.split()[:3] == ["train", "2", "0"]
    assert collect.split()[:3] == ["collect", "6", "0"]
    assert certify.split()[:3] == ["certify", "6", "0"]
    assert "left on" in left
    assert [path.name for path in place.iterdir()] == ["small.toml"]


def test_a_study_runs_and_its_status_says_so(place, capsys, monkeypatch):
    from tightrope.studies import graph

    monkeypatch.setattr(graph, "_WORK", "trivial_jobs")
    one = STUDY.replace("[0, 1]", "[0]") + 'levels = ["starter"]\n'
    Path("small.toml").write_text(one)
    code, out, err = run(capsys, "study", "small.toml", "--workers", "1")
    assert code == 0, out
    assert out.startswith("2 certificates; tables and figures: study-small/results")
    assert "\npage: study-small/report.html\n" in out
    assert "2 of 1 policies" in Path("study-small/report.html").read_text(encoding="utf-8")
    assert out.count("too little data (preset ") == 7
    assert "certify 1/1" in err[-1]
    results = Path("study-small/results")
    assert {"table.csv", "claims.csv", "instances.tex", "figures"} <= {
        path.name for path in results.iterdir()
    }
    code, out, _ = run(capsys, "study", "small.toml", "--status")
    assert code == 0
    assert out.splitlines()[4].split()[:3] == ["certify", "1", "1"]


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (("ppo", "dqn"), [], "found 'dqn'"),
        (("rec-2", "rec-x"), [], "expected a scheme among"),
        (("Pendulum-v1", "Pendulun-v1"), [], "Pendulun-v1"),
        (("episodes = [6]", "episodes = [1]"), [], "at least 2 validation episodes"),
        (("repetitions", "repetition"), [], "found 'repetition'"),
        (("", ""), ["--workers", "0"], "--workers must be at least 1"),
        (("", ""), ["--address", "host:1"], "expected --address for --engine ray"),
        (("", ""), ["--engine", "ray", "--workers", "2"], "expected --workers for --engine local"),
        (("", ""), ["--engine", "ray", "--address", "nowhere"], "expected an --address such as"),
        (("", ""), ["--dry-run", "--status"], "expected --dry-run or --status"),
        (("", ""), ["--status"], "expected a study in 'study-small', found none"),
        (("", ""), ["--engine", "slurm"], "slurm"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_and_leaves_no_results(
    place, capsys, change, arguments, words
):
    Path("small.toml").write_text(STUDY.replace(*change) if change[0] else STUDY)
    code, out, err = run(capsys, "study", "small.toml", *arguments)
    assert (code, out) == (2, "")
    assert len(err) == 1
    assert words in err[0]
    assert not Path("study-small/results").exists()


def test_a_folder_that_holds_a_foreign_job_is_refused(place, capsys):
    from tightrope.studies.graph import build_graph
    from tightrope.studies.spec import load_study

    job = build_graph(load_study(Path("small.toml")), Path()).jobs[0]
    run(capsys, "study", "small.toml", "--workers", "0")  # begins the folder
    Path("study-small/jobs", job.id).mkdir(parents=True)
    code, _, err = run(capsys, "study", "small.toml")
    assert code == 2
    assert "expected a finished job in" in err[0]
