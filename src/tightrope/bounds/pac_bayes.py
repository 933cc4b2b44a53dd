"""PAC-Bayes bounds on the risk of a randomised predictor; docs/theory.md, section P."""

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._budget import ROUND_DOWN, ROUND_UP, pac_bayes_budget
from tightrope.bounds._domain import Bound, FloatArray, inside, scalar_or_array
from tightrope.bounds.kl import kl_inverse_lower, kl_inverse_upper

__all__ = ["pac_bayes_kl", "split_kl"]

_LARGEST = 1e300  # of an end of the loss's interval: its width must be a number, too


def pac_bayes_kl(
    empirical_risk: ArrayLike, *, kl: ArrayLike, n: ArrayLike, delta: ArrayLike
) -> Bound:
    r"""Upper bound on the risk of every posterior at once (the paper's Theorem A.1).

    .. math:: \mathrm{kl}^{-1,+}\Bigl(\hat L(\rho),
              \tfrac{\mathrm{KL}(\rho\|\rho_0) + \ln(\xi(n)/\delta)}{n}\Bigr)  \quad (P.1)

    Guarantee: with probability at least 1 - `delta` over n independent units, the bound holds
    for all posteriors simultaneously, the data-dependent one included. The paper has 2 sqrt(n)
    in place of :func:`xi` (n), which is smaller.

    Args:
        empirical_risk: mean loss in [0, 1] of the posterior on the n units.
        kl: divergence of posterior from prior, in [0, inf], nats; the prior must not depend on
            the n units.
        n: number of independent units, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Seeger (2002); Maurer (2004), "A note on the PAC Bayesian theorem".

    >>> round(float(pac_bayes_kl(0.02, kl=5.0, n=1000, delta=0.025)), 4)
    0.0504
    """
    risk = inside("empirical_risk", empirical_risk, 0, 1)
    return kl_inverse_upper(risk, pac_bayes_budget(kl=kl, n=n, delta=delta, statements=1))


def split_kl(
    mean_plus: ArrayLike,
    mean_minus: ArrayLike,
    *,
    kl: ArrayLike,
    n: ArrayLike,
    delta: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    mu: ArrayLike,
) -> Bound:
    r"""Upper bound on the mean of a loss in [low, high], split at `mu` (PAC-Bayes-split-kl).

    .. math:: \mu + (b-\mu)\,\mathrm{kl}^{-1,+}\bigl(\tfrac{\hat L^+}{b-\mu}, \Psi\bigr)
              - (\mu-a)\,\mathrm{kl}^{-1,-}\bigl(\tfrac{\hat L^-}{\mu-a}, \Psi\bigr),\quad
              \Psi = \tfrac{\mathrm{KL} + \ln(2\xi(n)/\delta)}{n}  \quad (P.2)

    Guarantee: as :func:`pac_bayes_kl`; the 2 is the theorem's union bound over its two
    sides. Rounded upward.

    Args:
        mean_plus: mean over units and posterior of max(0, loss - mu), in [0, high - mu].
        mean_minus: mean over units and posterior of max(0, mu - loss), in [0, mu - low].
        kl: divergence of posterior from prior, in [0, inf], nats.
        n: number of independent units, at least 1.
        delta: failure probability in (0, 1).
        low: lower end of the loss.
        high: upper end of the loss, above `low`.
        mu: where the loss is split, in [low, high]; chosen without looking at the n units.

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        Wu and Seldin (2022), "Split-kl and PAC-Bayes-split-kl inequalities".

    >>> bound = split_kl(0.02, 0.01, kl=5.0, n=1000, delta=0.025, low=-0.5, high=1.0, mu=0.0)
    >>> round(float(bound), 4)
    0.049
    """
    low, high = _interval(low, high)
    mu = inside("mu", mu, low, high, "in [low, high]")
    above, below = high - mu, mu - low
    mean_plus = inside("mean_plus", mean_plus, 0, above * ROUND_UP, "in [0, high - mu]")
    mean_minus = inside("mean_minus", mean_minus, 0, below * ROUND_UP, "in [0, mu - low]")
    budget = pac_bayes_budget(kl=kl, n=n, delta=delta, statements=2)
    plus = above * kl_inverse_upper(_share(mean_plus, above, ROUND_UP), budget)
    minus = below * kl_inverse_lower(_share(mean_minus, below, ROUND_DOWN), budget)
    rounding = (ROUND_UP - 1.0) * (np.abs(mu) + plus + minus)
    return scalar_or_array(np.asarray(mu + plus - minus + rounding))


def _interval(low: ArrayLike, high: ArrayLike) -> tuple[FloatArray, FloatArray]:
    low = inside("low", low, -_LARGEST, _LARGEST)
    above = np.nextafter(low, np.inf)
    return low, inside("high", high, above, _LARGEST, f"above low and at most {_LARGEST}")


def _share(mean: FloatArray, width: FloatArray, rounding: float) -> FloatArray:
    """`mean` as a share of `width`, rounded; 0 where the width is 0."""
    positive = np.where(width > 0, width, 1.0)
    return np.minimum(mean / positive * rounding, 1.0)
