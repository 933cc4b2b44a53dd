"""Questions on two policies, and what pairs of episodes answer; section D of the theory.

Each question is put as the mean of differences in [-1, 1], one per pair of episodes or per two
pairs; a positive mean is in favour of A. Row i of one sample is paired with row i of the other.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tightrope.bounds import difference_lower, difference_upper
from tightrope.bounds.difference import fixed_bets
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.options import Off, Termination
from tightrope.certificates.text import rounded
from tightrope.comparison.samples import Sample
from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.comparison.compare import CompareOptions

__all__ = [
    "CONTRADICTION",
    "UNDECIDED",
    "Interval",
    "Question",
    "ends_text",
    "intersect",
    "questions",
    "smallest",
]

UNDECIDED = "not decided"
CONTRADICTION = "contradiction"
Floats = NDArray[np.float64]
Range = tuple[float, float]
Values = tuple[Any, Any]  # numbers of A and of B, a row for each pair
Columns = Mapping[str, Values]
_MOST = 10_000_000  # pairs that a forecast goes up to
_JSON = (
    *("title", "measure", "figure", "effect", "first", "second", "n", "low", "high", "confidence"),
    *("detectable", "more", "verdict"),
)
# Of each question: name, title, measure, and figure.
_WORDS = {
    "return": (
        *("return", "which {more} in a pair of episodes"),
        "P(the {kind} of A is larger) - P(that of B is), in a pair of episodes",
        "mean {kind}",
    ),
    "mean": (
        *("mean return", "which {more} on average"),
        *("expected {kind} of A - that of B", "mean {kind}"),
    ),
    "failure": (
        *("failure", "which fails less often"),
        *("P(B fails) - P(A fails), where an episode fails if {when}", "share that fail"),
    ),
    "success": (
        *("success", "which reaches its goal more often"),
        "P(A reaches its goal) - P(B does), where an episode does if it terminates",
        "share that reach the goal",
    ),
    "neutral": (
        *("termination", "early termination", "P(B terminates early) - P(A does)"),
        "share that terminate early",
    ),
    "spread": (
        *("predictability", "whose {kind} is more predictable"),
        "P(two {kind}s of A differ by less than two of B) - P(by more)",
        "mean difference of two {kind}s",
    ),
    "mean spread": (
        *("predictability", "whose {kind} is more predictable"),
        "expected difference of two {kind}s of B - that of A",
        "mean difference of two {kind}s",
    ),
    "error": (
        *("predictability", "whose return is more predictable"),
        "P(the RMS error of A is smaller) - P(that of B is), in a pair of episodes, each predicted "
        "by its certificate at {steps}",
        "mean RMS error of an episode",
    ),
}


@dataclass(frozen=True, eq=False)
class Question:
    """A question on A and B.

    Attributes:
        name: in the ledger, and in JSON; ends with the task where there are several.
        title: for a person.
        measure: what `effect` is, in words; positive in favour of A.
        figure: what `first` and `second` are.
        values: of A and of B, a number per episode, whose means are `first` and `second`.
        differences: in [-1, 1], independent.
        limits: of `values`, where they are known.
        width: of 1 of the differences, in the units of `measure`.
    """

    name: str
    title: str
    measure: str
    figure: str
    values: tuple[Floats, Floats] = field(repr=False)
    differences: Floats = field(repr=False)
    limits: Range | None = None
    width: float = 1.0

    @property
    def n(self) -> int:
        """Independent differences."""
        return len(self.differences)

    @property
    def first(self) -> float:
        """The figure of A in the sample."""
        return _mean(self.values[0])

    @property
    def second(self) -> float:
        """The same of B."""
        return _mean(self.values[1])

    @property
    def effect(self) -> float:
        """The measure in the sample; 0 without any."""
        return _mean(self.differences) * self.width


@dataclass(frozen=True, eq=False, kw_only=True)
class Interval(Question):
    """A question and its answer: an interval of its measure, valid at every number of episodes.

    Attributes:
        low: lower end.
        high: upper end.
        confidence: of this interval alone, in every comparison to choose from.
        failures: failure probability of the lower end, and of the upper one.
    """

    low: float
    high: float
    confidence: float
    failures: tuple[float, float]

    @property
    def verdict(self) -> str:
        """Such as "A better"; a contradiction if the interval is empty, as in drifting logs."""
        if self.low > self.high:
            return CONTRADICTION
        if self.low <= 0 <= self.high:
            return UNDECIDED
        neutral = self.name == "termination"  # fewer of them need not be better
        favours = "terminates early less often" if neutral else "better"
        return f"{'A' if self.low > 0 else 'B'} {favours}"

    @property
    def is_decided(self) -> bool:
        """Whether one of the policies is favoured."""
        return self.verdict not in (UNDECIDED, CONTRADICTION)

    @property
    def verdict_text(self) -> str:
        """The verdict; if there is none, with how many more pairs would decide."""
        if self.verdict == UNDECIDED:
            more = f" (about {self.more:,} more would)" if self.more else ""
            return f"not decided with {self.n:,} pairs{more}"
        if self.verdict == CONTRADICTION:
            return "contradiction: later episodes are not like earlier ones"
        return self.verdict

    @property
    def ends(self) -> str:
        """The interval in words, rounded outward."""
        return f"between {rounded(self.low, 'down')} and {rounded(self.high, 'up')}"

    @cached_property
    def sides(self) -> tuple[Range, Range] | None:
        """Intervals of the figures of A and of B, with this confidence; None without limits."""
        limits = self.limits
        if limits is None:
            return None
        one, other = (
            _bounded(_centred(values, limits), limits, self.failures) for values in self.values
        )
        return one, other

    @property
    def figures(self) -> tuple[str, str]:
        """The figures of A and B, with their intervals where there are any."""
        ends = [f" ({ends_text(*each)})" for each in self.sides or ()] or ["", ""]
        return f"{self.first:.6g}{ends[0]}", f"{self.second:.6g}{ends[1]}"

    @cached_property
    def detectable(self) -> float | None:
        """The smallest measure that excludes 0, the pairs being as far apart as these are.

        A share of them is in favour of A, the others of B; (D.1) depends on no order. None if not
        even all in favour of A would exclude it.
        """
        sizes = np.abs(self.differences)
        if not self.n or not self._excludes_zero(up := _gains(sizes), self.n):
            return None
        down = _gains(-sizes)
        low, high = 0.0, 1.0
        while high - low > 1e-4:
            lead = (low + high) / 2.0
            found = self._excludes_zero((1 + lead) / 2 * up + (1 - lead) / 2 * down, self.n)
            low, high = (low, lead) if found else (lead, high)
        return high * _mean(sizes) * self.width

    @cached_property
    def more(self) -> int | None:
        """Further pairs until 0 is excluded, if they are like those seen; None if nothing will."""
        if self.effect == 0:
            return None
        gains = _gains(np.sign(self.effect) * self.differences)
        found = smallest(lambda count: self._excludes_zero(gains, count), self.n, _MOST)
        return None if found is None else found - self.n

    def _excludes_zero(self, gains: Floats, n: int) -> bool:
        """Whether (D.1) does after `n` differences with such gains."""
        return bool(logsumexp(n * gains, b=fixed_bets()[1]) >= log(1.0 / self.failures[0]))

    def to_json(self) -> dict[str, Any]:
        """The interval and its question as one JSON object."""
        one, other = self.sides or (None, None)
        found = {"question": self.name, "first_interval": one, "second_interval": other}
        return {**found, **{name: getattr(self, name) for name in _JSON}}


def questions(
    first: Sample, second: Sample, options: "CompareOptions", gamma: float
) -> Iterator[Question]:
    """What is asked of paired samples; which questions there are depends on no number in them.

    Raises:
        InputError: a return is outside the range that the user states.
    """
    columns = {
        name: (values, second.columns[name])
        for name, values in first.columns.items()
        if name in second.columns
    }
    limits = None if options.return_range == "off" else options.return_range
    kind = first.unit if gamma == 1 else f"discounted {first.unit}"
    more = "returns more" if kind.endswith("return") else f"has the larger {kind}"
    words = {"kind": kind, "more": more, "steps": first.error_steps}

    def question(key: str, values: Values, differences: Floats, *limited: Any) -> Question:
        name, *texts = _WORDS[key]
        title, measure, figure = (text.format(**words) for text in texts)
        return Question(name, title, measure, figure, values, differences, *limited)

    if limits is not None:
        width = limits[1] - limits[0]
        _require_inside(limits, columns.get("returns"))
    if "returns" in columns:  # (D.3), and between limits also on average
        returns = one, other = columns["returns"]
        yield question("return", returns, np.sign(one - other), limits)
        if limits is not None:
            differences = _centred(one - other, (-width, width))
            yield question("mean", returns, differences, limits, width)
    if event := _event(columns, options.fail_below, options.termination):
        key, words["when"], ended = event
        one, other = (values.astype(float) for values in ended)
        gap = one - other if key == "success" else other - one
        yield question(key, (one, other), gap, (0.0, 1.0))
    if "errors" in columns:  # each by the predictor of its own certificate (D.3)
        one, other = columns["errors"]
        unseen = ~np.isnan(one) & ~np.isnan(other)
        one, other = one[unseen], other[unseen]
        yield question("error", (one, other), np.sign(other - one))
    elif "terminated" in columns:  # not of tables; by how much two episodes differ (D.4)
        even = len(first) // 2 * 2
        one, other = (np.abs(x[0:even:2] - x[1:even:2]) for x in columns["returns"])
        if limits is None:
            yield question("spread", (one, other), np.sign(other - one))
        else:
            differences = _centred(other - one, (-width, width))
            yield question("mean spread", (one, other), differences, (0.0, width), width)


def _event(
    columns: Columns, below: float | Off, termination: Termination
) -> tuple[str, str, Values] | None:
    """The question on how episodes end, when one fails, and whether each did."""
    if below != "off" and "undiscounted" in columns:
        one, other = columns["undiscounted"]
        return (
            "failure",
            f"its undiscounted return is below {below:.12g}",
            (one < below, other < below),
        )
    if "success" in columns:
        one, other = columns["success"]
        return "failure", "it is not recorded as a success", (~one, ~other)
    if "terminated" in columns:
        return termination, "it terminates early", columns["terminated"]
    return None


def _require_inside(limits: Range, returns: Values | None) -> None:
    if returns is None:
        raise InputError("expected no `return_range`, found a table without returns")
    for name, values in zip("AB", returns, strict=True):
        low, high = values.min(), values.max()
        if not limits[0] <= low <= high <= limits[1]:
            raise InputError(
                f"expected no return outside the range [{limits[0]:g}, {limits[1]:g}], found "
                f"[{low:g}, {high:g}] in {name}: give a wider `return_range`, on other episodes "
                "or with `candidates`, since these have been seen"
            )


def intersect(question: Question, ledger: Ledger, before: Interval | None = None) -> Interval:
    """The interval of a question, intersected with the one from fewer episodes.

    The intervals of (D.1) hold for all numbers of values at once, so their intersection does.
    """
    q = question
    failures = ledger.failure(f"{q.name}: lower"), ledger.failure(f"{q.name}: upper")
    low, high = _bounded(q.differences, (-q.width, q.width), failures)
    if before is not None:
        low, high = max(before.low, low), min(before.high, high)
    confidence = 1.0 - ledger.candidates * sum(failures)
    return Interval(**vars(q), low=low, high=high, confidence=confidence, failures=failures)


def smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number in [low, high] from which on something holds; None if nowhere."""
    if holds(low):
        return low
    step = max(low // 2, 1)
    while not holds(min(low + step, high)):
        if low + step >= high:
            return None
        low, step = low + step, 2 * step
    high = min(low + step, high)
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def ends_text(low: float, high: float) -> str:
    """Both ends, rounded outward."""
    return f"{rounded(low, 'down')} to {rounded(high, 'up')}"


def _bounded(values: Floats, limits: Range, failures: tuple[float, float]) -> Range:
    """An interval of the mean of values in [-1, 1], in units in which these are `limits`."""
    low, high = limits
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    if not len(values):
        return low, high
    lower = middle + half * float(difference_lower(values, delta=failures[0]))
    upper = middle + half * float(difference_upper(values, delta=failures[1]))
    away = 4 * np.finfo(np.float64).eps * (abs(middle) + half)  # the rounding of these units
    return max(low, lower - away), min(high, upper + away)


def _centred(values: Floats, limits: Range) -> Floats:
    """In [-1, 1]; values were checked against the limits, so only rounding is clipped."""
    return np.clip((2.0 * values - sum(limits)) / (limits[1] - limits[0]), -1.0, 1.0)


def _gains(differences: Floats) -> Floats:
    """(bets,) mean growth of the logarithm of each bet's capital against a mean of 0."""
    bets, _ = fixed_bets()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(np.multiply.outer(bets, differences)).mean(axis=1))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
