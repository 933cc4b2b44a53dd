"""How often an episode fails or succeeds, by exact binomial bounds; docs/theory.md, H.4."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tightrope.bounds import clopper_pearson_lower, clopper_pearson_upper
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Termination
from tightrope.certificates.statements.base import Chosen, Family, Kind, Limit, Values

__all__ = ["Event", "LowReturn", "Success", "Terminates"]


class Event(Family):
    """The probability of something that happens in an episode or does not."""

    kind: ClassVar[Kind] = "failure"
    scale = "probability"

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Clopper and Pearson's bound."""
        count, n = int(scores.sum()), len(scores)
        bound = clopper_pearson_upper if self.direction == "at-most" else clopper_pearson_lower
        value = float(bound(count, n=n, delta=delta))
        return [Limit(value, None, count / n, f"{count} of {n} episodes")]


class Terminates(Event):
    """An episode terminates: a failure, or an event of unknown meaning."""

    target = "early-termination"
    name = "early termination"

    def __init__(self, meaning: Termination) -> None:
        self.quantity = "probability that an episode terminates early"
        if meaning == "failure":
            self.quantity = "probability that an episode fails (terminates early)"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where the environment ended the episode."""
        return seen.episodes.terminated.astype(np.float64)


class Success(Event):
    """An episode succeeds: as recorded, or by terminating."""

    target = "success"
    direction = "at-least"
    name = "success"

    def __init__(self, *, recorded: bool) -> None:
        self.recorded = recorded
        means = "succeeds" if recorded else "reaches its goal (terminates)"
        self.quantity = f"probability that an episode {means}"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where it did."""
        found = seen.episodes.success if self.recorded else seen.episodes.terminated
        assert found is not None  # `recorded` says so
        return found.astype(np.float64)


class LowReturn(Event):
    """An episode returns less than the user's threshold, undiscounted."""

    target = "low-return"
    name = "low return"

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        event = f"an episode's undiscounted return is below {threshold:.12g}"
        self.quantity = f"probability that {event}"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where it does."""
        return (seen.episodes.returns(1.0) < self.threshold).astype(np.float64)
