"""Stop as soon as a target is certified: batches of episodes under bets fixed beforehand.

The bets are fixed before the first episode of the bound, so the bound holds at every number of
episodes at once, (H.7) in docs/theory.md, and one may stop when the number looks good.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tightrope.bounds import risk_floor
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.fitting import FittedPredictor, fit_predictor, fit_with_bar
from tightrope.certificates.options import Options
from tightrope.certificates.recompute import choices, fitting_evidence, recompute
from tightrope.certificates.settings import BATCH, Settings
from tightrope.certificates.split import Split, split_episodes
from tightrope.certificates.statements import families_for, ledger_for
from tightrope.certificates.text import limit_text
from tightrope.errors import InputError
from tightrope.progress import progress_bar
from tightrope.rollouts import Episodes, join

__all__ = ["Collect", "issue_until", "search_summary"]

_GROWTH = 5  # a batch is this part of the episodes before
Collect = Callable[[int, int], Episodes]  # so many episodes, from the one of that number on


def issue_until(
    collect: Collect,
    settings: Settings,
    *,
    options: Options | None = None,
    fit: Callable[..., FittedPredictor] = fit_predictor,
    progress: bool = False,
) -> Certificate:
    """Roll out in batches until the target is certified, or there are `max_episodes`.

    Args:
        collect: gives the next episodes of the policy.
        settings: with a target; its number of validation episodes is that of the first look.
        options: what was asked.
        fit: fits the predictor.
        progress: show bars on standard error.

    Raises:
        InputError: no number of episodes up to the largest could certify the target.
    """
    assert settings.until is not None  # settle sets both
    assert settings.max_episodes is not None
    start = replace(settings, test=0)
    parts = [collect(start.validation, 0)]
    split = split_episodes(parts[0], start)
    fitted = fit_with_bar(split, fit, shown=progress)
    _require_reachable(split, fitted)
    chosen = choices(split, fitted)
    families = families_for(settings, parts[0])
    mean = families[0]
    delta = ledger_for(settings, families).failure(mean.budget)

    def scores(episodes: Episodes) -> np.ndarray:
        seen = Evidence.of(fitted.predictor, episodes, gamma=settings.gamma, thin=split.thin)
        return mean.scores(seen, chosen[mean.name])

    def rms(values: np.ndarray) -> float:
        (limit,) = mean.limits(values, delta=delta, chosen=chosen[mean.name])
        return float(np.sqrt(min(mean.outward(limit.value), 1.0))) * split.scaling.width

    count, values = settings.validation, scores(split.calibration)
    with progress_bar("rolling out", settings.max_episodes, shown=progress) as report:
        while (found := rms(values)) > settings.until and count < settings.max_episodes:
            report(count, f"episodes, rms {found:.4g}")
            size = min(max(BATCH, count // _GROWTH), settings.max_episodes - count)
            parts.append(collect(size, count))
            values = np.append(values, scores(parts[-1]))
            count += size
    if settings.test:
        parts.append(collect(settings.test, count))
    episodes = join([one for part in parts for one in part], parts[0].subject)
    final = split_episodes(episodes, replace(settings, validation=count))
    return recompute(final, fitted, chosen, options=options)


def search_summary(certificate: Certificate) -> tuple[bool, str]:
    """Whether a search reached its target, and how it ended in words."""
    c, target, (low, high) = certificate, certificate.settings.until, certificate.limits
    assert target is not None  # a search has one
    mean, count = c.statements[0], c.episodes.validation
    name = f"rms<={target:.12g} (mean over {c.unit}s, clipped to [{low:.4g}, {high:.4g}])"
    condition = ", if steps were independent" if c.unit == "step" else ""
    if mean.limit <= target:
        most = c.settings.max_episodes
        return True, f"{name} was certified after {count} of at most {most} episodes{condition}."
    return False, (
        f"{name} was NOT certified with {count} episodes: the bound is {limit_text(mean)}, the "
        f"error in the sample {mean.estimate:.4g}{condition}."
    )


def _require_reachable(split: Split, fitted: FittedPredictor) -> None:
    """Refuse a target below what even a predictor without any error could be certified for."""
    settings, width = split.settings, split.scaling.width
    target, episodes = settings.until or 0.0, settings.most - settings.fit
    fit = fitting_evidence(split, fitted)
    assert fit is not None  # a search has a fitting set
    units = fit.units(settings.unit, episodes, split.thin)
    floor = float(np.sqrt(risk_floor(0.0, n=units, delta=settings.delta + settings.delta_prime)))
    if floor * width > target:
        raise InputError(
            f"expected a target that `max_episodes` can reach, found rms<={target:g}: with "
            f"{settings.max_episodes} episodes (about {units:,} units of {settings.unit}) not even "
            f"a perfect predictor could be certified below {floor * width:.4g}"
        )
