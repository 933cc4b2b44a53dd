"""Settings: what is done, every number known. `settle` is the one place that decides a default."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from tightrope.certificates.options import (
    Candidates,
    Count,
    Discount,
    Options,
    Passes,
    Positive,
    Proper,
    Termination,
    Unit,
    Weight,
    target_of,
)
from tightrope.certificates.properties import Property
from tightrope.certificates.schemes import TABLE, Scheme, scheme
from tightrope.environments import known_thinning
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Preset, Sampling
from tightrope.records import STRICT
from tightrope.rollouts import Episodes, PolicySource
from tightrope.rollouts.results_table import table_of
from tightrope.seeds import resolve_seed
from tightrope.system import resolve_device

if TYPE_CHECKING:
    from tightrope.posteriors import Scaling

__all__ = [
    "BATCH",
    "PILOT_EPISODES",
    "PropertySettings",
    "Settings",
    "settle",
    "training_scaling",
    "uses_training",
]

_EPISODES = 200  # to fit and to calibrate, for a policy that is rolled out here
_PAPER = 100  # of validation and of test, in PAC-Bayes schemes
PILOT_EPISODES = 10  # of PAC-Bayes schemes
_SEARCH_FIT = 50
# Options that are done as they are asked.
_AS_ASKED = (
    *("return_range", "return_floor", "discounted_floor", "fail_below", "termination", "gamma"),
    *("delta", "delta_prime", "mc_passes", "sampling", "kappa", "candidates"),
)
# Options of a table of results.
_FOR_TABLES = (
    *("return_range", "return_floor", "fail_below", "delta", "delta_prime", "candidates", "seed"),
    "gamma",
)
BATCH = 10  # episodes until the first look of a search


@dataclass(frozen=True)
class PropertySettings:
    """A property of the user's own.

    Attributes:
        name: of the property.
        at_most: whether upper limits are certified; otherwise lower ones.
        limit: that an episode should keep to; null for none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: str
    at_most: bool
    limit: float | None

    @property
    def recorded(self) -> Property:
        """The property, its numbers being on record."""
        return Property(None, "at-most" if self.at_most else "at-least", self.limit, self.name)


