"""`tightrope study` as a user sees it: what it refuses, and what it tells without running."""

from pathlib import Path

import pytest
from command import STUDY, run
from inline import Inline

from tightrope.studies import runner


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(STUDY)
    return tmp_path


def test_a_dry_run_counts_the_jobs_and_writes_nothing(place, capsys):
    code, out, err = run(capsys, "study", "small.toml", "--dry-run")
    assert (code, err) == (0, [])
    first, _, *stages = out.splitlines()
    assert first == "study small: 26 jobs, 12 certificates"
    counts = [["train", "2", "0"], ["collect", "12", "0"], ["certify", "12", "0"]]
    assert [line.split()[:3] for line in stages] == counts
    assert [path.name for path in place.iterdir()] == ["small.toml"]


def test_a_study_runs_and_its_status_says_so(place, capsys):
    one = STUDY.replace("[0, 1]", "[0]") + 'levels = ["starter"]\nrepetitions = 1\n'
    Path("small.toml").write_text(one.replace("repetitions = 2\n", ""))
    code, out, err = run(capsys, "study", "small.toml", "--workers", "1")
    assert code == 0, out
    assert out.startswith("1 certificates; ")
    assert "\npage: study-small/report.html\n" in out
    assert err[0] == "train 0/1, collect 0/1, certify 0/1"
    assert err[-1] == "train 1/1, collect 1/1, certify 1/1"
    assert Path("study-small/results/table.csv").is_file()
    code, out, _ = run(capsys, "study", "small.toml", "--status")
    assert code == 0
    assert out.splitlines()[4].split()[:3] == ["certify", "1", "1"]


def test_a_job_that_failed_is_one_line_and_exit_code_1(place, capsys, monkeypatch):
    monkeypatch.setattr(runner, "LocalPool", lambda folder, workers: Inline(folder))
    Path("mine").mkdir()
    Path("mine/bad.safetensors").write_bytes(b"no policy")
    Path("small.toml").write_text(
        'name = "small"\n[[policies]]\nfolder = "mine"\nenvironment = "Pendulum-v1"\n'
        'names = ["bad*", "gone"]\n[[certify]]\nschemes = ["auto"]\nrepetitions = 1\n'
    )
    code, out, _ = run(capsys, "study", "small.toml")
    skipped, failed, blocked = out.splitlines()
    assert code == 1
    assert skipped == "skipped: not in mine: gone"
    assert failed.startswith("failed: collect own Pendulum-v1 bad own, repetition 0: ")
    assert blocked == "1 jobs could not run because of these"


def test_a_folder_that_holds_a_foreign_job_is_refused(place, capsys):
    from tightrope.studies.config import load_study
    from tightrope.studies.job_plan import plan_jobs

    job = plan_jobs(load_study(Path("small.toml"))).jobs[0]
    run(capsys, "study", "small.toml", "--workers", "0")  # begins the folder
    Path("study-small/jobs", job.id).mkdir(parents=True)
    code, _, err = run(capsys, "study", "small.toml")
    assert code == 2
    assert "expected a finished job" in err[0]
