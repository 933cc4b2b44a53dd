"""Coverage: how often each statement was violated, against how often it may be."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from scipy.stats import binomtest

from tightrope.audit.generators import ALIKE_EPISODES
from tightrope.certificates import Certificate
from tightrope.certificates.observed import Verdict as Truth
from tightrope.certificates.statements.base import INDEPENDENT_EPISODES

if TYPE_CHECKING:
    from tightrope.audit.ground_truth import Truth as Judged
    from tightrope.comparison import Comparison

__all__ = [
    "ALL",
    "WARNINGS",
    "checks_of",
    "checks_of_comparison",
    "coverage",
    "interval",
    "verdict",
    "warning_counts",
]

Verdict = Literal["held", "violated", "too few runs"]
WARNINGS = ("dependent steps", "drift", "vacuous", "void", "failed fit")
ALL = "all at once"
_LITERALLY = ": all steps, unclipped"
_CONFIDENCE = 0.95  # of intervals
_MEANS = ("value", "exact", "tightness")
_COLUMNS = (
    *("scheme", "statement", "claim", "nominal", "runs", "violated", "inconclusive", "low", "high"),
    *("verdict", *_MEANS),
)


def checks_of(certificate: Certificate, found: "Sequence[Judged]") -> Iterator[dict[str, Any]]:
    """One certificate against the truth: a record for each statement, and one for all of them."""
    c = certificate
    fired = (c.checks.dependent, c.checks.drifting, c.vacuous, c.void, c.failed_fit)
    warned = ", ".join(name for name, fires in zip(WARNINGS, fired, strict=True) if fires)
    for each in found:
        s = each.statement
        share = "" if s.share is None else f", {100 * s.share:.1f} %"
        safe = 1.0 if s.direction == "at-most" else -1.0
        yield {
            "scheme": c.scheme,
            "statement": f"{s.name}{share}{'' if each.claimed else _LITERALLY}",
            "claimed": each.claimed,
            "assumes": s.assumes,
            "nominal": 1.0 - s.confidence,
            "truth": each.verdict,
            "value": s.value,
            "exact": each.value,
            "tightness": safe * (s.value - each.value),
        }
    joint = [x for x in found if x.claimed and x.statement.joint_confidence is not None]
    verdicts = [each.verdict for each in joint]
    yield {**_together(c.scheme, verdicts, 1.0 - c.joint_confidence), "warnings": warned}


def checks_of_comparison(
    comparison: "Comparison", verdicts: Sequence[Truth]
) -> Iterator[dict[str, Any]]:
    """One comparison against the truth: a record for each interval, and of all of them."""
    for each, truth in zip(comparison.intervals, verdicts, strict=True):
        one = _together("compare", [truth], 1.0 - each.confidence)
        yield {**one, "statement": each.name, "tightness": each.high - each.low}
    yield _together("compare", verdicts, 1.0 - comparison.confidence)


def _together(scheme: str, verdicts: Sequence[Truth], nominal: float) -> dict[str, Any]:
    worst: tuple[Truth, ...] = ("violated", "inconclusive")
    truth = next((each for each in worst if each in verdicts), "held")
    return {
        "scheme": scheme,
        "statement": ALL,
        "claimed": True,
        "assumes": INDEPENDENT_EPISODES,
        "nominal": nominal,
        "truth": truth,
    }


def coverage(checks: pd.DataFrame, violated: Collection[str]) -> pd.DataFrame:
    """A row for each statement of each scheme, over all repetitions.

    Columns: `claim` is made; *assumption violated*, if the subject violates what the statement
    needs; or *not made*, of its words taken literally. `violated` are repetitions in which it was
    surely violated, `inconclusive` those too close to call; `low` and `high` are exact limits of
    the failure probability, the upper one with both. `value` and `exact` are means on the
    normalised scale, and `tightness` is the mean distance, positive on the safe side; of a
    comparison, the width of the interval.

    Args:
        checks: one row per repetition and statement.
        violated: assumptions that do not hold of the subject.
    """
    if checks.empty:
        return pd.DataFrame(columns=list(_COLUMNS))
    checks = checks.reindex(columns=[*dict.fromkeys([*checks.columns, *_MEANS])])
    # Nothing is claimed of all at once where the confidence is 0.
    checks = checks[(checks["statement"] != ALL) | (checks["nominal"] < 1)]
    groups = checks.groupby(["scheme", "statement"], sort=False)
    rows = groups.agg(
        claimed=("claimed", "first"),
        assumes=("assumes", "first"),
        nominal=("nominal", "max"),
        runs=("truth", "size"),
        violated=("truth", lambda truth: int((truth == "violated").sum())),
        inconclusive=("truth", lambda truth: int((truth == "inconclusive").sum())),
        **{name: (name, "mean") for name in _MEANS},
    ).reset_index()
    outside = rows["assumes"].isin(violated) | (ALIKE_EPISODES in violated)
    rows["claim"] = outside.map({True: "assumption violated", False: "made"})
    rows.loc[~rows["claimed"], "claim"] = "not made"
    possible = rows["violated"] + rows["inconclusive"]
    rows["low"] = [interval(*each)[0] for each in zip(rows["violated"], rows["runs"], strict=True)]
    rows["high"] = [interval(*each)[1] for each in zip(possible, rows["runs"], strict=True)]
    counts = rows[["violated", "inconclusive", "runs", "nominal"]].itertuples(index=False)
    rows["verdict"] = [verdict(*each) for each in counts]
    return rows[list(_COLUMNS)]


def warning_counts(checks: pd.DataFrame) -> pd.DataFrame:
    """How often certificates of each scheme carried each warning."""
    if "warnings" not in checks:
        return pd.DataFrame(columns=["scheme", "warning", "runs", "fired", "low", "high"])
    given = checks[checks["warnings"].notna()]  # a row for each certificate
    rows = []
    for scheme, each in given.groupby("scheme", sort=False)["warnings"]:
        for name in WARNINGS:
            fired, runs = int(each.str.contains(name, regex=False).sum()), len(each)
            low, high = interval(fired, runs)
            rows.append((scheme, name, runs, fired, low, high))
    return pd.DataFrame(rows, columns=["scheme", "warning", "runs", "fired", "low", "high"])


def interval(count: int, runs: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability.

    >>> [round(limit, 4) for limit in interval(0, 100)]
    [0.0, 0.0362]
    """
    found = binomtest(int(count), int(runs)).proportion_ci(_CONFIDENCE, "exact")
    return float(found.low), float(found.high)


def verdict(violated: int, inconclusive: int, runs: int, nominal: float) -> Verdict:
    """Whether a claim held; what is inconclusive never speaks for us, nor against us.

    >>> verdict(0, 0, 300, 0.035), verdict(30, 0, 300, 0.035), verdict(0, 0, 20, 0.035)
    ('held', 'violated', 'too few runs')
    """
    if interval(violated, runs)[0] > nominal:
        return "violated"
    return "held" if interval(violated + inconclusive, runs)[1] <= nominal else "too few runs"
