"""Gates: conditions on what a certificate states, for machines that say yes or no."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tightrope.certificates.options import Off, Unit
from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.certificates.statements import Statement, Target

__all__ = ["Conditions", "Gate", "Outcome", "check"]

Event = Literal["early", "success", "return"]
_EVENTS: dict[str, "Target"] = {
    "early": "early-termination",
    "success": "no-success",
    "return": "low-return",
}


@dataclass(frozen=True)
class Conditions:
    """What a certificate must state, checked.

    Raises:
        InputError: a value is outside its set, or goes with a condition that is not there.
    """

    max_rms: float | Off = "off"
    """Largest RMS error of the predicted return, in return units: of the headline statement, or of
    the one that share or unit names."""
    min_return: float | Off = "off"
    """Smallest return, undiscounted, that a share of new episodes must reach."""
    min_mean_return: float | Off = "off"
    """Smallest expected return, undiscounted; needs a certificate with a return floor."""
    max_failure: float | Off = "off"
    """Largest probability that an episode fails."""
    min_confidence: float | Off = "off"
    """Smallest confidence that all statements used hold at once; of all statements of the
    certificate if there is no other condition."""
    share: float | Off = "off"
    """Share of new episodes that max-rms and min-return must be stated for, at the least; off: the
    headline's for max-rms, and whatever the certificate states for min-return."""
    unit: Unit | Off = "off"
    """Use the mean risk of this unit for max-rms instead of the headline."""
    failure: Event | Literal["all"] = "all"
    """The failure of max-failure: early (it terminates), success (there was none) or return (less
    than the certificate's fail-below); all: every one that the certificate states."""
    discounted: bool = False
    """Use discounted returns for min-return and min-mean-return."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, float | int) and not isfinite(value):
                raise InputError(f"`{entry.name}` must be a finite number, found {value!r}")
        for name in ("max_failure", "min_confidence", "share"):
            value = getattr(self, name)
            if value != "off" and not 0 <= value <= 1:
                raise InputError(f"`{name}` must be in [0, 1], found {value!r}")
        if self.max_rms != "off" and self.max_rms < 0:
            raise InputError(f"`max_rms` must be at least 0, found {self.max_rms!r}")
        needs = {"share": ("max_rms", "min_return"), "unit": ("max_rms",)}
        needs |= {"failure": ("max_failure",), "discounted": ("min_return", "min_mean_return")}
        defaults = {entry.name: entry.default for entry in fields(self)}
        for name, conditions in needs.items():
            given = getattr(self, name) != defaults[name]
            if given and all(getattr(self, each) == "off" for each in conditions):
                raise InputError(f"expected {_listed(conditions)} with `{name}`, found none")
        if self.unit != "off" and self.share != "off" and self.min_return == "off":
            raise InputError("expected `share` or `unit` for `max_rms`, found both")


_CONDITIONS = ("max_rms", "min_return", "min_mean_return", "max_failure", "min_confidence")


@dataclass(frozen=True)
class Outcome:
    """One condition and whether it holds.

    Attributes:
        condition: its name.
        required: the number that was asked for; None where there is none to ask for.
        found: the number that the certificate states.
        holds: whether that is good enough.
        statement: index of the statement that was used; None if it is about the whole document.
        says: the statement, or the reason, in words.
    """

    condition: str
    required: float | None
    found: float | None
    holds: bool
    statement: int | None
    says: str

    def __str__(self) -> str:
        flag = f"--{self.condition.replace('_', '-')}"
        asked = "" if self.required is None else f"{flag} {self.required:g}: "
        return f"{'holds' if self.holds else 'FAILS'}  {asked}{self.says}"


@dataclass(frozen=True)
class Gate:
    """What became of all conditions; it is open if all hold."""

    outcomes: tuple[Outcome, ...]

    @property
    def open(self) -> bool:
        """Whether all conditions hold."""
        return all(outcome.holds for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; nothing in it was recomputed."""
        said = [asdict(outcome) for outcome in self.outcomes]
        return {"holds": self.open, "recomputed": False, "conditions": said}


def check(source: str | Path, conditions: Conditions) -> Gate:
    """Whether the statements of a certificate meet the conditions.

    Digests are compared, numbers are not recomputed: :func:`tightrope.verify` does that. A
    certificate that is void or vacuous, or whose files have changed, meets none.

    Args:
        source: the folder of a certificate, or its certificate.json alone.
        conditions: what it must state.

    Raises:
        InputError: there is no condition, no certificate, or no statement in it of the kind that a
            condition is about.
    """
    from tightrope.certificates.document import document_digest, fields_of, read_document
    from tightrope.certificates.folder import DOCUMENT, digest_problems

    if all(getattr(conditions, name) == "off" for name in _CONDITIONS):
        raise InputError(f"expected a condition among {_listed(_CONDITIONS)}, found none")
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    document = read_document(_text(path / DOCUMENT if path.is_dir() else path), str(path))
    if path.is_dir():
        problems = digest_problems(folder, document)
    else:
        right = document_digest(document) == document["digests"].get("certificate")
        problems = [] if right else [f"{path.name}: its digest does not match its contents"]
    statements: Sequence[Statement] = fields_of(document)["statements"]
    asked = list(_asked(document, statements, conditions))
    whole = [_whole(problem) for problem in problems] + list(_empty(document))
    sure = list(_confidence(statements, asked, conditions))
    return Gate((*whole, *asked, *sure))


