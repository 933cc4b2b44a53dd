"""The certificate in plain words: a summary that fits a screen, and everything."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import TYPE_CHECKING, Any, Literal

from tightrope.certificates.assumptions import SOURCES
from tightrope.certificates.evidence import every
from tightrope.certificates.statements.base import INDEPENDENT_STEPS, Statement
from tightrope.errors import as_lines

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Record
    from tightrope.certificates.status import Status

__all__ = [
    "Row",
    "claims",
    "comparison",
    "context",
    "details",
    "footnote",
    "headline",
    "joint_sentence",
    "limit_text",
    "made_from",
    "origin",
    "outcome_sentence",
    "percent",
    "rounded",
    "rows_of",
    "sentence",
    "subject_names",
    "summary",
    "title",
]

Direction = Literal["up", "down", "nearest"]
_ROUNDING = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}
_NAME = 46  # characters of a row's label


@dataclass(frozen=True)
class Row:
    """A statement as one line of a table.

    Attributes:
        index: of the statement.
        group: heading that it stands under; empty for none.
        label: what is certified.
        certified: sign and limit.
        estimate: the same in the sample.
        n: units behind it.
        marked: whether it needs independent steps.
        shown: whether the summary has it; `--details` has all.
    """

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
    c = record
    lines = [title(c), "", *claims(c), joint_sentence(c)]
    warnings = [status for status in c.statuses if status.key not in _IN_ROWS]
    if warnings:
        lines.append("! " + " ".join(_warning(c, status) for status in warnings))
    else:
        lines.append("")
    lines += _table([row for row in rows_of(c) if row.shown])
    lines += [*filter(None, [footnote(c)]), context(c), origin(c)]
    return as_lines(lines)


def details(record: "Record") -> str:
    """Everything that the certificate states, and how it was obtained."""
    c = record
    lines = [title(c), ""]
    lines += [f"! {_warning(c, status)}" for status in c.statuses if status.tone != "neutral"]
    lines += [*claims(c), joint_sentence(c), ""]
    lines += _table(rows_of(c))
    lines += ["", "Statements"]
    for s in c.statements:
        joint = "outside what holds jointly" if s.joint_confidence is None else "holds jointly"
        note = f"; {s.note}" if s.note else ""
        lines.append(f"  {sentence(s)}")
        lines.append(
            f"    confidence {percent(s.confidence)} alone, {joint}; assumes {s.assumes}; n = "
            f"{s.n:,}{note}"
        )
    lines += ["", "Made from", *(f"  {name:<11} {value}" for name, value in made_from(c))]
    lines += ["", f"Comparison, unit {c.unit} (enters no bound), RMS"]
    lines += [f"  {name:<20} {value}" for name, value in comparison(c)]
    lines += ["", "How the bound builds up"]
    lines.append("  step  episodes        n        KL      loss  kind         value     bound")
    for t, p in enumerate(c.portions, start=1):
        lines.append(
            f"  {t:>4}  {p.episodes:>8}  {p.n:>7,}  {p.kl:>8.2f}  {p.loss:>8.5f}  "
            f"{p.kind:<9} {rounded(p.value):>9} {rounded(p.bound):>9}"
        )
    lines += ["", "Failure probabilities"]
    for entry in c.ledger:
        lines.append(
            f"  {entry.statement:<40} {entry.source:<12} x {entry.share:<8} = {entry.failure:.3g}"
        )
    lines += ["", "Assumptions", *(f"  - {each}" for each in c.assumptions)]
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
    returns = [
        s for s in record.statements
        if s.target == "undiscounted-return" and s.share is not None
    ]  # fmt: skip
    events = {s.target: s for s in record.statements if s.kind == "failure"}
    parts = []
    tasks = record.subject.get("table", {}).get("tasks", ())
    if len(tasks) > 1:
        return f"Certified for each of {len(tasks)} tasks, all of them at once."
    if returns:
        s = returns[0]
        parts.append(
            f"in at least {percent(s.share or 0)} of new episodes it returns at least "
            f"{limit_text(s)}"
        )
    for target, side, words in (
        ("success", "at least", "succeed"),
        ("low-return", "at most", f"return less than {record.settings.fail_below or 0.0:.12g}"),
        ("early-termination", "at most", "terminate early"),
    ):
        if target in events:  # of all new episodes, not of those that return so much
            who = "" if parts else " of new episodes"
            parts.append(f"{side} {limit_text(events[target])}{who} {words}")
            break
    return _capital(", and ".join(parts)) + "." if parts else ""


def claims(record: "Record") -> list[str]:
    """The sentences to read first; a table's headline is in the one on what the policy does."""
    first = outcome_sentence(record)
    if not first:
        return [headline(record)]
    return [first] if record.bound is None else [first, headline(record, of="")]


