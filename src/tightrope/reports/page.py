"""The HTML page of a certificate: the rows of its summary, its charts, and how to repeat it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from tightrope.bounds import bet_loss, pac_bayes_bet, pac_bayes_kl, split_kl
from tightrope.certificates import Certificate, Statement, text
from tightrope.certificates.assumptions import overall
from tightrope.certificates.evidence import every
from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.observed import observed_in_test
from tightrope.certificates.statements.pac_bayes import Portion
from tightrope.files import write_text
from tightrope.reports.figures import Figures
from tightrope.reports.render import as_json, render

__all__ = ["PARTS", "breakdown", "certificate_page", "consists_of", "write_page"]

# The mean in the sample; what unequal losses cost a bet (P.3); the correction for Monte Carlo draws
# (C.1), (C.2); what the failure probability costs with KL = 0; what the KL divergence costs.
PARTS = {
    "empirical": "in the sample",
    "spread": "spread of the losses",
    "draws": "Monte Carlo draws",
    "confidence": "confidence",
    "kl": "KL divergence",
}
Parts: TypeAlias = Mapping[str, float]  # by the keys of PARTS, normalised; their sum is the bound


def write_page(certificate: Certificate, folder: Path) -> None:
    """Write report.html into the certificate's folder, or replace it."""
    write_text(folder / "report.html", certificate_page(certificate))


def certificate_page(certificate: Certificate) -> str:
    """The page as one string: style, script and data are inside."""
    c = certificate
    figures = None if c.fitted is None else Figures(c)  # of a table there is nothing to draw
    charts = {} if figures is None else {chart.key: chart for chart in figures.charts()}
    data = {"episodes": []} if figures is None else figures.data()
    rows = text.rows_of(c)
    shown = [row for row in rows if row.shown]
    other = "episode" if c.unit == "step" else "step"
    units = {c.unit: c.portions, other: c.other_portions}
    stacks = {unit: _stacks(c, portions) for unit, portions in units.items() if portions}
    bars = [bar["parts"] for stack in stacks.values() for bar in stack]
    return render(
        "certificate.html.j2",
        ["chart.js", "certificate.js"],
        c=c,
        text=text,
        title=text.title(c),
        statuses=overall(c),
        groups=[(name, [*own]) for name, own in groupby(shown, key=lambda row: row.group)],
        hidden=[row for row in rows if not row.shown],
        observations=observed_in_test(c, None if figures is None else figures.test),
        facts=_facts(c),
        charts=charts,
        figures=figures,
        episodes=data["episodes"],
        every=every,
        stacks=stacks,
        parts={key: name for key, name in PARTS.items() if any(each[key] for each in bars)},
        recorded=[*c.digests.items(), *_flat(c.subject), *_flat(vars(c.options), "option ")],
        data=as_json({"charts": {key: each.data() for key, each in charts.items()}, **data}),
        ratio=_ratio,
    )


def _facts(c: Certificate) -> list[tuple[str, str]]:
    """Who and what was certified, and from how much."""
    policy = c.subject.get("policy", {})
    what, where = text.subject_names(c)
    kind = "policy" if policy else "table" if c.fitted is None else "log"
    found = [(kind, what or "unnamed"), ("environment", where or "unnamed")]
    names = {"digest": "SHA-256 of the policy", "actions": "actions"}
    found += [(name, str(policy[key])) for key, name in names.items() if policy.get(key)]
    return found + text.made_from(c)


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """A nested record as names and values."""
    for key, value in record.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name} ")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _ratio(s: Statement) -> float | None:
    """How much of the certified number the sample shows; the rest is the price of being sure."""
    part, whole = s.estimate, s.limit
    if s.direction == "at-least":
        part, whole = whole, part
    return min(100.0, 100.0 * part / whole) if part >= 0 and whole > 0 else None


