"""A comparison in plain words."""

from typing import TYPE_CHECKING

from tightrope.certificates.words import down, percent, up

if TYPE_CHECKING:
    from tightrope.monitors.answers import Answer
    from tightrope.monitors.compare import Comparison

__all__ = ["in_words", "interval", "title", "verdict"]

_INDENT = "  "


def in_words(comparison: "Comparison") -> str:
    """The verdict on every question, the intervals, and what they rest on."""
    c = comparison
    lines = [title(c), ""]
    for answer in c.answers:
        lines.append(f"{answer.asks[0].upper()}{answer.asks[1:]}: {verdict(answer, c.episodes)}")
        lines.append(f"{_INDENT}{answer.measure}:")
        lines.append(f"{_INDENT * 2}{answer.effect:.4g} in the sample, {interval(answer)}")
        lines.append(
            f"{_INDENT}{answer.figure}: A {answer.first:.6g}, B {answer.second:.6g} "
            f"(n = {answer.n:,})"
        )
    lines += ["", f"All intervals hold at once with confidence {percent(c.confidence)}."]
    made = f"{c.episodes:,} episodes each, {c.pairing}; gamma {c.gamma:g}"
    lines.append(made + ("" if c.seed is None else f"; seed {c.seed}"))
    lines += ["", "Assumptions", *(f"{_INDENT}- {each}" for each in c.assumptions)]
    return "\n".join(lines)


def title(comparison: "Comparison") -> str:
    """What was compared."""
    where = comparison.environment or "an unnamed environment"
    return f"A: {comparison.names[0]}, B: {comparison.names[1]}, in {where}"


def verdict(answer: "Answer", episodes: int) -> str:
    """Who is better, or that it is not decided."""
    if answer.verdict == "not decided":
        return f"not decided with {episodes:,} episodes"
    if answer.verdict == "contradiction":
        return "contradiction: later episodes are not like earlier ones"
    return answer.verdict


def interval(answer: "Answer") -> str:
    """The interval, rounded outward."""
    return f"between {down(answer.low)} and {up(answer.high)}"
