"""Jobs that do next to nothing, and jobs that go wrong; workers import this module by its name."""

import os
import signal
import time
from pathlib import Path

from tightrope.errors import InputError
from tightrope.studies import tasks
from tightrope.studies.jobs import Job
from tightrope.studies.tasks import collect_rollouts, train

__all__ = ["certify", "collect_rollouts", "job", "train"]


def job(name, value=1, needs=(), function="add", **spec):
    """A job that adds `value` to the numbers of the jobs that it needs."""
    return Job(
        name.rpartition(" ")[0] or "add",
        f"trivial_jobs:{function}",
        {"name": name, "value": value, **spec},
        tuple(each.id for each in needs),
        label=name,
        resumable=function == "resume",
    )


def result(folder, one):
    return int((folder / one.id / "number").read_text())


def add(spec, needs, out):
    numbers = [int((need / "number").read_text()) for need in needs]
    (out / "number").write_text(str(spec["value"] + sum(numbers)))


def refuse(spec, needs, out):
    (out / "half").write_text("written")
    raise InputError("expected something else, found this")


def crash_once(spec, needs, out):
    """Raises on the first try, which it remembers in the file `spec["mark"]`."""
    if _first(spec):
        raise ZeroDivisionError("once")
    add(spec, needs, out)


def die_once(spec, needs, out):
    if _first(spec):
        os.kill(os.getpid(), signal.SIGKILL)
    add(spec, needs, out)


def resume(spec, needs, out):
    """Counts its tries in its own folder, and is killed in all but the last."""
    tries = out / "tries"
    count = int(tries.read_text()) + 1 if tries.exists() else 1
    tries.write_text(str(count))
    if count < spec["tries"]:
        os.kill(os.getpid(), signal.SIGKILL)
    add(spec, needs, out)


def hold(spec, needs, out):
    """Says that it runs, then waits for the file `spec["go"]`."""
    Path(spec["mark"]).write_text(str(os.getpid()))
    while not Path(spec["go"]).exists():
        time.sleep(0.05)
    add(spec, needs, out)


def add_one_thread(spec, needs, out):
    import torch

    if (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) != (1, "1"):
        raise RuntimeError("more threads than one")
    add(spec, needs, out)


def print_and_refuse(spec, needs, out):
    for line in range(spec["lines"]):
        print("some words that a simulator prints, line", line)
    refuse(spec, needs, out)


def certify(spec, needs, out):
    """A study's own, with short fits."""
    from recordings import short_fits

    with short_fits():
        tasks.certify(spec, needs, out)


def _first(spec):
    mark = Path(spec["mark"])
    first = not mark.exists()
    mark.touch()
    return first
