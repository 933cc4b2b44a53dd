"""What a page says of each statement, of who was certified, and of how to repeat it."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tightrope.certificates import Certificate, Options, Statement
from tightrope.certificates.assumptions import INDEPENDENT_STEPS
from tightrope.certificates.trial import Tried
from tightrope.certificates.words import outward, percent, sentence, up
from tightrope.reports.charts import number

__all__ = ["Card", "card", "command", "facts", "flat", "lead"]

_SUBJECTS = {
    "tolerance": "Error of an episode",
    "band": "Error along an episode",
    "monitor": "Alarm of the monitor",
    "mean-risk": "Mean error",
    "return": "Return",
    "failure": "Failure",
}
_ALIKE = (
    "New episodes that are not like these: another policy, environment, version, range of starts, "
    "or a drift over time. A policy or option chosen after looking at these episodes."
)
_BREAKS = {
    "mean-risk": "Returns outside the return range count as its ends",
    "failure": "The event is counted as recorded; what was not recorded is not covered.",
}


@dataclass(frozen=True)
class Card:
    """A statement as a page shows it."""

    subject: str
    title: str
    sign: str  # ≤ or ≥
    value: str
    unit: str
    about: str
    estimate: str
    shown: float | None  # in per cent: how much of the promised number the sample shows
    sentence: str
    assumes: str
    breaks: tuple[str, ...]
    confidence: str
    joint: str
    n: str
    note: str
    tried: str
    verdict: str
    headline: bool


def card(c: Certificate, index: int, tried: Tried | None) -> Card:
    """The statement of that index."""
    s = c.statements[index]
    return Card(
        subject=_subject(s),
        title=_title(s),
        sign="≤" if s.direction == "at-most" else "≥",
        value=outward(s).replace("-", "\N{MINUS SIGN}"),
        unit=_unit(s),
        about=_about(s),
        estimate=number(s.estimate),
        shown=_ratio(s),
        sentence=sentence(s),
        assumes=s.assumes,
        breaks=tuple(_breaks(c, s)),
        confidence=percent(s.confidence),
        joint=percent(s.joint_confidence),
        n=f"{s.n:,}",
        note=s.note,
        tried=_tried(s, tried),
        verdict="" if tried is None else tried.verdict,
        headline=index == c.headline,
    )


def lead(c: Certificate, tried: Tried | None) -> list[str]:
    """What the headline's number is to be compared with."""
    first = c.statements[c.headline]
    said = []
    if first.kind in ("tolerance", "band", "mean-risk"):
        value = first.value_raw if first.rms_raw is None else first.rms_raw
        low, high = c.return_range.low, c.return_range.high
        said.append(
            f"Returns lie in a range {number(c.width)} wide ({number(low)} to {number(high)}): the "
            f"number above is {100 * value / c.width:.3g} % of it."
        )
        plain = min(c.constant_error, c.per_step_error) ** 0.5 * c.width
        name = "one constant" if c.constant_error <= c.per_step_error else "the mean of each step"
        said.append(f"Always predicting {name} would have an RMS error of {number(plain)}.")
    if c.test_error is not None:
        rms = number(c.test_error**0.5 * c.width)
        said.append(f"On {c.episodes.test:,} test episodes the RMS error was {rms}.")
    if tried is not None and tried.count is not None:
        said.append(f"Of {tried.n:,} test episodes, {tried.count:,} kept this promise.")
    if c.checks.dependent:
        said.append(
            "Steps of one episode have losses that are alike: do not rely on what assumes "
            "independent steps."
        )
    return said


