"""Episodes on their way into a certificate: shared out, thinned, scaled; nothing leaks back."""

import hashlib
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.options import Options
from tightrope.certificates.shares import PILOT_EPISODES, Shares, share_out
from tightrope.environments import known_thinning
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Clock, Rows, Scaling, moments, range_from_pilot
from tightrope.rollouts import Episode, Episodes, Pairs, pairs

__all__ = ["Data", "View", "prepare", "view"]


@dataclass(frozen=True)
class Data:
    """One data set for certificates: what no scheme changes.

    Attributes:
        shares: pilot, validation and test episodes.
        thin: every `thin`-th step is kept.
        validation: thinned (state, return) pairs of the validation episodes.
        test: the same of the test episodes, if there are any.
        return_range: smallest and largest return, fixed before the validation data.
        range_source: where the range comes from.
        training: mean and deviation of observations in training, where a record has them.
    """

    shares: Shares
    thin: int
    validation: Pairs
    test: Pairs | None
    return_range: tuple[float, float]
    range_source: str
    training: Scaling | None

    def row_of_episode(self, episode: int) -> int:
        """First row of a validation episode; the number of rows for the one after the last."""
        return int(np.searchsorted(self.validation.episode, episode))


@dataclass(frozen=True)
class View:
    """The data as one scheme sees them: scaled by what it may know.

    Attributes:
        scaling: return range, observation scaling and clock, from free episodes or given.
        free: every step of the episodes that no bound is evaluated on; None if there are none.
        free_episode: (rows,) the episode of each of these.
        free_count: how many of the validation episodes are among them.
        rows: the validation pairs.
        targets: (rows,) of these, in float64.
    """

    scaling: Scaling
    free: Rows | None
    free_episode: NDArray[np.int64]
    free_step: NDArray[np.int64]
    free_count: int
    rows: Rows
    targets: NDArray[np.float64]


def prepare(episodes: Episodes, options: Options, training: Scaling | None = None) -> Data:
    """Share out and thin; a range from a training record goes before the pilot's.

    Raises:
        InputError: there are too few episodes, or the returns are constant.
    """
    if len(episodes) < 2:
        raise InputError(f"expected at least 2 episodes, found {len(episodes)}: record more")
    partial = episodes.subject.get("partial")
    if partial is not None:
        raise InputError(
            f"expected a whole collection, found a partial one ({partial}): it favours short "
            "episodes, so collect again"
        )
    shares = share_out(
        episodes,
        pilot=PILOT_EPISODES if options.pilot_episodes == "auto" else options.pilot_episodes,
        validation=None if options.episodes == "auto" else options.episodes,
        test=0 if options.test_episodes == "auto" else options.test_episodes,
    )
    _require_distinct(shares.all_episodes)
    thin = _default_thinning(shares) if options.thin == "auto" else options.thin
    validation = pairs(shares.validation, gamma=options.gamma, thin=thin)
    test = None if shares.test is None else pairs(shares.test, gamma=options.gamma, thin=thin)
    features = shares.validation.observations.shape[1]
    if training is not None and len(training.mean) != features:
        raise InputError(
            f"expected a training record for {features} features, found one for "
            f"{len(training.mean)}: it is of another environment"
        )
    if validation.returns.min() == validation.returns.max():
        raise InputError(
            f"expected returns that vary, found the constant {validation.returns[0]:g} in all "
            "validation episodes: there is nothing to predict"
        )
    low, high, source = _range(shares, options, thin, training)
    return Data(
        shares=shares,
        thin=thin,
        validation=validation,
        test=test,
        return_range=(low, high),
        range_source=source,
        training=training,
    )


