"""Certify a policy or recorded episodes: the pipeline on one page."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tightrope.certificates.certificate import Certificate
from tightrope.certificates.options import Options
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.recompute import recompute
from tightrope.certificates.settings import Settings, settle, training_scaling
from tightrope.certificates.split import split_episodes
from tightrope.errors import InputError
from tightrope.rollouts import (
    Episodes,
    PolicySource,
    Rollout,
    collect,
    is_recording,
    load_episodes,
    policy_source,
)
from tightrope.rollouts.results_table import Evaluation, is_results, read_results

if TYPE_CHECKING:
    from tightrope.certificates.fitting import FittedPredictor
    from tightrope.posteriors import Preset, Scaling
    from tightrope.rollouts import Columns

__all__ = ["certify", "issue", "open_source", "roll_out"]

Fit = Callable[..., "FittedPredictor"]


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
        from tightrope.certificates.sequential import issue_until

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
