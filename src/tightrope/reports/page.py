"""The HTML page of a certificate."""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tightrope.certificates import Certificate
from tightrope.certificates.breakdown import PARTS, Parts, breakdown
from tightrope.certificates.observed import observed_in_test
from tightrope.certificates.statements.pac_bayes import Portion
from tightrope.certificates.text import (
    claims,
    comparison,
    context,
    details,
    footnote,
    joint_sentence,
    origin,
    percent,
    rounded,
    rows_of,
    title,
)
from tightrope.files import write_text
from tightrope.reports.cards import card, command, facts, flat, groups, overall, typeset
from tightrope.reports.charts import number
from tightrope.reports.figures import Figures
from tightrope.reports.render import as_json, render

__all__ = ["certificate_page", "write_page"]


@dataclass(frozen=True)
class Stack:
    """One bar: parts side by side, in per cent of the widest bar's room."""

    label: str
    portion: Portion
    parts: Parts
    bars: tuple[tuple[str, float, float], ...]  # part, left, width
    rms: str


def write_page(certificate: Certificate, folder: Path) -> None:
    """Write report.html into the certificate's folder, or replace it."""
    write_text(folder / "report.html", certificate_page(certificate))


def certificate_page(certificate: Certificate) -> str:
    """The page as one string: style, script and data are inside."""
    c = certificate
    figures = None if c.fitted is None else Figures.of(c)  # of a table there is nothing to draw
    charts = [] if figures is None else figures.charts()
    data = {} if figures is None else figures.data()
    data = {"charts": {chart.key: chart.data() for chart in charts}, "episodes": [], **data}
    test = figures.groups["test"].seen if figures is not None and figures.tested else None
    observations = observed_in_test(c, test)
    cards = [card(c, row, observations[row.index]) for row in rows_of(c)]
    other = "episode" if c.unit == "step" else "step"
    units = ((c.unit, c.portions), (other, c.other_portions))
    stacks = [(unit, _stacks(c, portions)) for unit, portions in units if portions]
    return render(
        "certificate.html.j2",
        ["chart.js", "certificate.js"],
        c=c,
        title=title(c),
        statuses=overall(c),
        failed_fit=next((s for s in c.statuses if s.key == "failed-fit"), None),
        claims=[typeset(each) for each in claims(c)],
        joint=joint_sentence(c),
        footnote=footnote(c),
        context=context(c),
        origin=origin(c),
        groups=groups([each for each in cards if each.row.shown]),
        hidden=[each for each in cards if not each.row.shown],
        facts=facts(c),
        comparison=comparison(c),
        charts={chart.key: chart for chart in charts},
        episodes=data["episodes"],
        shown=data.get("shown"),
        what="" if figures is None else figures.name,
        stacks=stacks,
        parts={
            key: name
            for key, name in PARTS.items()
            if any(getattr(bar.parts, key) for _, bars in stacks for bar in bars)
        },
        versions=list(flat(c.subject.get("versions", {}))),
        subject=list(flat({k: v for k, v in c.subject.items() if k != "versions"})),
        digests=sorted(c.digests.items()),
        command=command(c),
        spent=_spent(c),
        data=as_json(data),
        number=number,
        percent=percent,
        rounded=rounded,
        typeset=typeset,
        words=details(c),
    )


def _stacks(c: Certificate, portions: tuple[Portion, ...]) -> list[Stack]:
    """A bar for each step of a bound, on one scale; parts below 0 go to the left."""
    found = breakdown(portions, c.ledger, c.settings.kappa)
    below = max(sum(-p for p in astuple(each) if p < 0) for each in found)
    above = max(sum(p for p in astuple(each) if p > 0) for each in found)
    room = (below + above) or 1.0
    stacks = []
    for t, (portion, parts) in enumerate(zip(portions, found, strict=True), start=1):
        bars, left, right = [], below, below
        for name, part in zip(PARTS, astuple(parts), strict=True):
            if part < 0:
                left += part
                bars.append((name, 100 * left / room, -100 * part / room))
            elif part > 0:
                bars.append((name, 100 * right / room, 100 * part / room))
                right += part
        label = f"step {t} of {len(portions)}" if len(portions) > 1 else "the bound"
        bounded = min(max(portion.bound, 0.0), 1.0)
        rms = rounded(bounded**0.5 * c.width)
        stacks.append(Stack(label, portion, parts, tuple(bars), rms))
    return stacks


def _spent(c: Certificate) -> list[dict[str, Any]]:
    """The ledger, with each entry's part of all that is spent."""
    most = max(entry.failure for entry in c.ledger)
    return [{"entry": entry, "share": 100 * entry.failure / most} for entry in c.ledger]
