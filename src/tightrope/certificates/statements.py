"""What a certificate promises, machine-readable: one record for every kind of statement."""

from dataclasses import dataclass
from typing import Literal

from tightrope.certificates.options import Unit

__all__ = ["Assumption", "Direction", "Kind", "Statement", "Target"]

Kind = Literal["mean-risk", "tolerance", "band", "monitor", "return", "failure"]
Target = Literal[
    "error",
    "discounted-return",
    "undiscounted-return",
    "early-termination",
    "no-success",
    "low-return",
]
Direction = Literal["at-most", "at-least"]
Assumption = Literal["independent steps", "independent episodes"]


@dataclass(frozen=True)
class Statement:
    """One promise.

    Attributes:
        kind: what is promised.
        quantity: the same in words.
        unit: what counts as independent.
        direction: which side is promised.
        value: on the normalised scale, where 1 is the width of the return range (its square for a
            mean risk); a probability for a failure.
        value_raw: in return units (squared for a mean risk); a probability for a failure.
        rms_raw: for errors, in return units.
        estimate: the plain counterpart in the sample, in the units of `rms_raw` where there is one
            and of `value_raw` otherwise.
        share: of new episodes that the promise is about; None if it is about a mean or probability.
        n: independent units behind it.
        assumes: what it needs beyond new episodes of the same policy in the same environment.
        confidence: of this statement alone.
        joint_confidence: of all statements of the certificate at once.
        note: what else a reader should know; empty if nothing.
        target: what `value` is a limit of, for machines: the error of a prediction, one of the two
            returns, or the event whose probability it is.
    """

    kind: Kind
    quantity: str
    unit: Unit
    direction: Direction
    value: float
    value_raw: float
    rms_raw: float | None
    estimate: float
    share: float | None
    n: int
    assumes: Assumption
    confidence: float
    joint_confidence: float
    note: str = ""
    target: Target = "error"
