"""Bounds on a mean from data that played no part in choosing what is measured; section H."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from tightrope.bounds._budget import ROUND_DOWN, chernoff_budget
from tightrope.bounds._domain import (
    Bound,
    FloatArray,
    counts,
    failure_probability,
    inside,
    scalar_or_array,
)
from tightrope.bounds.kl import kl_inverse_upper

__all__ = [
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "holdout_kl",
    "risk_floor",
]

# Relative error allowed for in scipy's inverse beta functions. The largest seen against mpmath was
# 5e-11, for n up to 1e7 and delta down to 1e-23.
_BETA_ERROR = 1e-9


def holdout_kl(empirical_risk: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Upper bound on the risk of a predictor fixed before the n units were seen.

    .. math:: \mathrm{kl}^{-1,+}\bigl(\hat L, \tfrac{\ln(1/\delta)}{n}\bigr)  \quad (H.1)

    Guarantee: fails with probability at most `delta` over n independent units in [0, 1]; they
    need not be identically distributed (the bound is on their average expectation).

    Args:
        empirical_risk: mean loss in [0, 1].
        n: number of independent units, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Hoeffding (1963), Theorem 1; Langford (2005), Corollary 3.7.

    >>> round(float(holdout_kl(0.02, n=1000, delta=0.025)), 4)
    0.0345
    """
    risk = inside("empirical_risk", empirical_risk, 0, 1)
    return kl_inverse_upper(risk, chernoff_budget(n=n, delta=delta))


def risk_floor(mean: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Bound:
    r"""What every valid upper bound prints, at the least, when all n values equal `mean`.

    .. math:: 1 - (1 - \bar x)\,\delta^{1/n}  \quad (H.6)

    Guarantee: no function of n values in [0, 1] that is below their expectation with probability
    at most `delta`, whatever their distribution, is below this on the sample in which all values
    equal `mean`. With a mean near 0 it is about ln(1/delta)/n: a rare loss of 1 cannot be
    excluded by not having been seen. Rounded downward, since it is a limit to what is possible.

    Args:
        mean: the common value, in [0, 1].
        n: number of independent values, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    >>> round(float(risk_floor(0.01, n=50, delta=0.025)), 4)
    0.0804
    """
    mean = inside("mean", mean, 0, 1)
    nats = chernoff_budget(n=n, delta=delta) * (ROUND_DOWN * ROUND_DOWN)
    # mean + (1 - mean)(1 - delta^(1/n)): no cancellation where both are small.
    floor = mean - (1.0 - mean) * np.expm1(-nats)
    return scalar_or_array(np.asarray(floor * ROUND_DOWN))


def clopper_pearson_upper(successes: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Exact upper bound on a probability from `successes` in `n` independent trials.

    .. math:: \sup\{p : \mathbb P(\mathrm{Bin}(n, p) \le k) \ge \delta\}  \quad (H.4)

    Guarantee: fails with probability at most `delta`. Rounded upward by a relative 1e-9.

    Args:
        successes: k, whole numbers in [0, n]; the events counted, failures included.
        n: number of trials, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Clopper and Pearson (1934).

    >>> round(float(clopper_pearson_upper(0, n=100, delta=0.05)), 6)  # 1 - 0.05 ** (1 / 100)
    0.029513
    """
    k, n, delta = _binomial(successes, n, delta)
    upper = np.where(k < n, betainccinv(k + 1.0, np.maximum(n - k, 1.0), delta), 1.0)
    return scalar_or_array(np.minimum(upper * (1.0 + _BETA_ERROR), 1.0))


def clopper_pearson_lower(successes: ArrayLike, *, n: ArrayLike, delta: ArrayLike) -> Bound:
    r"""Exact lower bound on a probability from `successes` in `n` independent trials.

    .. math:: \inf\{p : \mathbb P(\mathrm{Bin}(n, p) \ge k) \ge \delta\}  \quad (H.5)

    The mirror image of :func:`clopper_pearson_upper`. Rounded downward by a relative 1e-9.

    >>> round(float(clopper_pearson_lower(100, n=100, delta=0.05)), 6)  # 0.05 ** (1 / 100)
    0.970487
    """
    k, n, delta = _binomial(successes, n, delta)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, delta), 0.0)
    return scalar_or_array(lower * (1.0 - _BETA_ERROR))


def _binomial(
    successes: ArrayLike, n: ArrayLike, delta: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n = counts("n", n)
    k = inside("successes", successes, 0, n, "whole numbers in [0, n]")
    if (k != np.floor(k)).any():
        raise ValueError(f"successes must be whole numbers in [0, n], found {successes!r}")
    return k, n, failure_probability("delta", delta)
