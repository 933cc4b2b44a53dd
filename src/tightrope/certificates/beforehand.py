"""What is chosen on free data and enters a bound: it must stand before the bound does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import bet_loss, default_bets, planned_bets, target_bets
from tightrope.certificates.data import Data, View
from tightrope.certificates.deviations import widths_from, window_of
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.measure import Measured, unit_values
from tightrope.certificates.options import Options, Unit, target_of
from tightrope.certificates.portions import bound_risk
from tightrope.certificates.until import most_units
from tightrope.errors import InputError
from tightrope.posteriors import Regressed

__all__ = ["Beforehand", "plan_beforehand", "plan_bets", "profile_from"]

_UNITS: tuple[Unit, Unit] = ("step", "episode")
_EASIEST = 0.999  # target of a bet, of the squared range
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
        window: steps of a window of the monitor; None for a single one.
        widths: of the monitor's windows, the largest 1.

    Raises:
        InputError: profile, window or widths are others; bets are checked by their bounds.
    """

    bets: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    episode_bets: tuple[float, ...] = ()
    episode_weights: tuple[float, ...] = ()
    bet: float | None = None
    profile: tuple[float, ...] = (1.0,)
    window: int | None = None
    widths: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for name in ("profile", "widths"):
            found = getattr(self, name)
            if not all(0 < width <= 1 for width in found) or max(found, default=0) != 1:
                raise InputError(f"expected {name} in (0, 1], the largest 1, found {found!r}")
        if self.window is not None and self.window < 1:
            raise InputError(f"expected a window of at least 1 step, found {self.window!r}")


def plan_beforehand(
    first: Regressed | None, data: Data, seen: View, options: Options, ledger: Ledger
) -> Beforehand:
    """Bets and the band's profile, from the errors of the folds left out; none without them.

    The monitor's window follows from the discount, its widths from the same errors.
    """
    sequential = options.division.first is not None
    window = window_of(options.gamma) if options.division.fixed and not sequential else None
    if first is None or seen.free is None:
        return _unplanned(data, seen, options) if sequential else Beforehand(window=window)
    residuals = first.left_out - seen.free.targets.double().numpy()
    losses = np.square(residuals)
    kind = options.division.kind
    # The number of episodes of a search is not known beforehand; its largest is.
    most = len(data.shares.validation) if options.until == "off" else options.max_episodes
    later = most - seen.free_count
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
        for unit in _UNITS
    }
    if options.until != "off":
        values = unit_values(losses, seen.free_episode, options.unit)
        goal = min((target_of(options.until) / seen.scaling.width) ** 2, _EASIEST)
        units = most_units(data, seen, options, options.unit)
        bets, weights = target_bets(np.clip(values, 0.0, 1.0), target=goal, n=units)
        planned[options.unit] = tuple(map(float, bets)), tuple(map(float, weights))
    return Beforehand(
        bets=planned["step"][0],
        weights=planned["step"][1],
        episode_bets=planned["episode"][0],
        episode_weights=planned["episode"][1],
        profile=profile_from(residuals, seen.free_step, seen),
        window=window,
        widths=widths_from(
            residuals, seen.free_episode, seen.free_step, gamma=options.gamma, window=window
        ),
    )


def _unplanned(data: Data, seen: View, options: Options) -> Beforehand:
    """The default bets of a search; they must not depend on where it stops."""
    step, episode = (
        tuple(tuple(map(float, each)) for each in default_bets(most_units(data, seen, options, u)))
        for u in _UNITS
    )
    return Beforehand(step[0], step[1], episode[0], episode[1])


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
