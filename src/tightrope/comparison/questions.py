"""Questions on two policies, and what pairs of episodes answer; section D of the theory.

Each question is put as the mean of differences in [-1, 1], one per pair of episodes or per two
pairs; a positive mean is in favour of A. Row i of one sample is paired with row i of the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tightrope.bounds import difference_lower, difference_upper
from tightrope.bounds.difference import fixed_bets
from tightrope.certificates.ledger import Ledger
from tightrope.comparison.compare_options import CompareOptions
from tightrope.comparison.samples import Floats, Sample

__all__ = ["CONTRADICTION", "UNDECIDED", "Interval", "Question", "intersect", "questions"]

UNDECIDED = "not decided"
CONTRADICTION = "contradiction"
Range = tuple[float, float] | None
Columns = Mapping[str, tuple[Any, Any]]  # numbers of A and of B, a row for each pair
_PROBABILITY = (0.0, 1.0)
_MOST = 10_000_000  # pairs that a forecast goes up to


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
        favours: what a decision says of the policy that it favours.
        task: that it is about; empty if there is one.
    """

    name: str
    title: str
    measure: str
    figure: str
    values: tuple[Floats, Floats] = field(repr=False)
    differences: Floats = field(repr=False)
    limits: Range = None
    width: float = 1.0
    favours: str = "better"
    task: str = ""

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


@dataclass(frozen=True, eq=False)
class Interval:
    """The answer to a question: an interval of its measure, valid at every number of episodes.

    Attributes:
        question: with its figures in the sample.
        low: lower end.
        high: upper end.
        confidence: of this interval alone, in every comparison to choose from.
        failures: failure probability of the lower end, and of the upper one.
    """

    question: Question
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
        return f"{'A' if self.low > 0 else 'B'} {self.question.favours}"

    @property
    def is_decided(self) -> bool:
        """Whether one of the policies is favoured."""
        return self.verdict not in (UNDECIDED, CONTRADICTION)

    @cached_property
    def sides(self) -> tuple[Range, Range]:
        """Intervals of the figures of A and of B, with this confidence; None without limits."""
        limits = self.question.limits
        if limits is None:
            return None, None
        one, other = (
            _bounded(_centred(values, limits), limits, self.failures)
            for values in self.question.values
        )
        return one, other

    @cached_property
    def detectable(self) -> float | None:
        """The smallest measure that excludes 0, the pairs being as far apart as these are.

        A share of them is in favour of A, the others of B; (D.1) depends on no order. None if not
        even all in favour of A would exclude it.
        """
        q, needed = self.question, log(1.0 / self.failures[0])
        sizes = np.abs(q.differences)
        if not q.n or _capital(up := _gains(sizes), q.n) < needed:
            return None
        down = _gains(-sizes)
        low, high = 0.0, 1.0
        while high - low > 1e-4:
            lead = (low + high) / 2.0
            gains = (1 + lead) / 2 * up + (1 - lead) / 2 * down
            low, high = (low, lead) if _capital(gains, q.n) >= needed else (lead, high)
        return high * _mean(sizes) * q.width

    @cached_property
    def more(self) -> int | None:
        """Further pairs until 0 is excluded, if they are like those seen; None if nothing will."""
        q, needed = self.question, log(1.0 / self.failures[0])
        if q.effect == 0:
            return None
        gains = _gains(np.sign(q.effect) * q.differences)
        low, high = 0, _MOST
        if _capital(gains, high) < needed:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _capital(gains, middle) >= needed else (middle, high)
        return max(high - q.n, 0)

    def to_json(self) -> dict[str, Any]:
        """The interval and its question as one JSON object."""
        q = self.question
        texts = {"question": q.name, "title": q.title, "measure": q.measure, "figure": q.figure}
        sample = {"effect": q.effect, "first": q.first, "second": q.second, "n": q.n}
        limits = {"low": self.low, "high": self.high, "confidence": self.confidence}
        sides = {"first_interval": self.sides[0], "second_interval": self.sides[1]}
        ahead = {"detectable": self.detectable, "more": self.more}
        return {**texts, **sample, **limits, **sides, **ahead, "verdict": self.verdict}


def questions(
    first: Sample, second: Sample, options: CompareOptions, gamma: float
) -> list[Question]:
    """What is asked of paired samples; which questions there are depends on no number in them."""
    columns = {
        name: (values, second.columns[name])
        for name, values in first.columns.items()
        if name in second.columns
    }
    limits = None if options.return_range == "off" else options.return_range
    kind = first.unit if gamma == 1 else f"discounted {first.unit}"
    asked = [*_returns(columns, kind, limits), *_outcome(columns, options)]
    if "errors" in columns:
        asked.append(_errors(*columns["errors"], first.error_steps))
    elif "terminated" in columns:  # not of tables
        asked.append(_spreads(columns["returns"], kind, limits))
    return asked


def intersect(question: Question, ledger: Ledger, before: Interval | None = None) -> Interval:
    """The interval of a question, intersected with the one from fewer episodes.

    The intervals of (D.1) hold for all numbers of values at once, so their intersection does.
    """
    q = question
    lower, upper = failures = (
        ledger.failure(f"{q.name}: lower"),
        ledger.failure(f"{q.name}: upper"),
    )
    low, high = _bounded(q.differences, (-q.width, q.width), failures)
    if before is not None:
        low, high = max(before.low, low), min(before.high, high)
    return Interval(q, low, high, 1.0 - ledger.candidates * (lower + upper), failures)


