"""Jobs in the order of what they need, as many at once as there is room for."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import Protocol

from tightrope.studies.jobs import Job

__all__ = ["Executor", "Progress", "run_jobs"]

_ATTEMPTS = 2  # at a job
_PATIENCE = 5.0  # seconds after which the number of slots is looked at once more


class Executor(Protocol):
    """Runs jobs whose needs are done; a job that is done has its folder where the study is."""

    @property
    def slots(self) -> int:
        """Jobs that can run at once; a cluster may grow and shrink."""

    def submit(self, job: Job) -> Future[None]:
        """Run the job; JobError in the future if it cannot be done."""

    def shutdown(self) -> None:
        """Kill what runs."""


@dataclass
class Progress:
    """How far a study is; jobs by id.

    Attributes:
        jobs: all of them.
        done: finished, now or before.
        failed: given up, with the reason; jobs that need these cannot run.
    """

    jobs: Mapping[str, Job]
    done: set[str]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def blocked(self) -> int:
        """Jobs that could not run, when nothing more can."""
        return len(self.jobs) - len(self.done) - len(self.failed)

    @property
    def reasons(self) -> dict[str, str]:
        """Why jobs were given up, by their names."""
        return {self.jobs[key].name: reason for key, reason in self.failed.items()}


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    done: Collection[str] = (),
    on_change: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Run what is not done; a job that fails is tried again, then given up, and the rest goes on.

    Args:
        jobs: of those that are ready, the first one runs first.
        executor: that runs them.
        done: ids of finished jobs.
        on_change: called at the beginning and whenever a job has ended.
    """
    progress = Progress({job.id: job for job in jobs}, set(done))
    graph = TopologicalSorter({job.id: job.needs for job in jobs})
    graph.prepare()
    rank = {job.id: place for place, job in enumerate(jobs)}
    ready: list[tuple[int, str]] = []
    running: dict[Future[None], str] = {}
    failures: Counter[str] = Counter()

    def release() -> None:
        """Queue what nothing keeps waiting; what is done releases more."""
        while new := graph.get_ready():
            for key in new:
                if key in progress.done:
                    graph.done(key)
                else:
                    heappush(ready, (rank[key], key))

    release()
    on_change(progress)
    while ready or running:
        while ready and len(running) < executor.slots:
            _, key = heappop(ready)
            running[executor.submit(progress.jobs[key])] = key
        for future in wait(running, _PATIENCE, return_when=FIRST_COMPLETED).done:
            key, error = running.pop(future), future.exception()
            if error is None:
                progress.done.add(key)
                graph.done(key)
                release()
            elif failures[key] + 1 < _ATTEMPTS:
                failures[key] += 1
                heappush(ready, (rank[key], key))
            else:
                progress.failed[key] = str(error)
            on_change(progress)
    return progress