def facts(c: Certificate) -> list[tuple[str, str]]:
    """Who and what was certified, and from how much."""
    policy, environment = c.subject.get("policy", {}), c.subject.get("environment", {})
    n, clock = c.episodes, c.time_limit
    found = []
    if policy:
        found.append(("Policy", str(policy.get("name") or "unnamed")))
    else:
        found.append(("Recorded episodes", str(c.subject.get("log") or "of an unnamed log")))
    if policy.get("digest"):
        found.append(("SHA-256 of the policy", str(policy["digest"])))
    if policy.get("actions"):
        found.append(("Actions", str(policy["actions"])))
    if policy.get("normalization") not in (None, "none"):
        found.append(("Observations", f"normalised by {policy['normalization']}"))
    found.append(("Environment", str(environment.get("id") or "unnamed")))
    found += [
        (
            "Episodes",
            f"{n.validation:,} validation ({n.free:,} of them only to fit), {n.test:,} test, "
            f"{n.pilot:,} pilot",
        ),
        ("Cut by a time limit", f"{c.truncated_episodes:,} of {n.validation:,} validation"),
        ("Scheme", f"{c.scheme}, preset {c.preset}, unit {c.unit}"),
        ("Discount factor", f"{c.options.gamma:g}"),
        ("Clock of the predictor", "none" if clock is None else f"to {clock:,} steps"),
        ("Steps", f"1 in {c.thin}, {c.steps:,} of validation in all"),
        (
            "Return range",
            f"{number(c.return_range.low)} to {number(c.return_range.high)}, from "
            f"{c.return_range.source}; {100 * c.clipped_share:.3g} % of returns outside",
        ),
        ("Seed", str(c.options.seed)),
    ]
    late = [str(t) for t, fit in enumerate(c.fits, start=1) if not fit.converged]
    if late:
        found.append(("Not converged", f"fit {', '.join(late)} (the statements hold all the same)"))
    return found


def command(c: Certificate) -> str:
    """The command that would issue such a certificate from the same source."""
    policy = c.subject.get("policy")
    words = ["tightrope", "certify", "POLICY" if policy else "LOG"]
    if policy:
        words += ["--env", str(c.subject.get("environment", {}).get("id", "ID"))]
        words += ["--sample"] if policy.get("actions") == "sampled" else []
    default = Options()
    for entry in fields(Options):
        value = getattr(c.options, entry.name)
        if entry.name == "device" or value == getattr(default, entry.name):
            continue
        values = value if isinstance(value, tuple) else (value,)
        words += [f"--{entry.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """A nested record as names and values."""
    for key, value in record.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name} ")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _subject(s: Statement) -> str:
    subject = _SUBJECTS.get(s.kind, s.kind)
    return f"{subject}, unit {s.unit}" if s.kind == "mean-risk" else subject


def _title(s: Statement) -> str:
    return _subject(s) if s.share is None else f"{_subject(s)}, {percent(s.share)} of episodes"


def _unit(s: Statement) -> str:
    if s.kind == "failure":
        return "probability"
    return "RMS, return units" if s.rms_raw is not None else "return units"


def _about(s: Statement) -> str:
    if s.kind == "mean-risk":
        how = "all steps" if s.unit == "step" else "episodes"
        share = f"{up(s.value)} of the squared range"
        return f"RMS error of the predicted return, mean over {how}; {share}"
    if s.share is not None:
        return f"{s.quantity}, in at least {percent(s.share)} of new episodes"
    return s.quantity


def _ratio(s: Statement) -> float | None:
    """How much of the promised number the sample shows; the rest is the price of being sure."""
    value = s.value_raw if s.rms_raw is None else s.rms_raw
    part, whole = (s.estimate, value) if s.direction == "at-most" else (value, s.estimate)
    return min(100.0, 100.0 * part / whole) if part >= 0 and whole > 0 else None


def _breaks(c: Certificate, s: Statement) -> Iterator[str]:
    if s.assumes == INDEPENDENT_STEPS:
        yield (
            f"Steps of one episode that depend on each other: {s.n:,} are counted as independent; "
            f"on the last portion they tell as much of the loss as {c.effective_n:,.0f} would."
        )
    if s.kind == "mean-risk":
        yield f"{_BREAKS['mean-risk']} ({100 * c.clipped_share:.3g} % of the validation returns)."
    if s.kind == "failure":
        yield _BREAKS["failure"]
    if s.kind == "return" and s.share is None:
        yield f"A return below {c.options.return_floor:g}, which the user ruled out."
    yield _ALIKE


def _tried(s: Statement, tried: Tried | None) -> str:
    if tried is None:
        return ""
    if tried.count is None:
        return number(tried.observed)
    counted = f"{tried.count:,} of {tried.n:,}"
    if s.share is None or tried.verdict == "kept":
        return counted
    return f"{counted}, promised {100 * s.share:.4g} %"  # in full where the rounded share misleads
