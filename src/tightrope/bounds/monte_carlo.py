"""Sampling error of Monte Carlo means; docs/theory.md, section C."""

from numpy.typing import ArrayLike

from tightrope.bounds._budget import chernoff_budget
from tightrope.bounds._domain import Bound, inside
from tightrope.bounds.kl import kl_inverse_lower, kl_inverse_upper

__all__ = ["monte_carlo_lower", "monte_carlo_upper"]


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
