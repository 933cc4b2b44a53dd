"""Sampling error of Monte Carlo means; docs/theory.md, section C."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._budget import chernoff_budget
from tightrope.bounds._domain import Bound, FloatArray, fractions, inside
from tightrope.bounds.kl import kl_inverse_lower, kl_inverse_upper

__all__ = ["effective_draws", "monte_carlo_lower", "monte_carlo_upper"]

_ROUNDING = Fraction(1, 10**9)  # by which float weights may miss a sum of 1


def monte_carlo_upper(mean: ArrayLike, *, draws: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Upper bound on the expectation behind a Monte Carlo mean of terms in [0, 1].

    .. math:: \mathrm{kl}^{-1,+}\bigl(\hat m, \tfrac{\ln(1/\delta)}{n}\bigr)  \quad (C.1)

    Guarantee: fails with probability at most `delta` over independent draws. The draws need
    not be identically distributed: the bound is on the average of their expectations.

    Args:
        mean: mean of the draws, in [0, 1]. Divide a loss by its range *before* averaging into
            this argument, never after.
        draws: number of independent terms, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Hoeffding (1963), Theorem 1; Langford (2005), Corollary 3.7.

    >>> round(float(monte_carlo_upper(0.02, draws=10_000, delta=0.01)), 4)
    0.0245
    """
    mean = inside("mean", mean, 0, 1)
    return kl_inverse_upper(mean, chernoff_budget(n=draws, delta=delta, n_name="draws"))


def monte_carlo_lower(mean: ArrayLike, *, draws: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Lower bound on the expectation behind a Monte Carlo mean of terms in [0, 1].

    .. math:: \mathrm{kl}^{-1,-}\bigl(\hat m, \tfrac{\ln(1/\delta)}{n}\bigr)  \quad (C.2)

    The mirror image of :func:`monte_carlo_upper`, for a term that is subtracted.

    >>> round(float(monte_carlo_lower(0.02, draws=10_000, delta=0.01)), 4)
    0.016
    """
    mean = inside("mean", mean, 0, 1)
    return kl_inverse_lower(mean, chernoff_budget(n=draws, delta=delta, n_name="draws"))


def effective_draws(weights: Sequence[float | Fraction] | FloatArray) -> int:
    r"""Number of draws that a weighted mean of independent draws is worth.

    .. math:: N = \Bigl\lfloor \frac{1}{\max_i w_i} \Bigr\rfloor  \quad (C.3)

    Guarantee: :func:`monte_carlo_upper` and :func:`monte_carlo_lower` hold for the mean
    :math:`\sum_i w_i Z_i` of independent draws in [0, 1] with `draws` = N; equal weights give the
    number of draws itself. Computed in exact arithmetic, so never above the exact value; where
    1/max is a whole number but the float weight is rounded, one draw may be lost, which fractions
    avoid.

    Args:
        weights: of any shape, each in (0, 1], adding up to 1 over all of them; floats or
            fractions. What rounding leaves of 1 counts as a draw of a constant; what it adds is
            taken back by dividing by the sum.

    Raises:
        ValueError: `weights` is empty, a weight is outside its set, or their sum is not 1.

    References:
        docs/theory.md, section C; Hoeffding (1963) for equal weights.

    >>> effective_draws([0.25, 0.5, 0.25]), effective_draws([Fraction(1, 300)] * 300)
    (2, 300)
    """
    array = np.asarray(weights)
    if array.dtype.kind == "f":  # many and mostly equal: exact arithmetic once for each value
        distinct, counts = np.unique(array, return_counts=True)
    else:
        distinct, counts = array, np.ones(array.size, dtype=int)
    exact = fractions("weights", distinct)
    terms = (weight * int(count) for weight, count in zip(exact, counts, strict=True))
    total = sum(terms, Fraction(0))
    if abs(total - 1) > _ROUNDING:
        raise ValueError(f"weights must add up to 1, found a sum of {float(total)!r}")
    return floor(max(total, Fraction(1)) / max(exact))