def headline(record: "Record", *, of: str = " of new episodes") -> str:
    """The statement on the predictor to read first; which one does not depend on values."""
    s = record.statements[record.headline]
    if s.void:
        return "The bound is void: a step of its recursion is negative, so nothing is certified."
    if s.kind == "tolerance":
        return (
            f"In at least {percent(s.share or 0)}{of} its predicted return is off by at most "
            f"{limit_text(s)} (RMS over {every(record.thin)})."
        )
    if s.kind == "mean-risk":
        low, high = record.limits
        first = "If steps were independent: its" if s.unit == "step" else "Its"
        return (
            f"{first} predicted return is off by at most {limit_text(s)} (RMS over "
            f"{every(record.thin)}, mean over {s.unit}s, clipped to [{low:.4g}, {high:.4g}])."
        )
    return sentence(s)


def joint_sentence(record: "Record") -> str:
    """Which rows hold together, how surely, for what."""
    c = record
    marked = any(s.joint_confidence is None for s in c.statements)
    rows = "All rows but *" if marked else "All rows"
    own = "" if c.joint_confidence >= c.confidence else (
        f" (each alone with {percent(c.confidence)} or more)"
    )  # fmt: skip
    return (
        f"{rows} hold together with confidence {percent(c.joint_confidence)}{own}, for this policy "
        "in this environment, if episodes are independent and alike."
    )


def sentence(statement: Statement) -> str:
    """A statement as a sentence: all that was bounded, the number rounded to the safe side."""
    s = statement
    side = "at most" if s.direction == "at-most" else "at least"
    if s.void:
        return f"Void: {s.quantity}."
    if s.share is not None:
        return (
            f"In at least {percent(s.share)} of new episodes the {s.quantity} is {side} "
            f"{limit_text(s)}."
        )
    return f"The {s.quantity} is {side} {limit_text(s)}."


def rows_of(record: "Record") -> list[Row]:
    """Every statement as a line: first what the policy does, then its predicted return."""
    c = record
    errors = f"its predicted return is off by (RMS over {every(c.thin)})"
    order = {"failure": 0, "return": 1, "property": 2, "tolerance": 3, "mean-risk": 4, "band": 5}
    levels = [i for i, s in enumerate(c.statements) if s.kind == "tolerance"]
    found = []
    for index, s in sorted(enumerate(c.statements), key=lambda item: order.get(item[1].kind, 6)):
        about_error = s.kind in ("tolerance", "mean-risk", "band")
        group = errors if about_error else "" if s.kind == "monitor" else "a new episode"
        sign = "≤" if s.direction == "at-most" else "≥"
        unit = " steps" if s.unit == "step" else ""
        found.append(
            Row(
                index=index,
                group=group,
                label=_label(c, s),
                certified="void" if s.void else f"{sign} {limit_text(s)}",
                estimate=_estimate(s),
                n=f"{s.n:,}{unit}",
                marked=s.assumes == INDEPENDENT_STEPS,
                shown=not (len(levels) > 1 and index == levels[-1]),
            )
        )
    return found


def limit_text(statement: Statement) -> str:
    """The number of a statement in the units a person understands, rounded to the safe side."""
    s = statement
    way: Direction = "up" if s.direction == "at-most" else "down"
    return f"{_tenths(s.value, way):.1f} %" if _is_probability(s) else rounded(s.limit, way)


