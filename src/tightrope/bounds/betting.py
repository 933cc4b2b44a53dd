"""Means bounded by bets fixed beforehand: no variance estimated, none assumed; section H."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tightrope.bounds._domain import (
    Bound,
    FloatArray,
    counts,
    failure_probability,
    fractions,
    inside,
    proper_share,
    scalar_or_array,
)
from tightrope.bounds.constant_bet import CANDIDATES, LARGEST_BET, SMALLEST_BET, planned_bet

__all__ = ["betting_lower", "betting_upper", "default_bets", "planned_bets", "target_bets"]

Shares: TypeAlias = Sequence[float | Fraction] | FloatArray

_EPS = float(np.finfo(np.float64).eps)
_HALVINGS = 60


def betting_lower(
    values: ArrayLike,
    *,
    delta: ArrayLike,
    bets: Shares | None = None,
    weights: Shares | None = None,
) -> Bound:
    r"""Lower bound on the mean of independent values in [0, 1], by constant bets.

    .. math:: \inf\Bigl\{m : \sum_k w_k \prod_i \bigl(1 - c_k + c_k \tfrac{x_i}{m}\bigr)
              < \tfrac1\delta\Bigr\}  \quad (H.2)

    Guarantee: fails with probability at most `delta` over independent values, identically
    distributed or not (then the bound is on their average expectation): the bets are constants,
    not predictions from earlier values, which is what the proof in section H.2 needs. Rounded
    downward. No valid bound can adapt below the floor (H.6), :func:`risk_floor`.

    Args:
        values: shape (..., n), in [0, 1]; one bound for each row.
        delta: failure probability in (0, 1), broadcast against the rows.
        bets: shares c_k of the capital in (0, 1], fixed before the values were seen. Default: 1,
            1/2, 1/4, ... down to about 1/n.
        weights: w_k in (0, 1], one for each bet, adding up to at most 1. Default: 1/2, 1/4, ...
            for the default bets, the last taking the remainder; equal ones for given bets.

    Raises:
        ValueError: `values` is empty, an argument is NaN or outside its set, or the weights do
            not go with the bets.

    References:
        Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting".

    >>> round(float(betting_lower([0.5, 0.6, 0.5, 0.4] * 25, delta=0.025)), 4)
    0.4741
    """
    rows, delta = _rows("values", values, delta)
    return scalar_or_array(_betting_lower(rows, delta, *_portfolio(bets, weights, rows.shape[-1])))


def betting_upper(
    values: ArrayLike,
    *,
    delta: ArrayLike,
    bets: Shares | None = None,
    weights: Shares | None = None,
) -> Bound:
    r"""Upper bound on the mean of independent values in [0, 1], by constant bets.

    .. math:: 1 - \mathrm{betting\_lower}(1 - x)  \quad (H.3)

    Guarantee, arguments and errors as :func:`betting_lower`. Rounded upward. With bets that do not
    depend on n, and values of one mean, it holds at every n at once (H.7).

    >>> round(float(betting_upper([0.5, 0.6, 0.5, 0.4] * 25, delta=0.025)), 4)
    0.5259
    """
    rows, delta = _rows("values", values, delta)
    lower = _betting_lower(1.0 - rows, delta, *_portfolio(bets, weights, rows.shape[-1]))
    return scalar_or_array(np.minimum(1.0 - lower + 4 * _EPS, 1.0))


def planned_bets(
    values: ArrayLike, *, n: int, delta: float, planned_share: float = 0.9
) -> tuple[FloatArray, FloatArray]:
    r"""Bets and weights for :func:`betting_upper` on n values like these free ones.

    The bet that would give the smallest bound, if the n values were distributed as these, gets
    the weight `planned_share`; the default bets share the rest, in case they are not. A plan, not
    a bound: (H.3) holds with any bets that the n values played no part in choosing. For
    :func:`betting_lower` plan with 1 - values.

    Args:
        values: in [0, 1], of any shape; of pilot episodes, or of a portion that the bound is not
            evaluated on.
        n: number of values that the bound will be evaluated on, at least 1.
        delta: failure probability of that bound, in (0, 1).
        planned_share: weight of the planned bet, in (0, 1).

    Returns:
        Bets and weights, the planned ones first.

    Raises:
        ValueError: `values` is empty, or an argument is NaN or outside its set.

    >>> bets, weights = planned_bets([0.01] * 10, n=50, delta=0.025)
    >>> bets[:3].round(3), weights[:3].round(3)
    (array([0.999, 1.   , 0.5  ]), array([0.9  , 0.05 , 0.025]))
    >>> round(float(betting_upper([0.01] * 50, delta=0.025, bets=bets, weights=weights)), 4)
    0.0813
    """
    free = inside("values", values, 0, 1).ravel()
    if free.size == 0:
        raise ValueError(f"values must have at least one value, found {values!r}")
    share = float(proper_share("planned_share", planned_share))
    delta = float(failure_probability("delta", delta)) * share
    n = int(counts("n", n))
    bet = float(planned_bet(free, n=n, delta=delta))
    # 1 - b m, and from it the bound m itself, with the bet b of (P.3); section H says why the
    # same bound comes from the share c = b (1 - m)/(1 - b m) of the capital.
    rest = float(np.exp(np.log1p(-bet * free).mean() + np.log(delta) / n))
    share_of_capital = bet * (1.0 - (1.0 - rest) / bet) / rest
    planned = min(max(share_of_capital, SMALLEST_BET), LARGEST_BET)
    bets, weights = default_bets(n)
    return np.append(planned, bets), np.append(share, (1.0 - share) * weights)


def target_bets(
    values: ArrayLike, *, target: float, n: int, planned_share: float = 0.9
) -> tuple[FloatArray, FloatArray]:
    r"""Bets and weights that soonest show a mean below `target`, on values like these free ones.

    .. math:: \arg\max_c \tfrac1k \sum_j \ln\bigl(1 - c + c \tfrac{1 - x_j}{1 - m^*}\bigr)

    over 64 values of c from 2^-12 to 1 - 2^-10: the bet whose capital against the target m* grows
    fastest, whatever the number of values. It gets the weight `planned_share`; the default bets
    for n values share the rest. For :func:`betting_upper` at every number of values at once (H.7).
    A plan, not a bound.

    Args:
        values: in [0, 1], of any shape; free ones, such as those of pilot episodes.
        target: m*, in (0, 1).
        n: largest number of values to expect, at least 1.
        planned_share: weight of the planned bet, in (0, 1).

    Raises:
        ValueError: `values` is empty, or an argument is NaN or outside its set.

    >>> bets, weights = target_bets([0.0, 0.02, 0.1], target=0.1, n=100)
    >>> bets[:2].round(3), weights[:2].round(3)
    (array([0.999, 1.   ]), array([0.9 , 0.05]))
    """
    free = inside("values", values, 0, 1).ravel()
    if free.size == 0:
        raise ValueError(f"values must have at least one value, found {values!r}")
    share = float(proper_share("planned_share", planned_share))
    payoff = (1.0 - free) / (1.0 - float(proper_share("target", target)))
    growth = [np.log1p(bet * (payoff - 1.0)).mean() for bet in CANDIDATES]
    bets, weights = default_bets(int(counts("n", n)))
    planned = CANDIDATES[int(np.argmax(growth))]
    return np.append(planned, bets), np.append(share, (1.0 - share) * weights)


def default_bets(n: int) -> tuple[FloatArray, FloatArray]:
    """Bets 1, 1/2, ... to where n values no longer pay; weights 1/2, 1/4, ..., the last twice.

    Args:
        n: number of values, at least 1.

    >>> default_bets(4)
    (array([1.  , 0.5 , 0.25]), array([0.5 , 0.25, 0.25]))
    """
    count = 1 + max(1, int(np.ceil(np.log2(int(counts("n", n))))))
    bets = np.ldexp(1.0, -np.arange(count))
    return bets, np.append(bets[1:], bets[-1])


def _rows(name: str, values: ArrayLike, delta: ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows = inside(name, values, 0, 1)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one value in its last axis, found {values!r}")
    return rows, failure_probability("delta", delta)


def _portfolio(
    bets: Shares | None, weights: Shares | None, n: int
) -> tuple[FloatArray, FloatArray]:
    """Bets and the logarithms of their weights, which add up to at most 1."""
    if bets is None:
        if weights is not None:
            raise ValueError(f"weights need bets, found weights {weights!r} and no bets")
        default, shares = default_bets(n)
        return default, np.log(shares)
    exact_bets = fractions("bets", bets)
    equal = [Fraction(1, len(exact_bets))] * len(exact_bets)
    exact = equal if weights is None else fractions("weights", weights)
    if len(exact) != len(exact_bets):
        raise ValueError(
            f"weights must be one for each of the {len(exact_bets)} bets, found {len(exact)}"
        )
    total = sum(exact)
    if total > 1 + Fraction(len(exact) * 4 * _EPS):
        raise ValueError(f"weights must add up to at most 1, found a sum of {float(total)!r}")
    exact = [weight / max(total, 1) for weight in exact]  # what rounding added is taken back
    return np.array([float(bet) for bet in exact_bets]), np.log([float(w) for w in exact])


def _betting_lower(
    rows: FloatArray, delta: FloatArray, bets: FloatArray, log_weights: FloatArray
) -> FloatArray:
    n = rows.shape[-1]
    shape = np.broadcast_shapes(rows.shape[:-1], delta.shape)
    rows = np.broadcast_to(rows, (*shape, n))
    needed = np.broadcast_to(-np.log(delta), shape)
    lower, upper = np.zeros(shape), rows.mean(axis=-1)
    for _ in range(_HALVINGS):
        middle = lower + (upper - lower) / 2
        excluded = _log_capital_from_below(rows, middle, bets, log_weights) >= needed
        lower = np.where(excluded, middle, lower)
        upper = np.where(excluded, upper, middle)
    return lower


def _log_capital_from_below(
    rows: FloatArray, mean: FloatArray, bets: FloatArray, log_weights: FloatArray
) -> FloatArray:
    """A float64 never above the log of the weighted capital of the bets against `mean`."""
    capitals = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        payoff = rows / mean[..., None]  # (..., n)
        for bet, log_weight in zip(bets, log_weights, strict=True):
            gains = np.log((1.0 - bet) + bet * payoff)
            size = np.abs(gains).sum(axis=-1) - log_weight
            capitals.append(gains.sum(axis=-1) + log_weight - 32 * _EPS * (rows.shape[-1] + size))
    stacked = np.nan_to_num(np.stack(capitals), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    return np.asarray(logsumexp(stacked, axis=0) - 32 * _EPS)
