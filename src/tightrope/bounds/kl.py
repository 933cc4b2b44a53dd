"""The binary relative entropy and its inverses; equations in docs/theory.md, section K."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from tightrope.bounds._domain import Bound, FloatArray, inside, scalar_or_array

__all__ = ["kl", "kl_inverse_lower", "kl_inverse_upper"]

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-290
_SLACK = 8 * _EPS  # rounding allowance of one evaluation, derived in section K.3
_MARGIN = 32 * _EPS  # step beyond the root that outweighs the allowance, section K.3
_HALLEY_STEPS = 3  # measured: full double precision from the start of section K.4
_HALVINGS = 60  # of the fallback; 2**-60 is below one ulp of 1.0
_BLOCK = 8192  # elements worked on at a time, so that temporaries stay in cache


def kl(q: ArrayLike, p: ArrayLike) -> Bound:
    r"""Relative entropy, in nats, of two Bernoulli variables with means `q` and `p`.

    .. math:: \mathrm{kl}(q \,\|\, p) = q\ln\tfrac{q}{p} + (1-q)\ln\tfrac{1-q}{1-p}  \quad (K.1)

    Infinite where `p` is 0 or 1 and `q` is not the same.

    Args:
        q: means in [0, 1].
        p: means in [0, 1], broadcast against `q`.

    Raises:
        ValueError: an argument is NaN or outside [0, 1].

    >>> float(kl(0.5, 0.5)), float(kl(0.0, 1.0))
    (0.0, inf)
    """
    q, p = inside("q", q, 0, 1), inside("p", p, 0, 1)
    return scalar_or_array(np.maximum(rel_entr(q, p) + rel_entr(1.0 - q, 1.0 - p), 0.0))


def kl_inverse_upper(q: ArrayLike, budget: ArrayLike) -> Bound:
    r"""Largest mean compatible with the empirical mean `q` at a budget in nats.

    .. math:: \sup\{p \in [q, 1] : \mathrm{kl}(q \,\|\, p) \le c\}  \quad (K.2)

    Guarantee: never below the exact supremum. A value is returned only after it was itself
    shown to violate kl <= c (section K.3), so an inaccurate root can loosen the bound but not
    invalidate it. For budgets of at least 1e-6 the excess is below 1e-9.

    Args:
        q: empirical means in [0, 1].
        budget: c in [0, inf], in nats; broadcast against `q`.

    Raises:
        ValueError: an argument is NaN or outside its interval.

    >>> float(kl_inverse_upper(0.0, 0.5))  # 1 - exp(-0.5)
    0.39346934028736663
    >>> kl_inverse_upper([0.1, 0.1, 1.0], [0.0, np.inf, 0.3])
    array([0.1, 1. , 1. ])
    """
    return _inverse(q, budget, upward=True)


def kl_inverse_lower(q: ArrayLike, budget: ArrayLike) -> Bound:
    r"""Smallest mean compatible with the empirical mean `q` at a budget in nats.

    .. math:: \inf\{p \in [0, q] : \mathrm{kl}(q \,\|\, p) \le c\}  \quad (K.5)

    Guarantee: never above the exact infimum; otherwise as :func:`kl_inverse_upper`.

    Args:
        q: empirical means in [0, 1].
        budget: c in [0, inf], in nats; broadcast against `q`.

    Raises:
        ValueError: an argument is NaN or outside its interval.

    >>> float(kl_inverse_lower(1.0, 0.5))  # exp(-0.5)
    0.6065306597126333
    >>> kl_inverse_lower([0.1, 0.1, 0.0], [0.0, np.inf, 0.3])
    array([0.1, 0. , 0. ])
    """
    return _inverse(q, budget, upward=False)


def _inverse(q: ArrayLike, budget: ArrayLike, *, upward: bool) -> Bound:
    q, budget = np.broadcast_arrays(
        inside("q", q, 0, 1), inside("budget", budget, 0, np.inf, "in [0, inf]")
    )
    flat_q, flat_budget = q.ravel(), budget.ravel()
    result = np.empty(q.size)
    for start in range(0, q.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = _inverse_block(flat_q[block], flat_budget[block], upward)
    return scalar_or_array(result.reshape(q.shape))


def _inverse_block(q: FloatArray, budget: FloatArray, upward: bool) -> FloatArray:
    """One block: closed forms at the edges, a verified root inside."""
    edge = 0.0 if upward else 1.0  # the mean at which the inverse has a closed form
    inner = (q > 0) & (q < 1) & (budget > 0) & (budget < np.inf)
    if inner.all():
        return _verified_root(q, budget, upward)
    result = np.where(budget > 0, 1.0 - edge, q)
    closed = (q == edge) & (budget > 0) & (budget < np.inf)
    exact = -np.expm1(-budget[closed]) if upward else np.exp(-budget[closed])
    result[closed] = np.nextafter(exact, 1.0 - edge)
    result[inner] = _verified_root(q[inner], budget[inner], upward)
    return result


def _verified_root(q: FloatArray, budget: FloatArray, upward: bool) -> FloatArray:
    """The inverse for q in (0, 1) and a finite, positive budget, on the safe side of the root."""
    with np.errstate(all="ignore"):  # what goes wrong numerically fails the check below
        root = _halley_root(q, budget, upward)
        slope = np.abs(root - q) / (root * (1.0 - root))
        margin = _MARGIN * ((budget + 4.0) / slope + root)
        # Pinsker's inequality caps the margin where the budget is near rounding level.
        reach = np.sqrt((budget + 8 * _MARGIN) / 2.0)
        if upward:
            candidate = np.minimum(np.minimum(root + margin, q + reach), 1.0)
        else:
            candidate = np.maximum(root - margin, q - reach)
            candidate[candidate < _TINY] = 0.0  # below, floats lose precision
        limit = 1.0 if upward else 0.0
        safe = (candidate == limit) | (_kl_from_below(q, candidate) > budget)
    if not safe.all():
        candidate[~safe] = _bisected_root(q[~safe], budget[~safe], limit)
    return candidate


def _kl_from_below(q: FloatArray, p: FloatArray) -> FloatArray:
    """A float64 never above kl(q || p), Eq. (K.1), for q and p inside (0, 1); section K.3."""
    success, failure = _kl_terms(q, 1.0 - q, p, 1.0 - p)
    return success + failure - _SLACK * (np.abs(success) + np.abs(failure) + 1.0)


def _kl_terms(
    q: FloatArray, q_rest: FloatArray, p: FloatArray, p_rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    return q * np.log(q / p), q_rest * np.log(q_rest / p_rest)


def _halley_root(q: FloatArray, budget: FloatArray, upward: bool) -> FloatArray:
    """A root of kl(q || p) = budget to about double precision; carries no guarantee.

    Works on the larger root of the problem it is given and reflects it for the smaller one:
    kl(q || p) = kl(1-q || 1-p). `rest` is 1 - p, kept apart because it may be tiny.
    """
    q, q_rest = (q, 1.0 - q) if upward else (1.0 - q, q)
    # Two upper bounds on the root, section K.4; the smaller is a good start.
    scaled = budget * q_rest
    quadratic = q_rest - scaled - np.sqrt(scaled * (scaled + 2.0 * q))
    entropy = -(q * np.log(q) + q_rest * np.log(q_rest))
    exponential = np.exp(-(budget + entropy) / q_rest)
    rest = np.maximum(np.maximum(quadratic, exponential), _TINY)
    for _ in range(_HALLEY_STEPS):
        p = 1.0 - rest
        success, failure = _kl_terms(q, q_rest, p, rest)
        excess = success + failure - budget
        gap = p - q
        curvature = q * rest * rest + q_rest * p * p
        step = 2.0 * excess * gap * p * rest / (2.0 * gap * gap - excess * curvature)
        rest = np.maximum(rest + step, rest / 1024)
    return 1.0 - rest if upward else rest


def _bisected_root(q: FloatArray, budget: FloatArray, limit: float) -> FloatArray:
    """Bisection between q and `limit`; each outer end it keeps was shown to exceed the budget."""
    inner, outer = q, np.full_like(q, limit)
    for _ in range(_HALVINGS):
        middle = inner + (outer - inner) / 2
        with np.errstate(all="ignore"):
            excluded = _kl_from_below(q, middle) > budget
        inner = np.where(excluded, inner, middle)
        outer = np.where(excluded, middle, outer)
    return outer