def rounded(value: float, direction: Direction = "up") -> str:
    """Three digits, from 100 on four, with thousands separated.

    Of the shortest decimal that reads back as `value`, rounded to one side.
    """
    context = Context(prec=3 if abs(value) < 100 else 4, rounding=_ROUNDING[direction])
    found = context.create_decimal(repr(float(value)))
    if not found:
        return "0"
    if not 1e-4 <= abs(found) < 1e15:
        return f"{float(found):.4g}"
    return f"{found:,.{max(context.prec - 1 - found.adjusted(), 0)}f}"


def percent(probability: float, direction: Direction = "down") -> str:
    """A probability in per cent to a tenth, rounded down unless asked."""
    return f"{_tenths(probability, direction):g} %"


def _tenths(probability: float, direction: Direction) -> float:
    tenths = probability * 1000
    return {
        "down": math.floor(tenths + 1e-9),
        "up": math.ceil(tenths - 1e-9),
        "nearest": round(tenths),
    }[direction] / 10


def footnote(record: "Record") -> str:
    """What the asterisk of a row means; empty where no row has one."""
    if not any(row.marked for row in rows_of(record)):
        return ""
    checks = record.checks
    dependent = f"; these are not (p = {checks.dependence or 0.0:.3g}): do not rely on it"
    return f"* needs independent steps{dependent if checks.dependent else ''}."


def context(record: "Record") -> str:
    """What the errors compare with, how many episodes were cut, discount and seed."""
    c = record
    if c.constant_error is None or c.per_step_error is None:
        seed = "" if c.checks.drift is None else f" Seed {c.settings.seed}."
        table = _part(c, "table")
        best = " ".join(map(str, table.get("notes", ()))) if table.get("candidates", 1) != 1 else ""
        return f"A table of results: predicted returns are not certified.{seed} {best}".rstrip()
    constant = min(c.constant_error, c.per_step_error) ** 0.5 * c.width
    name = "A constant prediction" if c.constant_error <= c.per_step_error else "The mean of a step"
    cut = ""
    if c.truncated_episodes:
        limit = "by a time limit" if c.time_limit is None else f"at {c.time_limit:,} steps"
        cut = f" {c.truncated_episodes:,} of {c.episodes.validation:,} episodes were cut {limit}."
    return (
        f"{name} is off by {rounded(constant, 'nearest')}.{cut} Discount {c.settings.gamma:g}, "
        f"seed {c.settings.seed}."
    )


def origin(record: "Record") -> str:
    """How many episodes it was made from, and whether PAC-Bayes is in it."""
    c, n = record, record.episodes
    if c.pac_bayes:
        return (
            f"PAC-Bayes bound, scheme {c.scheme}, preset {c.preset}, on {n.validation:,} "
            "validation episodes."
        )
    if c.bound is None:
        return f"All {n.calibration:,} episodes calibrate: hold-out bounds, no PAC-Bayes."
    return (
        f"Fitted to {n.fit:,} episodes, calibrated on {n.calibration:,} others: hold-out bounds, "
        "no PAC-Bayes."
    )


def made_from(record: "Record") -> list[tuple[str, str]]:
    """Scheme, episodes, steps and returns, each by its name."""
    c, n, limits = record, record.episodes, record.return_range
    if limits is None:
        rows = f"{n.calibration:,} rows of a table, all to calibrate; no predictor"
        return [("episodes", rows)]
    clock = f"clock to {c.time_limit:,} steps" if c.time_limit is not None else "no clock"
    bound = "PAC-Bayes" if c.pac_bayes else "no PAC-Bayes: hold-out bounds"
    found = [("scheme", f"{c.scheme} ({bound}), preset {c.preset}, unit {c.unit}, {clock}")]
    normalised = _part(c, "policy").get("normalization")
    if normalised is not None:
        how = "not normalised" if normalised == "none" else f"normalised by {normalised}"
        found.append(("observations", how))
    uses = {"pilot": n.pilot, "to fit": n.fit, "to calibrate": n.calibration, "test": n.test}
    used = (f"{count:,} {use}" for use, count in uses.items() if count)
    return [
        *found,
        ("episodes", f"{', '.join(used)}; seed {c.settings.seed}"),
        (
            "steps",
            f"{c.steps:,} after thinning by {c.thin}; on the loss they carry as much information "
            f"as {c.effective_n:,.0f} independent ones",
        ),
        (
            "returns",
            f"clipped to [{limits.low:.4g}, {limits.high:.4g}] in mean risks, from "
            f"{SOURCES[limits.source]}; {100 * (c.clipped_share or 0):.3g} % lie outside",
        ),
    ]


