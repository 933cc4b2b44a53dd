"""Split episodes into fitting, calibration and test sets; what the fitting set fixes."""

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.certificates.evidence import UNSCALED
from tightrope.certificates.settings import Settings
from tightrope.errors import InputError
from tightrope.posteriors import Clock, RangeSource, Scaling, moments, range_of_returns
from tightrope.rollouts import Episodes, Pairs, pairs
from tightrope.rollouts.results_table import table_of

__all__ = ["Split", "split_episodes"]


@dataclass(frozen=True)
class Split:
    """Episodes by what they may be used for; nothing flows from a later set to an earlier one.

    Attributes:
        settings: what is done.
        fit: episodes that no bound is evaluated on: the pilot and, where the scheme leaves it out
            of its bound, the first portion; None if there are none.
        validation: all but pilot and test.
        calibration: the episodes that the predictor's statements rest on.
        test: enter no bound; None without any.
        used: all of these, in recorded order.
        thin: every `thin`-th step counts.
        scaling: return range, observation scaling and clock.
    """

    settings: Settings
    fit: Episodes | None
    validation: Episodes
    calibration: Episodes
    test: Episodes | None
    used: Episodes
    thin: int
    scaling: Scaling

    @property
    def outcomes(self) -> Episodes:
        """The episodes of statements on returns and failures, which need no predictor."""
        return self.calibration if self.settings.scheme.fixed else self.validation

    @cached_property
    def rows(self) -> Pairs:
        """Thinned (state, return) pairs of the validation episodes."""
        return self.pairs_of(self.validation)

    @cached_property
    def fit_rows(self) -> Pairs | None:
        """Pairs of every step of the fitting set."""
        return None if self.fit is None else pairs(self.fit, gamma=self.settings.gamma)

    @property
    def starts(self) -> list[int]:
        """First validation episode of each portion, and at the end how many there are."""
        return [0, *np.cumsum(self.settings.sizes).tolist()]

    def row_of(self, episode: int) -> int:
        """First row of a validation episode; the number of rows for the one after the last."""
        return int(np.searchsorted(self.rows.episode, episode))

    def pairs_of(self, episodes: Episodes) -> Pairs:
        """Thinned pairs of any of the sets."""
        return pairs(episodes, gamma=self.settings.gamma, thin=self.thin)


def split_episodes(
    episodes: Episodes, settings: Settings, training: Scaling | None = None
) -> Split:
    """Split recorded episodes in their order, and let the fitting set fix range and scaling.

    Raises:
        InputError: there are too few episodes, the returns are constant, or a clock is asked for
            where there is no time limit.
    """
    needed = max(settings.episodes, 2)
    if len(episodes) < needed:
        raise InputError(
            f"expected at least {needed} episodes ({settings.pilot} pilot, "
            f"{settings.validation} to fit and calibrate, {settings.test} test), found "
            f"{len(episodes)}: record more"
        )
    partial = episodes.subject.get("partial")
    if partial is not None:
        raise InputError(
            f"expected a whole collection, found a partial one ({partial}): it favours short "
            "episodes, so collect again"
        )
    first, last = settings.pilot, settings.pilot + settings.validation
    used, table = episodes.span(0, settings.episodes), settings.scheme.kind == "table"
    validation = used.span(first, last)
    held_out = 0 if settings.scheme.reproducible_prior else settings.sizes[0]
    fit = used.span(0, first + held_out) if first + held_out else None
    split = Split(
        settings=settings,
        fit=fit,
        validation=validation,
        calibration=validation.span(held_out, len(validation)),
        test=used.span(last, settings.episodes) if settings.test else None,
        used=used,
        thin=settings.thin or _thinning(fit),
        scaling=UNSCALED if table else _scaling(used, fit, settings, training),
    )
    for words in _refusals(split):
        raise InputError(words)
    contents = {  # digests, since the episodes themselves may be large
        hashlib.sha256(each.rewards.tobytes() + each.observations.tobytes()).digest()
        for each in used
    }
    if len(contents) < len(used) and not table:
        warnings.warn(
            f"{len(used) - len(contents)} of {len(used)} episodes repeat another one exactly: are "
            "they independent?",
            stacklevel=2,
        )
    return split


