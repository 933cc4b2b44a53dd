"""What the schedule asks of an engine."""

from dataclasses import dataclass
from typing import Protocol

from tightrope.studies.jobs import Job

__all__ = ["Engine", "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What became of a job; `reason` is None if it is done."""

    job: Job
    reason: str | None


class Engine(Protocol):
    """Runs jobs whose needs are done; a job that is done has its folder where the study is."""

    @property
    def slots(self) -> int:
        """Jobs that run at once; a cluster may grow and shrink."""

    def submit(self, job: Job) -> None:
        """Have the job run as soon as there is a place."""

    def wait(self, seconds: float) -> list[Outcome]:
        """What has ended; waits for something to end, but no longer than that."""

    def close(self) -> None:
        """Stop everything at once."""
