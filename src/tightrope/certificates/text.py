"""The certificate in plain words: a summary that fits a screen, and everything."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tightrope.certificates.assumptions import Status, overall
from tightrope.certificates.evidence import every
from tightrope.certificates.statements.base import INDEPENDENT_STEPS, Statement
from tightrope.errors import as_lines

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Record

__all__ = [
    "Row",
    "claims",
    "details",
    "footnotes",
    "headline",
    "joint_sentence",
    "limit_text",
    "made_from",
    "outcome_sentence",
    "percent",
    "rounded",
    "rows_of",
    "sentence",
    "subject_names",
    "summary",
    "title",
]

_ROUNDING = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}
_SLACK = {"up": 1 - 1e-9, "down": 1e-9, "nearest": 0.5}
_SIDES = {"at-most": ("≤", "at most", "up"), "at-least": ("≥", "at least", "down")}
_ORDER = ("failure", "return", "property", "tolerance", "mean-risk", "band", "monitor")
_NAME = 46  # characters of a row's label


@dataclass(frozen=True)
class Row:
    """A statement as one line of a table.

    Attributes:
        statement: what is certified.
        index: of the statement.
        group: heading that it stands under; empty for none.
        label: what is certified, in words.
        certified: sign and limit.
        estimate: the same in the sample.
        n: units behind it.
        marked: whether it needs independent steps.
        shown: whether the summary has it; `--details` has all.
    """

    statement: Statement
    index: int
    group: str
    label: str
    certified: str
    estimate: str
    n: str
    marked: bool
    shown: bool


def summary(record: "Record") -> str:
    """What is certified, in at most 22 lines where no option adds rows."""
    rows = [row for row in rows_of(record) if row.shown]
    return as_lines(_opening(record, rows, overall(record)))


def details(record: "Record") -> str:
    """Everything that the certificate states, and how it was obtained."""
    c = record
    sections: dict[str, Sequence[str]] = {
        "Statements": [line for s in c.statements for line in _in_full(s)],
        "Made from": [f"{name:<12} {value}" for name, value in made_from(c)],
        "How the bound builds up": [
            "step  episodes        n        KL      loss  kind         value     bound",
            *(
                f"{t:>4}  {p.episodes:>8}  {p.n:>7,}  {p.kl:>8.2f}  {p.loss:>8.5f}  {p.kind:<9} "
                f"{rounded(p.value):>9} {rounded(p.bound):>9}"
                for t, p in enumerate(c.portions, start=1)
            ),
        ],
        "Failure probabilities": [
            f"{e.statement:<40} {e.source:<12} x {e.share:<8} = {e.failure:.3g}" for e in c.ledger
        ],
        "Assumptions": [f"- {each}" for each in c.assumptions],
    }
    lines = _opening(c, rows_of(c), c.statuses)
    for name, body in sections.items():
        lines += ["", name, *(f"  {line}" for line in body)]
    return as_lines(lines)


def title(record: "Record") -> str:
    """Who and what was certified."""
    what, where = subject_names(record)
    what, where = what or "the recorded policy", where or "an unnamed environment"
    return f"Risk certificate for {what} in {where}"


def subject_names(record: "Record") -> tuple[str, str]:
    """The policy, or the log, and the environment; empty where a document names none."""
    policy, environment = (_part(record, name) for name in ("policy", "environment"))
    what = policy.get("name") or record.subject.get("log") or ""
    return str(what), str(environment.get("id") or "")


def outcome_sentence(record: "Record") -> str:
    """What the policy does: the return to count on, and how often it fails."""
    tasks = _part(record, "table").get("tasks", ())
    if len(tasks) > 1:
        return f"Certified for each of {len(tasks)} tasks, all of them at once."
    parts = [
        f"in at least {percent(s.share)} of new episodes it returns at least {limit_text(s)}"
        for s in record.statements
        if s.target == "undiscounted-return" and s.share is not None
    ][:1]
    words = {
        "success": "succeed",
        "low-return": f"return less than {record.settings.fail_below or 0.0:.12g}",
        "early-termination": "terminate early",
    }
    events = {s.target: s for s in record.statements if s.kind == "failure" and s.target in words}
    if events:
        s = events[min(events, key=list(words).index)]
        who = "" if parts else " of new episodes"  # all, not those that return at least this
        parts.append(f"{_SIDES[s.direction][1]} {limit_text(s)}{who} {words[s.target]}")
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def claims(record: "Record") -> list[str]:
    """The sentences to read first; a table's headline is in the one on what the policy does."""
    first, second = outcome_sentence(record), headline(record)
    if not first:
        return [second]
    return [first] if record.bound is None else [first, second.replace(" of new episodes", "")]


