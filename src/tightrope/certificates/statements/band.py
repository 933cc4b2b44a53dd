"""A band around the prediction that whole return curves stay in; docs/theory.md, T.2."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.evidence import Evidence, every
from tightrope.certificates.statements.base import Chosen, Family, Limit, Task, Values, limit_at

__all__ = ["Band", "half_widths"]

_BINS = 20  # of the profile, over the time limit
_PSEUDO = 50.0  # steps of overall size added to each bin: one that is hardly reached stays wide
_NARROWEST = 0.2  # of the widest bin


class Band(Family):
    """At least 90 % of new episodes: every error is at most `value` times the profile."""

    kind = "band"
    quantity = "largest error of the predicted return"
    name = "band"
    scale = "error"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """A profile over elapsed time, from cross-fitted errors; constant without a clock."""
        few = fit is None or not fit.is_predicted or len(fit.errors) < 10 * _BINS
        if fit is None or few or fit.time_limit is None:
            return {"profile": [1.0]}
        bins, squares = _bins(fit.pairs.step, fit.time_limit, _BINS), np.square(fit.errors)
        sums, counts = np.bincount(bins, squares, _BINS), np.bincount(bins, minlength=_BINS)
        sizes = np.sqrt((sums + _PSEUDO * squares.mean()) / (counts + _PSEUDO))
        sizes = np.maximum(sizes, _NARROWEST * sizes.max())
        return {"profile": [1.0] if not sizes.max() > 0 else (sizes / sizes.max()).tolist()}

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) the largest error of each, in units of the profile."""
        widths = half_widths(seen.pairs.step, chosen, seen.time_limit)
        return seen.max_by_episode(np.abs(seen.errors) / widths)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """An order statistic."""
        shaped = len(chosen["profile"]) > 1
        shape = "; times a profile over elapsed time that is at most 1" if shaped else ""
        return [limit_at(scores, delta=delta, note=shape)]

    def sentence(self, seen: Evidence) -> str:
        """With the steps that count."""
        return f"{self.quantity} at {every(seen.thin)}"


def half_widths(step: NDArray[np.int64], chosen: Chosen, limit: int | None) -> Values:
    """(rows,) the profile at each elapsed step, its parts spread over the time limit."""
    widths = np.asarray(chosen["profile"], dtype=np.float64)
    return widths[_bins(step, limit, len(widths))]


def _bins(step: NDArray[np.int64], limit: int | None, count: int) -> NDArray[np.int64]:
    if limit is None or count == 1:
        return np.zeros(len(step), dtype=np.int64)
    return np.minimum(step * count // limit, count - 1)
