"""Levels of a score per episode, T.1, and the mean over episodes that follows, T.4."""

from collections.abc import Sequence

import numpy as np

from tightrope.bounds import joint_tolerance, mean_from_tolerance
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.settings import PropertySettings
from tightrope.certificates.statements.base import (
    Chosen,
    Family,
    Kind,
    Limit,
    Scale,
    Statement,
    Values,
    order_statistic,
)

__all__ = ["LEVELS", "MeanOverEpisodes", "PropertyLevels", "Tolerance"]

LEVELS = (0.8, 0.9, 0.95)
_TOP = 0.6  # of the failure probability: the largest score's part


class Tolerance(Family):
    """At least a share of new episodes has at most this RMS error; four levels hold jointly.

    The prediction is deterministic and fixed beforehand; nothing is clipped.
    """

    kind: Kind = "tolerance"
    quantity = "RMS error of the predicted return"
    name = "tolerance"
    scale: Scale = "rms"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) RMS error of each, in return units."""
        return seen.rms

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Order statistics, the extreme score last; ranks depend on their number alone."""
        at_least = self.direction == "at-least"
        return [
            order_statistic(scores, level.rank, level.share, at_least=at_least)
            for level in joint_tolerance(LEVELS, n=len(scores), delta=delta, top=_TOP)
        ]


class MeanOverEpisodes(Tolerance):
    """The mean clipped loss of an episode, implied by the tolerance statements at no cost.

    Clipping moves returns towards predictions, which are inside the range: the certified loss of an
    episode is at most its squared score, and at most 1.
    """

    kind = "mean-risk"
    quantity = "RMS error of the predicted return, mean over episodes"
    name = "mean over episodes"
    scale = "loss"

    @property
    def budget(self) -> str:
        """Holds whenever the tolerance statements do."""
        return Tolerance.name

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) squared scores in units of the range, at most 1."""
        return np.minimum(np.square(seen.rms / seen.scaling.width), 1.0)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """T.4 on the levels of :class:`Tolerance`."""
        levels = joint_tolerance(LEVELS, n=len(scores), delta=delta, top=_TOP)
        bound = float(mean_from_tolerance(scores, tolerances=levels))
        return [Limit(bound, None, float(scores.mean()), "follows from the levels above")]

    def stated(
        self, limit: Limit, n: int, seen: Evidence, chosen: Chosen, confidence: float, joint: float
    ) -> Statement:
        """In the sample it is the mean clipped loss, as in every mean risk."""
        limit = limit._replace(estimate=float(seen.risks("episode").mean()))
        return super().stated(limit, n, seen, chosen, confidence, joint)


class PropertyLevels(Tolerance):
    """Levels of a property of the user's own, in its own direction."""

    kind = "property"
    target = "property"
    scale = "plain"

    def __init__(self, settings: PropertySettings) -> None:
        self.direction = "at-most" if settings.at_most else "at-least"
        self.key = self.quantity = settings.name
        self.name = f"property: {settings.name}"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) the recorded numbers."""
        return seen.episodes.properties[self.key]