def _stacks(c: Certificate, portions: tuple[Portion, ...]) -> list[dict[str, Any]]:
    """A bar for each step of a bound, on one scale in per cent; parts below 0 go to the left."""
    found = breakdown(portions, c.ledger, c.settings.kappa)
    below = max(-sum(min(part, 0.0) for part in parts.values()) for parts in found)
    above = max(sum(max(part, 0.0) for part in parts.values()) for parts in found)
    room = (below + above) or 1.0
    stacks: list[dict[str, Any]] = []
    for t, (portion, parts) in enumerate(zip(portions, found, strict=True), start=1):
        bars, left, right = [], below, below
        for name, part in parts.items():
            left += min(part, 0.0)
            start = left if part < 0 else right
            if part:
                bars.append((name, 100 * start / room, 100 * abs(part) / room))
            right += max(part, 0.0)
        label = f"step {t} of {len(portions)}" if len(portions) > 1 else "the bound"
        rms = text.rounded(min(max(portion.bound, 0.0), 1.0) ** 0.5 * c.width)
        stack = {"label": label, "portion": portion, "parts": parts, "bars": bars, "rms": rms}
        stacks.append(stack)
    return stacks


def breakdown(
    portions: Sequence[Portion], ledger: Sequence[LedgerEntry], kappa: float
) -> list[Parts]:
    """The parts of each portion's bound B_t, following the recursion (R.1).

    The terms are switched on one after the other; a part is what the bound grows by. The inversions
    are not linear, so another order would divide the same total slightly differently.

    Args:
        portions: of a certificate, in one unit.
        ledger: of the same certificate.
        kappa: weight of the previous loss.
    """
    failure = {entry.statement: entry.failure for entry in ledger}
    found: list[Parts] = []
    for t, portion in enumerate(portions, start=1):
        levels = _levels(portion, failure.get(f"portion {t}: {portion.kind}", 0.0), kappa)
        parts = (high - low for low, high in zip((0.0, *levels), levels, strict=False))
        before = found[-1].values() if portion.kind == "excess" else [0.0] * len(PARTS)
        pairs = zip(PARTS, parts, before, strict=True)
        found.append({name: part + kappa * each for name, part, each in pairs})
    return found


def consists_of(c: Certificate) -> str:
    """What the mean risk consists of, the largest part first."""
    parts = breakdown(c.portions, c.ledger, c.settings.kappa)[-1]
    sizes = sorted(parts.items(), key=lambda part: -part[1])
    total = sum(parts.values()) or 1.0
    shares = ", ".join(f"{PARTS[name]} {size / total:.0%}" for name, size in sizes if size)
    worth = ""
    if c.unit == "step":
        worth = f"; not in it: its steps are worth {c.effective_n or 0.0:,.0f} independent ones"
    return f"The mean over {c.unit}s consists of: {shares}{worth}."


def _levels(p: Portion, delta: float, kappa: float) -> tuple[float, ...]:
    """The portion's own bound (B_1, E_t, a fixed predictor's) with one more term each time."""
    spread, drawn = p.mean, p.upper_plus
    certain: Any = p.value
    if p.kind == "fixed":
        spread = p.upper_plus
    elif p.kind == "excess":
        drawn = p.upper_plus - p.lower_minus
        certain = split_kl(
            p.upper_plus, p.lower_minus, kl=0.0, n=p.n, delta=delta, low=-kappa, high=1.0, mu=0.0
        )
    elif p.bet is None:
        certain = pac_bayes_kl(min(p.upper_plus, 1.0), kl=0.0, n=p.n, delta=delta)
    else:
        spread, drawn = (min(-math.expm1(-x) / p.bet, 1.0) for x in (p.mean_bet_loss, p.upper_plus))
        inside = min(p.upper_plus, float(bet_loss(1.0, p.bet)))  # in spite of rounding
        certain = pac_bayes_bet(inside, bet=p.bet, kl=0.0, n=p.n, delta=delta)
    return p.mean, spread, drawn, float(certain), p.value
