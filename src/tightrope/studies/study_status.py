"""How far a study is, for people: a bar per stage on a terminal, plain lines elsewhere."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tightrope.progress import are_bars_wanted
from tightrope.studies.jobs import Job
from tightrope.studies.scheduler import Progress

__all__ = ["duration", "live_status", "status_lines"]

_BETWEEN = 10.0  # seconds between two lines

Counts = dict[str, tuple[int, int, int]]


def duration(seconds: float) -> str:
    """In words, to about two digits.

    >>> duration(42), duration(600), duration(9000), duration(400_000)
    ('42 s', '10 min', '2.5 h', '4.6 days')
    """
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            digits = 1 if name == "h" else 0
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds / 86400:.1f} days"


def _counts(progress: Progress) -> Counts:
    """Jobs, done and failed, of each stage in the order of the jobs."""
    found: Counts = {}
    for key, job in progress.jobs.items():
        total, done, failed = found.get(job.stage, (0, 0, 0))
        found[job.stage] = (
            total + 1,
            done + (key in progress.done),
            failed + (key in progress.failed),
        )
    return found


def status_lines(
    jobs: Sequence[Job], seconds: Mapping[str, float], failed: Mapping[str, str]
) -> list[str]:
    """Jobs of each stage, how many are done and failed, and the core time that they took.

    Args:
        jobs: all of them.
        seconds: that finished jobs took, by id.
        failed: names of jobs that were given up, and why.
    """
    lines = [f"{'stage':<9} {'jobs':>6} {'done':>6} {'failed':>6} {'core time':>10}"]
    stages = {job.stage: [each for each in jobs if each.stage == job.stage] for job in jobs}
    for stage, own in stages.items():
        done = [seconds[job.id] for job in own if job.id in seconds]
        gone = sum(job.name in failed and job.id not in seconds for job in own)
        lines.append(f"{stage:<9} {len(own):>6} {len(done):>6} {gone:>6} {duration(sum(done)):>10}")
    return lines


@contextlib.contextmanager
def live_status(*, shown: bool = True) -> Iterator[Callable[[Progress], None]]:
    """Show progress while a study runs; yields the function that brings it up to date."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not are_bars_wanted():
        yield lambda progress: None
    elif not console.is_terminal:
        last = -math.inf

        def say(progress: Progress) -> None:
            nonlocal last
            if time.monotonic() - last < _BETWEEN and progress.blocked:
                return
            last = time.monotonic()
            parts = [
                f"{stage} {done}/{total}" + (f" ({failed} failed)" if failed else "")
                for stage, (total, done, failed) in _counts(progress).items()
            ]
            console.print(", ".join(parts), highlight=False, soft_wrap=True)

        yield say
    else:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description:<8}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[words]}"),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=console) as bars:
            tasks = {}

            def update(progress: Progress) -> None:
                for stage, (total, done, failed) in _counts(progress).items():
                    if stage not in tasks:
                        tasks[stage] = bars.add_task(stage, total=total, words="")
                    words = f" ({failed} failed)" if failed else ""
                    bars.update(tasks[stage], completed=done, words=words)

            yield update
