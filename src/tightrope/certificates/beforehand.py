"""What is chosen on free data and enters a bound: it must stand before the bound does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import bet_loss, planned_bets
from tightrope.certificates.data import Data, View
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.measure import Measured, unit_values
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.portions import bound_risk
from tightrope.errors import InputError
from tightrope.posteriors import Regressed

__all__ = ["Beforehand", "plan_beforehand", "plan_bets", "profile_from"]

_BINS = 20  # of the band's profile over the time limit
# Of (P.3), ever nearer to 1, where all is staked on there being no loss of 1.
_BETS: list[float] = [1.0 - 0.5 ** (k / 2) for k in range(1, 17)]


@dataclass(frozen=True)
class Beforehand:
    """What was chosen on free data and enters a bound: it must stand before the bound does.

    Attributes:
        bets: of the hold-out bound on the mean over steps (H.3); empty for the default ones.
        weights: of these bets.
        episode_bets: the same for the mean over episodes.
        episode_weights: of these.
        bet: of (P.3); None for (P.1).
        profile: half-widths of the band over equal parts of the time limit, the largest 1.

    Raises:
        InputError: the profile is another; bets are checked by their bounds.
    """

    bets: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    episode_bets: tuple[float, ...] = ()
    episode_weights: tuple[float, ...] = ()
    bet: float | None = None
    profile: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not all(0 < width <= 1 for width in self.profile) or max(self.profile, default=0) != 1:
            raise InputError(f"expected a profile in (0, 1], the largest 1, found {self.profile!r}")


def plan_beforehand(
    first: Regressed | None, data: Data, seen: View, options: Options, ledger: Ledger
) -> Beforehand:
    """Bets and the band's profile, from the errors of the folds left out; none without them."""
    if first is None or seen.free is None:
        return Beforehand()
    residuals = first.left_out - seen.free.targets.double().numpy()
    losses = np.square(residuals)
    kind, later = options.division.kind, len(data.shares.validation) - seen.free_count
    if not options.division.fixed:
        return Beforehand(bet=_planned_bet(losses, later, data, seen, options, ledger))
    name = "mean risk, unit step" if kind == "auto" else "hold-out: risk"
    planned = {
        unit: plan_bets(
            losses,
            seen.free_episode,
            unit=unit,
            episodes=later,
            delta=ledger.failure(name),
            thin=data.thin,
        )
        for unit in ("step", "episode")
    }
    return Beforehand(
        bets=planned["step"][0],
        weights=planned["step"][1],
        episode_bets=planned["episode"][0],
        episode_weights=planned["episode"][1],
        profile=profile_from(residuals, seen.free_step, seen),
    )


def plan_bets(
    losses: NDArray[np.float64],
    episode: NDArray[np.int64],
    *,
    unit: Unit,
    episodes: int,
    delta: float,
    thin: int,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bets and weights for `episodes` more episodes like these free ones.

    How long the others are is not known beforehand: they are taken to be as long as these.
    """
    values = unit_values(losses, episode, unit)
    per_episode = len(losses) / len(np.unique(episode)) / thin if unit == "step" else 1.0
    n = max(1, round(per_episode * episodes))
    bets, weights = planned_bets(values, n=n, delta=delta)
    return tuple(map(float, bets)), tuple(map(float, weights))


def profile_from(
    residuals: NDArray[np.float64], step: NDArray[np.int64], view: View
) -> tuple[float, ...]:
    """Half-widths over elapsed time, from errors on free episodes; constant without a clock."""
    clock = view.scaling.clock
    if clock is None or len(residuals) < 10 * _BINS:
        return (1.0,)
    bins = np.minimum(step * _BINS // clock.limit, _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    sums = np.bincount(bins, weights=np.square(residuals), minlength=_BINS)
    overall = float(np.square(residuals).mean())
    # Shrunk towards the overall size, so that a bin that free episodes hardly reach stays wide.
    sizes = np.sqrt((sums + 50.0 * overall) / (counts + 50.0))
    sizes = np.maximum(sizes, 0.2 * sizes.max())
    return tuple(float(size) for size in sizes / sizes.max())


def _planned_bet(
    losses: NDArray[np.float64],
    episodes: int,
    data: Data,
    seen: View,
    options: Options,
    ledger: Ledger,
) -> float:
    """The bet of (P.3) with the smallest bound, if later episodes were like the free ones."""
    values = np.clip(unit_values(losses, seen.free_episode, options.unit), 0.0, 1.0)
    rows = len(losses) / len(np.unique(seen.free_episode)) / data.thin
    n = max(1, round(episodes * (rows if options.unit == "step" else 1.0)))
    draws = options.mc_passes * max(1, round(episodes * rows))
    mean = float(values.mean())

    def value(bet: float) -> float:
        guess = Measured(
            episodes=episodes,
            n=n,
            kl=0.0,
            draws=draws,
            loss=mean,
            mean=mean,
            mean_plus=mean,
            bet=bet,
            mean_bet_loss=float(np.mean(bet_loss(values, bet))),
        )
        return bound_risk(guess, ledger=ledger).value

    return float(min(_BETS, key=value))