@dataclass(frozen=True)
class Settings:
    """What is done.

    Attributes:
        scheme: how episodes are divided and bounded.
        preset: prior and fits, in full.
        unit: what counts as independent in `bound`.
        clock: whether elapsed time is an input where a time limit is known.
        time_limit: of the clock; None if the fitting set has to show it.
        thin: every `thin`-th step counts; None if the fitting set decides.
        return_range: that mean risks are clipped to; None if episodes or the training fix it.
        pilot: episodes before all others, in no bound.
        fit: first episodes of the rest that a fixed predictor is fitted to.
        validation: episodes to fit and to calibrate, together.
        test: episodes after these, which enter no bound.
        return_floor: undiscounted return that no episode falls below.
        discounted_floor: the same for the discounted return.
        fail_below: undiscounted return below which an episode fails.
        termination: what it means that an episode terminates.
        properties: of the user's own.
        gamma: discount factor.
        delta: failure probability over the data.
        delta_prime: failure probability of draws.
        mc_passes: Monte Carlo passes.
        sampling: where the noise of a draw enters.
        kappa: weight of the previous loss in a recursion.
        candidates: certificates that the best may be chosen from.
        until: target of a search, as an RMS in return units.
        max_episodes: most episodes of a search, to fit and to calibrate.
        device: of the fits.
        seed: root of all randomness.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    scheme: Scheme
    preset: Preset
    unit: Unit
    clock: bool
    time_limit: Positive | None
    thin: Positive | None
    return_range: tuple[float, float] | None
    pilot: Count
    fit: Count
    validation: Count
    test: Count
    return_floor: float | None
    discounted_floor: float | None
    fail_below: float | None
    termination: Termination
    properties: tuple[PropertySettings, ...]
    gamma: Discount
    delta: Proper
    delta_prime: Proper
    mc_passes: Passes
    sampling: Sampling
    kappa: Weight
    candidates: Candidates
    until: float | None
    max_episodes: Count | None
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d{1,3})?)$")]
    seed: int

    @property
    def episodes(self) -> int:
        """All of them."""
        return self.pilot + self.validation + self.test

    @property
    def sizes(self) -> list[int]:
        """Episodes of each portion of the validation episodes."""
        return self.scheme.sizes(self.validation, self.fit)

    @property
    def most(self) -> int:
        """Validation episodes at the most: known beforehand, also in a search."""
        return self.max_episodes or self.validation


def settle(
    options: Options,
    source: Episodes | PolicySource,
    *,
    properties: tuple[Property, ...] = (),
    preset: Preset | None = None,
    training: "Scaling | None" = None,
    rolled_out: bool | None = None,
) -> Settings:
    """Decide every default, and refuse what cannot work.

    Args:
        options: what is asked.
        source: what it is asked of; of recorded episodes the number counts.
        properties: of the user's own.
        preset: goes before the one that the options name, as for audits with short fits.
        training: range and scaling of a training record, where it is used.
        rolled_out: whether numbers of episodes are those of a roll-out; None: where the source is a
            policy. The episodes of a certificate may have been rolled out for it.

    Raises:
        InputError: an option is not for this source, or there are too few episodes.
    """
    chosen = scheme("rec-6" if options.paper else options.scheme)
    table = table_of(source) if isinstance(source, Episodes) else None
    if table is not None:
        _require_for_table(options, table)
        chosen = TABLE
    recorded = len(source) if isinstance(source, Episodes) and not rolled_out else None
    if options.until != "off":
        if recorded is not None:
            raise InputError("expected a policy to roll out with `until`, found recorded episodes")
        if properties:
            raise InputError(
                f"expected no `properties` with `until`, found {properties[0].name!r}: a search "
                "certifies only what holds at every number of episodes"
            )
        chosen = Scheme("sequential", "sequential")
    preset = preset or PRESETS["paper" if options.paper else options.preset]
    environment = _environment(source)
    if isinstance(source, Episodes) and table is not None:
        pilot, fit, validation, test = 0, 0, len(source), 0
    elif chosen.fixed:
        pilot, (fit, validation, test) = 0, _fixed_counts(options, recorded)
        if options.until != "off" and isinstance(source, Episodes):
            validation = len(source) - test  # where the search has ended
    else:
        fit, (pilot, validation, test) = 0, _pac_bayes_counts(options, recorded, preset, training)
        if pilot == 0 and training is None and chosen.reproducible_prior:
            raise InputError(
                "expected `pilot_episodes` of at least 1 for a recursion, found 0: range and "
                "scaling must be fixed by episodes that are in no bound"
            )
    as_asked = {name: _given(getattr(options, name)) for name in _AS_ASKED}
    if table is not None:  # nothing is discounted or thinned
        as_asked |= {"gamma": 1.0, "candidates": options.candidates * int(table["candidates"])}
    return Settings(
        **as_asked,
        scheme=chosen,
        preset=preset,
        unit=_unit(options, chosen),
        clock=table is None
        and (options.clock == "on" or (options.clock == "auto" and preset.clock)),
        time_limit=_given(options.time_limit) or environment.get("time_limit"),
        thin=_given(options.thin) or _thinning(environment) if table is None else 1,
        pilot=pilot,
        fit=fit,
        validation=validation,
        test=test,
        properties=tuple(PropertySettings(p.name, p.at_most, p.limit) for p in properties),
        until=None if options.until == "off" else target_of(options.until),
        max_episodes=None if options.until == "off" else options.max_episodes,
        device="cpu" if table is not None else resolve_device(options.device),
        seed=resolve_seed(options.seed),
    )


def _require_for_table(options: Options, table: Mapping[str, Any]) -> None:
    """Refuse what has no meaning where there is a row per episode, and no step to predict at."""
    for entry in fields(Options):
        value = getattr(options, entry.name)
        if entry.name not in _FOR_TABLES and value != getattr(Options, entry.name):
            raise InputError(
                f"expected no `{entry.name}` for a table of results, found {value!r}: it has a row "
                "per episode, and no steps to predict at"
            )
    for name in ("return_floor", "fail_below"):
        if getattr(options, name) != "off" and not table["returns"]:
            raise InputError(
                f"expected no `{name}` for a table without returns, found "
                f"{getattr(options, name):g}: name their column with `columns` return=..."
            )
    if options.return_floor != "off" and options.return_range == "auto":
        raise InputError(
            "expected a `return_range` LO HI with `return_floor` for a table, found none: no "
            "fitting set shows where returns may be cut from above"
        )


def uses_training(options: Options) -> bool:
    """Whether a training record may fix range and scaling: PAC-Bayes, nothing else asked."""
    fixed = scheme(options.scheme).fixed and not options.paper
    asked = options.pilot_episodes not in ("auto", 0) or options.return_range != "auto"
    return not (fixed or asked)


def training_scaling(options: Options, source: PolicySource) -> "Scaling | None":
    """Range and scaling of a policy's training record, where a PAC-Bayes scheme uses them."""
    if source.record is None or not uses_training(options):
        return None
    from tightrope.posteriors import Scaling, range_from_training

    record = source.record
    reason = record.mismatch(environment=source.environment.to_json(), gamma=options.gamma)
    if reason is None:
        low, high = range_from_training(record)
        return Scaling(low, high, "training", record.observation_mean, record.observation_deviation)
    warnings.warn(
        f"the range of the training record is not used: {reason}; {PILOT_EPISODES} pilot episodes "
        "fix the range instead",
        stacklevel=2,
    )
    return None


