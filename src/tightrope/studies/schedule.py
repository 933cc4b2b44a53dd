"""Which job when: those on the longest way to the end first, each after what it needs."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tightrope.studies.engines.base import Engine
from tightrope.studies.jobs import Job

__all__ = ["Progress", "makespan", "run_jobs", "ways"]

TRIES = 2
_PATIENCE = 0.5  # seconds between two looks at the clock


@dataclass
class Progress:
    """How far a study is; jobs by id.

    Attributes:
        jobs: all of them.
        done: finished, now or before.
        running: handed to the engine.
        failed: given up, with the reason; jobs that need these cannot run.
    """

    jobs: Mapping[str, Job]
    done: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def run_jobs(
    jobs: Sequence[Job],
    engine: Engine,
    *,
    done: Iterable[str] = (),
    report: Callable[[Progress], None] = lambda progress: None,
    failed: Callable[[Job, str], None] = lambda job, reason: None,
) -> Progress:
    """Run what is not done; a job that fails is tried once more, and the rest goes on.

    Args:
        jobs: each after those that it needs.
        engine: that runs them.
        done: ids of finished jobs.
        report: called whenever something happened, and now and then.
        failed: called with a job that was given up and the reason.
    """
    progress = Progress({job.id: job for job in jobs}, done=set(done))
    queue = _Queue(jobs, progress.done)
    tries: dict[str, int] = {}
    while queue.ready or progress.running:
        while queue.ready and len(progress.running) < engine.slots:
            job = queue.pop()
            progress.running.add(job.id)
            engine.submit(job)
        report(progress)
        for outcome in engine.wait(_PATIENCE):
            job = outcome.job
            progress.running.discard(job.id)
            if outcome.reason is None:
                tries.pop(job.id, None)
                progress.done.add(job.id)
                queue.finish(job)
                continue
            tries[job.id] = tries.get(job.id, 0) + 1
            if tries[job.id] < TRIES:
                queue.push(job)
            else:
                progress.failed[job.id] = outcome.reason
                failed(job, outcome.reason)
    report(progress)
    return progress


def ways(jobs: Sequence[Job]) -> dict[str, float]:
    """Seconds from the beginning of each job to the end of the last one that waits for it."""
    after: dict[str, float] = {}  # the longest way of what waits for it
    found = {}
    for job in reversed(jobs):
        found[job.id] = job.seconds + after.get(job.id, 0.0)
        for need in job.needs:
            after[need] = max(after.get(need, 0.0), found[job.id])
    return found


class _Queue:
    """Jobs whose needs are done, the longest way first."""

    def __init__(self, jobs: Sequence[Job], done: Collection[str]) -> None:
        self.way = ways(jobs)
        self.missing: dict[str, set[str]] = {}
        self.waiting: dict[str, list[Job]] = {}
        self.ready: list[tuple[float, str, Job]] = []
        for job in jobs:
            if job.id in done:
                continue
            missing = {need for need in job.needs if need not in done}
            self.missing[job.id] = missing
            for need in missing:
                self.waiting.setdefault(need, []).append(job)
            if not missing:
                self.push(job)

    def push(self, job: Job) -> None:
        """It can run."""
        heapq.heappush(self.ready, (-self.way[job.id], job.id, job))

    def pop(self) -> Job:
        """The one to run next."""
        return heapq.heappop(self.ready)[2]

    def finish(self, job: Job) -> None:
        """It is done: what waited for nothing else can run."""
        for other in self.waiting.pop(job.id, ()):
            self.missing[other.id].discard(job.id)
            if not self.missing[other.id]:
                self.push(other)


def makespan(jobs: Sequence[Job], slots: int, *, done: Collection[str] = ()) -> float:
    """Seconds that the schedule takes on so many places, if jobs take what is expected."""
    queue = _Queue(jobs, done)
    running: list[tuple[float, str, Job]] = []
    now = 0.0
    while queue.ready or running:
        while queue.ready and len(running) < slots:
            job = queue.pop()
            heapq.heappush(running, (now + job.seconds, job.id, job))
        now, _, job = heapq.heappop(running)
        queue.finish(job)
    return now
