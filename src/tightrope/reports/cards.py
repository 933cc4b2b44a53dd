"""What a page says of each statement, of who was certified, and of how to repeat it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tightrope.certificates import Certificate, Options, Statement
from tightrope.certificates.certificate import Record
from tightrope.certificates.observed import Observation
from tightrope.certificates.statements.base import INDEPENDENT_STEPS
from tightrope.certificates.status import STATUSES, Status
from tightrope.certificates.text import Row, made_from, sentence, subject_names

__all__ = ["Card", "card", "command", "facts", "flat", "groups", "overall", "typeset"]

_BESIDE_ROWS = ("dependent",)  # said beside the rows that it concerns, and not of all


@dataclass(frozen=True)
class Card:
    """A statement as a page shows it.

    Attributes:
        row: the same as a line of the summary.
        statement: what is certified.
        sentence: the same in words.
        marks: what speaks against it.
        shown: in per cent: how much of the certified number the sample shows.
        breaks: what would break it, beside what breaks all.
        observation: on test episodes; None without any.
        headline: whether it is the statement on the predictor to read first.
    """

    row: Row
    statement: Statement
    sentence: str
    marks: tuple[Status, ...]
    shown: float | None
    breaks: str
    observation: Observation | None
    headline: bool


def card(c: Certificate, row: Row, observation: Observation | None) -> Card:
    """The statement of a row."""
    s = c.statements[row.index]
    concerned = {"dependent": row.marked, "clipped": s.kind == "mean-risk"}
    return Card(
        row=row,
        statement=s,
        sentence=sentence(s),
        marks=tuple(each for each in c.statuses if concerned.get(each.key)),
        shown=_ratio(s),
        breaks=_breaks(c, s),
        observation=observation,
        headline=row.index == c.headline,
    )


def groups(cards: list[Card]) -> list[tuple[str, list[Card]]]:
    """Cards by the heading that their rows stand under, in order."""
    found: dict[str, list[Card]] = {}
    for each in cards:
        found.setdefault(each.row.group, []).append(each)
    return list(found.items())


def overall(record: Record) -> list[Status]:
    """What to know before relying on a whole certificate, the worst first; never empty."""
    return [s for s in record.statuses if s.key not in _BESIDE_ROWS] or [STATUSES[-1]]


def facts(c: Certificate) -> list[tuple[str, str]]:
    """Who and what was certified, and from how much."""
    policy = c.subject.get("policy", {})
    what, where = subject_names(c)
    kind = "policy" if policy else "table" if c.fitted is None else "log"
    found = [(kind, what or "unnamed"), ("environment", where or "unnamed")]
    found += [
        (name, str(policy[key]))
        for key, name in (("digest", "SHA-256 of the policy"), ("actions", "actions"))
        if policy.get(key)
    ]
    return found + made_from(c)


def command(c: Certificate) -> str:
    """The command that would issue such a certificate from the same source."""
    policy = c.subject.get("policy")
    words = ["tightrope", "certify", "POLICY" if policy else "TABLE" if c.fitted is None else "LOG"]
    if policy:
        words += ["--env", subject_names(c)[1] or "ID"]
        words += ["--sample"] if policy.get("actions") == "sampled" else []
    asked, default = c.options.seeded(c.settings.seed), Options()
    for entry in fields(Options):
        value = getattr(asked, entry.name)
        if entry.name == "device" or value == getattr(default, entry.name):
            continue
        values = value if isinstance(value, tuple) else () if value is True else (value,)
        words += [f"--{entry.name.replace('_', '-')}", *map(str, values)]
    for own in c.settings.properties:
        words += ["--property", f"{own.name}=FILE.py:FUNCTION"]
        if own.limit is not None:
            sign = "<=" if own.at_most else ">="
            words += ["--property-limit", f"{own.name}{sign}{own.limit!r}"]
    return shlex.join(words)


def flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """A nested record as names and values."""
    for key, value in record.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name} ")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def typeset(text: str) -> str:
    """A sentence with minus signs in front of its negative numbers."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "\N{MINUS SIGN}", text)


def _ratio(s: Statement) -> float | None:
    """How much of the certified number the sample shows; the rest is the price of being sure."""
    part, whole = s.estimate, s.limit
    if s.direction == "at-least":
        part, whole = whole, part
    return min(100.0, 100.0 * part / whole) if part >= 0 and whole > 0 else None


def _breaks(c: Certificate, s: Statement) -> str:
    if s.assumes == INDEPENDENT_STEPS:
        return (
            f"Steps of one episode depend on each other: {s.n:,} are counted as independent; "
            f"on the loss they carry as much information as {c.effective_n:,.0f} would."
        )
    if s.kind == "mean-risk":
        return (
            "Returns outside the range count as its ends "
            f"({100 * (c.clipped_share or 0.0):.3g} % of the calibration returns)."
        )
    if s.kind == "failure":
        return "The event is counted as recorded; what was not recorded is not covered."
    return ""
