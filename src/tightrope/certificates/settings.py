"""Settings: what is done, every number known. `settle` is the one place that decides a default."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tightrope.certificates.options import (
    TABLE,
    Candidates,
    Count,
    Discount,
    Options,
    Passes,
    Positive,
    Proper,
    Scheme,
    Termination,
    Unit,
    Weight,
    scheme,
    target_of,
)
from tightrope.certificates.properties import Property
from tightrope.environments import known_thinning
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Preset, Sampling
from tightrope.records import Strict
from tightrope.rollouts import Episodes, PolicySource
from tightrope.rollouts.results_table import table_of
from tightrope.seeds import resolve_seed
from tightrope.system import resolve_device

if TYPE_CHECKING:
    from tightrope.posteriors import Scaling

__all__ = ["BATCH", "PILOT_EPISODES", "PropertySettings", "Settings", "settle", "training_scaling"]

_EPISODES = 200  # to fit and to calibrate, for a policy that is rolled out here
_PAPER = 100  # of validation and of test, in PAC-Bayes schemes
PILOT_EPISODES = 10  # of PAC-Bayes schemes
_SEARCH_FIT = 50
# Options of a table of results.
_FOR_TABLES = (
    *("return_range", "return_floor", "fail_below", "delta", "delta_prime", "candidates", "seed"),
    "gamma",
)
BATCH = 10  # episodes until the first look of a search


@dataclass(frozen=True)
class PropertySettings(Strict):
    """A property of the user's own.

    Attributes:
        name: of the property.
        at_most: whether upper limits are certified; otherwise lower ones.
        limit: that an episode should keep to; null for none.
    """

    name: str
    at_most: bool
    limit: float | None


@dataclass(frozen=True)
class Settings(Strict):
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

    @property
    def budget(self) -> dict[str, Any]:
        """What a ledger divides."""
        return {name: getattr(self, name) for name in ("delta", "delta_prime", "candidates")}


def settle(
    options: Options,
    source: Episodes | PolicySource,
    *,
    properties: Sequence[Property | PropertySettings] = (),
    preset: Preset | None = None,
    training: "Scaling | None" = None,
    rolled_out: bool = False,
) -> Settings:
    """Decide every default, and refuse what cannot work.

    Args:
        options: what is asked.
        source: what it is asked of; of recorded episodes the number counts.
        properties: of the user's own.
        preset: goes before the one that the options name, as for audits with short fits.
        training: range and scaling of a training record, where it is used.
        rolled_out: whether recorded episodes are those that a search has ended with.

    Raises:
        InputError: an option is not for this source, or there are too few episodes.
    """
    chosen, search = scheme("rec-6" if options.paper else options.scheme), options.until != "off"
    table = table_of(source) if isinstance(source, Episodes) else None
    if table is not None:
        _require_for_table(options, table)
        chosen = TABLE
    if search:
        if isinstance(source, Episodes) and not rolled_out:
            raise InputError("expected a policy to roll out with `until`, found recorded episodes")
        if properties:
            raise InputError(f"expected no `properties` with `until`, found {properties[0].name!r}")
        chosen = Scheme("sequential", "sequential")
    preset = preset or PRESETS["paper" if options.paper else options.preset]
    unit = "step" if options.paper or not chosen.fixed else "episode"
    if isinstance(source, Episodes):
        recorded, environment = len(source), source.subject.get("environment", {})
    else:
        recorded, environment = None, source.environment.to_json()
    known = environment.get("thin") or known_thinning(str(environment.get("id", "")))
    pilot, fit, validation, test = _counts(options, chosen, recorded, preset, training)
    chosen.sizes(validation, fit)  # refuses too few
    names = [entry.name for entry in fields(Settings) if hasattr(Options, entry.name)]
    decided = {name: _or(getattr(options, name), None) for name in names} | {
        "scheme": chosen,
        "preset": preset,
        "unit": _or(options.unit, unit),
        "clock": options.clock == "on" or (options.clock == "auto" and preset.clock),
        "time_limit": _or(options.time_limit, environment.get("time_limit")),
        "thin": _or(options.thin, known),
        "until": target_of(options.until) if search else None,
        "max_episodes": options.max_episodes if search else None,
        "seed": resolve_seed(options.seed),
    }
    if table is None:
        decided["device"] = resolve_device(options.device)
    else:  # nothing is fitted, discounted or thinned
        decided |= {"clock": False, "thin": 1, "gamma": 1.0, "device": "cpu"}
        decided["candidates"] *= int(table["candidates"])
    return Settings(
        **decided,
        pilot=pilot,
        fit=fit,
        validation=validation,
        test=test,
        properties=tuple(PropertySettings(p.name, p.at_most, p.limit) for p in properties),
    )


def _counts(
    options: Options,
    chosen: Scheme,
    recorded: int | None,
    preset: Preset,
    training: "Scaling | None",
) -> tuple[int, int, int, int]:
    """Pilot episodes, those to fit, to fit and calibrate together, and to test."""
    if chosen.kind == "table":
        return 0, 0, recorded or 0, 0
    pilot, default, tests = 0, _EPISODES, 0
    if not chosen.fixed:
        if training is None or preset.regression is not None:
            pilot = PILOT_EPISODES
        pilot = _or(options.pilot_episodes, pilot)
        if pilot == 0 and training is None and chosen.reproducible_prior:
            raise InputError(
                "expected `pilot_episodes` of at least 1 for a recursion, found 0: range and "
                "scaling must be fixed by episodes that are in no bound"
            )
        default = _PAPER
        tests = _PAPER if recorded is None or options.paper else 0
    test = _or(options.test_episodes, tests)
    if chosen.kind == "sequential":
        fit = _or(options.fit_episodes, _SEARCH_FIT)
        if options.max_episodes < fit + BATCH:
            raise InputError(
                f"expected `max_episodes` of at least {fit + BATCH}, found {options.max_episodes}: "
                f"{fit} episodes are fitted to"
            )
        return 0, fit, fit + BATCH if recorded is None else recorded - test, test
    validation = _or(options.episodes, default)
    if recorded is not None:
        left = recorded - pilot - test
        validation = _or(options.episodes, min(left, _PAPER) if options.paper else left)
        least = max(validation, 2 if chosen.fixed else 1)
        if least > left:
            raise InputError(
                f"expected at least {pilot + least + test} episodes ({pilot} pilot, {least} to fit "
                f"and calibrate, {test} test), found {recorded}: record more, or lower `episodes` "
                "or `test_episodes`"
            )
    quarter = max(1, round(validation / 4))
    return pilot, _or(options.fit_episodes, quarter) if chosen.fixed else 0, validation, test


def _require_for_table(options: Options, table: Mapping[str, Any]) -> None:
    """Refuse what has no meaning where there is a row per episode, and no step to predict at."""
    others = [entry.name for entry in fields(Options) if entry.name not in _FOR_TABLES]
    options.refuse(others, "for a table of results", "it has no steps to predict at")
    if not table["returns"]:
        name = "name their column with `columns` return=..."
        options.refuse(("return_floor", "fail_below"), "for a table without returns", name)
    if options.return_range == "auto":
        where = "for a table without `return_range`"
        options.refuse(("return_floor",), where, "nothing else cuts returns from above")


def training_scaling(options: Options, source: Episodes | PolicySource) -> "Scaling | None":
    """Range and scaling of a policy's training record, where a PAC-Bayes scheme uses them.

    It does so where neither a pilot nor a range is asked for.
    """
    fixed = scheme(options.scheme).fixed and not options.paper
    asked = options.pilot_episodes not in ("auto", 0) or options.return_range != "auto"
    if isinstance(source, Episodes) or source.record is None or fixed or asked:
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


def _or(value: Any, default: Any) -> Any:
    """An option's own value, or the default for a word that stands for none."""
    return default if value in ("auto", "off") else value
