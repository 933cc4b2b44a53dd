"""What is measured: means of Monte Carlo losses and KL divergences, before any bound.

Losses have shape (passes, rows) and lie in [0, 1]; `episode` gives the episode of each row.
Sections C, R and S of docs/theory.md. What is made of the measurements is in `portions`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import bet_loss
from tightrope.certificates.options import Unit

__all__ = [
    "MU",
    "Drawn",
    "Measured",
    "effective_size",
    "measure_excess",
    "measure_risk",
    "unit_mean",
    "unit_values",
]

Losses = NDArray[np.float64]
MU = 0.0  # where excess losses are split; fixed, so nothing is paid for it


@dataclass(frozen=True)
class Drawn:
    """Losses of one posterior on the rows from some portion on."""

    losses: Losses  # (passes, rows)
    episode: NDArray[np.int64]  # (rows,), non-decreasing
    shared: bool = False  # one weight draw per pass, instead of one per row


@dataclass(frozen=True)
class Measured:
    """What a bound needs to know of one portion.

    Attributes:
        episodes: in the portions that it is evaluated on.
        n: independent units among them.
        kl: divergence of the posterior from its prior, in nats.
        draws: independent Monte Carlo draws that the means are worth (C.3).
        loss: mean loss of the posterior itself.
        mean: mean loss, or mean excess.
        mean_plus: mean of the part above mu; the loss itself for a risk.
        mean_minus: mean of the part below mu; 0 for a risk.
        bet: of (P.3), fixed beforehand; None for (P.1) and for an excess.
        mean_bet_loss: mean of -ln(1 - bet * loss); 0 without a bet.
    """

    episodes: int
    n: int
    kl: float
    draws: int
    loss: float
    mean: float
    mean_plus: float
    mean_minus: float = 0.0
    bet: float | None = None
    mean_bet_loss: float = 0.0


def measure_risk(drawn: Drawn, *, kl: float, unit: Unit, bet: float | None = None) -> Measured:
    """The loss of a posterior."""
    mean = unit_mean(drawn.losses, drawn.episode, unit)
    costs = 0.0
    if bet is not None:
        most = float(bet_loss(1.0, bet))
        shares = np.asarray(bet_loss(drawn.losses, bet)) / most
        costs = most * unit_mean(shares, drawn.episode, unit)
    return Measured(
        episodes=_episodes(drawn),
        n=_count(drawn, unit),
        kl=kl,
        draws=_draws(drawn, unit),
        loss=mean,
        mean=mean,
        mean_plus=mean,
        bet=bet,
        mean_bet_loss=costs,
    )


def measure_excess(drawn: Drawn, before: Drawn, *, kl: float, unit: Unit, kappa: float) -> Measured:
    """The loss of a posterior in excess of `kappa` times that of the one before, split at MU."""
    rows = drawn.losses.shape[1]
    # The rows of portions t and later are the last ones of portions t - 1 and later.
    excess = drawn.losses - kappa * before.losses[:, -rows:]
    above, below = 1.0 - MU, MU + kappa
    # Split per draw and row, then averaged; each part divided by its range before the mean.
    plus = unit_mean(np.maximum(excess - MU, 0.0) / above, drawn.episode, unit) * above
    minus = unit_mean(np.maximum(MU - excess, 0.0) / below, drawn.episode, unit) * below
    return Measured(
        episodes=_episodes(drawn),
        n=_count(drawn, unit),
        kl=kl,
        draws=_draws(drawn, unit),
        loss=unit_mean(drawn.losses, drawn.episode, unit),
        mean=MU + plus - minus,
        mean_plus=plus,
        mean_minus=minus,
    )


def unit_values(values: Losses, episode: NDArray[np.int64], unit: Unit) -> Losses:
    """Values per unit: the rows themselves, or the mean over the rows of each episode."""
    if unit == "step":
        return values
    starts = _starts(episode)
    sums = np.add.reduceat(values, starts, axis=-1)
    return np.asarray(sums / np.diff(starts, append=len(episode)))


def unit_mean(values: Losses, episode: NDArray[np.int64], unit: Unit) -> float:
    """Mean over passes and units, kept inside [0, 1] against rounding."""
    return float(np.clip(unit_values(values, episode, unit).mean(), 0.0, 1.0))


def effective_size(loss: Losses, episode: NDArray[np.int64]) -> float:
    """Independent steps that carry as much information on the mean loss as all of them do.

    N divided by the design effect of episodes as clusters: the variance of the mean over
    independent episodes, in ratio to what it would be over independent steps.
    """
    count = len(_starts(episode))
    deviation = loss - loss.mean()
    variance = float(np.mean(deviation**2))
    if count < 2 or variance == 0:
        return float(count)
    totals = np.add.reduceat(deviation, _starts(episode))
    clustered = count / (count - 1) * float(np.sum(totals**2)) / len(loss) ** 2
    effect = clustered / (variance / len(loss))
    return float(np.clip(len(loss) / effect, 1.0, len(loss))) if effect > 0 else float(len(loss))


def _starts(episode: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))


def _episodes(drawn: Drawn) -> int:
    return len(_starts(drawn.episode))


def _count(drawn: Drawn, unit: Unit) -> int:
    return len(drawn.episode) if unit == "step" else _episodes(drawn)


def _draws(drawn: Drawn, unit: Unit) -> int:
    """Independent draws, by (C.3) where the rows of short episodes weigh more."""
    passes = drawn.losses.shape[0]
    if drawn.shared:
        return int(passes)
    if unit == "step":
        return int(passes * len(drawn.episode))
    starts = _starts(drawn.episode)
    fewest = int(np.diff(starts, append=len(drawn.episode)).min())
    return int(passes * len(starts) * fewest)
