"""Stop as soon as a target is certified: batches of episodes under bets fixed beforehand.

The bets are fixed before the first episode of the bound, so the bound holds at every number of
episodes at once, (H.7) in docs/theory.md, and one may stop when the number looks good.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tightrope.bounds import risk_floor
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.fitting import FittedPredictor, fit_predictor, fit_with_bar
from tightrope.certificates.options import Options
from tightrope.certificates.recompute import choices, ledger_of, recompute
from tightrope.certificates.settings import BATCH, Settings
from tightrope.certificates.split import Split, split_episodes
from tightrope.certificates.statements import families_for
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
    mean = families_for(settings, parts[0])[0]
    delta = ledger_of(settings, parts[0]).failure(mean.budget)

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
    c, target = certificate, certificate.settings.until
    assert target is not None  # a search has one
    reached = c.statements[0].limit <= target
    count, error = c.episodes.validation, c.statements[0].estimate
    low, high = c.limits
    clipped = f"clipped to [{low:.4g}, {high:.4g}]"
    condition = ", if steps were independent" if c.unit == "step" else ""
    if reached:
        return True, (
            f"rms<={target:.12g} (mean over {c.unit}s, {clipped}) was certified after {count} of "
            f"at most {c.settings.max_episodes} episodes{condition}."
        )
    return False, (
        f"rms<={target:.12g} (mean over {c.unit}s, {clipped}) was NOT certified with {count} "
        f"episodes: the bound is {limit_text(c.statements[0])}, the error in the sample "
        f"{error:.4g}{condition}."
    )


def _require_reachable(split: Split, fitted: FittedPredictor) -> None:
    """Refuse a target below what even a predictor without any error could be certified for."""
    settings = split.settings
    assert settings.until is not None
    assert split.fit_rows is not None
    later = settings.most - settings.fit
    rows = len(split.fit_rows) / split.fit_rows.episodes / split.thin
    units = max(1, round(later * (rows if settings.unit == "step" else 1.0)))
    delta = settings.delta + settings.delta_prime
    width, target = split.scaling.width, settings.until
    floor = float(np.sqrt(risk_floor(0.0, n=units, delta=delta))) * width
    if floor > target:
        raise InputError(
            f"expected a target that `max_episodes` can reach, found rms<={target:g}: with "
            f"{settings.max_episodes} episodes (about {units:,} units of {settings.unit}) not even "
            f"a perfect predictor could be certified below {floor:.4g}"
        )
    first = fitted.fits[0]
    if first.kind == "regression":
        likely = float(np.sqrt(min(first.loss))) * width
        if likely > target:
            warnings.warn(
                f"the target rms<={target:g} will hardly be reached: on fitting episodes that it "
                f"did not see the predictor errs by {likely:.4g}, and no bound goes below the "
                "error",
                stacklevel=3,
            )
