"""A number per episode of the user's own: its levels, and how often it breaks its limit."""

from collections.abc import Sequence

import numpy as np

from tightrope.certificates.evidence import Evidence
from tightrope.certificates.settings import PropertySettings
from tightrope.certificates.statements.base import Chosen, Family, Limit, Values
from tightrope.certificates.statements.failure import Event
from tightrope.certificates.statements.tolerance import levels_of

__all__ = ["BreaksLimit", "PropertyLevels"]


class PropertyLevels(Family):
    """Levels of a property in its own direction, jointly, as the tolerance of errors (T.1)."""

    kind = "property"
    target = "property"

    def __init__(self, settings: PropertySettings) -> None:
        self.direction = "at-most" if settings.at_most else "at-least"
        self.key = settings.name
        self.quantity = settings.name
        self.name = f"property: {settings.name}"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) the recorded numbers."""
        return seen.episodes.properties[self.key]

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Order statistics."""
        return levels_of(scores, delta=delta, at_least=self.direction == "at-least")


class BreaksLimit(Event):
    """The probability that an episode breaks the limit of a property."""

    kind = "property"
    target = "property"

    def __init__(self, settings: PropertySettings) -> None:
        assert settings.limit is not None  # families_for asks
        self.key, self.at_most, self.limit = settings.name, settings.at_most, settings.limit
        side = "above" if settings.at_most else "below"
        self.quantity = f"probability that {settings.name} is {side} {settings.limit:.12g}"
        self.name = f"property limit: {settings.name}"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where the limit is broken."""
        found = seen.episodes.properties[self.key]
        return ((found > self.limit) if self.at_most else (found < self.limit)).astype(np.float64)
