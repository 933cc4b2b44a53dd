"""Counting: how often each statement was violated, against how often it may be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest

from tightrope.certificates import Certificate
from tightrope.studies.audit.generators import ALIKE_EPISODES
from tightrope.studies.audit.truth import State, Truth

__all__ = [
    "ALL",
    "FLAGS",
    "Flag",
    "Row",
    "Verdict",
    "flags",
    "interval",
    "record",
    "tally",
    "verdict",
]

Verdict = Literal["held", "violated", "too few runs"]
Claim = Literal["made", "assumption violated", "not made"]
FLAGS = ("dependent steps", "drift", "vacuous", "void", "failed fit")
ALL = "all at once"
_LITERALLY = ": all steps, unclipped"
_CONFIDENCE = 0.95  # of intervals


@dataclass(frozen=True)
class Row:
    """One statement of one scheme, over all repetitions.

    Attributes:
        scheme: of the certificates.
        statement: which one, in short.
        claim: whether it is made of this subject: not if the subject violates what it assumes, nor
            of a statement's words taken literally, at all steps and without clipping.
        nominal: failure probability that the certificate states.
        runs: repetitions.
        violated: how many were surely violated.
        inconclusive: how many were too close to call within the error of the truth.
        low: lower limit of the failure probability, from those surely violated.
        high: upper limit, from those that do not surely hold.
        verdict: held if `high` is at most `nominal`, violated if `low` is above it.
        value: mean certified value, on the normalised scale; a probability for an event.
        truth: mean of what it would have been if it were exact.
        tightness: mean distance between the two; positive is on the safe side.
    """

    scheme: str
    statement: str
    claim: Claim
    nominal: float
    runs: int
    violated: int
    inconclusive: int
    low: float
    high: float
    verdict: Verdict
    value: float | None = None
    truth: float | None = None
    tightness: float | None = None

    @property
    def failed(self) -> bool:
        """Whether a claim that was made did not hold."""
        return self.verdict == "violated" and self.claim == "made"


@dataclass(frozen=True)
class Flag:
    """How many certificates of a scheme carried a warning."""

    scheme: str
    warning: str
    runs: int
    fired: int
    low: float
    high: float


def record(certificate: Certificate, found: Sequence[Truth]) -> dict[str, Any]:
    """One certificate against the truth, as JSON."""
    c = certificate
    fired = (c.checks.dependent, c.checks.drifting, c.vacuous, c.void, c.failed_fit)
    return {
        "scheme": c.scheme,
        "nominal": 1.0 - c.joint_confidence,
        "warnings": [flag for flag, fires in zip(FLAGS, fired, strict=True) if fires],
        "statements": [_judged(each) for each in found],
    }


def _judged(found: Truth) -> dict[str, Any]:
    s = found.statement
    share = "" if s.share is None else f", {100 * s.share:.1f} %"
    safe = 1.0 if s.direction == "at-most" else -1.0
    return {
        "statement": f"{s.name}{share}{'' if found.claimed else _LITERALLY}",
        "claimed": found.claimed,
        "joint": found.claimed and s.joint_confidence is not None,
        "assumes": s.assumes,
        "nominal": 1.0 - s.confidence,
        "state": found.state,
        "value": s.value,
        "truth": found.value,
        "tightness": safe * (s.value - found.value),
    }


def tally(records: Iterable[dict[str, Any]], violates: frozenset[str]) -> list[Row]:
    """A row for each statement of each scheme, and for all of a scheme that hold jointly."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in records:
        for one in each["statements"]:
            groups.setdefault((each["scheme"], one["statement"]), []).append(one)
        if each["nominal"] < 1:  # otherwise nothing is claimed of all at once
            joint = [one for one in each["statements"] if one["joint"]]
            state = _together([one["state"] for one in joint])
            both = {"claimed": True, "assumes": joint[0]["assumes"], "nominal": each["nominal"]}
            groups.setdefault((each["scheme"], ALL), []).append({**both, "state": state})
    in_order = sorted(groups.items(), key=lambda item: item[0][1] == ALL)  # stable: it comes last
    return [_row(*key, several, violates) for key, several in in_order]


def _together(states: Sequence[State]) -> State:
    worst: tuple[State, ...] = ("violated", "inconclusive")
    return next((state for state in worst if state in states), "held")


def _row(scheme: str, name: str, several: list[dict[str, Any]], violates: frozenset[str]) -> Row:
    runs, first = len(several), several[0]
    violated = sum(one["state"] == "violated" for one in several)
    inconclusive = sum(one["state"] == "inconclusive" for one in several)
    nominal = max(one["nominal"] for one in several)
    outside = ALIKE_EPISODES in violates or first["assumes"] in violates

    def mean(column: str) -> float | None:
        return float(np.mean([one[column] for one in several])) if column in first else None

    return Row(
        scheme=scheme,
        statement=name,
        claim="not made" if not first["claimed"] else "assumption violated" if outside else "made",
        nominal=nominal,
        runs=runs,
        violated=violated,
        inconclusive=inconclusive,
        low=interval(violated, runs)[0],
        high=interval(violated + inconclusive, runs)[1],
        verdict=verdict(violated, inconclusive, runs, nominal),
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


def verdict(violated: int, inconclusive: int, runs: int, nominal: float) -> Verdict:
    """Whether a claim held; what is inconclusive never speaks for us, nor against us.

    >>> verdict(0, 0, 300, 0.035), verdict(30, 0, 300, 0.035), verdict(0, 0, 20, 0.035)
    ('held', 'violated', 'too few runs')
    """
    if interval(violated, runs)[0] > nominal:
        return "violated"
    return "held" if interval(violated + inconclusive, runs)[1] <= nominal else "too few runs"
