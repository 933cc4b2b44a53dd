"""Issue certificates: fit, assess, and put on record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightrope.certificates.assess import Assessment, assess, links
from tightrope.certificates.certificate import Certificate, Fit
from tightrope.certificates.data import Data, prepare
from tightrope.certificates.options import Options
from tightrope.certificates.words import assumptions
from tightrope.errors import InputError
from tightrope.posteriors import (
    Chain,
    Curves,
    Gaussians,
    Link,
    Scaling,
    fit_chain,
    initial_prior,
    settled,
)
from tightrope.progress import Report, progress_bar
from tightrope.rollouts import Episodes

__all__ = ["certify", "certify_many", "record"]


def certify(
    recorded: Episodes, /, *, scaling: Scaling | None = None, progress: bool = False, **options: Any
) -> Certificate:
    """Certify recorded episodes; the options are the fields of :class:`Options`.

    >>> # certificate = certify(episodes, scheme="rec-6", unit="step")

    Raises:
        InputError: an option is wrong, or there are too few episodes.
    """
    chosen = _options(options)
    return certify_many(recorded, [chosen], [chosen.seed], scaling=scaling, progress=progress)[0][0]


def certify_many(
    episodes: Episodes,
    requests: Sequence[Options],
    seeds: Sequence[int],
    *,
    scaling: Scaling | None = None,
    progress: bool = False,
) -> list[list[Certificate]]:
    """Certificates for several requests (rows) and repetitions (columns, one per seed).

    All repetitions of a fit run in one tensor program, and a fit that two schemes share runs once.
    Choosing the best of these certificates afterwards voids its confidence: that costs a union
    bound (``candidates`` of the ledger).

    Args:
        episodes: pilot, validation and test episodes in recorded order.
        requests: options; those that concern the data must be the same in all.
        seeds: one repetition each; goes before the seed in `requests`.
        scaling: range and scaling from a training record, instead of the pilot's.
        progress: show a bar on standard error.
    """
    _require_same_data(requests)
    data = prepare(episodes, requests[0], scaling)
    plans = [links(data, options) for options in requests]
    cache: dict[Any, Any] = {}
    total = sum(
        len(plan) * options.recipe.settings.steps
        for plan, options in zip(plans, requests, strict=True)
    )
    chains = []
    with progress_bar("fitting", total, shown=progress) as report:
        counter = _Counter(report)
        for options, plan in zip(requests, plans, strict=True):
            chains.append(_fit(data, options, plan, seeds, cache, counter))
    results: list[list[Certificate]] = []
    evaluations = len(requests) * len(seeds)
    with progress_bar("evaluating", evaluations, shown=progress) as report:
        for options, plan, (gaussians, curves) in zip(requests, plans, chains, strict=True):
            row = []
            for member, seed in enumerate(seeds):
                own = replace(options, seed=seed)
                chain = Chain(tuple(g.member(member) for g in gaussians), data.scaling)
                fits = tuple(_fit_record(c, member, p) for c, p in zip(curves, plan, strict=True))
                row.append(record(assess(chain, data, own), chain, data, own, fits))
                report(len(results) * len(seeds) + len(row), "certificates")
            results.append(row)
    return results


def record(
    found: Assessment, chain: Chain, data: Data, options: Options, fits: tuple[Fit, ...]
) -> Certificate:
    """An assessment as a certificate."""
    ledger, validation = options.ledger(), data.shares.validation
    subject, test = validation.subject, data.shares.test
    mode = subject.get("policy", {}).get("actions")
    suite = subject.get("environment", {}).get("suite")
    truncated = int(np.sum(validation.truncated & ~validation.terminated))
    return Certificate(
        options=options,
        thin=data.thin,
        bound=found.bound,
        confidence=ledger.confidence,
        n=found.statements[-1].n if options.plan.kind != "recursive" else found.statements[0].n,
        effective_n=found.effective_n,
        return_range=(data.scaling.low, data.scaling.high),
        return_range_source=data.scaling.source,
        clipped_share=found.clipped_share,
        train_error=found.train_error,
        test_error=found.test_error,
        constant_error=found.constant_error,
        portions=found.statements,
        other_portions=found.other_statements,
        ledger=tuple(
            (e.statement, e.source, str(e.share), float(e.share) * getattr(options, e.source))
            for e in ledger.entries
        ),
        companions=found.companions,
        fits=fits,
        episodes={
            "pilot": 0 if data.shares.pilot is None else len(data.shares.pilot),
            "validation": len(validation),
            "test": 0 if test is None else len(test),
        },
        steps=len(data.validation),
        truncated_episodes=truncated,
        assumptions=assumptions(
            unit=options.unit,
            sampled=None if mode is None else mode == "sampled",
            logged="policy" not in subject,
            truncated=truncated,
            episodes=len(validation),
            source=data.scaling.source,
            seeds=subject["environment"]["seeds"] if suite == "metaworld" else None,
        ),
        subject=subject,
        chain=chain,
        rollouts=data.shares.all_episodes,
    )


class _Counter:
    """Adds up the steps of all fits for one progress bar."""

    def __init__(self, report: Report) -> None:
        self.report, self.done = report, 0

    def __call__(self, steps: int) -> None:
        self.done += steps
        self.report(self.done, "updates")


def _fit(
    data: Data,
    options: Options,
    plan: Sequence[Link],
    seeds: Sequence[int],
    cache: dict[Any, Any],
    counter: _Counter,
) -> tuple[list[Gaussians], list[Curves]]:
    """All Gaussians of one request, the prior first; a chain's beginning is fitted only once."""
    recipe = options.recipe
    settings = replace(recipe.settings, sampling=options.sampling)
    key: tuple[Any, ...] = (options.preset, options.sampling)
    if key not in cache:
        cache[key] = initial_prior(recipe, data.rows.inputs.shape[1], data.pilot, seeds)
    gaussians, curves = [cache[key]], []
    for index, link in enumerate(plan):
        key = (*key, link)
        if key not in cache:
            cache[key] = fit_chain(
                gaussians[-1], [link], data.rows, settings, seeds, tick=counter, first=index
            )
        else:
            counter(settings.steps)
        posteriors, curve = cache[key]
        gaussians.append(posteriors[0])
        curves.append(curve[0])
    return gaussians, curves


def _fit_record(curves: Curves, member: int, link: Link) -> Fit:
    loss, kl, objective = (
        tuple(float(f"{value:.6g}") for value in curve[member])
        for curve in (curves.loss, curves.kl, curves.objective)
    )
    return Fit(link.stop - link.start, loss, kl, objective, settled(objective))


def _options(given: dict[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(f"expected options among {', '.join(known)}, found {unknown[0]!r}")
    return Options(**given)


def _require_same_data(requests: Sequence[Options]) -> None:
    about_data = (
        *("gamma", "thin", "return_range", "pilot_episodes", "episodes", "test_episodes"),
    )
    for name in about_data:
        values = sorted({getattr(options, name) for options in requests}, key=str)
        if len(values) > 1:
            raise InputError(f"expected one value of {name} in all requests, found {values}")
