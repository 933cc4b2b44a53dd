"""What is known of two policies: the record, and its text."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.text import percent, rounded
from tightrope.comparison.questions import CONTRADICTION, UNDECIDED, Interval
from tightrope.errors import InputError, as_lines

__all__ = ["Comparison", "bounds_text", "confidence_sentence", "ends_text", "title", "verdict_text"]

_INDENT = "  "


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is known of two policies.

    Attributes:
        names: of A and B.
        environment: that both ran in; empty if no recording says.
        intervals: answers to the questions, task by task.
        episodes: of each policy.
        pairing: how episodes were paired, in words.
        gamma: discount factor of the returns.
        seed: of the roll-outs, or of a random order; None for recordings in recorded order.
        anytime: whether the intervals hold at every number of episodes.
        candidates: comparisons to choose from.
        confidence: that all intervals of all of them hold.
        ledger: which failure probability went where.
        assumptions: in sentences.
        returns: of A and of B, pair by pair; empty where a table has none.
    """

    names: tuple[str, str]
    environment: str
    intervals: tuple[Interval, ...]
    episodes: int
    pairing: str
    gamma: float
    seed: int | None
    anytime: bool
    candidates: int
    confidence: float
    ledger: tuple[LedgerEntry, ...]
    assumptions: tuple[str, ...]
    returns: tuple[tuple[float, ...], tuple[float, ...]]

    def interval(self, name: str) -> Interval:
        """The answer to the question of a name, such as ``return``.

        Raises:
            InputError: it was not asked.
        """
        for interval in self.intervals:
            if interval.question.name == name:
                return interval
        known = ", ".join(interval.question.name for interval in self.intervals)
        raise InputError(f"expected a question among {known}, found {name!r}")

    @property
    def decided(self) -> bool:
        """Whether no question is open."""
        return all(interval.verdict != UNDECIDED for interval in self.intervals)

    @property
    def disagreement(self) -> str:
        """That one returns more in more pairs and the other on average; empty if they agree."""
        found = {each.question.name: each for each in self.intervals}
        sentences = [
            _disagreement(each, found.get(f"mean {name}"))
            for name, each in found.items()
            if name.startswith("return")
        ]
        return " ".join(filter(None, sentences))

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return {
            **{entry.name: getattr(self, entry.name) for entry in fields(self)},
            "intervals": [interval.to_json() for interval in self.intervals],
            "disagreement": self.disagreement,
            "ledger": [asdict(entry) for entry in self.ledger],
        }

    def __str__(self) -> str:
        return _summary(self)

    def __repr__(self) -> str:
        answers = ", ".join(f"{each.question.name}: {each.verdict}" for each in self.intervals)
        return f"Comparison({answers}; {self.episodes} episodes each)"


def _disagreement(pairs: Interval, means: Interval | None) -> str:
    q = pairs.question
    gap = q.first - q.second
    certified = [pairs.is_decided, means is not None and means.is_decided]
    if not any(certified) or q.effect * gap >= 0:
        return ""
    often, average = ("B", "A") if gap > 0 else ("A", "B")
    basis = ["certified" if each else "in this sample" for each in certified]
    return (
        f"The returns disagree{f' in {q.task}' if q.task else ''}: {often} returns more in more of "
        f"the pairs ({basis[0]}), {average} returns more on average ({basis[1]}: A {q.first:.6g}, "
        f"B {q.second:.6g})."
    )


def _summary(c: Comparison) -> str:
    """The answer to every question, the intervals, and what they rest on."""
    several = any(interval.question.task for interval in c.intervals)
    lines = [title(c), ""]
    lines += _table(c) if several else [line for each in c.intervals for line in _answer(each)]
    lines += ["", c.disagreement] if c.disagreement else []
    collected = f"{c.episodes:,} episodes each, {c.pairing}; gamma {c.gamma:g}"
    lines += [
        "",
        confidence_sentence(c),
        collected + ("" if c.seed is None else f"; seed {c.seed}"),
    ]
    lines += ["", "Assumptions", *(f"{_INDENT}- {each}" for each in c.assumptions)]
    return as_lines(lines)


def _answer(interval: Interval) -> list[str]:
    q = interval.question
    sides = [f"{name} {side}" for name, side in zip("AB", _figures(interval), strict=True)]
    return [
        f"{q.title[0].upper()}{q.title[1:]}: {verdict_text(interval)}",
        f"{_INDENT}{q.measure}:",
        f"{_INDENT * 2}{q.effect:.4g} in the sample, {bounds_text(interval)}; {_reach(interval)}",
        f"{_INDENT}{q.figure}: {', '.join(sides)} (n = {q.n:,})",
    ]


def _figures(interval: Interval) -> list[str]:
    """The figures of A and B, with their intervals where there are any."""
    q = interval.question
    return [
        f"{value:.6g}" + ("" if ends is None else f" ({ends_text(*ends)})")
        for value, ends in zip((q.first, q.second), interval.sides, strict=True)
    ]


def _table(c: Comparison) -> list[str]:
    """A row for each question of each task."""
    rows: list[tuple[str, ...]] = [("", "A", "B", "A against B", "interval", "detects", "verdict")]
    for each in c.intervals:
        q = each.question
        least = "-" if each.detectable is None else rounded(each.detectable, "up")
        figures = [*_figures(each), f"{q.effect:.4g}", ends_text(each.low, each.high), least]
        rows.append((q.name, *figures, verdict_text(each)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        _INDENT.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    about = {each.question.name.split(", ")[0]: each.question for each in c.intervals}
    notes = [f"{name}: {q.measure}; A and B: {q.figure}." for name, q in about.items()]
    return [*lines, "", *notes]


def title(comparison: Comparison) -> str:
    """What was compared."""
    where = comparison.environment or "an unnamed environment"
    return f"A: {comparison.names[0]}, B: {comparison.names[1]}, in {where}"


def verdict_text(interval: Interval) -> str:
    """Which is better; or that it is not decided, and how many more pairs would decide."""
    if interval.verdict == UNDECIDED:
        n = interval.question.n
        more = "" if not interval.more else f" (about {interval.more:,} more would)"
        return f"not decided with {n:,} pairs{more}"
    if interval.verdict == CONTRADICTION:
        return "contradiction: later episodes are not like earlier ones"
    return interval.verdict


def bounds_text(interval: Interval) -> str:
    """The interval, rounded outward."""
    return f"between {rounded(interval.low, 'down')} and {rounded(interval.high, 'up')}"


def ends_text(low: float, high: float) -> str:
    """Both ends, rounded outward."""
    return f"{rounded(low, 'down')} to {rounded(high, 'up')}"


def _reach(interval: Interval) -> str:
    if interval.detectable is None:
        return "too few pairs differ to detect any difference"
    return f"as many pairs detect {rounded(interval.detectable, 'up')} or more"


def confidence_sentence(comparison: Comparison) -> str:
    """With which confidence the intervals hold, and when."""
    c = comparison
    which = "All intervals hold at once"
    if c.candidates > 1:
        which = f"All intervals of all {c.candidates} comparisons hold at once"
    when = "at every number of episodes" if c.anytime else "for this number of episodes only"
    sides = ""
    if any(each.sides[0] is not None for each in c.intervals):
        alone = percent(min(each.confidence for each in c.intervals))
        sides = f" Intervals of A and of B alone hold with {alone} each, apart from that."
    return f"{which}, {when}, with confidence {percent(c.confidence)}.{sides}"
