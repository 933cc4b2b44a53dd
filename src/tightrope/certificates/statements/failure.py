"""How often an episode fails or succeeds, by exact binomial bounds; docs/theory.md, H.4."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import clopper_pearson_lower, clopper_pearson_upper
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.settings import PropertySettings, Settings
from tightrope.certificates.statements.base import (
    Chosen,
    Direction,
    Family,
    Kind,
    Limit,
    Target,
    Values,
)
from tightrope.rollouts import Episodes

__all__ = ["Event", "breaks_limit", "failures"]

Happened = Callable[[Episodes], NDArray[np.bool_]]


class Event(Family):
    """The probability of something that happens in an episode or does not."""

    kind: Kind = "failure"
    scale = "probability"

    def __init__(
        self,
        name: str,
        target: Target,
        event: str,
        happened: Happened,
        direction: Direction = "at-most",
    ) -> None:
        self.name, self.target, self.direction = name, target, direction
        self.quantity, self.happened = f"probability that {event}", happened

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where it happened."""
        return self.happened(seen.episodes).astype(np.float64)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Clopper and Pearson's bound."""
        count, n = int(scores.sum()), len(scores)
        bound = clopper_pearson_upper if self.direction == "at-most" else clopper_pearson_lower
        value = float(bound(count, n=n, delta=delta))
        return [Limit(value, None, count / n, f"{count} of {n} episodes")]


def failures(settings: Settings, *, success: bool) -> list[Family]:
    """Early termination, success (as recorded, or by terminating), and a low return."""
    meaning, threshold, found = settings.termination, settings.fail_below, list[Family]()
    if meaning != "success" and settings.scheme.kind != "table":
        words = "fails (terminates early)" if meaning == "failure" else "terminates early"
        event = Event("early termination", "early-termination", f"an episode {words}", _terminated)
        found.append(event)
    if success or meaning == "success":
        words = "succeeds" if success else "reaches its goal (terminates)"
        happened = _succeeded if success else _terminated
        found.append(Event("success", "success", f"an episode {words}", happened, "at-least"))
    if threshold is not None:
        words = f"an episode's undiscounted return is below {threshold:.12g}"
        low: Happened = lambda episodes: episodes.returns(1.0) < threshold  # noqa: E731
        found.append(Event("low return", "low-return", words, low))
    return found


def breaks_limit(settings: PropertySettings) -> Family:
    """The probability that an episode breaks the limit of a property."""
    key, limit, at_most = settings.name, settings.limit, settings.at_most
    assert limit is not None  # `families_for` asks
    words = f"{key} is {'above' if at_most else 'below'} {limit:.12g}"

    def broken(episodes: Episodes) -> NDArray[np.bool_]:
        found = episodes.properties[key]
        return np.asarray(found > limit if at_most else found < limit)

    event = Event(f"property limit: {key}", "property", words, broken)
    event.kind = "property"
    return event


def _terminated(episodes: Episodes) -> NDArray[np.bool_]:
    return episodes.terminated


def _succeeded(episodes: Episodes) -> NDArray[np.bool_]:
    assert episodes.success is not None  # `failures` is told so
    return episodes.success
