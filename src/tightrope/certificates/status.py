"""The status of a certificate: whether its statements can be relied on, and what speaks against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tightrope.certificates.statements.base import INDEPENDENT_STEPS, Statement

__all__ = ["STATUSES", "UNREADABLE", "Status", "statuses_of"]


@dataclass(frozen=True)
class Status:
    """One thing to know before relying on a certificate.

    Attributes:
        key: of the style sheet.
        word: in short.
        meaning: in a sentence.
        tone: ``bad``, ``warning`` or ``neutral``.
    """

    key: str
    word: str
    meaning: str
    tone: str = "warning"


UNREADABLE = Status("unreadable", "Unreadable", "This certificate cannot be read.", "bad")
# From worst to best.
STATUSES = (
    UNREADABLE,
    Status(
        "void",
        "Void",
        "A step of the recursion is negative: its portions differ, and nothing is certified.",
        "bad",
    ),
    Status(
        "vacuous",
        "Vacuous",
        "The bound is the worst value possible, so it says nothing.",
        "bad",
    ),
    Status(
        "drift",
        "Episodes drift",
        "Returns change over the recorded episodes, so new episodes may differ from them.",
        "bad",
    ),
    Status(
        "clipped",
        "Returns clipped",
        "More than 1 % of the returns lie outside the range: mean risks say little about those.",
    ),
    Status(
        "failed-fit",
        "Predictor no better than a mean",
        "The statements hold, but a mean return, constant or of each step, predicts as well.",
    ),
    Status(
        "steps",
        "Rests on independent steps",
        "The headline treats the steps of an episode as independent, which they are not.",
    ),
    Status(
        "dependent",
        "Steps are dependent",
        "Losses within an episode are correlated; ignore rows that assume independent steps.",
    ),
    Status("holds", "Statements hold jointly", "They need only independent episodes.", "neutral"),
)


def statuses_of(record: Any) -> list[Status]:
    """All that apply to a certificate, the worst first; never empty.

    Args:
        record: with `statements`, `headline`, `checks`, `void`, `vacuous`, `failed_fit` and
            `clipped_share`.
    """
    statements: Sequence[Statement] = record.statements
    headline = statements[record.headline]
    steps = any(s.assumes == INDEPENDENT_STEPS for s in statements)
    applies = {
        "void": record.void,
        "vacuous": not record.void and (record.vacuous or headline.vacuous),
        "drift": record.checks.drifting,
        "clipped": (record.clipped_share or 0.0) > 0.01,
        "failed-fit": record.failed_fit,
        "steps": headline.assumes == INDEPENDENT_STEPS,
        "dependent": record.checks.dependent and steps,
    }
    found = [status for status in STATUSES if applies.get(status.key)]
    return found or [STATUSES[-1]]
