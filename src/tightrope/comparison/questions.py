"""Questions on two policies, and what pairs of episodes answer; section D of the theory.

Each question is put as the mean of differences in [-1, 1], one per pair of episodes or per two
pairs; a positive mean is in favour of A. Row i of one sample is paired with row i of the other.
"""

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
    def first(self) -> Range:
        """An interval of the figure of A, with this confidence; None where it has no limits."""
        return self._side(0)

    @cached_property
    def second(self) -> Range:
        """The same of B."""
        return self._side(1)

    def _side(self, side: int) -> Range:
        limits, values = self.question.limits, self.question.values[side]
        return None if limits is None else _bounded(_centred(values, limits), limits, self.failures)

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
        sides = {"first_interval": self.first, "second_interval": self.second}
        ahead = {"detectable": self.detectable, "more": self.more}
        return {**texts, **sample, **limits, **sides, **ahead, "verdict": self.verdict}


def questions(
    first: Sample, second: Sample, options: CompareOptions, gamma: float
) -> list[Question]:
    """What is asked of paired samples; which questions there are depends on no number in them."""
    limits = None if options.return_range == "off" else options.return_range
    asked: list[Question] = []
    if first.returns is not None and second.returns is not None:
        kind = first.unit if gamma == 1 else f"discounted {first.unit}"
        totals = first.returns, second.returns
        asked.append(_pair_returns(totals, kind, limits))
        asked += [] if limits is None else [_mean_returns(totals, kind, limits)]
    asked += _outcomes(first, second, options)
    if first.errors is not None and second.errors is not None:
        asked.append(_errors((first.errors, second.errors), first.error_steps))
    elif first.terminated is not None and second.terminated is not None:  # not of tables
        asked.append(_spreads(totals, kind, limits))
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
    return (
        middle + half * float(difference_lower(values, delta=failures[0])),
        middle + half * float(difference_upper(values, delta=failures[1])),
    )


def _centred(values: Floats, limits: tuple[float, float]) -> Floats:
    return np.clip((2.0 * values - sum(limits)) / (limits[1] - limits[0]), -1.0, 1.0)


def _gains(differences: Floats) -> Floats:
    """(bets,) mean growth of the logarithm of each bet's capital against a mean of 0."""
    bets, _ = fixed_bets()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(np.multiply.outer(bets, differences)).mean(axis=1))


def _capital(gains: Floats, n: int) -> float:
    """Logarithm of the mixture's capital after `n` differences with such gains."""
    return float(logsumexp(n * gains, b=fixed_bets()[1]))


def _pair_returns(totals: tuple[Floats, Floats], kind: str, limits: Range) -> Question:
    """Which returns more in a pair of episodes: signs of differences (D.3)."""
    return Question(
        name="return",
        title=f"which {_has_more(kind)} in a pair of episodes",
        measure=f"P(the {kind} of A is larger) - P(that of B is), in a pair of episodes",
        figure=f"mean {kind}",
        values=totals,
        differences=np.sign(totals[0] - totals[1]),
        limits=limits,
    )


def _mean_returns(
    totals: tuple[Floats, Floats], kind: str, limits: tuple[float, float]
) -> Question:
    """Which returns more on average, between limits of all returns (D.3)."""
    return Question(
        name="mean return",
        title=f"which {_has_more(kind)} on average",
        measure=f"expected {kind} of A - that of B",
        figure=f"mean {kind}",
        values=totals,
        differences=_scaled(totals[0] - totals[1], limits),
        limits=limits,
        width=limits[1] - limits[0],
    )


def _has_more(kind: str) -> str:
    return "returns more" if kind.endswith("return") else f"has the larger {kind}"


def _outcomes(first: Sample, second: Sample, options: CompareOptions) -> list[Question]:
    """Which fails less often, or whatever is known of how episodes end (D.3)."""
    below, means = options.fail_below, options.termination
    if below != "off" and first.undiscounted is not None and second.undiscounted is not None:
        event = f"its undiscounted return is below {below:.12g}"
        return [_failures(first.undiscounted < below, second.undiscounted < below, event)]
    if first.success is not None and second.success is not None:
        return [_failures(~first.success, ~second.success, "it is not recorded as a success")]
    if first.terminated is None or second.terminated is None:
        return []
    if means == "failure":
        return [_failures(first.terminated, second.terminated, "it terminates early")]
    ended = first.terminated.astype(float), second.terminated.astype(float)
    if means == "success":
        measure = "P(A reaches its goal) - P(B does), where an episode does if it terminates"
        texts = ("success", "which reaches its goal more often", measure)
        return [Question(*texts, "share that reach the goal", ended, ended[0] - ended[1],
                         _PROBABILITY)]  # fmt: skip
    texts = ("termination", "early termination", "P(B terminates early) - P(A does)")
    less = "terminates early less often"
    return [Question(*texts, "share that terminate early", ended, ended[1] - ended[0],
                     _PROBABILITY, favours=less)]  # fmt: skip


def _failures(first: Any, second: Any, event: str) -> Question:
    failed = first.astype(float), second.astype(float)
    return Question(
        name="failure",
        title="which fails less often",
        measure=f"P(B fails) - P(A fails), where an episode fails if {event}",
        figure="share that fail",
        values=failed,
        differences=failed[1] - failed[0],
        limits=_PROBABILITY,
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
        differences=np.sign(second - first) if limits is None else _scaled(second - first, limits),
        limits=None if limits is None else (0.0, width),
        width=width,
    )


def _errors(errors: tuple[Floats, Floats], steps: str) -> Question:
    """Whose return is predicted better, each by the predictor of its own certificate (D.3)."""
    unseen = ~np.isnan(errors[0]) & ~np.isnan(errors[1])
    first, second = errors[0][unseen], errors[1][unseen]
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


def _scaled(differences: Floats, limits: tuple[float, float]) -> Floats:
    """In [-1, 1]; returns were checked against the limits, so only rounding is clipped."""
    return np.clip(differences / (limits[1] - limits[0]), -1.0, 1.0)
