"""Which share of new episodes stays below an observed score; docs/theory.md, section T."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from tightrope.bounds._budget import ROUND_DOWN, chernoff_budget
from tightrope.bounds._domain import (
    Bound,
    FloatArray,
    counts,
    failure_probability,
    inside,
    proper_share,
    scalar_or_array,
)
from tightrope.bounds.holdout import clopper_pearson_lower

__all__ = [
    "Tolerance",
    "episodes_needed",
    "joint_tolerance",
    "mean_from_tolerance",
    "tolerance_rank",
    "tolerance_share",
]

Count: TypeAlias = np.int64 | NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)
_MOST_EPISODES = 2**53  # whole numbers beyond are not all float64
_LEVEL_HALVINGS = 24  # of a level, from which whole ranks follow
_SHARE_HALVINGS = 40


@dataclass(frozen=True)
class Tolerance:
    """At least `share` of new episodes scores at most the `rank`-th smallest observed score."""

    rank: int
    share: float


def tolerance_share(rank: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Share of new episodes that scores at most the `rank`-th smallest of n observed scores.

    .. math:: \mathrm{BetaInv}(\delta;\, r,\, n - r + 1)  \quad (T.1)

    For rank n, the largest observed score, this is :math:`\delta^{1/n}`.

    Guarantee: with probability at least 1 - `delta` over n independent and identically
    distributed episodes, at least this share of new ones has a score no larger than
    :math:`s_{(r)}`, for any distribution and any score fixed beforehand. Ties make it
    conservative. Rounded downward.

    Args:
        rank: r, whole numbers in [1, n]; 1 is the smallest score.
        n: number of episodes, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Wilks (1941), "Determination of sample sizes for setting tolerance limits".

    >>> tolerance_share([90, 100], n=100, delta=0.025).round(4)
    array([0.8238, 0.9638])
    """
    n = counts("n", n)
    rank = inside("rank", counts("rank", rank), 1, n, "whole numbers in [1, n]")
    inner = clopper_pearson_lower(rank, n=n, delta=delta)
    return scalar_or_array(np.where(rank < n, inner, _top_share(n, delta)))