def _bounded(
    values: Floats, limits: tuple[float, float], failures: tuple[float, float]
) -> tuple[float, float]:
    """An interval of the mean of values in [-1, 1], in units in which these are `limits`."""
    low, high = limits
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    if not len(values):
        return low, high
    lower = middle + half * float(difference_lower(values, delta=failures[0]))
    upper = middle + half * float(difference_upper(values, delta=failures[1]))
    away = 4 * np.finfo(np.float64).eps * (abs(middle) + half)  # the rounding of these units
    return max(low, lower - away), min(high, upper + away)


def _centred(values: Floats, limits: tuple[float, float]) -> Floats:
    """In [-1, 1]; values were checked against the limits, so only rounding is clipped."""
    return np.clip((2.0 * values - sum(limits)) / (limits[1] - limits[0]), -1.0, 1.0)


def _gains(differences: Floats) -> Floats:
    """(bets,) mean growth of the logarithm of each bet's capital against a mean of 0."""
    bets, _ = fixed_bets()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(np.multiply.outer(bets, differences)).mean(axis=1))


def _capital(gains: Floats, n: int) -> float:
    """Logarithm of the mixture's capital after `n` differences with such gains."""
    return float(logsumexp(n * gains, b=fixed_bets()[1]))


def _returns(columns: Columns, kind: str, limits: Range) -> Iterator[Question]:
    """Which returns more: in a pair of episodes, and between limits also on average (D.3)."""
    if "returns" not in columns:
        return
    totals = columns["returns"]
    gap = totals[0] - totals[1]
    more = "returns more" if kind.endswith("return") else f"has the larger {kind}"
    sample: dict[str, Any] = {"figure": f"mean {kind}", "values": totals, "limits": limits}
    yield Question(
        name="return",
        title=f"which {more} in a pair of episodes",
        measure=f"P(the {kind} of A is larger) - P(that of B is), in a pair of episodes",
        differences=np.sign(gap),
        **sample,
    )
    if limits is not None:
        width = limits[1] - limits[0]
        yield Question(
            name="mean return",
            title=f"which {more} on average",
            measure=f"expected {kind} of A - that of B",
            differences=_centred(gap, (-width, width)),
            width=width,
            **sample,
        )


def _outcome(columns: Columns, options: CompareOptions) -> Iterator[Question]:
    """Which fails less often, or whatever is known of how episodes end (D.3)."""
    below, means = options.fail_below, options.termination
    title, favours = "which fails less often", "better"
    name, figure = "failure", "share that fail"
    measure = "P(B fails) - P(A fails), where an episode fails if "
    if below != "off" and "undiscounted" in columns:
        one, other = (values < below for values in columns["undiscounted"])
        measure += f"its undiscounted return is below {below:.12g}"
    elif "success" in columns:
        one, other = (~values for values in columns["success"])
        measure += "it is not recorded as a success"
    elif "terminated" not in columns:
        return
    else:
        one, other = columns["terminated"]
        if means == "failure":
            measure += "it terminates early"
        elif means == "success":
            name, title = "success", "which reaches its goal more often"
            measure = "P(A reaches its goal) - P(B does), where an episode does if it terminates"
            figure = "share that reach the goal"
        else:
            name, title = "termination", "early termination"
            measure = "P(B terminates early) - P(A does)"
            figure, favours = "share that terminate early", "terminates early less often"
    ended = one.astype(float), other.astype(float)
    gap = ended[0] - ended[1]
    yield Question(
        name,
        title,
        measure,
        figure,
        ended,
        gap if name == "success" else -gap,
        _PROBABILITY,
        favours=favours,
    )


def _spreads(totals: tuple[Floats, Floats], kind: str, limits: Range) -> Question:
    """Whose return is more predictable: by how much two of its episodes differ (D.4)."""
    even = len(totals[0]) // 2 * 2
    first, second = (np.abs(x[0:even:2] - x[1:even:2]) for x in totals)
    width = 1.0 if limits is None else limits[1] - limits[0]
    return Question(
        name="predictability",
        title=f"whose {kind} is more predictable",
        measure=f"P(two {kind}s of A differ by less than two of B) - P(by more)"
        if limits is None
        else f"expected difference of two {kind}s of B - that of A",
        figure=f"mean difference of two {kind}s",
        values=(first, second),
        differences=np.sign(second - first)
        if limits is None
        else _centred(second - first, (-width, width)),
        limits=None if limits is None else (0.0, width),
        width=width,
    )


def _errors(one: Floats, other: Floats, steps: str) -> Question:
    """Whose return is predicted better, each by the predictor of its own certificate (D.3)."""
    unseen = ~np.isnan(one) & ~np.isnan(other)
    first, second = one[unseen], other[unseen]
    return Question(
        name="predictability",
        title="whose return is more predictable",
        measure="P(the RMS error of A is smaller) - P(that of B is), in a pair of episodes, each "
        f"predicted by its certificate at {steps}",
        figure="mean RMS error of an episode",
        values=(first, second),
        differences=np.sign(second - first),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
