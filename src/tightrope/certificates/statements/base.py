"""A family of statements: what is chosen beforehand, the score, the limit, the sentence."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tightrope.bounds import tolerance_rank, tolerance_share
from tightrope.certificates.evidence import Evidence, every, ordinal
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.options import Unit
from tightrope.errors import InputError
from tightrope.records import Strict

__all__ = ["Chosen", "Family", "Limit", "Statement", "Task", "limit_at", "order_statistic"]

Kind = Literal["mean-risk", "tolerance", "band", "monitor", "return", "failure", "property"]
_Outcome = Literal["discounted-return", "undiscounted-return", "early-termination", "success"]
Target = _Outcome | Literal["error", "large-error", "low-return", "property"]
Direction = Literal["at-most", "at-least"]
# What a limit is: a return, an error of one, an RMS error, a squared error in units of the range.
Scale = Literal["plain", "probability", "return", "error", "rms", "loss"]
Assumption = Literal["independent steps", "independent episodes"]
INDEPENDENT_STEPS: Assumption = "independent steps"
INDEPENDENT_EPISODES: Assumption = "independent episodes"

Values = NDArray[np.float64]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(ge=-1e100, le=1e100)]  # its square is a number as well
_Part = Annotated[float, Field(gt=0, le=1)]  # a bet, a weight, or a width

if TYPE_CHECKING:
    Choice: TypeAlias = Any
else:  # what a document may hold
    Choice = float | Count | Annotated[list[_Part], Field(max_length=100_000)] | None
Chosen = Mapping[str, Choice]

# Every limit is rounded outward by this part of itself, so that a processor that rounds differently
# never finds a better number stated than it computes.
OUTWARD = 1e-5
_MOST_BETS = 1000
# Entries of what was chosen, by target or kind of statement; others choose nothing.
_NONE = type(None)
_BETS: dict[str, type] = {"bets": list, "weights": list}
_ENTRIES: dict[str, tuple[dict[str, type], ...]] = {
    "band": ({"profile": list},),
    "monitor": ({"window": int, "widths": list}, {"window": _NONE, "widths": list}),
    "mean-risk": ({}, _BETS, {"bet": float}, {"bet": _NONE}),
    "large-error": (_BETS,),
    "return": ({}, {"top": float}),
}


@dataclass(frozen=True)
class Statement(Strict):
    """One statement of a certificate, machine-readable.

    Attributes:
        name: of the family, unique in a certificate but for the levels of one family.
        kind: of statement.
        target: what `value` is a limit of: the error of a prediction, a return, the probability of
            an event, or a property.
        quantity: the same in words, with all that was bounded.
        unit: what counts as independent.
        direction: which side is bounded.
        value: on the normalised scale, where 1 is the width of the return range (its square for a
            mean risk); a probability for an event; as it is for a property.
        value_raw: in return units (squared for a mean risk); a probability for an event.
        rms_raw: for RMS errors and mean risks, in return units.
        estimate: the plain counterpart in the sample, in the units of `rms_raw` where there is one
            and of `value_raw` otherwise.
        share: of new episodes that the statement is about; None for a mean or a probability.
        n: independent units behind it.
        assumes: what it needs beyond new episodes of the same policy in the same environment.
        confidence: of this statement alone.
        joint_confidence: of all statements that need only independent episodes; None for others.
        chosen: what was fixed on the fitting set and enters the limit.
        note: what else a reader should know; empty if nothing.
        void: whether the bound contradicts itself and says nothing.
        vacuous: whether the limit is the largest value possible and says nothing.
    """

    name: str
    kind: Kind
    target: Target
    quantity: str
    unit: Unit
    direction: Direction
    value: Number
    value_raw: Number
    rms_raw: Number | None
    estimate: Number
    share: Probability | None
    n: Count
    assumes: Assumption
    confidence: Probability
    joint_confidence: Probability | None
    chosen: dict[str, Choice] = field(default_factory=dict)
    note: str = ""
    void: bool = False
    vacuous: bool = False

    def __post_init__(self) -> None:
        chosen, known = self.chosen, _ENTRIES.get(self.target, _ENTRIES.get(self.kind, ({},)))
        fits = {name: type(value) for name, value in chosen.items()} in known
        sizes = {len(value) for value in chosen.values() if isinstance(value, list)}
        if self.kind in ("band", "monitor"):
            fits = fits and 0 not in sizes and chosen.get("window") != 0
        if not fits or len(sizes) > 1 or ("bets" in chosen and max(sizes) > _MOST_BETS):
            found = str(chosen)[:80]
            raise InputError(
                f"expected other entries in what was chosen for {self.kind}, found {found}"
            )

    @property
    def limit(self) -> float:
        """The number in the units that a person understands."""
        return self.value_raw if self.rms_raw is None else self.rms_raw


class Limit(NamedTuple):
    """What a bound makes of scores: in at least `share` of new episodes a score is within `value`.

    Attributes:
        value: of the scores.
        share: None if their mean is bounded instead.
        estimate: the same in the sample.
        note: what else a reader should know.
    """

    value: float
    share: float | None
    estimate: float
    note: str = ""


class Task(NamedTuple):
    """What a choice on the fitting set is for.

    Attributes:
        episodes: that the limit will rest on, at the most.
        delta: its failure probability.
        thin: every `thin`-th step will count.
        high: largest return of the range.
        target: of a search, as an RMS in return units.
    """

    episodes: int
    delta: float
    thin: int
    high: float
    target: float | None = None


class Family(ABC):
    """One kind of statement, for one target.

    Attributes:
        name: unique among the families of a certificate.
        kind: of its statements.
        target: of its statements.
        quantity: what is bounded, in words.
        unit: what counts as independent.
        direction: which side is bounded.
        scale: of its limits.
        rows: the episodes of one task, of a table with several; None for all.
    """

    name: str
    kind: Kind
    target: Target = "error"
    quantity: str = ""
    unit: Unit = "episode"
    direction: Direction = "at-most"
    scale: Scale = "plain"
    rows: slice | None = None

    @property
    def budget(self) -> str:
        """The statement of the ledger whose failure probability it uses."""
        return self.name

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Parameters of the limit, chosen on the fitting set only; None where there is none.

        Its errors are those of networks that have not seen the episode; there may be none.
        """
        return {}

    @abstractmethod
    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """One number per episode, or per step."""

    @abstractmethod
    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """Limits that hold together with failure probability `delta`."""

    def sentence(self, seen: Evidence) -> str:
        """The quantity, with what only the episodes tell: which steps, and the range."""
        if self.scale not in ("rms", "loss"):
            return self.quantity
        low, high = seen.scaling.low, seen.scaling.high
        clipped = f", returns clipped to [{low:.4g}, {high:.4g}]" if self.scale == "loss" else ""
        return f"{self.quantity}{',' if clipped else ''} over {every(seen.thin)}{clipped}"

    def units(self, value: float, seen: Evidence) -> tuple[float, float, float | None]:
        """A limit's value on the normalised scale, in raw units, and as an RMS."""
        low, width = seen.scaling.low, seen.scaling.width
        match self.scale:
            case "plain":
                return value, value, None
            case "return":
                return (value - low) / width, value, None
            case "error" | "rms":
                return value / width, value, value if self.scale == "rms" else None
        inside = min(max(value, 0.0), 1.0)
        if self.scale == "probability":
            return inside, inside, None
        return inside, inside * width**2, float(np.sqrt(inside)) * width

    def of_task(self, name: str, rows: slice) -> "Family":
        """The same for one task of a table alone."""
        if name:
            self.name, self.quantity = f"{self.name}, {name}", f"{self.quantity} ({name})"
            self.rows = rows
        return self

    def within(self, seen: Evidence) -> Evidence:
        """The episodes that it is about."""
        if self.rows is None:
            return seen
        return replace(seen, episodes=seen.episodes.span(self.rows.start, self.rows.stop))

    def state(self, seen: Evidence, chosen: Chosen, ledger: Ledger) -> list[Statement]:
        """The statements on these episodes."""
        seen = self.within(seen)
        scores = self.scores(seen, chosen)
        delta, confidence = ledger.failure(self.budget), ledger.confidence_in(self.budget)
        return [
            self.stated(limit, len(scores), seen, chosen, confidence, ledger.joint_confidence)
            for limit in self.limits(scores, delta=delta, chosen=chosen)
        ]

    def stated(
        self, limit: Limit, n: int, seen: Evidence, chosen: Chosen, confidence: float, joint: float
    ) -> Statement:
        """A limit as a statement, rounded outward."""
        normalised, raw, rms = self.units(self.outward(limit.value), seen)
        estimate = self.units(limit.estimate, seen)
        steps, most = self.unit == "step", 1.0 if self.direction == "at-most" else 0.0
        return Statement(
            name=self.name,
            kind=self.kind,
            target=self.target,
            quantity=self.sentence(seen),
            unit=self.unit,
            direction=self.direction,
            value=normalised,
            value_raw=raw,
            rms_raw=rms,
            estimate=estimate[1] if estimate[2] is None else estimate[2],
            share=limit.share,
            n=n,
            assumes=INDEPENDENT_STEPS if steps else INDEPENDENT_EPISODES,
            confidence=confidence,
            joint_confidence=None if steps else joint,
            chosen=dict(chosen),
            note=limit.note,
            vacuous=self.scale in ("loss", "probability") and normalised == most,
        )

    def outward(self, value: float) -> float:
        """A limit, rounded to the safe side."""
        away = OUTWARD * abs(value)
        return value + away if self.direction == "at-most" else value - away


