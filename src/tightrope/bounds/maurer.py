"""The constant of the PAC-Bayes-kl theorem; docs/theory.md, section B."""

from functools import cache
from math import ceil, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._domain import Bound, counts, scalar_or_array

__all__ = ["xi"]

_EPS = float(np.finfo(np.float64).eps)
_SUMMED = 10**6  # the largest n for which the series is summed
_TERMS = 16  # times sqrt(n): later terms of the series are below exp(-120)


def xi(n: ArrayLike) -> Bound:
    r"""What one predictor costs, before the logarithm, in the PAC-Bayes-kl theorem.

    .. math:: \xi(n) = \sum_{k=0}^n \binom nk \bigl(\tfrac kn\bigr)^k
              \bigl(1-\tfrac kn\bigr)^{n-k}
              = 1 + \sum_{i=1}^n \prod_{l=1}^{i-1}\bigl(1-\tfrac ln\bigr)  \quad (B.1)

    The paper has its upper bound :math:`2\sqrt n`: 20 where this is 13.2, at n = 100.

    Guarantee: never below the exact value, never above :math:`2\sqrt n`. Summed for n up to
    10^6; beyond, :math:`2 + \sqrt{\pi n/2}`, which is less than 2 above it.

    Args:
        n: number of independent units, at least 1.

    Raises:
        ValueError: `n` is not a whole number of at least 1.

    References:
        Maurer (2004), "A note on the PAC Bayesian theorem".

    >>> float(xi(1)), round(float(xi(100)), 4)
    (2.0, 13.21)
    """
    n = counts("n", n)
    distinct, places = np.unique(n, return_inverse=True)
    values = np.array([_xi(float(one)) for one in distinct])
    return scalar_or_array(values[places].reshape(n.shape))


@cache
def _xi(n: float) -> float:
    if n > _SUMMED:
        above = 2.0 + sqrt(pi * n / 2.0) * (1.0 + 8 * _EPS)
    else:
        later = np.arange(min(n, _TERMS * ceil(sqrt(n))))
        # (n - l)/n is rounded once; the i-th product carries at most i of these errors.
        above = (1.0 + np.cumprod((n - later) / n).sum()) * (1.0 + (8 + 2 * sqrt(n)) * _EPS)
    return float(min(above, 2.0 * sqrt(n)))
