"""PAC-Bayes by a constant bet: no square root of n, all units for fit and bound; section P."""

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._budget import ROUND_UP, bet_budget
from tightrope.bounds._domain import Bound, FloatArray, inside, proper_share, scalar_or_array

__all__ = ["CANDIDATES", "LARGEST_BET", "SMALLEST_BET", "bet_loss", "pac_bayes_bet", "planned_bet"]

# Of a planned bet: from one that can hardly pay to one that a single loss of 1 nearly ruins.
SMALLEST_BET, LARGEST_BET = 2.0**-12, 1.0 - 2.0**-10
CANDIDATES = np.geomspace(SMALLEST_BET, LARGEST_BET, 64)


def bet_loss(loss: ArrayLike, bet: ArrayLike) -> Bound:
    r"""What a loss in [0, 1] costs, in nats, whoever bets the share `bet` on small losses.

    .. math:: -\ln(1 - c\,\ell)  \quad (P.3)

    Convex in the loss, so the mean over the rows of an episode is never below the value of the
    episode's mean loss. Rounded upward; 0 for a loss of 0.

    Args:
        loss: in [0, 1].
        bet: c in (0, 1), broadcast against `loss`.

    Raises:
        ValueError: an argument is NaN or outside its set.

    >>> bet_loss([0.0, 0.5, 1.0], 0.5).round(4)
    array([0.    , 0.2877, 0.6931])
    """
    loss, bet = np.broadcast_arrays(inside("loss", loss, 0, 1), proper_share("bet", bet))
    # The exact product is at most the bet, so 1 - product stays positive for every bet below 1.
    product = np.minimum(np.nextafter(bet * loss, 1.0), bet)
    above = np.nextafter(-np.log1p(-product) * ROUND_UP, np.inf)
    return scalar_or_array(np.where(loss > 0, above, 0.0))


def pac_bayes_bet(
    mean_bet_loss: ArrayLike, *, bet: ArrayLike, kl: ArrayLike, n: ArrayLike, delta: ArrayLike
) -> Bound:
    r"""Upper bound on the risk of every posterior at once, by a bet fixed beforehand.

    .. math:: \frac{1 - \exp\bigl(-\hat\Lambda_c(\rho)
              - \tfrac{\mathrm{KL}(\rho\|\rho_0) + \ln(1/\delta)}{n}\bigr)}{c}, \qquad
              \hat\Lambda_c(\rho) = \tfrac1n \sum_i \mathbb E_\rho[-\ln(1 - c\,\ell(h, z_i))]
              \quad (P.3)

    Guarantee: with probability at least 1 - `delta` over n independent units, identically
    distributed or not, the bound holds for all posteriors simultaneously. It has no
    sqrt(n), but no more than others can it go below the floor (H.6). Clipped to 1, rounded upward.

    Args:
        mean_bet_loss: mean over units and posterior of :func:`bet_loss`, in [0, -ln(1 - bet)]; or
            an upper bound on it.
        bet: c in (0, 1), fixed before the n units were seen. For the best of several bets give
            each a weight and call with `delta` times its weight.
        kl: divergence of posterior from prior, in [0, inf], nats; the prior must not depend on
            the n units.
        n: number of independent units, at least 1.
        delta: failure probability in (0, 1).

    Raises:
        ValueError: an argument is NaN or outside its set.

    References:
        docs/theory.md, section P; Catoni (2007) for the exponential in place of the product.

    >>> loss = bet_loss(0.01, 0.999)
    >>> round(float(pac_bayes_bet(loss, bet=0.999, kl=0.0, n=100, delta=0.025)), 4)
    0.0459
    """
    bet = proper_share("bet", bet)
    most = np.asarray(bet_loss(1.0, bet)) * ROUND_UP
    mean = inside("mean_bet_loss", mean_bet_loss, 0, most, "in [0, -ln(1 - bet)]")
    nats = (mean + bet_budget(kl=kl, n=n, delta=delta)) * ROUND_UP
    return scalar_or_array(np.minimum(-np.expm1(-nats) / bet * ROUND_UP, 1.0))


def planned_bet(losses: ArrayLike, *, n: ArrayLike, delta: ArrayLike, kl: ArrayLike = 0.0) -> Bound:
    r"""The bet that would give the smallest :func:`pac_bayes_bet` on n units with such losses.

    .. math:: \arg\min_c \frac{1 - \exp\bigl(-\tfrac1k \sum_j -\ln(1 - c\,\ell_j)
              - \tfrac{\mathrm{KL} + \ln(1/\delta)}{n}\bigr)}{c}

    over 64 values of c from 2^-12 to 1 - 2^-10. A plan, not a bound: it promises nothing, and
    any bet is valid as long as the n units played no part in choosing it.

    Args:
        losses: in [0, 1], of any shape; free ones, such as those of pilot episodes.
        n: number of units that the bound will be evaluated on, at least 1.
        delta: failure probability of that bound, in (0, 1).
        kl: divergence to expect, in [0, inf], nats.

    Raises:
        ValueError: `losses` is empty, or an argument is NaN or outside its set.

    >>> float(planned_bet([0.01] * 10, n=50, delta=0.025).round(3))
    0.999
    >>> float(planned_bet([0.0, 0.3, 0.9], n=1000, delta=0.025).round(3))
    0.205
    """
    flat = inside("losses", losses, 0, 1).ravel()
    if flat.size == 0:
        raise ValueError(f"losses must have at least one value, found {losses!r}")
    nats = bet_budget(kl=kl, n=n, delta=delta)[..., None]  # (..., candidates)
    bounds = -np.expm1(-(_mean_bet_losses(flat) + nats)) / CANDIDATES
    return scalar_or_array(CANDIDATES[np.argmin(bounds, axis=-1)])


def _mean_bet_losses(losses: FloatArray) -> FloatArray:
    """One mean for each candidate; a loop, so that memory stays that of the losses."""
    return np.array([-np.log1p(-bet * losses).mean() for bet in CANDIDATES])