def limit_at(
    scores: Values, share: float = 0.9, *, delta: float, at_least: bool = False, note: str = ""
) -> Limit:
    """An order statistic (T.1): in at least `share` of new episodes a score is within it.

    Where the episodes are too few for that share, the extreme score and the share that it covers.
    With `at_least` scores are bounded from below.
    """
    n = len(scores)
    rank = int(tolerance_rank(share, n=n, delta=delta)) or n
    covered = float(tolerance_share(rank, n=n, delta=delta))
    return order_statistic(scores, rank, min(share, covered), at_least=at_least, note=note)


def order_statistic(
    scores: Values, rank: int, share: float, *, at_least: bool = False, note: str = ""
) -> Limit:
    """The score of a rank, which `share` of new episodes keep within."""
    sign, side = (-1.0, "smallest") if at_least else (1.0, "largest")
    where = f"the {ordinal(len(scores) - rank + 1)}{side} of {len(scores)} episodes"
    value = sign * float(np.sort(sign * scores)[rank - 1])
    estimate = sign * float(np.quantile(sign * scores, share)) + 0.0  # no negative zero
    return Limit(value, share, estimate, where + note)


def rarely(share: float) -> float:
    """The rest of a share in per cent, rounded up to a tenth."""
    return math.ceil(round(1000 * (1.0 - share), 6)) / 10