def _given(value: Any) -> Any:
    """An option's own value, or None for a word that stands for none."""
    return None if value in ("auto", "off") else value


def _unit(options: Options, chosen: Scheme) -> Unit:
    if options.paper:
        return "step"
    if options.unit != "auto":
        return options.unit
    return "episode" if chosen.fixed else "step"


def _environment(source: Episodes | PolicySource) -> dict[str, Any]:
    """What is recorded of the environment; nothing where a log does not say."""
    if isinstance(source, Episodes):
        return dict(source.subject.get("environment", {}))
    return source.environment.to_json()


def _thinning(environment: dict[str, Any]) -> int | None:
    return environment.get("thin") or known_thinning(str(environment.get("id", "")))


def _fixed_counts(options: Options, recorded: int | None) -> tuple[int, int, int]:
    """Episodes to fit, to fit and calibrate, and to test: 12.10 of the theory."""
    test = 0 if options.test_episodes == "auto" else options.test_episodes
    if options.until != "off":
        fit = _SEARCH_FIT if options.fit_episodes == "auto" else options.fit_episodes
        if options.max_episodes < fit + BATCH:
            raise InputError(
                f"expected `max_episodes` of at least {fit + BATCH}, found {options.max_episodes}: "
                f"{fit} episodes are fitted to"
            )
        return fit, fit + BATCH, test
    validation = _validation(options, recorded, 0, test, _EPISODES)
    quarter = min(max(round(validation / 4), 1), max(validation - 1, 1))
    fit = quarter if options.fit_episodes == "auto" else options.fit_episodes
    Scheme("auto", "auto").sizes(validation, fit)  # refuses too few
    return fit, validation, test


def _pac_bayes_counts(
    options: Options, recorded: int | None, preset: Preset, training: "Scaling | None"
) -> tuple[int, int, int]:
    """Pilot, validation and test episodes of a PAC-Bayes scheme."""
    pilot = options.pilot_episodes
    if pilot == "auto":
        pilot = 0 if training is not None and preset.regression is None else PILOT_EPISODES
    tests = _PAPER if recorded is None or options.paper else 0
    test = tests if options.test_episodes == "auto" else options.test_episodes
    return pilot, _validation(options, recorded, pilot, test, _PAPER), test


def _validation(options: Options, recorded: int | None, pilot: int, test: int, default: int) -> int:
    """Validation episodes: as asked, the default of a roll-out, or all that a recording has."""
    asked = None if options.episodes == "auto" else options.episodes
    if recorded is None:
        return default if asked is None else asked
    left = recorded - pilot - test
    if asked is None:
        asked = min(left, _PAPER) if options.paper else left
    least = max(asked, 2 if scheme(options.scheme).fixed and not options.paper else 1)
    if least > left:
        raise InputError(
            f"expected at least {pilot + least + test} episodes ({pilot} pilot, {least} to fit and "
            f"calibrate, {test} test), found {recorded}: record more, or lower `episodes` or "
            "`test_episodes`"
        )
    return asked
