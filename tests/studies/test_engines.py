"""The local engine: real processes, real deaths."""

import os
import pickle
import threading

import pytest
from trivial_jobs import job, result
from waiting import wait_until

from tightrope.errors import InputError
from tightrope.processes import start_worker
from tightrope.studies.engines import LocalEngine
from tightrope.studies.schedule import run_jobs


@pytest.fixture
def engine(tmp_path):
    made = LocalEngine(tmp_path / "jobs", workers=2)
    (tmp_path / "jobs").mkdir()
    yield made
    made.close()


def test_a_graph_of_jobs_is_done_by_processes(engine):
    first, second = job("a 1", value=3), job("a 2", value=4)
    last = job("b 1", value=10, needs=(first, second))
    ended = run_jobs([first, second, last], engine)
    assert not ended.failed
    assert result(engine.folder, last) == 17


def test_a_refusal_is_told_in_one_line_and_leaves_nothing(engine):
    bad = job("a bad", function="refuse")
    ended = run_jobs([bad], engine)
    assert ended.failed == {bad.id: "expected something else, found this"}
    assert list(engine.folder.iterdir()) == []


def test_a_crash_is_told_by_the_name_of_the_error_and_tried_again(engine, tmp_path):
    flaky = job("a flaky", function="crash_once", mark=str(tmp_path / "mark"))
    ended = run_jobs([flaky], engine)
    assert not ended.failed
    assert result(engine.folder, flaky) == 1


def test_a_process_that_is_killed_takes_only_its_own_job_with_it(engine, tmp_path):
    dying = job("a dying", function="die_once", mark=str(tmp_path / "mark"))
    others = [job(f"a {index}", value=index) for index in range(6)]
    ended = run_jobs([dying, *others], engine)
    assert not ended.failed
    assert [result(engine.folder, each) for each in others] == list(range(6))
    assert result(engine.folder, dying) == 1


def test_a_process_that_is_killed_every_time_is_named_by_its_signal(engine, tmp_path):
    dying = job("a dying", function="resume", tries=5)
    ended = run_jobs([dying], engine)
    assert ended.failed == {dying.id: "its process died (signal SIGKILL)"}


def test_a_job_that_resumes_finds_what_its_killed_try_left(engine):
    long = job("train 1", function="resume", tries=2)
    ended = run_jobs([long], engine)
    assert not ended.failed
    assert (engine.folder / long.id / "tries").read_text() == "2"


def test_closing_stops_a_running_job_and_leaves_nothing_half_written(tmp_path):
    (tmp_path / "jobs").mkdir()
    engine = LocalEngine(tmp_path / "jobs", workers=1)
    mark = tmp_path / "mark"
    held = job("a held", function="hold", mark=str(mark), go=str(tmp_path / "go"))
    engine.submit(held)
    wait_until(mark.exists)
    engine.close()
    (tmp_path / "go").touch()
    assert not (engine.folder / held.id).exists()


def test_workers_compute_on_one_thread(engine):
    one = job("a 1", function="threads")
    run_jobs([one], engine)
    assert (engine.folder / one.id / "threads").read_text() == "1 1"


def test_no_worker_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least 1"):
        LocalEngine(tmp_path, workers=0)


def test_a_worker_ends_with_the_process_that_started_it(tmp_path, import_path):
    import subprocess
    import sys

    mark = tmp_path / "mark"
    script = (
        "import os, pathlib, sys\n"
        "from trivial_jobs import job\n"
        "from tightrope.studies.engines import LocalEngine\n"
        f"folder = pathlib.Path({str(tmp_path / 'jobs')!r}); folder.mkdir()\n"
        "engine = LocalEngine(folder, workers=1)\n"
        f"engine.submit(job('a held', function='hold', mark={str(mark)!r}, go='/nowhere'))\n"
        "print(engine._workers[0].process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": import_path},
    )
    worker = int(parent.stdout.readline())
    wait_until(mark.exists)
    threading.Thread(target=parent.wait, daemon=True).start()
    parent.kill()
    wait_until(lambda: not _alive(worker))
    parent.stdin.close()
    parent.stdout.close()


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_whose_parent_was_killed_while_it_started_ends_in_the_middle_of_its_job(tmp_path):
    """The job is in the pipe before the worker looks; the next study must find nothing in use."""
    held = job("held", function="hold", mark=str(tmp_path / "runs"), go=str(tmp_path / "never"))
    process, connection = start_worker("tightrope.studies.worker")
    connection.send_bytes(pickle.dumps((held, tmp_path)))
    wait_until((tmp_path / "runs").exists)
    connection.close()  # what the kernel does for a process that is killed
    assert process.wait(timeout=300) == 0
    assert not (tmp_path / held.id).exists()