def view(data: Data, options: Options) -> View:
    """The data as the options' scheme may see them.

    What fixes the scaling, the clock and the regression is the pilot and, where no bound is
    evaluated on it, the first portion of the validation episodes.

    Raises:
        InputError: a clock is asked for where there is no time limit, or one that does not hold.
    """
    validation, pilot = data.shares.validation, data.shares.pilot
    free_count = options.division.free(len(validation), 0 if pilot is None else len(pilot))
    groups = [] if pilot is None else [pilot]
    groups += [validation.span(0, free_count)] if free_count else []
    free = [pairs(group, gamma=options.gamma) for group in groups]
    clock = _clock(data, options, groups)
    features = validation.observations.shape[1]
    if data.training is not None:
        mean, deviation = data.training.mean, data.training.deviation
    else:
        mean, deviation = moments([each.observations for each in free], features)
    low, high = data.return_range
    scaling = Scaling(low, high, data.range_source, mean, deviation, clock)  # type: ignore[arg-type]
    clipped = scaling.clipped_share(data.validation.returns)
    if clipped > 0.5:
        warnings.warn(
            f"{clipped:.0%} of the validation returns lie outside the return range "
            f"[{low:g}, {high:g}] and are clipped: the certificate says little about the returns "
            "themselves; use a wider range",
            stacklevel=2,
        )
    numbers: list[NDArray[np.int64]] = []
    for each in free:
        numbers.append(each.episode + (1 + numbers[-1].max() if numbers else 0))
    empty = np.zeros(0, dtype=np.int64)
    return View(
        scaling=scaling,
        free=scaling.rows(*free) if free else None,
        free_episode=np.concatenate(numbers) if numbers else empty,
        free_step=np.concatenate([each.step for each in free]) if free else empty,
        free_count=free_count,
        rows=scaling.rows(data.validation),
        targets=scaling.targets(data.validation.returns),
    )


def _range(
    shares: Shares, options: Options, thin: int, training: Scaling | None
) -> tuple[float, float, str]:
    if options.return_range != "auto":
        return (*options.return_range, "user")
    if training is not None:
        return training.low, training.high, "training"
    if shares.pilot is None:
        raise InputError(
            "expected a `return_range` LO HI with `pilot_episodes` 0, found none: nothing else "
            "fixes the range"
        )
    pilot = pairs(shares.pilot, gamma=options.gamma, thin=thin)
    return (*range_from_pilot(pilot.returns), "pilot")


def _clock(data: Data, options: Options, free: list[Episodes]) -> Clock | None:
    """The clock, if it is wanted and the time limit is known."""
    wanted = options.clock == "on" or (options.clock == "auto" and PRESETS[options.preset].clock)
    if not wanted:
        return None
    limit = options.time_limit if options.time_limit != "auto" else _time_limit(data, free)
    if limit is None:
        if options.clock == "on":
            raise InputError(
                "expected a time limit for `clock` on, found none: the environment has no limit, "
                "or no episode outside the bounds was cut by one; give `time_limit`, or `clock` off"
            )
        return None
    longest = int(data.shares.all_episodes.lengths.max())
    if longest > limit:
        given = "`time_limit`" if options.time_limit != "auto" else "the time limit"
        raise InputError(
            f"expected no episode longer than {given} of {limit} steps, found one of {longest}: "
            "give another `time_limit`, or `clock` off"
        )
    return Clock(limit, options.gamma)


def _time_limit(data: Data, free: list[Episodes]) -> int | None:
    """From the environment's recipe; for a log, the one length at which free episodes are cut."""
    recorded = data.shares.validation.subject.get("environment", {}).get("time_limit")
    if recorded is not None:
        return int(recorded)
    cut = np.concatenate(
        [each.lengths[each.truncated & ~each.terminated] for each in free]
        or [np.zeros(0, dtype=np.int64)]
    )
    longest = max((int(each.lengths.max()) for each in free), default=0)
    return longest if len(cut) >= 2 and (cut == longest).all() else None


def _require_distinct(episodes: Episodes) -> None:
    """Equal seeds, or equal episodes, are not independent ones."""
    seeds = episodes.seeds[episodes.seeds >= 0]
    if len(np.unique(seeds)) < len(seeds):
        values, counts = np.unique(seeds, return_counts=True)
        raise InputError(
            f"expected episodes with distinct seeds, found the seed {values[counts > 1][0]} "
            f"{counts[counts > 1][0]} times"
        )
    contents = {_digest(episode) for episode in episodes}  # the episodes themselves may be large
    if len(contents) < len(episodes):
        warnings.warn(
            f"{len(episodes) - len(contents)} of {len(episodes)} episodes repeat another one "
            "exactly: are they independent?",
            stacklevel=3,
        )


def _digest(episode: Episode) -> bytes:
    digest = hashlib.sha256()
    for array in (episode.rewards, episode.observations):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _default_thinning(shares: Shares) -> int:
    """From the environment's recipe; for a log, from its pilot: 5 for fixed lengths, else 3."""
    environment = shares.validation.subject.get("environment", {})
    recorded = environment.get("thin") or known_thinning(str(environment.get("id", "")))
    if recorded is not None:
        return int(recorded)
    pilot = shares.pilot
    fixed = pilot is not None and not pilot.terminated.any() and len(set(pilot.lengths)) == 1
    return 5 if fixed else 3
