"""Certify a policy or recorded episodes, at once or until a target is certified."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.bounds import risk_floor
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Options
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.recompute import choices, fitting_evidence, recompute
from tightrope.certificates.settings import BATCH, Settings, settle, training_scaling
from tightrope.certificates.split import Split, split_episodes
from tightrope.certificates.statements import families_for, ledger_for
from tightrope.certificates.text import limit_text
from tightrope.errors import InputError
from tightrope.progress import progress_bar
from tightrope.rollouts import (
    Episodes,
    PolicySource,
    Rollout,
    collect,
    is_recording,
    join,
    load_episodes,
    policy_source,
)
from tightrope.rollouts.results_table import Evaluation, is_results, read_results

if TYPE_CHECKING:
    from tightrope.certificates.fitting import FittedPredictor
    from tightrope.posteriors import Preset, Scaling
    from tightrope.rollouts import Columns

__all__ = ["certify", "issue", "issue_until", "open_source", "roll_out", "search_summary"]

_GROWTH = 5  # a batch of a search is this part of the episodes before
Fit = Callable[..., "FittedPredictor"]
Collect = Callable[[int, int], Episodes]  # so many episodes, from the one of that number on


def certify(
    source: Any,
    /,
    env: Any = None,
    *,
    columns: "Columns" = None,
    frozen: bool = False,
    evaluation: Evaluation = "last",
    rollout: Rollout | None = None,
    properties: Mapping[str, Any] | None = None,
    progress: bool = False,
    preset_values: "Preset | None" = None,
    **options: Any,
) -> Certificate:
    """Certify a policy, recorded episodes or a table; options are fields of :class:`Options`.

    Args:
        source: episodes, a log (path, Minari id, dictionary of arrays, data frame), or a policy
            (path or object) to roll out in `env`.
        env: id, `file.py:function`, object or function that returns the environment of a policy.
        columns: which column of a table, frame or LeRobot dataset is what, such as
            ``"obs=joint_*,reward=r,episode=run"`` or a dictionary.
        frozen: the rows of a `monitor.csv` are evaluation episodes of one policy.
        evaluation: which row of an `evaluations.npz`: its number, from 1; last; or best.
        rollout: how a policy is rolled out.
        properties: numbers per episode of your own: by name a function of an episode, or a
            :class:`Property`.
        progress: show bars on standard error.
        preset_values: a preset of your own, in place of the one that `preset` names.
        options: such as ``scheme="rec-6"``.

    >>> # certificate = certify(episodes, scheme="rec-6", unit="step")

    Raises:
        InputError: an option is wrong, or there are too few episodes.
    """
    asked, measured = Options(**options), properties_of(properties)
    rollout = rollout or Rollout()
    opened = open_source(source, env, rollout, columns, frozen=frozen, evaluation=evaluation)
    training = training_scaling(asked, opened)
    settings = settle(asked, opened, properties=measured, preset=preset_values, training=training)

    def collect_episodes(count: int, first: int = 0) -> Episodes:
        assert isinstance(opened, PolicySource)  # there is nothing else to roll out
        return roll_out(opened, settings, rollout, count, first=first, progress=progress)

    if settings.until is not None:
        return issue_until(collect_episodes, settings, options=asked, progress=progress)
    episodes = opened if isinstance(opened, Episodes) else collect_episodes(settings.episodes)
    episodes = measure_properties(episodes, measured)
    return issue(episodes, settings, options=asked, training=training, progress=progress)


def open_source(
    source: Any,
    env: Any,
    rollout: Rollout,
    columns: "Columns" = None,
    *,
    frozen: bool = False,
    evaluation: Evaluation = "last",
) -> Episodes | PolicySource:
    """Recorded episodes, or the policy to roll out and its environment.

    Raises:
        InputError: there is no such source, or an argument is not for it.
    """
    results = is_results(source, columns)
    if not results and (frozen or evaluation != "last"):
        name = "frozen" if frozen else "evaluation"
        raise InputError(f"expected `{name}` for a table of results, found {source!r}")
    if results or is_recording(source):
        given = {"env": env} if env is not None else {}
        given |= {k: v for k, v in vars(rollout).items() if v != getattr(Rollout(), k)}
        if given:
            name = source if isinstance(source, str) else type(source).__name__
            found = f"{next(iter(given))}` for the recorded episodes {name!r}"
            raise InputError(f"expected no `{found}")
        if results:
            read = read_results(source, columns=columns, frozen=frozen, evaluation=evaluation)
            return read.episodes()
        return load_episodes(source, columns)
    if columns:
        raise InputError("expected no `columns` for a policy: they are for recorded episodes")
    return policy_source(source, env, rollout.env_kwargs)


def roll_out(
    source: PolicySource,
    settings: Settings,
    rollout: Rollout,
    count: int,
    *,
    first: int = 0,
    progress: bool = False,
) -> Episodes:
    """Episodes of a policy, from the one of number `first` on."""
    made = (source.policy, source.environment, count, settings.seed)
    found = collect(*made, first=first, progress=progress, **rollout.arguments)
    return replace(found, subject={**found.subject, **source.training()})


def issue(
    episodes: Episodes,
    settings: Settings,
    *,
    options: Options | None = None,
    training: "Scaling | None" = None,
    fit: Fit | None = None,
    progress: bool = False,
) -> Certificate:
    """Fit a predictor and certify it.

    Args:
        episodes: pilot, validation and test episodes in recorded order.
        settings: what is done.
        options: what was asked.
        training: range and observation scaling from a training record.
        fit: fits the predictor; a cache around it shares fits between certificates.
        progress: show a bar on standard error.
    """
    split = split_episodes(episodes, settings, training)
    if settings.scheme.kind == "table":  # nothing to fit
        return recompute(split, None, options=options)
    from tightrope.certificates.fitting import fit_predictor, fit_with_bar

    fitted = fit_with_bar(split, fit or fit_predictor, shown=progress)
    return recompute(split, fitted, options=options)


def issue_until(
    batch: Collect,
    settings: Settings,
    *,
    options: Options | None = None,
    fit: Fit | None = None,
    progress: bool = False,
) -> Certificate:
    """Roll out in batches until the target is certified, or there are `max_episodes`.

    The bets are fixed before the first episode of the bound, so the bound holds at every number of
    episodes at once, (H.7) in docs/theory.md, and one may stop when the number looks good.

    Args:
        batch: gives the next episodes of the policy.
        settings: with a target; its number of validation episodes is that of the first look.
        options: what was asked.
        fit: fits the predictor.
        progress: show bars on standard error.

    Raises:
        InputError: no number of episodes up to the largest could certify the target.
    """
    from tightrope.certificates.fitting import fit_predictor, fit_with_bar

    assert settings.until is not None  # settle sets both
    assert settings.max_episodes is not None
    start = replace(settings, test=0)
    parts = [batch(start.validation, 0)]
    split = split_episodes(parts[0], start)
    fitted = fit_with_bar(split, fit or fit_predictor, shown=progress)
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
            parts.append(batch(size, count))
            values = np.append(values, scores(parts[-1]))
            count += size
    if settings.test:
        parts.append(batch(settings.test, count))
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


def _require_reachable(split: Split, fitted: "FittedPredictor") -> None:
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
