"""The HTML page of a certificate."""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tightrope.certificates import Certificate
from tightrope.certificates.breakdown import PARTS, Parts, breakdown
from tightrope.certificates.portions import Portion
from tightrope.certificates.trial import trial
from tightrope.certificates.words import headline, percent, title, up
from tightrope.reports.cards import card, command, facts, flat, lead
from tightrope.reports.charts import number
from tightrope.reports.figures import Seen
from tightrope.reports.render import as_json, render, write_text
from tightrope.reports.stamps import stamps

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
    """Write report.html into the certificate's folder, or draw it anew."""
    write_text(folder / "report.html", certificate_page(certificate))


def certificate_page(certificate: Certificate) -> str:
    """The page as one string: style, script and data are inside."""
    c, seen = certificate, Seen.of(certificate)
    charts = seen.charts()
    data = {
        "charts": {chart.key: chart.data() for chart in charts},
        "episodes": seen.episodes(),
        "band": seen.band_data(),
        "shown": seen.worst,
        "first": seen.span[0],
    }
    tried = trial(c, seen.all_curves)
    cards = [card(c, index, tried[index]) for index in range(len(c.statements))]
    other = "episode" if c.unit == "step" else "step"
    units = ((c.unit, c.portions), (other, c.other_portions))
    stacks = [(unit, _stacks(c, portions)) for unit, portions in units]
    return render(
        "certificate.html.j2",
        ["chart.js", "certificate.js"],
        c=c,
        title=title(c),
        stamps=stamps(c),
        headline=headline(c).replace("\n", " "),
        first=c.statements[c.headline],
        main=cards[c.headline],
        cards=sorted(cards, key=lambda each: not each.headline),
        breaks=list(dict.fromkeys(each for card in cards for each in card.breaks)),
        lead=lead(c, tried[c.headline]),
        facts=facts(c),
        charts={chart.key: chart for chart in charts},
        episodes=data["episodes"],
        shown=seen.worst,
        what=seen.what,
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
        up=up,
        words=str(c),
    )


def _stacks(c: Certificate, portions: tuple[Portion, ...]) -> list[Stack]:
    """A bar for each step of a bound, on one scale; parts below 0 go to the left."""
    found = breakdown(portions, c.ledger, c.options.kappa)
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
        rms = up(bounded**0.5 * c.width)
        stacks.append(Stack(label, portion, parts, tuple(bars), rms))
    return stacks


def _spent(c: Certificate) -> list[dict[str, Any]]:
    """The ledger, with each entry's part of all that is spent."""
    most = max(entry.failure for entry in c.ledger)
    return [{"entry": entry, "share": 100 * entry.failure / most} for entry in c.ledger]
