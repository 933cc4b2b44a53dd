"""Means of differences in [-1, 1] bounded at every number of values at once; section D."""

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._domain import Bound, FloatArray, inside, scalar_or_array
from tightrope.bounds.betting import Shares, betting_lower

__all__ = ["difference_lower", "difference_upper", "fixed_bets"]

_EPS = float(np.finfo(np.float64).eps)
_BETS = 20  # 1, 1/2, ..., 2**-19: fixed, whatever the number of values will be


def difference_lower(
    differences: ArrayLike,
    *,
    delta: ArrayLike,
    bets: Shares | None = None,
    weights: Shares | None = None,
) -> Bound:
    r"""Anytime-valid lower bound on the mean of differences in [-1, 1], by constant bets.

    .. math:: \inf\Bigl\{d : \sum_k w_k \prod_{i \le n} \bigl(1 - c_k + c_k \tfrac{1 + x_i}{1 + d}
              \bigr) < \tfrac1\delta\Bigr\}  \quad (D.1)

    Guarantee: with probability at least 1 - `delta` the bounds computed on the first n values hold
    for all n at once, so one may look after every value and stop whenever one likes. The values
    must have one mean given those before them, as independent and identically distributed ones
    have; the bets must not depend on any of them, nor on n. Rounded downward.

    Args:
        differences: shape (..., n), in [-1, 1], in the order in which they came.
        delta: failure probability in (0, 1), broadcast against the rows.
        bets: shares c_k of the capital in (0, 1], fixed beforehand. Default: 1, 1/2, ..., 2^-19.
        weights: w_k in (0, 1], one for each bet, adding up to at most 1. Default:
            1/((k + 1)(k + 2)) for the default bets, the last taking the remainder; equal ones for
            given bets.

    Raises:
        ValueError: `differences` is empty, an argument is NaN or outside its set, or the weights do
            not go with the bets.

    References:
        Ville (1939); Waudby-Smith and Ramdas (2024).

    >>> round(float(difference_lower([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], delta=0.05)), 4)
    0.2157
    """
    values = inside("differences", differences, -1, 1)
    return scalar_or_array(_lower(values, delta, bets, weights))


def difference_upper(
    differences: ArrayLike,
    *,
    delta: ArrayLike,
    bets: Shares | None = None,
    weights: Shares | None = None,
) -> Bound:
    r"""Anytime-valid upper bound on the mean of differences in [-1, 1], by constant bets.

    .. math:: -\,\mathrm{difference\_lower}(-x)  \quad (D.2)

    Guarantee, arguments and errors as :func:`difference_lower`. Rounded upward.

    >>> round(float(difference_upper([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], delta=0.05)), 4)
    0.9924
    """
    values = inside("differences", differences, -1, 1)
    return scalar_or_array(-_lower(-values, delta, bets, weights))


def _lower(
    values: FloatArray, delta: ArrayLike, bets: Shares | None, weights: Shares | None
) -> FloatArray:
    if bets is None and weights is None:
        bets, weights = fixed_bets()
    halves = (1.0 + values) / 2.0  # in [0, 1]; rounded by less than eps
    mean = np.asarray(betting_lower(halves, delta=delta, bets=bets, weights=weights))
    return np.maximum(2.0 * mean - 1.0 - 4 * _EPS, -1.0)


def fixed_bets() -> tuple[FloatArray, FloatArray]:
    """The default bets 1, 1/2, ... and weights 1/2, 1/6, ...: small means need small bets."""
    k = np.arange(_BETS)
    weights = 1.0 / ((k + 1.0) * (k + 2.0))
    weights[-1] = 1.0 / _BETS  # what remains: the sum of the first K is 1 - 1/(K + 1)
    return np.ldexp(1.0, -k), weights
