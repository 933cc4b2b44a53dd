"""Do the episodes look as the statements assume? Permutation tests that enter no bound.

Both are exact: if the assumption holds, each says otherwise with probability `LEVEL` at most. A
test that says nothing proves nothing.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

__all__ = ["LEVEL", "dependence", "drift"]

LEVEL = 5e-3
_PERMUTATIONS = 199  # with the order found, 200: the smallest p-value is LEVEL
_TIE = 1e-9  # relative: what differs only by the order of a sum is a tie, which counts against


def dependence(losses: NDArray[np.float64], episode: NDArray[np.int64], seed: int) -> float:
    """P-value of independent steps: how often shuffled losses would differ as much by episode.

    The statistic is the sum of squares between episodes, which the design effect rests on
    (:func:`tightrope.certificates.measure.effective_size`).

    Args:
        losses: (rows,) of the steps that a bound is evaluated on.
        episode: (rows,) non-decreasing, the episode of each.
        seed: of the permutations.
    """
    starts = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))
    counts = np.diff(starts, append=len(episode))
    deviation = losses - losses.mean()

    def between(values: NDArray[np.float64]) -> float:
        return float(np.sum(np.add.reduceat(values, starts) ** 2 / counts))

    rng = np.random.default_rng(seed)
    found = between(deviation)
    shuffled = [between(rng.permutation(deviation)) for _ in range(_PERMUTATIONS)]
    return _p_value(found, np.array(shuffled))


def drift(returns: NDArray[np.float64], seed: int) -> float:
    """P-value of episodes that are alike: how often another order would show as large a change.

    The statistic is the largest difference, for any episodes in a row, between the sum of their
    ranks and what it would be on average. It is taken of the returns and of their distances from
    the median, and the larger counts: a change of level, or of spread, for good or for a while.

    Args:
        returns: (episodes,) undiscounted, in recorded order.
        seed: of the permutations.
    """
    ranks = np.stack([rankdata(returns), rankdata(np.abs(returns - np.median(returns)))])
    ranks = ranks - ranks.mean(axis=1, keepdims=True)  # (2, episodes)

    def largest(order: NDArray[np.int64]) -> float:
        sums = np.cumsum(ranks[:, order], axis=1)  # the last one is 0, as the one before the first
        return float((sums.max(axis=1) - sums.min(axis=1)).max())

    rng = np.random.default_rng(seed)
    count = len(returns)
    found = largest(np.arange(count))
    shuffled = [largest(rng.permutation(count)) for _ in range(_PERMUTATIONS)]
    return _p_value(found, np.array(shuffled))


def _p_value(found: float, shuffled: NDArray[np.float64]) -> float:
    reached = int(np.sum(shuffled >= found * (1.0 - _TIE)))
    return (1 + reached) / (1 + len(shuffled))
