"""Three questions on two policies, and what pairs of episodes answer; section D of the theory.

Each question is put as the mean of differences in [-1, 1], one per pair of episodes or per two
pairs, oriented so that a positive mean says that A is better.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import difference_lower, difference_upper
from tightrope.certificates.ledger import Ledger
from tightrope.monitors.comparing import Question

__all__ = [
    "ANYTHING",
    "Answer",
    "Asked",
    "Interval",
    "Verdict",
    "answer",
    "certified",
    "failures",
    "narrowed",
    "returns",
    "spreads",
]

Verdict = Literal["A better", "B better", "not decided", "contradiction"]
Floats = NDArray[np.float64]
Interval = tuple[float, float]
Range = Interval | None
ANYTHING: Interval = (-1.0, 1.0)


@dataclass(frozen=True)
class Answer:
    """What is known of one question.

    Attributes:
        question: which.
        asks: the question in words.
        measure: what `effect` is, in words; positive where A is better.
        effect: in the sample.
        low: lower end of its confidence interval, valid at every number of episodes.
        high: upper end.
        n: independent differences behind it.
        first: the figure of A in the sample that a reader would ask for.
        second: the same of B.
        figure: what these two are.
        confidence: of this interval alone.
    """

    question: Question
    asks: str
    measure: str
    effect: float
    low: float
    high: float
    n: int
    first: float
    second: float
    figure: str
    confidence: float

    @property
    def verdict(self) -> Verdict:
        """Which is better; a contradiction if the interval is empty, as in drifting logs."""
        if self.low > self.high:
            return "contradiction"
        return "A better" if self.low > 0 else "B better" if self.high < 0 else "not decided"


@dataclass(frozen=True)
class Asked:
    """A question with its differences in [-1, 1] and the width of 1 of these."""

    question: Question
    asks: str
    measure: str
    differences: Floats
    width: float
    first: float
    second: float
    figure: str


def returns(first: Floats, second: Floats, limits: Range) -> Asked:
    """Which returns more: in a pair of episodes (D.3), or with a range on average (D.2)."""
    asks, figure = "which returns more", "mean return"
    own = float(first.mean()), float(second.mean())
    if limits is None:
        measure = "P(A returns more) - P(B returns more) in a pair of episodes"
        return Asked("return", asks, measure, np.sign(first - second), 1.0, *own, figure)
    width = limits[1] - limits[0]
    measure = "expected return of A - expected return of B"
    return Asked("return", asks, measure, _scaled(first - second, width), width, *own, figure)


def failures(first: NDArray[np.bool_], second: NDArray[np.bool_], event: str) -> Asked:
    """Which fails less: the difference of two probabilities (D.2)."""
    differences = second.astype(float) - first.astype(float)
    own = float(first.mean()), float(second.mean())
    measure = f"P(B fails) - P(A fails), where an episode fails if {event}"
    return Asked("failure", "which fails less", measure, differences, 1.0, *own, "share that fail")


def spreads(first: Floats, second: Floats, limits: Range) -> Asked:
    """Whose return is more predictable: by how much two of its episodes differ (D.4)."""
    count = len(first) // 2
    apart = [np.abs(x[0 : 2 * count : 2] - x[1 : 2 * count : 2]) for x in (first, second)]
    own = float(np.mean(apart[0])) if count else 0.0, float(np.mean(apart[1])) if count else 0.0
    asks, figure = "whose return is more predictable", "mean difference of two episodes' returns"
    difference = apart[1] - apart[0]
    if limits is None:
        measure = "P(two returns of A differ by less than two of B) - P(by more)"
        return Asked("predictability", asks, measure, np.sign(difference), 1.0, *own, figure)
    width = limits[1] - limits[0]
    measure = "expected difference of two returns of B - that of A"
    scaled = _scaled(difference, width)
    return Asked("predictability", asks, measure, scaled, width, *own, figure)


def certified(first: Floats, second: Floats) -> Asked:
    """Whose return is predicted better, each by the predictor of its own certificate (D.3)."""
    own = float(np.sqrt(np.mean(first**2))), float(np.sqrt(np.mean(second**2)))
    measure = "P(A's RMS error is smaller) - P(B's is) in a pair of episodes, each by its predictor"
    asks, figure = "whose return is more predictable", "RMS error of the certificate's predictor"
    return Asked("predictability", asks, measure, np.sign(second - first), 1.0, *own, figure)


def narrowed(asked: Asked, ledger: Ledger, before: Interval = ANYTHING) -> Interval:
    """The interval of the mean difference on [-1, 1], intersected with one from fewer values.

    The intervals of (D.1) hold for all numbers of values at once, so their intersection does.
    """
    if not len(asked.differences):
        return before
    lower, upper = (ledger.failure(f"{asked.question}: {side}") for side in ("lower", "upper"))
    return (
        max(before[0], float(difference_lower(asked.differences, delta=lower))),
        min(before[1], float(difference_upper(asked.differences, delta=upper))),
    )


def answer(asked: Asked, interval: Interval, ledger: Ledger) -> Answer:
    """The interval as an answer, in the units of the question."""
    n = len(asked.differences)
    return Answer(
        question=asked.question,
        asks=asked.asks,
        measure=asked.measure,
        effect=float(asked.differences.mean()) * asked.width if n else 0.0,
        low=interval[0] * asked.width,
        high=interval[1] * asked.width,
        n=n,
        first=asked.first,
        second=asked.second,
        figure=asked.figure,
        confidence=1.0 - sum(ledger.failure(f"{asked.question}: {s}") for s in ("lower", "upper")),
    )


def _scaled(differences: Floats, width: float) -> Floats:
    return np.clip(differences / width, -1.0, 1.0)  # the range was checked: clips rounding only