def comparison(record: "Record") -> list[tuple[str, str]]:
    """The bound and errors that enter no bound, as RMS errors in return units."""
    c = record
    rows = [("bound", c.bound), ("train error", c.train_error), ("test error", c.test_error)]
    rows += [("constant prediction", c.constant_error), ("mean of each step", c.per_step_error)]
    return [
        (name, rounded(value**0.5 * c.width, "up" if name == "bound" else "nearest"))
        for name, value in rows
        if value is not None
    ]


_IN_ROWS = ("holds", "dependent", "steps")  # said beside the rows that they concern


def _is_probability(s: Statement) -> bool:
    return s.kind == "failure" or (s.kind == "property" and s.share is None)


def _estimate(s: Statement) -> str:
    if _is_probability(s):
        return f"{_tenths(s.estimate, 'nearest'):.1f} %"
    return rounded(s.estimate, "nearest")


def _label(c: "Record", s: Statement) -> str:
    """What a row is about, under its heading."""
    share = "" if s.share is None else f"{percent(s.share)} of episodes"
    low, high = c.limits
    if s.kind == "tolerance":
        return share
    if s.kind == "mean-risk":
        return f"mean over {s.unit}s, clipped to [{low:.4g}, {high:.4g}]"
    if s.kind == "band":
        return f"at {every(c.thin)} at once, {share}"
    if s.kind == "monitor":
        return f"alarm of the monitor, {share}"
    if s.kind == "failure":
        return re.sub(r"^probability that (an episode('s)? |the )?", "", s.quantity)
    label = s.quantity.removeprefix("probability that ")
    return f"{label}, {share}" if share else label


def _table(rows: list[Row]) -> list[str]:
    """Rows as aligned lines under headings; the first one names the columns."""
    lines: list[tuple[str, str, str, str]] = []
    group, said = "", set[str]()
    for row in rows:
        if row.group and row.group != group:
            names = ("", "", "") if lines else ("certified", "in sample", "n")
            lines.append((f"  {row.group}", *names))
            said.clear()
        group, label = row.group, row.label
        for words in re.findall(r" of episodes$| to \[.*\]$", label):
            label = label.removesuffix(words) if words in said else label
            said.add(words)
        if row.marked:
            label = re.sub(r"(,|$)", r" *\1", label, count=1)
        unit = "" if any(n for *_, n in lines[1:]) or " " in row.n else " episodes"
        name = f"{'    ' if row.group else '  '}{label}"
        lines.append((name, row.certified, row.estimate, f"{row.n}{unit}"))
    width = max([_NAME, *(len(name) for name, *_, n in lines if n)])
    return [
        f"{name:<{width}} {certified:>12} {estimate:>11}   {n}".rstrip()
        for name, certified, estimate, n in lines
    ]


def _warning(c: "Record", status: "Status") -> str:
    values = {
        "drift": f" (p = {c.checks.drift or 0.0:.3g})",
        "clipped": f" ({100 * (c.clipped_share or 0.0):.3g} %)",
        "dependent": f" (p = {c.checks.dependence or 0.0:.3g})",
    }
    return f"{status.word}{values.get(status.key, '')}: {status.meaning}"


def _part(record: "Record", name: str) -> Mapping[str, Any]:
    """A part of the metadata; nothing where a document has no such part."""
    found = record.subject.get(name)
    return found if isinstance(found, Mapping) else {}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