def headline(record: "Record") -> str:
    """The statement on the predictor to read first; which one does not depend on values."""
    s, steps = record.statements[record.headline], every(record.thin)
    if s.void:
        return "The bound is void: a step of its recursion is negative, so nothing is certified."
    if s.kind not in ("tolerance", "mean-risk"):
        return sentence(s)
    event = f"predicted return is off by at most {limit_text(s)} (RMS over {steps}"
    if s.kind == "tolerance":
        return f"In at least {percent(s.share or 0)} of new episodes its {event})."
    low, high = record.limits
    first = "If steps were independent: its" if s.unit == "step" else "Its"
    return f"{first} {event}, mean over {s.unit}s, clipped to [{low:.4g}, {high:.4g}])."


def joint_sentence(record: "Record") -> str:
    """Which rows hold together, how surely, for what."""
    c = record
    marked = any(s.joint_confidence is None for s in c.statements)
    alone = f" (each alone with {percent(c.confidence)} or more)"
    return (
        f"All rows{' but *' if marked else ''} hold together with confidence "
        f"{percent(c.joint_confidence)}{alone if c.joint_confidence < c.confidence else ''}, for "
        "this policy in this environment, if episodes are independent and alike."
    )


def sentence(statement: Statement) -> str:
    """A statement as a sentence: all that was bounded, the number rounded to the safe side."""
    s = statement
    if s.void:
        return f"Void: {s.quantity}."
    who = "The" if s.share is None else f"In at least {percent(s.share)} of new episodes the"
    return f"{who} {s.quantity} is {_SIDES[s.direction][1]} {limit_text(s)}."


def rows_of(record: "Record") -> list[Row]:
    """Every statement as a line: first what the policy does, then its predicted return."""
    c = record
    errors = f"its predicted return is off by (RMS over {every(c.thin)})"
    groups = {**dict.fromkeys(("tolerance", "mean-risk", "band"), errors), "monitor": ""}
    levels = [i for i, s in enumerate(c.statements) if s.kind == "tolerance"]
    return [
        Row(
            statement=s,
            index=index,
            group=groups.get(s.kind, "a new episode"),
            label=_label(c, s),
            certified="void" if s.void else f"{_SIDES[s.direction][0]} {limit_text(s)}",
            estimate=_digits(s, s.estimate, "nearest"),
            n=f"{s.n:,}{' steps' if s.unit == 'step' else ''}",
            marked=s.assumes == INDEPENDENT_STEPS,
            shown=index not in levels[1:][-1:],  # the largest score is in no summary
        )
        for index, s in sorted(enumerate(c.statements), key=lambda item: _ORDER.index(item[1].kind))
    ]


def limit_text(statement: Statement) -> str:
    """The number of a statement in the units a person understands, rounded to the safe side."""
    return _digits(statement, statement.limit, _SIDES[statement.direction][2])


def rounded(value: float, direction: str = "up") -> str:
    """Three digits, from 100 on four, with thousands separated; "up", "down" or "nearest".

    Of the shortest decimal that reads back as `value`, rounded to one side.
    """
    context = Context(prec=3 if abs(value) < 100 else 4, rounding=_ROUNDING[direction])
    found = context.create_decimal(repr(float(value)))
    if not found:
        return "0"
    if not 1e-4 <= abs(found) < 1e15:
        return f"{float(found):.4g}"
    return f"{found:,.{max(context.prec - 1 - found.adjusted(), 0)}f}"


def percent(probability: float) -> str:
    """A probability in per cent, rounded down to a tenth."""
    return f"{_tenths(probability, 'down'):g} %"


def footnotes(record: "Record") -> list[str]:
    """What an asterisk means, what the errors compare with, and from how much this was made."""
    checks, dependent = record.checks, ""
    if checks.dependent:
        dependent = f"; these are not (p = {checks.dependence:.3g}): do not rely on it"
    marked = any(s.assumes == INDEPENDENT_STEPS for s in record.statements)
    lines = [f"* needs independent steps{dependent}."] if marked else []
    return [*lines, _context(record), _origin(record)]


def made_from(record: "Record") -> list[tuple[str, str]]:
    """Scheme, episodes, steps, returns and errors, each by its name."""
    c = record
    uses = (f"{count:,} {use}" for use, count in vars(c.episodes).items() if count)
    errors = {"training": c.train_error, "test": c.test_error}
    errors |= {"a constant": c.constant_error, "the mean of each step": c.per_step_error}
    rms = (
        f"{name} {rounded(error**0.5 * c.width, 'nearest')}"
        for name, error in errors.items()
        if error is not None
    )
    episodes = ("episodes", ", ".join(uses))
    if c.bound is None:
        return [episodes]
    worth, outside = c.effective_n or 0.0, 100 * (c.clipped_share or 0.0)
    found = [
        ("scheme", f"{c.scheme}, preset {c.preset}, unit {c.unit}"),
        episodes,
        ("steps", f"{c.steps:,}, on the loss worth {worth:,.0f} independent ones"),
        ("returns", f"{outside:.3g} % outside the range of mean risks"),
        ("RMS errors", f"{', '.join(rms)}; clipped, and in no bound"),
    ]
    normalised = _part(c, "policy").get("normalization")
    if normalised is not None:
        found.append(("observations", f"normalisation: {normalised}"))
    return found


