"""Stopping as soon as a target is certified: batches of episodes under one test martingale.

The bets are fixed before the first episode of the bound, so the bound holds at every number of
episodes at once, (H.7) in docs/theory.md, and one may stop when the number looks good.
"""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import betting_upper, risk_floor
from tightrope.certificates.options import target_of
from tightrope.errors import InputError
from tightrope.progress import progress_bar

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.data import Data, View
    from tightrope.certificates.issue import Fitted
    from tightrope.certificates.options import Options, Unit
    from tightrope.posteriors import Scaling
    from tightrope.rollouts import Episodes

__all__ = ["BATCH", "Source", "issue_until", "most_units", "outcome", "sequential"]

BATCH = 10  # episodes until the first look; later ones are further apart, as workers must start
_GROWTH = 5  # a batch is this part of the episodes before


class Source(Protocol):
    """What episodes come from, such as a request for a policy's certificate."""

    @property
    def options(self) -> "Options":
        """Settled by :func:`sequential`, with a seed."""

    @property
    def training(self) -> "Scaling | None":
        """What training fixed, if it was recorded."""

    def collect(self, count: int, *, first: int = 0, progress: bool = False) -> "Episodes":
        """So many episodes, from the one of number `first` on."""


def sequential(options: "Options") -> "Options":
    """The options of a search for the smallest number of episodes that certifies a target.

    Raises:
        InputError: the number of episodes is fixed, or too small for a search.
    """
    if options.episodes != "auto":
        raise InputError(
            f"expected `max_episodes` with `until`, found `episodes` {options.episodes}"
        )
    options = replace(options, scheme="sequential")
    least = (options.division.first or 0) + BATCH
    if options.max_episodes < least:
        raise InputError(
            f"expected `max_episodes` of at least {least}, found {options.max_episodes}"
        )
    return replace(options, episodes=options.max_episodes)


def most_units(data: "Data", view: "View", options: "Options", unit: "Unit") -> int:
    """Units in the bound after all of `max_episodes`, if later episodes are as long as free ones.

    Only free episodes are looked at.
    """
    later = options.max_episodes - view.free_count
    if unit == "episode" or view.free is None:
        return max(later, 1)
    per_episode = len(view.free) / len(np.unique(view.free_episode)) / data.thin
    return max(round(per_episode * later), 1)


@dataclass(frozen=True)
class _Search:
    """What stays the same while episodes are added."""

    options: "Options"
    fitted: "Fitted"
    view: "View"
    thin: int
    delta: float
    target: float

    def losses(self, episodes: "Episodes") -> NDArray[np.float64]:
        """Values of the units of more episodes."""
        from tightrope.certificates.measure import unit_values
        from tightrope.rollouts import pairs

        rows = pairs(episodes, gamma=self.options.gamma, thin=self.thin)
        predicted = self.fitted.chain.predictions(rows.observations, rows.step)
        found = np.square(predicted - self.view.scaling.targets(rows.returns))
        return np.clip(unit_values(found, rows.episode, self.options.unit), 0.0, 1.0)

    def bound(self, values: NDArray[np.float64]) -> float:
        """The RMS that these values certify, in return units."""
        before = self.fitted.beforehand
        step = self.options.unit == "step"
        bound = betting_upper(
            values,
            delta=self.delta,
            bets=before.bets if step else before.episode_bets,
            weights=before.weights if step else before.episode_weights,
        )
        return float(np.sqrt(bound)) * self.view.scaling.width


def issue_until(source: Source, *, progress: bool = False) -> "Certificate":
    """Roll out in batches until the target is certified, or there are `max_episodes`.

    Raises:
        InputError: no number of episodes up to the largest could certify the target.
    """
    from tightrope.certificates.assess import assess, ledger_of
    from tightrope.certificates.data import prepare, view
    from tightrope.certificates.issue import fit_one, record
    from tightrope.rollouts import join

    options = source.options
    pilot, first = options.pilot_episodes, options.division.first
    assert isinstance(options.seed, int)
    assert isinstance(pilot, int)
    assert first is not None
    parts = [source.collect(pilot + first + BATCH, progress=progress)]
    start = replace(options, episodes=first + BATCH, test_episodes=0)
    data = prepare(parts[0], start, source.training)
    seen = view(data, start)
    fitted = fit_one(data, seen, start, progress=progress)
    search = _Search(
        *(options, fitted, seen, data.thin),
        delta=ledger_of(data, start).failure("hold-out: risk"),
        target=target_of(options.until),
    )
    _require_reachable(search, data)
    values = search.losses(parts[0].span(pilot + first, pilot + first + BATCH))
    count = first + BATCH
    with progress_bar("rolling out", options.max_episodes, shown=progress) as report:
        while (rms := search.bound(values)) > search.target and count < options.max_episodes:
            report(count, f"episodes, rms {rms:.4g}")
            size = min(max(BATCH, count // _GROWTH), options.max_episodes - count)
            parts.append(source.collect(size, first=pilot + count))
            values = np.append(values, search.losses(parts[-1]))
            count += size
    tests = options.test_episodes
    assert isinstance(tests, int)
    if tests:
        parts.append(source.collect(tests, first=pilot + count, progress=progress))
    episodes = join([one for part in parts for one in part], parts[0].subject)
    final = replace(options, episodes=count)
    data = prepare(episodes, final, source.training)
    seen = view(data, final)
    found = assess(fitted.chain, data, seen, final, fitted.beforehand)
    return record(found, fitted, data, seen, final)


def outcome(certificate: "Certificate", reached: bool) -> str:
    """How a search ended, in words."""
    until, most = certificate.options.until, certificate.options.max_episodes
    count, error = certificate.episodes.validation, certificate.statements[0].estimate
    if reached:
        return f"{until} was certified after {count} of at most {most} validation episodes."
    return (
        f"{until} was NOT certified with {count} validation episodes: the bound is "
        f"{certificate.rms_raw:.4g}, the error in the sample {error:.4g}."
    )


def _require_reachable(search: _Search, data: "Data") -> None:
    """Refuse a target below what even a predictor without any error could be certified for."""
    options = search.options
    units = most_units(data, search.view, options, options.unit)
    width, target = search.view.scaling.width, search.target
    floor = float(np.sqrt(risk_floor(0.0, n=units, delta=search.delta))) * width
    place = f"{options.max_episodes} episodes (about {units:,} units of {options.unit})"
    if floor > target:
        raise InputError(
            f"expected a target that `max_episodes` can reach, found rms<={target:g}: with {place} "
            f"not even a perfect predictor could be certified below {floor:.4g}"
        )
    fit = search.fitted.fits[0]
    if fit.kind == "regression":
        likely = float(np.sqrt(min(fit.loss))) * width
        if likely > target:
            warnings.warn(
                f"the target rms<={target:g} will hardly be reached: on free episodes that it did "
                f"not see the predictor errs by {likely:.4g}, and no bound goes below the error",
                stacklevel=3,
            )
