"""Two counts such as 74/80 and 91/120: no pairs and no order, so two answers; section D."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tightrope.bounds import rate_difference_lower, rate_sequence, rate_test
from tightrope.certificates.text import percent, rounded
from tightrope.comparison.questions import UNDECIDED, ends_text, smallest
from tightrope.comparison.samples import Recording
from tightrope.errors import InputError, as_lines

if TYPE_CHECKING:
    from tightrope.comparison.compare import CompareOptions

__all__ = ["Answer", "CountComparison", "compare_counts"]

_MOST = 64  # times the episodes there are, up to which a forecast goes

Counts = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Which succeeds more often, in one of two situations.

    Attributes:
        low: lower end of the interval of the rate of A less that of B.
        high: upper end.
        first: interval of the rate of A; None where there is one of the difference alone.
        second: the same of B.
        p_value: of equal rates; None where there is none.
        detectable: the smallest difference in favour of the better one that as many episodes would
            decide, the rate of the other one being as it is, or its own where there is no room for
            a larger one; None if there is none.
        more: further episodes in all that would decide at these rates; None if too many.
        verdict: which is better, or that it is not decided.
    """

    low: float
    high: float
    first: tuple[float, float] | None = None
    second: tuple[float, float] | None = None
    p_value: float | None = None
    detectable: float | None
    more: int | None
    verdict: str

    def __str__(self) -> str:
        p, parts = "", []
        if self.p_value is not None:
            p = "< 0.0001" if self.p_value < 1e-4 else f"= {self.p_value:.4f}"
            p = f" (p {p}, Boschloo)"
        parts.append(f"{self.verdict}{p}; A - B {_points(self.low, self.high)} points")
        if self.first is not None and self.second is not None:
            parts.append(f"A {_points(*self.first)} %, B {_points(*self.second)} %")
        if self.detectable is None:
            parts.append("too few episodes to detect any difference")
        else:
            parts.append(f"as many episodes detect {rounded(100 * self.detectable)} points or more")
        if self.verdict == UNDECIDED:
            more = f"about {self.more:,} more" if self.more else f"not even {_MOST} times as many"
            parts.append(f"{more} would at these rates")
        return "; ".join(parts)


@dataclass(frozen=True)
class CountComparison:
    """What two counts tell of two policies.

    Attributes:
        names: of A and B.
        counts: successes and episodes of each.
        fixed: if the numbers of episodes were fixed beforehand.
        looked: if they were not, or if somebody looked on the way.
        confidence: of either.
        candidates: comparisons to choose from.
    """

    names: tuple[str, str]
    counts: tuple[Counts, Counts]
    fixed: Answer
    looked: Answer
    confidence: float
    candidates: int

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        (x, n), (y, m) = self.counts
        gap = 100 * (x / n - y / m)
        several = f" in all {self.candidates} comparisons" if self.candidates > 1 else ""
        return as_lines(
            [
                f"A: {self.names[0]}, B: {self.names[1]}",
                f"A succeeds in {100 * x / n:.1f} % of {n:,} episodes, B in {100 * y / m:.1f} % of "
                f"{m:,}: {abs(gap):.1f} points {'less' if gap < 0 else 'more'}.",
                "",
                f"Number of episodes fixed beforehand: {self.fixed}",
                f"Looked at on the way, or not sure:   {self.looked}",
                "",
                f"Each line holds with confidence {percent(self.confidence)}{several}, if episodes "
                "are independent and alike; use the one that describes how you counted.",
            ]
        )


def _points(low: float, high: float) -> str:
    return ends_text(100 * low, 100 * high)


def compare_counts(recordings: Sequence[Recording], options: "CompareOptions") -> CountComparison:
    """Compare counts, or the successes in a table with counts.

    Raises:
        InputError: one has no successes, or several tasks, or an option needs an order or returns.
    """
    for name in ("gamma", "return_range", "fail_below", "termination", "order"):
        if getattr(options, name) != getattr(type(options), name):
            raise InputError(f"expected no `{name}` for counts, which have no returns and no order")
    counts, candidates = [], options.candidates
    for each in recordings:
        success = each.episodes.success
        if each.table is None or success is None or len(each.table["tasks"]) > 1:
            raise InputError(
                f"expected successes of one task to compare with counts, found {each.name}"
            )
        counts.append((int(success.sum()), len(success)))
        candidates *= each.table["candidates"]
    ledger = replace(options, candidates=candidates).ledger(["difference"])
    side = ledger.failure("difference: lower")
    one, other = counts
    return CountComparison(
        names=(recordings[0].name, recordings[1].name),
        counts=(one, other),
        fixed=_fixed(one, other, side),
        looked=_looked(one, other, side),
        confidence=ledger.confidence,
        candidates=candidates,
    )


def _fixed(one: Counts, other: Counts, side: float) -> Answer:
    """Boschloo's test (D.5), and the interval of (D.6)."""
    return _answer(
        lambda a, b: rate_test(*a, *b) <= 2.0 * side,
        one,
        other,
        low=rate_difference_lower(*one, *other, delta=side),
        high=-rate_difference_lower(*other, *one, delta=side),
        p_value=rate_test(*one, *other),
    )


def _looked(one: Counts, other: Counts, side: float) -> Answer:
    """A confidence sequence for each rate (D.7), half the failure probability each."""

    def decides(a: Counts, b: Counts) -> bool:
        first, second = (rate_sequence(*each, delta=side) for each in (a, b))
        return first[0] > second[1] or second[0] > first[1]

    first, second = (rate_sequence(*each, delta=side) for each in (one, other))
    ends = {"low": first[0] - second[1], "high": first[1] - second[0]}
    return _answer(decides, one, other, **ends, first=first, second=second)


def _answer(
    decides: Callable[[Counts, Counts], bool], one: Counts, other: Counts, **figures: Any
) -> Answer:
    gap = one[0] * other[1] - other[0] * one[1]
    better, worse = (one, other) if gap >= 0 else (other, one)
    (x, n), (y, m) = better, worse
    detectable = None
    if (least := smallest(lambda count: decides((count, n), worse), -(-y * n // m), n)) is not None:
        detectable = least / n - y / m
    elif (fewer := smallest(lambda count: decides(better, (y - count, m)), 0, y)) is not None:
        detectable = x / n - (y - fewer) / m  # the better one has no room above
    total = n + m

    def grown(count: int) -> bool:
        a, b = ((round(k * count / total), round(size * count / total)) for k, size in (one, other))
        return decides(a, b)

    needed = smallest(grown, total, _MOST * total) if gap else None
    leader = "A better" if gap >= 0 else "B better"
    return Answer(
        detectable=detectable,
        more=None if needed is None else needed - total,
        verdict=leader if decides(one, other) else UNDECIDED,
        **figures,
    )
