"""What is known of two policies: the record, and its text."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.text import percent, rounded
from tightrope.comparison.questions import CONTRADICTION, UNDECIDED, Interval
from tightrope.errors import InputError, as_lines

__all__ = ["Comparison", "bounds_text", "confidence_sentence", "summary", "title", "verdict_text"]

_INDENT = "  "


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is known of two policies.

    Attributes:
        names: of A and B.
        environment: that both ran in; empty if no recording says.
        intervals: answers to the questions.
        episodes: of each policy.
        pairing: how episodes were paired, in words.
        gamma: discount factor of the returns.
        seed: of the roll-outs, or of a random order; None for recordings in recorded order.
        anytime: whether the intervals hold at every number of episodes.
        candidates: comparisons to choose from.
        confidence: that all intervals of all of them hold.
        ledger: which failure probability went where.
        assumptions: in sentences.
        returns: of A and of B, pair by pair.
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
        pairs = self.interval("return")
        q = pairs.question
        gap = q.first - q.second
        means = [each for each in self.intervals if each.question.name == "mean return"]
        certified = [pairs.is_decided, any(each.is_decided for each in means)]
        if not any(certified) or q.effect * gap >= 0:
            return ""
        often, average = ("B", "A") if gap > 0 else ("A", "B")
        basis = ["certified" if each else "in this sample" for each in certified]
        return (
            f"The returns disagree: {often} returns more in more of the pairs ({basis[0]}), "
            f"{average} returns more on average ({basis[1]}: A {q.first:.6g}, B {q.second:.6g})."
        )

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return {
            **{entry.name: getattr(self, entry.name) for entry in fields(self)},
            "intervals": [interval.to_json() for interval in self.intervals],
            "disagreement": self.disagreement,
            "ledger": [asdict(entry) for entry in self.ledger],
        }

    def __str__(self) -> str:
        return summary(self)

    def __repr__(self) -> str:
        answers = ", ".join(f"{each.question.name}: {each.verdict}" for each in self.intervals)
        return f"Comparison({answers}; {self.episodes} episodes each)"


def summary(comparison: Comparison) -> str:
    """The answer to every question, the intervals, and what they rest on."""
    c = comparison
    lines = [title(c), ""]
    for interval in c.intervals:
        q = interval.question
        lines += [
            f"{q.title[0].upper()}{q.title[1:]}: {verdict_text(interval, c.episodes)}",
            f"{_INDENT}{q.measure}:",
            f"{_INDENT * 2}{q.effect:.4g} in the sample, {bounds_text(interval)}",
            f"{_INDENT}{q.figure}: A {q.first:.6g}, B {q.second:.6g} (n = {q.n:,})",
        ]
    lines += ["", c.disagreement] if c.disagreement else []
    collected = f"{c.episodes:,} episodes each, {c.pairing}; gamma {c.gamma:g}"
    lines += [
        "",
        confidence_sentence(c),
        collected + ("" if c.seed is None else f"; seed {c.seed}"),
    ]
    lines += ["", "Assumptions", *(f"{_INDENT}- {each}" for each in c.assumptions)]
    return as_lines(lines)


def title(comparison: Comparison) -> str:
    """What was compared."""
    where = comparison.environment or "an unnamed environment"
    return f"A: {comparison.names[0]}, B: {comparison.names[1]}, in {where}"


def verdict_text(interval: Interval, episodes: int) -> str:
    """Which is better, or that it is not decided."""
    if interval.verdict == UNDECIDED:
        return f"not decided with {episodes:,} episodes"
    if interval.verdict == CONTRADICTION:
        return "contradiction: later episodes are not like earlier ones"
    return interval.verdict


def bounds_text(interval: Interval) -> str:
    """The interval, rounded outward."""
    return f"between {rounded(interval.low, 'down')} and {rounded(interval.high, 'up')}"


def confidence_sentence(comparison: Comparison) -> str:
    """With which confidence the intervals hold, and when."""
    c = comparison
    which = "All intervals hold at once"
    if c.candidates > 1:
        which = f"All intervals of all {c.candidates} comparisons hold at once"
    when = "at every number of episodes" if c.anytime else "for this number of episodes only"
    return f"{which}, {when}, with confidence {percent(c.confidence)}."