def _text(path: Path) -> str:
    from tightrope.errors import one_line

    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a certificate at {str(path)!r}: {one_line(error)}") from None


def _whole(says: str) -> Outcome:
    return Outcome("certificate", None, None, False, None, says)


def _empty(document: Mapping[str, Any]) -> Iterator[Outcome]:
    if document["void"]:
        yield _whole("the certificate is void: a step of its recursion is negative")
    elif document["vacuous"]:
        yield _whole("the certificate is vacuous: its bound is 1, the largest possible error")


def _asked(
    document: Mapping[str, Any], statements: Sequence["Statement"], conditions: Conditions
) -> Iterator[Outcome]:
    c = conditions
    if c.max_rms != "off":
        chosen = _error(document, statements, c)
        value = statements[chosen].rms_raw if chosen < len(statements) else None
        if value is None:
            raise InputError(
                f"expected a headline on the RMS error for `max_rms`, found statement {chosen}: "
                "give `share` or `unit`"
            )
        yield _outcome("max_rms", c.max_rms, value, statements, chosen)
    target = "discounted-return" if c.discounted else "undiscounted-return"
    if document["options"]["gamma"] == 1:
        target = "undiscounted-return"  # both are one
    if c.min_return != "off":
        found = _where(statements, lambda s: s.target == target and s.share is not None)
        chosen = _for_share("min_return", found, statements, c.share)
        yield _outcome("min_return", c.min_return, statements[chosen].value_raw, statements, chosen)
    if c.min_mean_return != "off":
        found = _where(statements, lambda s: s.target == target and s.share is None)
        if not found:
            raise InputError(
                "expected a certificate with a statement on the expected return for "
                "`min_mean_return`, found none: issue it with `return_floor`, a return that no "
                "episode can fall below, or use `min_return`"
            )
        value = statements[found[0]].value_raw
        yield _outcome("min_mean_return", c.min_mean_return, value, statements, found[0])
    if c.max_failure != "off":
        wanted = list(_EVENTS.values()) if c.failure == "all" else [_EVENTS[c.failure]]
        found = _where(statements, lambda s: s.kind == "failure" and s.target in wanted)
        if not found:
            remedy = {"return": "issue it with `fail_below`"}.get(
                c.failure, "its episodes do not record success"
            )
            raise InputError(
                f"expected a certificate with a statement on `failure` {c.failure} for "
                f"`max_failure`, found none: {remedy}"
            )
        for each in found:
            value = statements[each].value
            yield _outcome("max_failure", c.max_failure, value, statements, each)


def _error(
    document: Mapping[str, Any], statements: Sequence["Statement"], conditions: Conditions
) -> int:
    """Index of the statement on the RMS error that is meant."""
    if conditions.unit != "off":
        unit = conditions.unit
        return _where(statements, lambda s: s.kind == "mean-risk" and s.unit == unit)[0]
    if conditions.share != "off":
        found = _where(statements, lambda s: s.kind == "tolerance")
        return _for_share("max_rms", found, statements, conditions.share)
    return int(document["headline"])


def _for_share(
    condition: str, found: Sequence[int], statements: Sequence["Statement"], share: float | Off
) -> int:
    """The statement for the smallest share that is large enough; off: for the smallest of all."""
    if not found:
        remedy = "" if condition == "min_return" else ": issue it with `scheme` auto"
        raise InputError(
            f"expected a certificate with a statement on a share of new episodes for "
            f"`{condition}`, found none{remedy}"
        )
    from tightrope.certificates.words import percent

    shares = sorted((statements[each].share or 0.0, each) for each in found)
    enough = [each for stated, each in shares if share == "off" or stated >= share]
    if not enough:
        largest = percent(shares[-1][0])
        raise InputError(
            f"expected a statement on at least {share:.4g} of new episodes for `{condition}`, "
            f"found none for more than {largest}: issue the certificate with more episodes"
        )
    return enough[0]


def _where(statements: Sequence["Statement"], true: "Callable[[Statement], bool]") -> list[int]:
    return [index for index, statement in enumerate(statements) if true(statement)]


def _outcome(
    condition: str, required: float, value: float, statements: Sequence["Statement"], index: int
) -> Outcome:
    from tightrope.certificates.words import sentence

    statement = statements[index]
    holds = value <= required if statement.direction == "at-most" else value >= required
    says = f"{sentence(statement)} (statement {index}, assumes {statement.assumes})"
    return Outcome(condition, required, value, bool(holds), index, says)


def _confidence(
    statements: Sequence["Statement"], asked: Sequence[Outcome], conditions: Conditions
) -> Iterator[Outcome]:
    """That the statements used hold at once: what the union bound over them leaves, or over all."""
    required = conditions.min_confidence
    if required == "off":
        return
    used = sorted({outcome.statement for outcome in asked if outcome.statement is not None})
    joint = statements[0].joint_confidence
    if used:
        joint = max(joint, 1.0 - sum(1.0 - statements[each].confidence for each in used))
        listed = ", ".join(map(str, used))
        what = (
            f"statement {listed} holds" if len(used) == 1 else f"statements {listed} hold at once"
        )
    else:
        what = f"all {len(statements)} statements hold at once"
    from tightrope.certificates.words import percent

    says = f"{what} with confidence {percent(joint)}"
    yield Outcome("min_confidence", required, joint, joint >= required, None, says)


def _listed(names: Sequence[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}" if most else last
