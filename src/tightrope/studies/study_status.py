"""How far a study is, for people."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from tightrope.progress import are_bars_wanted
from tightrope.studies.jobs import Job
from tightrope.studies.scheduler import Progress

__all__ = ["live_status", "status_lines"]

_BETWEEN = 10.0  # seconds between two lines where nobody watches


def status_lines(
    jobs: Sequence[Job], seconds: Mapping[str, float], failed: Mapping[str, str]
) -> list[str]:
    """Jobs of each stage, how many are done and failed, and the core time that they took.

    Args:
        jobs: all of them.
        seconds: that finished jobs took, by id.
        failed: names of jobs that were given up, and why.
    """
    lines = [f"{'stage':<9} {'jobs':>6} {'done':>6} {'failed':>6} {'core time':>16}"]
    for stage in dict.fromkeys(job.stage for job in jobs):
        own = [job for job in jobs if job.stage == stage]
        done = [seconds[job.id] for job in own if job.id in seconds]
        gone = sum(job.name in failed and job.id not in seconds for job in own)
        took = str(timedelta(seconds=round(sum(done))))
        lines.append(f"{stage:<9} {len(own):>6} {len(done):>6} {gone:>6} {took:>16}")
    return lines


def live_status(*, shown: bool = True) -> Callable[[Progress], None]:
    """The function that shows progress: one line that is replaced, or one now and then."""
    from rich.console import Console

    console, last = Console(stderr=True), -math.inf

    def show(progress: Progress) -> None:
        nonlocal last
        ended = not progress.blocked
        if not console.is_terminal and time.monotonic() - last < _BETWEEN and not ended:
            return
        last, counts = time.monotonic(), []
        for stage in dict.fromkeys(job.stage for job in progress.jobs.values()):
            own = {key for key, job in progress.jobs.items() if job.stage == stage}
            failed = len(own & progress.failed.keys())
            counts.append(f"{stage} {len(own & progress.done)}/{len(own)}")
            counts[-1] += f" ({failed} failed)" if failed else ""
        again = console.is_terminal and not ended
        console.print(
            ", ".join(counts), end="\r" if again else "\n", highlight=False, soft_wrap=True
        )

    return show if shown and are_bars_wanted() else lambda progress: None
