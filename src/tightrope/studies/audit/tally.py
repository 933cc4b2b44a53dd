"""Counting: how often each statement was broken, against how often it may be."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest

from tightrope.certificates import Certificate, Statement
from tightrope.studies.audit.truth import Answer

__all__ = ["FLAGS", "Flag", "Row", "Verdict", "flags", "interval", "record", "tally", "verdict"]

Verdict = Literal["kept", "broken", "too few runs"]
FLAGS = ("dependent steps", "drift", "vacuous", "void", "failed fit")
ALL, ALL_EPISODE = "all at once", "all that need only independent episodes"
_CONFIDENCE = 0.95  # of intervals
_ALIKE = "alike episodes"


@dataclass(frozen=True)
class Row:
    """One statement of one scheme, over all repetitions.

    Attributes:
        scheme: of the certificates.
        statement: what is promised, in short.
        assumption: whether the subject fulfils what it needs; if not, nothing was promised.
        promise: failure probability that the certificate states.
        runs: repetitions.
        broken: how many were surely broken.
        unclear: how many were too close to call within the error of the truth.
        low: lower limit of the failure probability, from those surely broken.
        high: upper limit, from those that are not surely kept.
        verdict: kept if `high` is at most the promise, broken if `low` is above it.
        value: mean promised value, on the normalised scale; a probability for a failure.
        truth: mean of what it would have been if it were exact.
        tightness: mean distance between the two; positive is on the safe side.
    """

    scheme: str
    statement: str
    assumption: Literal["holds", "broken"]
    promise: float
    runs: int
    broken: int
    unclear: int
    low: float
    high: float
    verdict: Verdict
    value: float | None = None
    truth: float | None = None
    tightness: float | None = None

    @property
    def failed(self) -> bool:
        """Whether a promise that was made was not kept."""
        return self.verdict == "broken" and self.assumption == "holds"

    @classmethod
    def names(cls) -> list[str]:
        """Of the columns."""
        return [entry.name for entry in fields(cls)]


@dataclass(frozen=True)
class Flag:
    """How many certificates of a scheme carried a warning."""

    scheme: str
    warning: str
    runs: int
    fired: int
    low: float
    high: float


def record(certificate: Certificate, answers: Sequence[Answer]) -> dict[str, Any]:
    """One certificate against the truth, as JSON."""
    said = []
    for statement, answer in zip(certificate.statements, answers, strict=True):
        safe = 1.0 if statement.direction == "at-most" else -1.0
        said.append(
            {
                "statement": _name(statement),
                "assumes": statement.assumes,
                "promise": 1.0 - statement.confidence,
                "state": answer.state,
                "value": statement.value,
                "tightness": safe * (statement.value - answer.truth),
                **asdict(answer),
            }
        )
    return {
        "scheme": certificate.scheme,
        "promise": 1.0 - certificate.statements[0].joint_confidence,
        "warnings": [flag for flag, fired in zip(FLAGS, _fired(certificate), strict=True) if fired],
        "statements": said,
    }


def _fired(c: Certificate) -> tuple[bool, ...]:
    return c.checks.dependent, c.checks.drifting, c.vacuous, c.void, c.failed_fit


def _name(statement: Statement) -> str:
    """A statement in short, the same in every repetition."""
    share = "" if statement.share is None else f", {100 * statement.share:.1f} %"
    if statement.kind == "mean-risk":
        return f"mean risk, unit {statement.unit}"
    if statement.kind == "return":
        total = statement.target.replace("-", " ")
        return f"{total}{share}" if share else f"expected {total}"
    if statement.kind == "failure":
        return f"probability of {statement.target.replace('-', ' ')}"
    return f"{statement.kind}{share}"


def tally(records: Iterable[dict[str, Any]], breaks: frozenset[str]) -> list[Row]:
    """A row for each statement of each scheme, and for all of a scheme at once."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in records:
        own = each["statements"]
        for one in own:
            groups.setdefault((each["scheme"], one["statement"]), []).append(one)
        if each["promise"] >= 1:  # nothing is promised of all at once
            continue
        needs = [one for one in own if one["assumes"] == "independent episodes"]
        for name, several in ((ALL, own), (ALL_EPISODE, needs)):
            joint = {
                "assumes": max(one["assumes"] for one in several),  # steps, if any does
                "promise": each["promise"],
                "state": _together([one["state"] for one in several]),
            }
            groups.setdefault((each["scheme"], name), []).append(joint)
    return [_row(*key, several, breaks) for key, several in sorted(groups.items(), key=_place)]


def _place(item: tuple[tuple[str, str], Any]) -> tuple[bool, Any]:
    return item[0][1] in (ALL, ALL_EPISODE), ""  # a stable sort: what is joint comes last


def _together(states: Sequence[str]) -> str:
    return next((state for state in ("broken", "unclear") if state in states), "kept")


def _row(scheme: str, name: str, several: list[dict[str, Any]], breaks: frozenset[str]) -> Row:
    runs = len(several)
    broken = sum(one["state"] == "broken" for one in several)
    unclear = sum(one["state"] == "unclear" for one in several)
    promise = max(one["promise"] for one in several)
    outside = _ALIKE in breaks or several[0]["assumes"] in breaks

    def mean(column: str) -> float | None:
        return float(np.mean([one[column] for one in several])) if "value" in several[0] else None

    return Row(
        scheme=scheme,
        statement=name,
        assumption="broken" if outside else "holds",
        promise=promise,
        runs=runs,
        broken=broken,
        unclear=unclear,
        low=interval(broken, runs)[0],
        high=interval(broken + unclear, runs)[1],
        verdict=verdict(broken, unclear, runs, promise),
        value=mean("value"),
        truth=mean("truth"),
        tightness=mean("tightness"),
    )


def flags(records: Iterable[dict[str, Any]]) -> list[Flag]:
    """How often each warning was given, by scheme."""
    groups: dict[str, list[list[str]]] = {}
    for each in records:
        groups.setdefault(each["scheme"], []).append(each["warnings"])
    found = []
    for scheme, several in groups.items():
        for name in FLAGS:
            fired = sum(name in warnings for warnings in several)
            found.append(Flag(scheme, name, len(several), fired, *interval(fired, len(several))))
    return found


def interval(count: int, runs: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability.

    >>> [round(limit, 4) for limit in interval(0, 100)]
    [0.0, 0.0362]
    """
    found = binomtest(count, runs).proportion_ci(_CONFIDENCE, "exact")
    return float(found.low), float(found.high)


def verdict(broken: int, unclear: int, runs: int, promise: float) -> Verdict:
    """Whether a promise was kept; what is unclear never speaks for us, nor against us.

    >>> verdict(0, 0, 300, 0.035), verdict(30, 0, 300, 0.035), verdict(0, 0, 20, 0.035)
    ('kept', 'broken', 'too few runs')
    """
    if interval(broken, runs)[0] > promise:
        return "broken"
    return "kept" if interval(broken + unclear, runs)[1] <= promise else "too few runs"
