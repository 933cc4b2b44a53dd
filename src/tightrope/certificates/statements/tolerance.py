"""The RMS error of an episode, T.1, and the mean over episodes that follows, T.4."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tightrope.bounds import joint_tolerance, mean_from_tolerance
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.statements.base import (
    Chosen,
    Family,
    Limit,
    Statement,
    Values,
    ordinal,
)

__all__ = ["LEVELS", "MeanOverEpisodes", "Tolerance", "levels_of"]

LEVELS = (0.8, 0.9, 0.95)
_TOP = 0.6  # of the failure probability: the largest score's part


class Tolerance(Family):
    """At least a share of new episodes has at most this RMS error; four levels hold jointly.

    The prediction is deterministic and fixed beforehand; nothing is clipped.
    """

    kind = "tolerance"
    quantity = "RMS error of the predicted return"
    name = "tolerance"
    scale = "rms"

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) RMS error of each, in return units."""
        return seen.rms

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Order statistics, the largest score last."""
        return levels_of(scores, delta=delta)

    def words(self, seen: Evidence) -> str:
        """With the steps that count."""
        return f"{self.quantity} over {seen.steps}"


class MeanOverEpisodes(Family):
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
        clipped = float(seen.mean_by_episode(seen.losses).mean())
        return super().stated(replace(limit, estimate=clipped), n, seen, chosen, confidence, joint)


def levels_of(scores: Values, *, delta: float, at_least: bool = False) -> list[Limit]:
    """Levels that hold jointly, the extreme score last; ranks depend on their number alone."""
    n, sign = len(scores), -1.0 if at_least else 1.0
    ordered, side = np.sort(sign * scores), "smallest" if at_least else "largest"
    return [
        Limit(
            value=sign * float(ordered[level.rank - 1]),
            share=level.share,
            estimate=sign * float(np.quantile(sign * scores, level.share)),
            note=f"the {ordinal(n - level.rank + 1)}{side} of {n} episodes",
        )
        for level in joint_tolerance(LEVELS, n=n, delta=delta, top=_TOP)
    ]
