"""Two rates compared: an exact test, an exact interval, and intervals at every number; section D.

Every function takes the events counted in two sets of independent trials. What is exact here needs
numbers of trials that were fixed beforehand; `rate_sequence` does not.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, xlog1py, xlogy

from tightrope.bounds._domain import failure_probability
from tightrope.bounds.holdout import clopper_pearson_lower, clopper_pearson_upper

__all__ = ["rate_difference_lower", "rate_sequence", "rate_test"]

Values = NDArray[np.float64]
_CELLS = 48  # of the unknown rate, at first
_ACCURACY = 1e-3  # relative, of a supremum; a larger value is always reported
_ROUNDING = 1e-10  # relative, of a sum of probabilities
_TIE = 1e-9  # relative: what differs by less counts as equally extreme
_TABLES = 250_000  # above, Fisher's exact test judges
_STEP = 0.02  # of the differences that have one order of tables in common
_HALVINGS = 50


def rate_test(first: int, n_first: int, second: int, n_second: int) -> float:
    r"""P-value of equal rates by Boschloo's exact unconditional test, two-sided.

    .. math:: 2 \min_{\pm} \sup_p \mathbb P_{p,p}\bigl(F_\pm(X, Y) \le F_\pm(x, y)\bigr)
              \quad (D.5)

    where F is Fisher's one-sided p-value. Guarantee: if the rates are equal, it is at most delta
    with probability at most delta, for every delta. Rounded upward by at most a thousandth of
    itself. Where there are more than 250,000 tables, F itself takes the place of the supremum:
    valid as well, and hardly larger for as many trials.

    Args:
        first: events in the first set, in [0, n_first].
        n_first: trials of the first set, at least 1.
        second: events in the second set.
        n_second: trials of the second set.

    Raises:
        ValueError: a number is not whole or outside its set.

    References:
        Boschloo (1970).

    >>> round(rate_test(74, 80, 91, 120), 4)
    0.002
    """
    _require_counts(first, n_first, second, n_second)
    both = [
        _fisher(*table) if _many(*table[1::2]) else _tail(_extremes(*table, 0.0), *table[1::2], 0.0)
        for table in (
            (first, n_first, second, n_second),
            (second, n_second, first, n_first),
        )
    ]
    return min(1.0, 2.0 * min(both))


def rate_difference_lower(
    first: int, n_first: int, second: int, n_second: int, *, delta: float
) -> float:
    r"""Exact lower bound on the first rate minus the second.

    .. math:: \inf\{d : \sup_p \mathbb P_{p + d,\,p}\bigl(T_d(X, Y) \ge T_d(x, y)\bigr) \ge \delta\}
              \quad (D.6)

    where T_d is the standardised difference of rates (Agresti and Caffo) minus d, the same on steps
    of 0.02 in d, and up to 0 the order of (D.5). Guarantee: fails with probability at most `delta`.
    It is above 0 only if the one-sided test (D.5) rejects at `delta`. Rounded downward. For an
    upper bound exchange the sets and the sign. Where there are more than 250,000 tables, two bounds
    of (H.4) at half of `delta` each take its place.

    Args:
        first: events in the first set.
        n_first: trials of the first set, at least 1.
        second: events in the second set.
        n_second: trials of the second set.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is outside its set.

    >>> low = rate_difference_lower(74, 80, 91, 120, delta=0.025)
    >>> high = -rate_difference_lower(91, 120, 74, 80, delta=0.025)
    >>> round(low, 3), round(high, 3)
    (0.06, 0.265)
    """
    _require_counts(first, n_first, second, n_second)
    budget = float(failure_probability("delta", delta))
    if _many(n_first, n_second):
        below = float(clopper_pearson_lower(first, n=n_first, delta=budget / 2))
        return below - float(clopper_pearson_upper(second, n=n_second, delta=budget / 2))
    low = -1.0
    while low < 1.0:  # a step, whose largest difference is the hardest to exclude
        high = min(1.0, round((math.floor(low / _STEP + 0.5) + 1) * _STEP, 9))
        reach = _extremes(first, n_first, second, n_second, high)
        if _tail(reach, n_first, n_second, high, enough=budget) >= budget:
            while high - low > 1e-5:
                middle = low + (high - low) / 2
                excluded = _tail(reach, n_first, n_second, middle, enough=budget) < budget
                low, high = (middle, high) if excluded else (low, middle)
            break
        low = high
    return low


def rate_sequence(events: int, n: int, *, delta: float) -> tuple[float, float]:
    r"""Interval of a rate that holds at every number of trials, by a beta mixture.

    .. math:: \Bigl\{p : \frac{B(x + \frac12, n - x + \frac12)}{B(\frac12, \frac12)} <
              \frac{p^x (1 - p)^{n - x}}{\delta}\Bigr\}  \quad (D.7)

    Guarantee: with probability at least 1 - `delta` the intervals after every number of independent
    trials hold at once, so one may look after each and stop whenever one likes. Rounded outward.

    Args:
        events: x, in [0, n].
        n: trials so far, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is outside its set.

    References:
        Robbins (1970); Howard, Ramdas, McAuliffe and Sekhon (2021).

    >>> low, high = rate_sequence(91, 120, delta=0.0175)
    >>> round(low, 3), round(high, 3)
    (0.6, 0.879)
    """
    _require_counts(events, n, 0, 1)
    budget = float(failure_probability("delta", delta))
    mixture = betaln(events + 0.5, n - events + 0.5) - betaln(0.5, 0.5)
    needed = -math.log(budget) + _ROUNDING * (1.0 + abs(mixture))

    def excluded(p: float) -> bool:
        return bool(mixture - xlogy(events, p) - xlog1py(n - events, -p) >= needed)

    def end(outside: float) -> float:
        inside = events / n
        if not excluded(outside):
            return outside
        for _ in range(_HALVINGS):
            middle = outside + (inside - outside) / 2
            outside, inside = (middle, inside) if excluded(middle) else (outside, middle)
        return outside

    return end(0.0), end(1.0)


def _require_counts(first: int, n_first: int, second: int, n_second: int) -> None:
    for name, count, n in (("first", first, n_first), ("second", second, n_second)):
        if n != int(n) or count != int(count) or not 0 <= count <= n or n < 1:
            raise ValueError(
                f"{name} must be a whole number of events in trials, found {count}/{n}"
            )


def _many(n_first: int, n_second: int) -> bool:
    return (n_first + 1) * (n_second + 1) > _TABLES


@cache
def _order(n_first: int, n_second: int, shift: float) -> Values:
    """(n_first + 1, n_second + 1) large where many events speak for a difference above `shift`.

    At 0 Fisher's one-sided p-value, with its sign changed; elsewhere the standardised difference.
    """
    if shift != 0.0:
        rates = [(np.arange(n + 1) + 1) / (n + 2) for n in (n_first, n_second)]
        errors = [p * (1 - p) / (n + 2) for p, n in zip(rates, (n_first, n_second), strict=True)]
        apart = np.subtract.outer(*rates) - shift
        return np.asarray(apart / np.sqrt(np.add.outer(*errors)))
    logs = [_log_choose(n) for n in (n_first, n_second)]
    found = np.empty((n_first + 1, n_second + 1))
    for total in range(n_first + n_second + 1):
        x = np.arange(max(0, total - n_second), min(n_first, total) + 1)
        weights = logs[0][x] + logs[1][total - x]
        weights = np.exp(weights - weights.max())
        tail = np.cumsum(weights[::-1])[::-1]  # P(X >= x), given all events
        found[x, total - x] = -tail / tail[0]
    return found


def _log_choose(n: int) -> Values:
    k = np.arange(n + 1.0)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _extremes(
    first: int, n_first: int, second: int, n_second: int, shift: float
) -> NDArray[np.int64]:
    """(n_first + 1,) for each number of first events the largest second one as extreme; -1: none.

    Together an upper set in the first and a lower one in the second number, made so where the order
    is not: its probability then rises with the first rate and falls with the second.
    """
    values = _order(n_first, n_second, shift)
    found = values[first, second]
    extreme = values >= found - _TIE * abs(found)
    last = n_second - np.argmax(extreme[:, ::-1], axis=1)
    return np.maximum.accumulate(np.where(extreme.any(axis=1), last, -1))


def _tail(
    reach: NDArray[np.int64], n_first: int, n_second: int, shift: float, enough: float = 2.0
) -> float:
    """A number not below the supremum over p of the probability of all that is as extreme.

    Monotone in both rates, the probability within a cell [a, b] of p is at most the one at
    (b + shift, a); the cells with the largest such bounds are divided until it hardly matters, or
    until the supremum is known to be below or above `enough`.
    """
    low, high = max(0.0, -shift), min(1.0, 1.0 - shift)
    edges = np.linspace(low, high, _CELLS + 1)
    left, right = edges[:-1], edges[1:]
    reached = float(_probability(reach, n_first, n_second, edges + shift, edges).max())
    while True:
        above = _probability(reach, n_first, n_second, right + shift, left)
        bound = float(above.max()) * (1.0 + _ROUNDING)
        if bound < enough <= 1.0 or reached >= enough or bound <= reached * (1.0 + _ACCURACY):
            return bound
        open_ = above > reached * (1.0 + _ACCURACY)
        left, right = left[open_], right[open_]
        middle = left + (right - left) / 2
        if (right - left).max() < 1e-9:
            return bound
        reached = max(
            reached, float(_probability(reach, n_first, n_second, middle + shift, middle).max())
        )
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])


def _probability(
    reach: NDArray[np.int64], n_first: int, n_second: int, first: Values, second: Values
) -> Values:
    """(rates,) probability of a pair of counts within reach, at these pairs of rates."""
    within = np.cumsum(_binomial(n_second, second), axis=1)  # (rates, n_second + 1): P(Y <= y)
    inside = reach >= 0
    weights = _binomial(n_first, first)[:, inside]
    return np.asarray((weights * within[:, reach[inside]]).sum(axis=1))


def _binomial(n: int, rates: Values) -> Values:
    """(rates, n + 1) probabilities of every number of events."""
    k, p = np.arange(n + 1.0), np.clip(rates, 0.0, 1.0)[:, None]
    return np.asarray(np.exp(_log_choose(n) + xlogy(k, p) + xlog1py(n - k, -p)))


def _fisher(first: int, n_first: int, second: int, n_second: int) -> float:
    """Fisher's one-sided p-value of one table."""
    total = first + second
    x = np.arange(max(0, total - n_second), min(n_first, total) + 1)
    logs = _log_choose(n_first)[x] + _log_choose(n_second)[total - x]
    weights = np.exp(logs - logs.max())
    return float(weights[x >= first].sum() / weights.sum()) * (1.0 + _ROUNDING)