def tolerance_rank(share: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Count:
    r"""Smallest rank whose score covers `share` of new episodes; 0 where none does.

    .. math:: \min\{r : \mathrm{BetaInv}(\delta;\, r,\, n - r + 1) \ge p\}  \quad (T.1)

    Guarantee: that of :func:`tolerance_share` for the rank found.

    Args:
        share: p in (0, 1).
        n: number of episodes, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    >>> tolerance_rank([0.8, 0.9, 0.99], n=100, delta=0.025)
    array([89, 96,  0])
    """
    share, n, delta = np.broadcast_arrays(
        proper_share("share", share), counts("n", n), failure_probability("delta", delta)
    )
    reached = np.asarray(tolerance_share(n, n=n, delta=delta)) >= share
    return _smallest(
        lambda rank: np.asarray(tolerance_share(rank, n=n, delta=delta)) >= share,
        np.where(reached, n, 0.0),
    )


def episodes_needed(share: ArrayLike, *, delta: ArrayLike) -> Count:
    r"""Smallest number of episodes whose largest score covers `share` of new ones.

    .. math:: \min\{n : \delta^{1/n} \ge p\} = \lceil \ln\delta / \ln p \rceil  \quad (T.1)

    Guarantee: that of :func:`tolerance_share` for rank n. Where the quotient is a whole number,
    rounding may ask for one episode more.

    Args:
        share: p in (0, 1), at most 1 - 1e-12.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    >>> episodes_needed([0.95, 0.99], delta=0.05)
    array([ 59, 299])
    """
    share, delta = np.broadcast_arrays(
        inside("share", proper_share("share", share), 0, 1 - 1e-12, "in (0, 1 - 1e-12]"),
        failure_probability("delta", delta),
    )
    return _smallest(
        lambda n: _top_share(n, delta) >= share, np.full(share.shape, float(_MOST_EPISODES))
    )


def joint_tolerance(
    shares: ArrayLike, *, n: int, delta: float, top: float = 0.8
) -> tuple[Tolerance, ...]:
    r"""Several statements (T.1) that hold jointly, the one on the largest score among them.

    .. math:: \mathbb P\bigl(U_{(r_j)} \ge p_j \text{ for all } j\bigr) \ge 1 - \delta  \quad (T.1)

    for uniform order statistics, whose joint law is computed exactly. The largest score is first
    promised the share :math:`(\mathrm{top}\cdot\delta)^{1/n}`; each wanted share below it gets the
    smallest rank that the rest of `delta` allows; what is then left raises the top share. A wanted
    share that would need the largest score, too, or the same rank as a larger share, is implied
    by that statement and left out.

    Guarantee: with probability at least 1 - `delta` over n independent and identically
    distributed episodes, every statement returned holds. Nothing here depends on the scores.

    Args:
        shares: wanted, in (0, 1), in any order; may be empty.
        n: number of episodes, at least 1.
        delta: failure probability in (0, 1) of all statements together.
        top: fraction of `delta` for the largest score, in (0, 1).

    Returns:
        Statements in rising order of rank and share; the last has rank n.

    Raises:
        ValueError: an argument is NaN or outside its set.

    >>> for statement in joint_tolerance([0.8, 0.9, 0.95], n=100, delta=0.025):
    ...     print(statement.rank, round(statement.share, 4))
    91 0.8
    98 0.9
    100 0.9626
    """
    n, delta = int(counts("n", n)), float(failure_probability("delta", delta))
    level = float(proper_share("top", top)) * delta
    lowest_top = float(_top_share(np.asarray(float(n)), level))
    wanted = np.unique(proper_share("shares", np.atleast_1d(np.asarray(shares, dtype=float))))
    wanted = wanted[wanted < lowest_top]
    ranks = _joint_ranks(wanted, lowest_top, n, delta)
    # Of shares with one rank the largest says it all, and rank n is the top statement's.
    keep = np.append(ranks[1:] > ranks[:-1], True)[: len(ranks)] & (ranks < n)
    wanted, ranks = wanted[keep], ranks[keep]
    top_share = _largest_top(wanted, ranks, lowest_top, n, delta)
    inner = [Tolerance(int(r), float(p)) for r, p in zip(ranks, wanted, strict=True)]
    return (*inner, Tolerance(n, top_share))


def mean_from_tolerance(scores: ArrayLike, *, tolerances: Sequence[Tolerance]) -> Bound:
    r"""Upper bound on the mean of scores in [0, 1], implied by statements that hold jointly.

    .. math:: \sum_j (p_j - p_{j-1})\, s_{(r_j)} + (1 - p_J), \qquad p_0 = 0  \quad (T.4)

    Guarantee: holds whenever the statements do, so it costs no failure probability of its own.
    Rounded upward.

    Args:
        scores: shape (..., n), in [0, 1], in any order; one bound for each row.
        tolerances: statements that :func:`joint_tolerance` made for these n, shares rising.

    Raises:
        ValueError: `scores` or `tolerances` is empty, a score is NaN or outside [0, 1], a rank is
            above n, or the shares do not rise.

    >>> scores = np.linspace(0.01, 0.05, 100)
    >>> tolerances = joint_tolerance([0.5, 0.8, 0.9], n=100, delta=0.025)
    >>> round(float(mean_from_tolerance(scores, tolerances=tolerances)), 4)
    0.0779
    """
    rows = inside("scores", scores, 0, 1)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(f"scores must have at least one in its last axis, found {scores!r}")
    if not tolerances:
        raise ValueError(f"tolerances must have at least one statement, found {tolerances!r}")
    ranks = inside("ranks of tolerances", [t.rank for t in tolerances], 1, rows.shape[-1])
    shares = inside("shares of tolerances", [t.share for t in tolerances], 0, 1)
    gains = np.diff(shares, prepend=0.0)
    if (gains < 0).any():
        raise ValueError(f"shares of tolerances must rise, found {shares.tolist()}")
    ordered = np.sort(rows, axis=-1)[..., ranks.astype(int) - 1]  # (..., statements)
    total = ordered @ gains + (1.0 - shares[-1])
    return scalar_or_array(np.minimum(total * (1.0 + (8 + len(gains)) * _EPS), 1.0))


def _top_share(n: FloatArray, delta: ArrayLike) -> FloatArray:
    """delta^(1/n), rounded downward."""
    return np.asarray(np.exp(-chernoff_budget(n=n, delta=delta)) * ROUND_DOWN)


def _smallest(holds: Callable[[FloatArray], NDArray[np.bool_]], last: FloatArray) -> Count:
    """The smallest whole number in [1, last] from which on `holds`; 0 where `last` is 0."""
    lower, upper = np.zeros_like(last), last  # `holds` at every upper end
    while (upper - lower > 1).any():
        middle = np.maximum(np.floor((lower + upper) / 2), 1.0)
        held = holds(middle)
        lower = np.where(held, lower, np.minimum(middle, upper))
        upper = np.where(held, np.minimum(middle, upper), upper)
    smallest: Count = upper.astype(np.int64)[()]
    return smallest


def _joint_ranks(shares: FloatArray, top_share: float, n: int, delta: float) -> NDArray[np.int64]:
    """Ranks for rising `shares`, none of which could be lowered by one; n where none is below."""

    def allowed(ranks: NDArray[np.int64]) -> bool:
        return _joint_failure([*ranks, n], [*shares, top_share], n) <= delta

    def at_level(log_level: float) -> NDArray[np.int64]:
        ranks = np.asarray(tolerance_rank(shares, n=n, delta=np.exp(log_level)))
        return np.where(ranks > 0, ranks, n)

    ranks = np.full(shares.shape, n, dtype=np.int64)  # implied by the top statement
    lower, upper = log(delta) - 20.0, log(delta)
    for _ in range(_LEVEL_HALVINGS if len(shares) else 0):
        middle = (lower + upper) / 2
        if allowed(trial := at_level(middle)):
            lower, ranks = middle, trial
        else:
            upper = middle
    lowered = True
    while lowered:  # what a common level leaves over, the largest share first
        lowered = False
        for j in reversed(range(len(ranks))):
            trial = ranks.copy()
            trial[j] -= 1
            if trial[j] >= 1 and allowed(trial):
                ranks, lowered = trial, True
    return ranks


def _largest_top(
    shares: FloatArray, ranks: NDArray[np.int64], lowest: float, n: int, delta: float
) -> float:
    """The largest top share that can be promised beside the others."""
    lower, upper = lowest, float(_top_share(np.asarray(float(n)), delta))
    for _ in range(_SHARE_HALVINGS):
        middle = lower + (upper - lower) / 2
        if _joint_failure([*ranks, n], [*shares, middle], n) <= delta:
            lower = middle
        else:
            upper = middle
    return lower


def _joint_failure(ranks: Sequence[int], shares: Sequence[float], n: int) -> float:
    r"""A float64 never below the probability that :math:`U_{(r_j)} < p_j` for some j.

    Shares rise strictly. The number of uniforms below p_j is at most r_j - 1 unless statement j
    fails. These numbers are those of a Poisson process of rate n on [0, 1] that has n points, so
    the weights of the increments are Poisson probabilities, and each step is a convolution.
    """
    total = _poisson(np.array([n]), float(n)).item()
    failed, before = 0.0, 0.0
    alive, fewest = np.ones(1), 0  # weights of the numbers from `fewest` on
    for rank, share in zip(ranks, shares, strict=True):
        step = _poisson(np.arange(n + 1), n * (share - before))
        first, last = np.flatnonzero(step)[[0, -1]]  # the others underflow
        fewest += int(first)
        weights = np.convolve(alive, step[first : last + 1])[: n + 1 - fewest]
        number = fewest + np.arange(len(weights))
        fails = number >= rank
        rest = _poisson(n - number[fails], n * (1.0 - share))
        failed += float(weights[fails] @ rest)
        alive, before = weights[~fails], share
        if not alive.size:
            return 1.0
    # Each exponent is off by a few eps of n ln n, there are three to a term; all terms positive.
    slack = 32 * _EPS * (len(shares) + 2) * (n * (log(n) + 1) + 8)
    return failed / total * (1.0 + slack) if total > 0 else inf


def _poisson(k: NDArray[np.int64], mean: float) -> FloatArray:
    return np.asarray(np.exp(xlogy(k, mean) - mean - gammaln(k + 1.0)))
