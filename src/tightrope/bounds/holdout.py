"""Bounds on a mean from data that played no part in choosing what is measured; section H."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, logsumexp

from tightrope.bounds._budget import chernoff_budget
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
    "betting_lower",
    "betting_upper",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "holdout_kl",
]

_EPS = float(np.finfo(np.float64).eps)
_HALVINGS = 60
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


def betting_lower(values: ArrayLike, *, delta: ArrayLike) -> Bound:
    r"""Lower bound on the mean of independent values in [0, 1] that adapts to their variance.

    .. math:: \inf\Bigl\{m : \tfrac1K\sum_{k<K} \prod_i \bigl(1 - c_k + c_k \tfrac{x_i}{m}\bigr)
              < \tfrac1\delta\Bigr\}, \qquad c_k = 2^{-k}  \quad (H.2)

    Guarantee: fails with probability at most `delta` over independent values, identically
    distributed or not (then the bound is on their average expectation): the bets are constants,
    not predictions from earlier values, which is what the proof in section H.2 needs. Rounded
    downward.

    Args:
        values: shape (..., n), in [0, 1]; one bound for each row.
        delta: failure probability in (0, 1), broadcast against the rows.

    Raises:
        ValueError: `values` is empty, or an argument is NaN or outside its set.

    References:
        Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting".

    >>> round(float(betting_lower([0.5, 0.6, 0.5, 0.4] * 25, delta=0.025)), 4)
    0.4677
    """
    return scalar_or_array(_betting_lower(*_rows("values", values, delta)))


def betting_upper(values: ArrayLike, *, delta: ArrayLike) -> Bound:
    r"""Upper bound on the mean of independent values in [0, 1] that adapts to their variance.

    .. math:: 1 - \mathrm{betting\_lower}(1 - x)  \quad (H.3)

    Guarantee, arguments and errors as :func:`betting_lower`. Rounded upward.

    >>> round(float(betting_upper([0.5, 0.6, 0.5, 0.4] * 25, delta=0.025)), 4)
    0.5323
    """
    rows, delta = _rows("values", values, delta)
    return scalar_or_array(np.minimum(1.0 - _betting_lower(1.0 - rows, delta) + 4 * _EPS, 1.0))


def _rows(name: str, values: ArrayLike, delta: ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows = inside(name, values, 0, 1)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one value in its last axis, found {values!r}")
    return rows, failure_probability("delta", delta)


def _betting_lower(rows: FloatArray, delta: FloatArray) -> FloatArray:
    n = rows.shape[-1]
    shape = np.broadcast_shapes(rows.shape[:-1], delta.shape)
    rows = np.broadcast_to(rows, (*shape, n))
    needed = np.broadcast_to(-np.log(delta), shape)
    # Halving bets from all-in to where a bet could no longer pay; known before the data.
    bets = np.ldexp(1.0, -np.arange(1 + max(1, int(np.ceil(np.log2(n))))))
    lower, upper = np.zeros(shape), rows.mean(axis=-1)
    for _ in range(_HALVINGS):
        middle = lower + (upper - lower) / 2
        excluded = _log_capital_from_below(rows, middle, bets) >= needed
        lower = np.where(excluded, middle, lower)
        upper = np.where(excluded, upper, middle)
    return lower


def _log_capital_from_below(rows: FloatArray, mean: FloatArray, bets: FloatArray) -> FloatArray:
    """A float64 never above the log of the average capital of the bets against `mean`."""
    capitals = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        payoff = rows / mean[..., None]  # (..., n)
        for bet in bets:
            gains = np.log((1.0 - bet) + bet * payoff)
            size = np.abs(gains).sum(axis=-1)
            capitals.append(gains.sum(axis=-1) - 32 * _EPS * (rows.shape[-1] + size))
    stacked = np.nan_to_num(np.stack(capitals), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    return np.asarray(logsumexp(stacked, axis=0) - np.log(len(bets)) - 32 * _EPS)


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
