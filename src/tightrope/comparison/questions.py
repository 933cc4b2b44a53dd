"""Questions on two policies, and what pairs of episodes tell of them; section D of the theory.

Each question is put as the mean of differences in [-1, 1], one per pair of episodes or per two
pairs; a positive mean is in favour of A. Row i of one sample is paired
with row i of the other.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tightrope.bounds import difference_lower, difference_upper
from tightrope.certificates.ledger import Ledger
from tightrope.comparison.compare_options import CompareOptions
from tightrope.comparison.samples import Bools, Floats, Sample

__all__ = ["CONTRADICTION", "UNDECIDED", "Interval", "Question", "intersect", "questions"]

UNDECIDED = "not decided"
CONTRADICTION = "contradiction"
Range = tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Question:
    """A question on A and B.

    Attributes:
        name: in the ledger, and in JSON.
        title: for a person.
        measure: what `effect` is, in words; positive in favour of A.
        figure: what `first` and `second` are.
        first: the figure of A in the sample that a reader would ask for.
        second: the same of B.
        differences: in [-1, 1], independent.
        width: of 1 of these, in the units of `measure`.
        favours: what a decision says of the policy that it favours.
    """

    name: str
    title: str
    measure: str
    figure: str
    first: float
    second: float
    differences: Floats = field(repr=False)
    width: float = 1.0
    favours: str = "better"

    @property
    def n(self) -> int:
        """Independent differences."""
        return len(self.differences)

    @property
    def effect(self) -> float:
        """The measure in the sample; 0 without any."""
        return float(self.differences.mean()) * self.width if self.n else 0.0


@dataclass(frozen=True, eq=False)
class Interval:
    """The answer to a question: an interval of its measure, valid at every number of episodes.

    Attributes:
        question: with its figures in the sample.
        low: lower end.
        high: upper end.
        confidence: of this interval alone, in every comparison to choose from.
    """

    question: Question
    low: float
    high: float
    confidence: float

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

    def to_json(self) -> dict[str, Any]:
        """The interval and its question as one JSON object."""
        q = self.question
        texts = {"question": q.name, "title": q.title, "measure": q.measure, "figure": q.figure}
        sample = {"effect": q.effect, "first": q.first, "second": q.second, "n": q.n}
        limits = {"low": self.low, "high": self.high, "confidence": self.confidence}
        return {**texts, **sample, **limits, "verdict": self.verdict}


def questions(
    first: Sample, second: Sample, options: CompareOptions, gamma: float
) -> list[Question]:
    """What is asked of paired samples; which questions there are depends on no number in them."""
    limits = None if options.return_range == "off" else options.return_range
    kind = "return" if gamma == 1 else "discounted return"
    asked = [_pair_returns(first.returns, second.returns, kind)]
    if limits is not None:
        asked.append(_mean_returns(first.returns, second.returns, kind, limits))
    asked.append(_outcomes(first, second, options))
    if first.errors is None or second.errors is None:
        asked.append(_spreads(first.returns, second.returns, kind, limits))
    else:
        asked.append(_errors(first.errors, second.errors, first.error_steps))
    return asked


def intersect(question: Question, ledger: Ledger, before: Interval | None = None) -> Interval:
    """The interval of a question, intersected with the one from fewer episodes.

    The intervals of (D.1) hold for all numbers of values at once, so their intersection does.
    """
    lower, upper = (ledger.failure(f"{question.name}: {side}") for side in ("lower", "upper"))
    low, high = -1.0, 1.0
    if question.n:
        low = float(difference_lower(question.differences, delta=lower))
        high = float(difference_upper(question.differences, delta=upper))
    low, high = low * question.width, high * question.width
    if before is not None:
        low, high = max(before.low, low), min(before.high, high)
    return Interval(question, low, high, 1.0 - ledger.candidates * (lower + upper))


def _pair_returns(first: Floats, second: Floats, kind: str) -> Question:
    """Which returns more in a pair of episodes: signs of differences (D.3)."""
    return Question(
        name="return",
        title="which returns more in a pair of episodes",
        measure=f"P(the {kind} of A is larger) - P(that of B is), in a pair of episodes",
        figure=f"mean {kind}",
        first=float(first.mean()),
        second=float(second.mean()),
        differences=np.sign(first - second),
    )


def _mean_returns(
    first: Floats, second: Floats, kind: str, limits: tuple[float, float]
) -> Question:
    """Which returns more on average, between limits of all returns (D.3)."""
    return Question(
        name="mean return",
        title="which returns more on average",
        measure=f"expected {kind} of A - that of B",
        figure=f"mean {kind}",
        first=float(first.mean()),
        second=float(second.mean()),
        differences=_scaled(first - second, limits),
        width=limits[1] - limits[0],
    )


def _outcomes(first: Sample, second: Sample, options: CompareOptions) -> Question:
    """Which fails less often, or whatever is known of how episodes end (D.3)."""
    below = options.fail_below
    if below != "off":
        event = f"its undiscounted return is below {below:g}"
        return _failures(first.undiscounted < below, second.undiscounted < below, event)
    if first.success is not None and second.success is not None:
        return _failures(~first.success, ~second.success, "it is not recorded as a success")
    ended = first.terminated, second.terminated
    if options.termination == "failure":
        return _failures(*ended, "it terminates early")
    shares = float(ended[0].mean()), float(ended[1].mean())
    fewer = ended[1].astype(float) - ended[0]
    if options.termination == "success":
        return Question(
            "success",
            "which reaches its goal more often",
            "P(A reaches its goal) - P(B does), where an episode does if it terminates",
            "share that reach the goal",
            *shares,
            -fewer,
        )
    return Question(
        "termination",
        "early termination",
        "P(B terminates early) - P(A does)",
        "share that terminate early",
        *shares,
        fewer,
        favours="terminates early less often",
    )


def _failures(first: Bools, second: Bools, event: str) -> Question:
    return Question(
        name="failure",
        title="which fails less often",
        measure=f"P(B fails) - P(A fails), where an episode fails if {event}",
        figure="share that fail",
        first=float(first.mean()),
        second=float(second.mean()),
        differences=second.astype(float) - first,
    )


def _spreads(first: Floats, second: Floats, kind: str, limits: Range) -> Question:
    """Whose return is more predictable: by how much two of its episodes differ (D.4)."""
    even = len(first) // 2 * 2
    apart = [np.abs(x[0:even:2] - x[1:even:2]) for x in (first, second)]
    difference = apart[1] - apart[0]
    return Question(
        name="predictability",
        title="whose return is more predictable",
        measure=f"P(two {kind}s of A differ by less than two of B) - P(by more)"
        if limits is None
        else f"expected difference of two {kind}s of B - that of A",
        figure=f"mean difference of two {kind}s",
        first=_mean(apart[0]),
        second=_mean(apart[1]),
        differences=np.sign(difference) if limits is None else _scaled(difference, limits),
        width=1.0 if limits is None else limits[1] - limits[0],
    )


def _errors(first: Floats, second: Floats, steps: str) -> Question:
    """Whose return is predicted better, each by the predictor of its own certificate (D.3)."""
    unseen = ~np.isnan(first) & ~np.isnan(second)
    one, other = first[unseen], second[unseen]
    return Question(
        name="predictability",
        title="whose return is more predictable",
        measure="P(the RMS error of A is smaller) - P(that of B is), in a pair of episodes, each "
        f"predicted by its certificate at {steps}",
        figure="RMS error of the certificate's predictor",
        first=_mean(one**2) ** 0.5,
        second=_mean(other**2) ** 0.5,
        differences=np.sign(other - one),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _scaled(differences: Floats, limits: tuple[float, float]) -> Floats:
    """In [-1, 1]; returns were checked against the limits, so only rounding is clipped."""
    return np.clip(differences / (limits[1] - limits[0]), -1.0, 1.0)
