"""The local pool: real processes, real deaths."""

import json
import os
import subprocess
import sys

import pytest
from trivial_jobs import job, result
from waiting import wait_until

from tightrope.errors import InputError
from tightrope.studies.jobs import JobError
from tightrope.studies.local_pool import LocalPool
from tightrope.studies.scheduler import run_jobs
from tightrope.system import worker_environment


@pytest.fixture
def pool(tmp_path):
    (tmp_path / "jobs").mkdir()
    made = LocalPool(tmp_path / "jobs", workers=2)
    yield made
    made.shutdown()


def test_jobs_that_raise_or_are_killed_cost_only_themselves(pool, tmp_path):
    """Each of six ways to end beside the others: done, refused, crashed, killed, killed always."""
    marks = {name: str(tmp_path / name) for name in ("flaky", "dying")}
    first, second = job("a 1", value=3), job("a 2", value=4)
    last = job("b 1", value=10, needs=(first, second), function="add_one_thread")
    bad = job("a bad", function="refuse")
    flaky = job("a flaky", function="crash_once", mark=marks["flaky"])
    dying = job("a dying", function="die_once", mark=marks["dying"])
    dead = job("a dead", function="resume", tries=5)
    long = job("train 1", function="resume", tries=2)
    after = job("b after", needs=(dead,))
    ended = run_jobs([first, second, last, bad, flaky, dying, dead, long, after], pool)
    assert ended.failed == {
        bad.id: "expected something else, found this",
        dead.id: "its process died (signal SIGKILL)",
    }
    assert ended.blocked == 1
    assert result(pool.folder, last) == 17  # and computed on one thread
    assert result(pool.folder, flaky) == result(pool.folder, dying) == 1
    assert (pool.folder / long.id / "tries").read_text() == "2"  # found what its killed try left
    there = {path.name for path in pool.folder.iterdir() if path.name[0] != "."}
    assert there == {each.id for each in (first, second, last, flaky, dying, long)}


def test_what_a_failed_job_printed_is_kept_and_does_not_block_it(pool, tmp_path):
    loud = job("a loud", function="print_and_refuse", lines=40_000)
    with pytest.raises(JobError, match="expected something else"):
        pool.submit(loud).result()
    log = (tmp_path / "logs" / f"{loud.id}.log").read_bytes()
    assert log.endswith(b"line 39999\n")
    assert len(log) < 1.1e6


def test_shutdown_kills_a_running_job_and_leaves_nothing_half_written(tmp_path):
    (tmp_path / "jobs").mkdir()
    pool, mark = LocalPool(tmp_path / "jobs", workers=1), tmp_path / "mark"
    held = job("a held", function="hold", mark=str(mark), go=str(tmp_path / "go"))
    found, queued = pool.submit(held), pool.submit(job("a 2"))
    wait_until(mark.exists)
    pool.shutdown()
    (tmp_path / "go").touch()
    assert isinstance(found.exception(), JobError)
    assert queued.cancelled() or isinstance(queued.exception(), JobError)
    assert not (pool.folder / held.id).exists()


def test_a_job_ends_with_the_killed_process_that_started_it(tmp_path, import_path):
    mark = tmp_path / "mark"
    script = (
        "import pathlib\n"
        "from trivial_jobs import job\n"
        "from tightrope.studies.local_pool import LocalPool\n"
        f"folder = pathlib.Path({str(tmp_path / 'jobs')!r}); folder.mkdir()\n"
        f"held = job('a held', function='hold', mark={str(mark)!r}, go='/nowhere')\n"
        "LocalPool(folder, workers=1).submit(held).result()\n"
    )
    environment = {**os.environ, "PYTHONPATH": import_path}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment)
    wait_until(lambda: mark.exists() and mark.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: not _alive(int(mark.read_text())))
    assert not [path for path in (tmp_path / "jobs").iterdir() if path.name.startswith("a-")]


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_job_can_be_run_by_hand_from_its_record(tmp_path):
    one = job("a 1", value=5)
    (tmp_path / "record.json").write_text(json.dumps(one.to_json(), indent=2))
    with (tmp_path / "record.json").open() as record:
        assert _command(tmp_path, stdin=record).wait(timeout=300) == 0
    assert result(tmp_path, one) == 5
    with pytest.raises(InputError, match="at least 1"):
        LocalPool(tmp_path, workers=0)


def _command(folder, stdin):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tightrope.studies.jobs", str(folder)],
        stdin=stdin,
        env=worker_environment(),
    )