def _refusals(split: Split) -> Iterator[str]:
    """What cannot be certified, before anything is fitted: in words."""
    settings, used, low = split.settings, split.used, None
    if settings.scheme.kind == "table":
        low = settings.return_range and settings.return_range[0]
        for name, count in (table_of(used) or {})["tasks"]:
            if count < 2:
                where = f" of {name}" if name else ""
                yield f"expected at least 2 episodes{where}, found {count}"
    else:
        seeds, counts = np.unique(used.seeds[used.seeds >= 0], return_counts=True)
        for seed, count in zip(seeds[counts > 1], counts[counts > 1], strict=True):
            yield f"expected episodes with distinct seeds, found the seed {seed} {count} times"
        found = split.rows.returns
        if found.min() == found.max():
            yield (
                f"expected returns that vary, found the constant {found[0]:g} in all validation "
                "episodes: there is nothing to predict"
            )
    for words, floor, gamma in (
        ("`return_floor`", settings.return_floor, 1.0),
        ("`discounted_floor`", settings.discounted_floor, settings.gamma),
        ("low end of the `return_range`", low, 1.0),
    ):
        smallest = split.outcomes.returns(gamma).min()
        if floor is not None and smallest < floor:
            yield (
                f"expected no return below the {words} {floor:g}, found {smallest:g}: a lower one "
                "may be certified on other episodes, or with `candidates`"
            )


def _thinning(fit: Episodes | None) -> int:
    """For a log: 5 if all fitting episodes are cut at one length, else 3."""
    fixed = fit is not None and not fit.terminated.any() and len(set(fit.lengths)) == 1
    return 5 if fixed else 3


def _scaling(
    used: Episodes, fit: Episodes | None, settings: Settings, training: Scaling | None
) -> Scaling:
    """Range, scaling and clock: of the training record, or fixed by the fitting set."""
    features, count = used.observations.shape[1], settings.fit or settings.pilot
    if training is not None and len(training.mean) != features:
        raise InputError(
            f"expected a training record for {features} features, found one for "
            f"{len(training.mean)}: it is of another environment"
        )
    source: RangeSource = "fit" if settings.scheme.fixed else "pilot"
    if settings.return_range is not None:
        (low, high), source = settings.return_range, "user"
    elif training is not None:
        low, high, source = training.low, training.high, training.source
    elif count:
        thin = settings.thin or _thinning(fit)
        found = pairs(used.span(0, count), gamma=settings.gamma, thin=thin)
        low, high = range_of_returns(found.returns)
    else:
        raise InputError(
            "expected a `return_range` LO HI with `pilot_episodes` 0, found none: nothing else "
            "fixes the range"
        )
    if training is not None:
        mean, deviation = training.mean, training.deviation
    else:
        assert fit is not None  # settle refuses to scale by nothing
        mean, deviation = moments(pairs(fit, gamma=settings.gamma).observations)
    return Scaling(low, high, source, mean, deviation, _clock(used, fit, settings))


def _clock(used: Episodes, fit: Episodes | None, settings: Settings) -> Clock | None:
    """The clock, if it is wanted and the time limit is known."""
    limit = settings.time_limit or _cut_at(fit)
    if limit is None or not settings.clock:
        return None
    if (longest := int(used.lengths.max())) > limit:
        raise InputError(
            f"expected no episode longer than the time limit of {limit} steps, found one of "
            f"{longest}: give another `time_limit`, or `clock` off"
        )
    return Clock(limit, settings.gamma)


def _cut_at(fit: Episodes | None) -> int | None:
    """The one length at which fitting episodes are cut, if there is one."""
    if fit is None:
        return None
    cut = fit.lengths[fit.truncated & ~fit.terminated]
    longest = int(fit.lengths.max())
    return longest if len(cut) >= 2 and (cut == longest).all() else None
