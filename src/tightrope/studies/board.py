"""How far a study is, for people: a live table on a terminal, plain lines elsewhere."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tightrope.progress import are_bars_wanted
from tightrope.studies.jobs import Job
from tightrope.studies.schedule import Progress, makespan

__all__ = ["Board", "corrected", "duration", "live_board", "size"]


def corrected(jobs: Sequence[Job], took: Mapping[str, float]) -> list[Job]:
    """Jobs with expectations scaled by what finished ones of their stage took."""
    expected: dict[str, float] = {}
    measured: dict[str, float] = {}
    for job in jobs:
        if took.get(job.id, 0.0) > 0:
            expected[job.stage] = expected.get(job.stage, 0.0) + job.seconds
            measured[job.stage] = measured.get(job.stage, 0.0) + took[job.id]
    return [
        replace(job, seconds=job.seconds * measured[job.stage] / expected[job.stage])
        if job.stage in measured
        else job
        for job in jobs
    ]


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


def size(amount: float) -> str:
    """Bytes in words.

    >>> size(900), size(3.2e6), size(4.56e9)
    ('1 kB', '3 MB', '4.6 GB')
    """
    if amount < 1e6:
        return f"{max(amount / 1e3, 1):.0f} kB"
    return f"{amount / 1e6:.0f} MB" if amount < 1e9 else f"{amount / 1e9:.1f} GB"


class Board:
    """Counts per stage, and the time left."""

    def __init__(self, jobs: Sequence[Job], took: Mapping[str, float], slots: int) -> None:
        self.jobs = corrected(jobs, took)
        self.slots = slots

    def rows(self, progress: Progress) -> list[tuple[str, int, int, int, int]]:
        """(stage, jobs, done, running, failed) of each stage, in the order of the jobs."""
        found = []
        for stage in dict.fromkeys(job.stage for job in self.jobs):
            own = [job.id for job in self.jobs if job.stage == stage]
            parts = (progress.done, progress.running, progress.failed)
            counts = [sum(each in part for each in own) for part in parts]
            found.append((stage, len(own), *counts))
        return found  # type: ignore[return-value]

    def left(self, progress: Progress) -> float:
        """Seconds to the end, as far as can be told."""
        blocked = set(progress.failed)
        open_jobs = []
        for job in self.jobs:
            if any(need in blocked for need in job.needs):
                blocked.add(job.id)
            if job.id not in blocked:
                open_jobs.append(job)
        return makespan(open_jobs, self.slots, done=progress.done)

    def line(self, progress: Progress) -> str:
        """One line for all stages."""
        parts = [
            f"{stage} {done}/{total}" + (f" ({failed} failed)" if failed else "")
            for stage, total, done, _, failed in self.rows(progress)
        ]
        return f"{', '.join(parts)}; about {duration(self.left(progress))} left"

    def table(self, progress: Progress) -> Any:
        """The same as a table of rich."""
        from rich.table import Table

        table = Table(caption=f"about {duration(self.left(progress))} left")
        for name in ("stage", "jobs", "done", "running", "failed"):
            table.add_column(name, justify="left" if name == "stage" else "right")
        for row in self.rows(progress):
            table.add_row(*map(str, row))
        return table


@contextlib.contextmanager
def live_board(board: Board, *, shown: bool = True) -> Iterator[Callable[[Progress], None]]:
    """Show the board while a study runs; yields the function that brings it up to date."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not are_bars_wanted():
        yield lambda progress: None
    elif console.is_terminal:
        from rich.live import Live

        with Live(console=console, auto_refresh=False) as live:
            yield _Rarely(lambda p: live.update(board.table(p), refresh=True), (0.5, 2.0))
    else:
        say = partial(console.print, highlight=False, soft_wrap=True)
        yield _Rarely(lambda p: say(board.line(p)), (10.0, 60.0))


class _Rarely:
    """Shows progress at the beginning, at the end, and when some seconds have passed between.

    Fewer seconds if something has changed.
    """

    def __init__(self, show: Callable[[Progress], None], seconds: tuple[float, float]) -> None:
        self.show, self.seconds = show, seconds
        self.at, self.seen = -math.inf, -1

    def __call__(self, progress: Progress) -> None:
        ended = len(progress.done) + len(progress.failed)
        changed = ended != self.seen
        over = not progress.running and changed
        if over or time.monotonic() - self.at >= self.seconds[0 if changed else 1]:
            self.at, self.seen = time.monotonic(), ended
            self.show(progress)
