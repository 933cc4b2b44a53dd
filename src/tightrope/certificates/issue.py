"""Issue certificates: fit, assess, and put on record."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightrope.certificates.assess import Assessment, assess, ledger_of
from tightrope.certificates.assumptions import assumptions
from tightrope.certificates.beforehand import Beforehand, plan_beforehand
from tightrope.certificates.certificate import Certificate, Checks, Counts, Fit, ReturnRange
from tightrope.certificates.data import Data, View, prepare, view
from tightrope.certificates.links import links
from tightrope.certificates.options import Options
from tightrope.certificates.outcomes import require_floor
from tightrope.certificates.portions import final_bound
from tightrope.devices import resolve_device
from tightrope.errors import InputError
from tightrope.posteriors import (
    PRESETS,
    Chain,
    Curves,
    Gaussians,
    Link,
    Network,
    Regressed,
    Scaling,
    fit_chain,
    informed_prior,
    random_prior,
    regress,
    settled,
)
from tightrope.progress import Report, progress_bar
from tightrope.rollouts import Episodes
from tightrope.seeds import Stream, child_seed

__all__ = ["Fitted", "certify_many", "first_regression", "fit_one", "record"]

_ABOUT_DATA = ("gamma", "thin", "return_range", "pilot_episodes", "episodes", "test_episodes")


@dataclass(frozen=True)
class Fitted:
    """What one repetition of one request was fitted to, and what was fixed with it."""

    chain: Chain
    fits: tuple[Fit, ...]
    beforehand: Beforehand


def certify_many(
    episodes: Episodes,
    requests: Sequence[Options],
    seeds: Sequence[int],
    *,
    training: Scaling | None = None,
    progress: bool = False,
) -> list[list[Certificate]]:
    """Certificates for several requests (rows) and repetitions (columns, one per seed).

    All repetitions of a posterior run in one tensor program, and a fit that two schemes share runs
    once. Choosing the best of these certificates afterwards voids its confidence: that is paid for
    with `candidates`.

    Args:
        episodes: pilot, validation and test episodes in recorded order.
        requests: options; those that concern the data must be the same in all.
        seeds: one repetition each; goes before the seed in `requests`.
        training: range and observation scaling from a training record.
        progress: show a bar on standard error.
    """
    requests = [replace(each, device=resolve_device(each.device)) for each in requests]
    _require_same_data(requests)
    data = prepare(episodes, requests[0], training)
    for options in requests:
        require_floor(data, options)
    views = [view(data, options) for options in requests]
    work = _Work(data, seeds)
    total = sum(work.steps(each, options) for each, options in zip(views, requests, strict=True))
    fitted = []
    with progress_bar("fitting", total, shown=progress) as report:
        work.counter = _Counter(report)
        for options, each in zip(requests, views, strict=True):
            fitted.append(work.fit(each, options))
    results: list[list[Certificate]] = []
    with progress_bar("evaluating", len(requests) * len(seeds), shown=progress) as report:
        for options, each, members in zip(requests, views, fitted, strict=True):
            row = []
            for seed, member in zip(seeds, members, strict=True):
                own = options.seeded(seed)
                found = assess(member.chain, data, each, own, member.beforehand)
                row.append(record(found, member, data, each, own))
                report(len(results) * len(seeds) + len(row), "certificates")
            results.append(row)
    return results


def fit_one(data: Data, seen: View, options: Options, *, progress: bool = False) -> Fitted:
    """What one request, whose seed is settled, is fitted to."""
    assert isinstance(options.seed, int)
    work = _Work(data, [options.seed])
    with progress_bar("fitting", work.steps(seen, options), shown=progress) as report:
        work.counter = _Counter(report)
        return work.fit(seen, options)[0]


def record(
    found: Assessment, fitted: Fitted, data: Data, seen: View, options: Options
) -> Certificate:
    """An assessment as a certificate."""
    validation, test = data.shares.validation, data.shares.test
    portions = found.portions[options.unit]
    other = found.portions["episode" if options.unit == "step" else "step"]
    clock = seen.scaling.clock
    comparison = found.comparison
    settled_options = replace(
        options,
        clock="off" if clock is None else "on",
        time_limit="auto" if clock is None else clock.limit,
        thin=data.thin,
        pilot_episodes=0 if data.shares.pilot is None else len(data.shares.pilot),
        episodes=len(validation),
        test_episodes=0 if test is None else len(test),
    )
    return Certificate(
        options=settled_options,
        thin=data.thin,
        time_limit=None if clock is None else clock.limit,
        bound=final_bound(portions)[0],
        confidence=found.ledger.confidence,
        n=portions[0].n,
        effective_n=comparison.effective_n,
        checks=Checks(comparison.dependence, comparison.drift),
        return_range=ReturnRange(seen.scaling.low, seen.scaling.high, seen.scaling.source),
        clipped_share=seen.scaling.clipped_share(data.validation.returns),
        train_error=comparison.train_error,
        test_error=comparison.test_error,
        constant_error=comparison.constant_error,
        per_step_error=comparison.per_step_error,
        portions=portions,
        other_portions=other,
        statements=found.statements,
        headline=found.headline,
        ledger=found.ledger.spent(),
        fits=fitted.fits,
        beforehand=fitted.beforehand,
        episodes=Counts(
            pilot=settled_options.pilot_episodes,  # type: ignore[arg-type]
            validation=len(validation),
            free=seen.free_count,
            test=settled_options.test_episodes,  # type: ignore[arg-type]
        ),
        steps=len(data.validation),
        truncated_episodes=int(np.sum(validation.truncated & ~validation.terminated)),
        assumptions=assumptions(data, seen, options),
        subject=validation.subject,
        chain=fitted.chain,
        rollouts=data.shares.all_episodes,
    )


def first_regression(
    data: Data, seen: View, options: Options, seed: int, tick: Any = None
) -> Regressed | None:
    """The regression on free data, if the preset has one and there are any.

    Where its result is a prior that no validation episode may have moved, it is exact and on the
    CPU, so that whoever verifies the certificate can repeat it.
    """
    settings = PRESETS[options.preset].regression
    if settings is None or seen.free is None:
        return None
    exact = options.division.exact
    return regress(
        seen.free,
        seen.free_episode,
        settings,
        child_seed(seed, Stream.REGRESSION),
        exact=exact,
        device="cpu" if exact else options.device,
        tick=tick,
    )


class _Counter:
    """Adds up the steps of all fits for one progress bar."""

    def __init__(self, report: Report) -> None:
        self.report, self.done = report, 0

    def __call__(self, steps: int) -> None:
        self.done += steps
        self.report(self.done, "updates")


class _Work:
    """The fits of several requests on the same data; what two of them share is fitted once."""

    def __init__(self, data: Data, seeds: Sequence[int]) -> None:
        self.data, self.seeds = data, seeds
        self.cache: dict[Any, Any] = {}
        self.counter = _Counter(lambda done, words: None)

    def steps(self, seen: View, options: Options) -> int:
        """Updates that a request needs, if it shares none."""
        preset = PRESETS[options.preset]
        regression = preset.regression if seen.free is not None else None
        posterior = len(links(self.data, options)) * preset.fit.steps
        if regression is None:
            return posterior
        return posterior + regression.updates(options.division.exact) * len(self.seeds)

    def fit(self, seen: View, options: Options) -> list[Fitted]:
        """What each repetition was fitted to."""
        regressed = self._regressed(seen, options)
        chosen = links(self.data, options)
        if not chosen:  # regression fixed the predictor
            return [
                Fitted(
                    Chain((), each.network, seen.scaling),
                    (_regression_record(each, seen),),
                    self._beforehand(each, seen, options),
                )
                for each in regressed
            ]
        gaussians, curves = self._posteriors(regressed, chosen, seen, options)
        fitted = []
        for member in range(len(self.seeds)):
            own = tuple(each.member(member) for each in gaussians)
            first = regressed[member] if regressed else None
            records = [] if first is None else [_regression_record(first, seen)]
            epoch = PRESETS[options.preset].fit.epoch_steps
            for curve, link in zip(curves, chosen, strict=True):
                records.append(_posterior_record(curve, member, link, epoch))
            fitted.append(
                Fitted(
                    Chain(own, Network(own[-1].means), seen.scaling),
                    tuple(records),
                    self._beforehand(first, seen, options),
                )
            )
        return fitted

    def _regressed(self, seen: View, options: Options) -> list[Regressed]:
        settings = PRESETS[options.preset].regression
        if settings is None or seen.free is None:
            return []
        exact = options.division.exact
        found = []
        for seed in self.seeds:
            key = (
                *("regression", options.preset, seen.scaling.clock, seen.free_count),
                *(exact, options.device, seed),
            )
            if key in self.cache:
                self.counter(settings.updates(exact))
            else:
                self.cache[key] = first_regression(self.data, seen, options, seed, self.counter)
            found.append(self.cache[key])
        return found

    def _posteriors(
        self, regressed: list[Regressed], chosen: list[Link], seen: View, options: Options
    ) -> tuple[list[Gaussians], list[Curves]]:
        """All Gaussians, the prior first; a chain's beginning is fitted only once."""
        preset = PRESETS[options.preset]
        settings = replace(preset.fit, sampling=options.sampling)
        key: tuple[Any, ...] = (
            *("chain", options.preset, seen.scaling.clock, options.sampling, options.device),
            *(seen.free_count if regressed else 0, seen.scaling.mean.tobytes()),
        )
        if key not in self.cache:
            self.cache[key] = (
                informed_prior(preset, [each.single for each in regressed])
                if regressed
                else random_prior(preset, seen.scaling.features, self.seeds)
            )
        gaussians, curves = [self.cache[key]], []
        for index, link in enumerate(chosen):
            key = (*key, link)
            if key not in self.cache:
                self.cache[key] = fit_chain(
                    gaussians[-1],
                    [link],
                    seen.rows,
                    settings,
                    self.seeds,
                    device=options.device,
                    tick=self.counter,
                    first=index,
                )
            else:
                self.counter(settings.steps)
            posteriors, curve = self.cache[key]
            gaussians.append(posteriors[0])
            curves.append(curve[0])
        return gaussians, curves

    def _beforehand(self, first: Regressed | None, seen: View, options: Options) -> Beforehand:
        return plan_beforehand(first, self.data, seen, options, ledger_of(self.data, options))


def _regression_record(found: Regressed, seen: View) -> Fit:
    assert seen.free is not None
    return Fit(
        kind="regression",
        rows=len(seen.free),
        updates=found.checks,
        loss=tuple(float(f"{error:.6g}") for error in found.errors),
        kl=(),
        objective=(),
        converged=found.steps < found.checks[-1] or settled(found.errors),
    )


def _posterior_record(curves: Curves, member: int, link: Link, epoch: int) -> Fit:
    loss, kl, objective = (
        tuple(float(f"{value:.6g}") for value in curve[member])
        for curve in (curves.loss, curves.kl, curves.objective)
    )
    return Fit(
        kind="posterior",
        rows=link.stop - link.start,
        updates=tuple(epoch * (index + 1) for index in range(len(loss))),
        loss=loss,
        kl=kl,
        objective=objective,
        converged=settled(objective),
    )


def _require_same_data(requests: Sequence[Options]) -> None:
    for name in _ABOUT_DATA:
        values = sorted({getattr(options, name) for options in requests}, key=str)
        if len(values) > 1:
            raise InputError(f"expected one value of `{name}` in all requests, found {values}")