def _opening(c: "Record", rows: list[Row], statuses: list[Status]) -> list[str]:
    """The lines of a summary, with these rows and warnings."""
    values = {
        "drift": f" (p = {c.checks.drift or 0.0:.3g})",
        "dependent": f" (p = {c.checks.dependence or 0.0:.3g})",
        "clipped": f" ({100 * (c.clipped_share or 0.0):.3g} %)",
    }
    warnings = [
        f"{status.word}{values.get(status.key, '')}: {status.meaning}"
        for status in statuses
        if status.tone != "neutral"
    ]
    said = " ".join(("!", *warnings)) if warnings else ""
    return [title(c), "", *claims(c), joint_sentence(c), said, *_table(rows), *footnotes(c)]


def _in_full(s: Statement) -> Iterator[str]:
    """A statement, how sure it is, and what it needs."""
    joint = "outside what holds jointly" if s.joint_confidence is None else "holds jointly"
    note = f"; {s.note}" if s.note else ""
    yield sentence(s)
    alone = f"confidence {percent(s.confidence)} alone, {joint}"
    yield f"  {alone}; assumes {s.assumes}; n = {s.n:,}{note}"


def _label(c: "Record", s: Statement) -> str:
    """What a row is about, under its heading."""
    low, high = c.limits
    name = {
        "tolerance": "",
        "mean-risk": f"mean over {s.unit}s, clipped to [{low:.4g}, {high:.4g}]",
        "band": f"at {every(c.thin)} at once",
        "monitor": "alarm of the monitor",
    }.get(s.kind, re.sub(r"^probability that (an episode('s)? |the )?", "", s.quantity))
    share = "" if s.share is None else f"{percent(s.share)} of episodes"
    return ", ".join(filter(None, (name, share)))


def _table(rows: list[Row]) -> list[str]:
    """Rows as aligned lines under headings; the first one names the columns."""
    lines: list[tuple[str, str, str, str]] = []
    unit, said = " episodes", set[str]()
    for group, members in groupby(rows, key=lambda row: row.group):
        if group:
            names = ("", "", "") if lines else ("certified", "in sample", "n")
            lines.append((f"  {group}", *names))
            said.clear()
        for row in members:
            label = row.label
            for words in re.findall(r" of episodes$| to \[.*\]$", label):
                label = label.removesuffix(words) if words in said else label
                said.add(words)
            if row.marked:
                label = re.sub(r"(,|$)", r" *\1", label, count=1)
            name = f"{'    ' if group else '  '}{label}"
            lines.append((name, row.certified, row.estimate, row.n + unit * row.n.isnumeric()))
            unit = ""
    width = max([_NAME, *(len(name) for name, *_, n in lines if n)])
    return [
        f"{name:<{width}} {certified:>12} {estimate:>11}   {n}".rstrip()
        for name, certified, estimate, n in lines
    ]


def _context(c: "Record") -> str:
    """What the errors compare with, how many episodes were cut, discount and seed."""
    if c.constant_error is None or c.per_step_error is None:
        table = _part(c, "table")
        seed = [] if c.checks.drift is None else [f"Seed {c.settings.seed}."]
        notes = table.get("notes", ()) if table.get("candidates", 1) != 1 else ()
        first = "A table of results: predicted returns are not certified."
        return " ".join((first, *seed, *map(str, notes)))
    error, name = min(
        (c.constant_error, "A constant prediction"), (c.per_step_error, "The mean of a step")
    )
    cut, limit = "", "by a time limit" if c.time_limit is None else f"at {c.time_limit:,} steps"
    if c.truncated_episodes:
        cut = f" {c.truncated_episodes:,} of {c.episodes.validation:,} episodes were cut {limit}."
    off = rounded(error**0.5 * c.width, "nearest")
    return f"{name} is off by {off}.{cut} Discount {c.settings.gamma:g}, seed {c.settings.seed}."


def _origin(c: "Record") -> str:
    """How many episodes it was made from, and whether PAC-Bayes is in it."""
    n = c.episodes
    if c.pac_bayes:
        made = f"PAC-Bayes bound, scheme {c.scheme}, preset {c.preset}"
        return f"{made}, on {n.validation:,} validation episodes."
    made = f"Fitted to {n.fit:,} episodes, calibrated on {n.calibration:,} others"
    made = f"All {n.calibration:,} episodes calibrate" if c.bound is None else made
    return f"{made}: hold-out bounds, no PAC-Bayes."


def _digits(s: Statement, value: float, direction: str) -> str:
    """A number of the statement: a probability to a tenth of a per cent, others to three digits."""
    if s.kind == "failure" or (s.kind == "property" and s.share is None):
        return f"{_tenths(value, direction):.1f} %"
    return rounded(value, direction)


def _tenths(probability: float, direction: str) -> float:
    return math.floor(1000 * probability + _SLACK[direction]) / 10


def _part(record: "Record", name: str) -> Mapping[str, Any]:
    """A part of the metadata; nothing where a document has no such part."""
    found = record.subject.get(name)
    return found if isinstance(found, Mapping) else {}
