"""The stamp on a page: in one word, whether one may rely on what it says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tightrope.certificates.assumptions import INDEPENDENT_STEPS

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Statement

__all__ = ["STAMPS", "UNREADABLE", "Stamp", "stamps", "stamps_of"]


@dataclass(frozen=True)
class Stamp:
    """A word, what it means, and how bad it is.

    Attributes:
        key: of the style sheet.
        word: on the stamp.
        meaning: in a sentence.
    """

    key: str
    word: str
    meaning: str


UNREADABLE = Stamp("unreadable", "Unreadable", "This certificate cannot be read.")
# From worst to best.
STAMPS = (
    UNREADABLE,
    Stamp(
        "void",
        "Void",
        "A step of the recursion is negative: its portions differ, and nothing is promised.",
    ),
    Stamp("vacuous", "Vacuous", "The bound is as large as an error can be: it says nothing."),
    Stamp(
        "drift",
        "Episodes drift",
        "Returns change over the validation episodes: new ones may be different again.",
    ),
    Stamp(
        "failed-fit",
        "Predictor no better than a constant",
        "The promises hold, but a mean return, constant or of each step, predicts as well.",
    ),
    Stamp(
        "steps",
        "Rests on independent steps",
        "The headline counts the steps of an episode as independent, which they are not.",
    ),
    Stamp("certified", "Certified", "The headline needs only that episodes are independent."),
)


def stamps(certificate: "Certificate") -> list[Stamp]:
    """All that apply, the worst first; the first one is the verdict."""
    c = certificate
    flags = {"void": c.void, "vacuous": c.vacuous, "failed_fit": c.failed_fit}
    return stamps_of(c.statements[c.headline], drifting=c.checks.drifting, **flags)


def stamps_of(
    first: "Statement", *, void: bool, vacuous: bool, failed_fit: bool, drifting: bool
) -> list[Stamp]:
    """The same from what a document states; `first` is the headline."""
    error = first.kind in ("mean-risk", "tolerance")
    keys = {
        "void": void,
        "vacuous": not void and (vacuous or (error and first.value >= 1.0)),
        "drift": drifting,
        "failed-fit": failed_fit,
        "steps": first.assumes == INDEPENDENT_STEPS,
    }
    found = [stamp for stamp in STAMPS if keys.get(stamp.key)]
    return found or [STAMPS[-1]]
