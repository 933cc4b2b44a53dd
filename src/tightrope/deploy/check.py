"""Check what a certificate states against conditions, for machines that need a yes or a no."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tightrope.certificates.options import Off, Unit
from tightrope.errors import InputError, as_lines
from tightrope.records import checked

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Record
    from tightrope.certificates.statements.base import Statement

__all__ = ["CheckReport", "Condition", "Conditions", "check"]

_Probability = Annotated[float, Field(ge=0, le=1)]
_EVENTS = {"early": "early-termination", "success": "success", "return": "low-return"}
_LEVEL = 0.9  # of new episodes: what a condition without `share` must be about
_ROUNDING = 1e-12  # of a confidence
_AGAIN = "on other episodes, or with `candidates`"  # these have been looked at


@checked
class Conditions:
    """What a certificate must state.

    Raises:
        InputError: a value is outside its set, or goes with a condition that is not there.
    """

    max_rms: Annotated[float, Field(ge=0)] | Off = "off"
    """Largest RMS error of the predicted return, in return units: of the headline, or of the
    statement that share or unit names."""
    min_return: float | Off = "off"
    """Smallest return, undiscounted, that 90 % of new episodes must reach."""
    min_mean_return: float | Off = "off"
    """Smallest expected return, undiscounted; needs a certificate with a return floor."""
    max_failure: _Probability | Off = "off"
    """Largest probability that an episode fails."""
    min_success: _Probability | Off = "off"
    """Smallest probability that an episode succeeds."""
    min_confidence: _Probability | Off = "off"
    """Smallest confidence that all statements used hold together; without another condition, all
    statements that need only independent episodes."""
    share: _Probability | Off = "off"
    """Share of new episodes that max-rms and min-return must be stated for, at the least; off: the
    headline's for max-rms, 90 % for min-return, and nothing below 90 % for either."""
    unit: Unit | Off = "off"
    """Use the mean risk of this unit for max-rms instead of the headline; step rests on independent
    steps."""
    failure: Literal["early", "success", "return", "all"] = "all"
    """The failure of max-failure: early (it terminates), success (there was none) or return (less
    than the certificate's fail-below); all: every one that the certificate states."""
    discounted: bool = False
    """Use discounted returns for min-return and min-mean-return."""
    allow_clipped: _Probability = 0.01
    """Largest share of returns outside the range that a mean risk is clipped to, for max-rms."""

    def __post_init__(self) -> None:
        needs = {"share": ("max_rms", "min_return"), "unit": ("max_rms",)}
        needs |= {"failure": ("max_failure",), "discounted": ("min_return", "min_mean_return")}
        needs |= {"allow_clipped": ("max_rms",)}
        for name, conditions in needs.items():
            given = getattr(self, name) != getattr(type(self), name)
            if given and all(getattr(self, each) == "off" for each in conditions):
                raise InputError(f"expected {_listed(conditions)} with `{name}`, found none")
        if self.unit != "off" and self.share != "off" and self.min_return == "off":
            raise InputError("expected `share` or `unit` for `max_rms`, found both")


_CONDITIONS = (
    *("max_rms", "min_return", "min_mean_return", "max_failure", "min_success"),
    "min_confidence",
)


@dataclass(frozen=True)
class Condition:
    """One condition and whether it holds.

    Attributes:
        name: of the condition; ``certificate`` for what is wrong with the whole.
        required: the number that was asked for; None where there is none to ask for.
        found: the number that the certificate states; None where it states none.
        passed: whether that is good enough.
        statement: index of the statement that was used; None without one.
        reason: the statement, or what is missing and how to get it.
    """

    name: str
    required: float | None
    found: float | None
    passed: bool
    statement: int | None
    reason: str

    def __str__(self) -> str:
        required = "" if self.required is None else f" {self.required:g}"
        return f"{'holds' if self.passed else 'FAILS'}  `{self.name}`{required}: {self.reason}"


@dataclass(frozen=True)
class CheckReport:
    """What became of all conditions."""

    conditions: tuple[Condition, ...]

    @property
    def passed(self) -> bool:
        """Whether all conditions hold."""
        return all(condition.passed for condition in self.conditions)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; nothing in it was recomputed."""
        conditions = [asdict(condition) for condition in self.conditions]
        return {"passed": self.passed, "recomputed": False, "conditions": conditions}

    def __str__(self) -> str:
        return as_lines(map(str, self.conditions))


def check(source: "Record | str | Path", conditions: Conditions) -> CheckReport:
    """Check whether the statements of a certificate meet the conditions.

    Digests are compared, numbers are not recomputed: :func:`tightrope.verify` does that. A
    certificate that is void or vacuous, or whose files have changed, meets none; neither does one
    without a statement that a condition is about.

    Args:
        source: a certificate, its folder, or its certificate.json alone.
        conditions: what it must state.

    Raises:
        InputError: there is no condition, or no certificate.
    """
    from tightrope.certificates.folder import digest_problems, read_document

    if all(getattr(conditions, name) == "off" for name in _CONDITIONS):
        raise InputError(f"expected a condition among {_listed(_CONDITIONS)}, found none")
    if isinstance(source, str | Path):
        record, problems = read_document(source)
        if Path(source).is_dir():
            problems += digest_problems(Path(source), record)
    else:
        record, problems = source, []
    if record.void:
        problems.append("the certificate is void: a step of its recursion is negative")
    elif record.vacuous:
        problems.append("the certificate is vacuous: its bound is the largest possible error")
    whole = [Condition("certificate", None, None, False, None, problem) for problem in problems]
    asked = list(_asked(record, conditions))
    return CheckReport((*whole, *asked, *_confidence(record, asked, conditions)))


def _asked(record: "Record", c: Conditions) -> Iterator[Condition]:
    """The conditions on single statements."""
    if c.max_rms != "off":
        yield _error(record, c, c.max_rms)
    target = "discounted-return" if c.discounted else "undiscounted-return"
    if record.settings.gamma == 1:
        target = "undiscounted-return"  # both are one
    if c.min_return != "off":
        yield _return(record, c, c.min_return, target)
    if c.min_mean_return != "off":
        found = _where(record, kind="return", target=target, share=None)
        floor = "discounted_floor" if target == "discounted-return" else "return_floor"
        missing = f"it needs `{floor}`, a return that no episode can fall below"
        yield _judged("min_mean_return", c.min_mean_return, record, found, missing)
    if c.max_failure != "off":
        yield from _failures(record, c, c.max_failure)
    if c.min_success != "off":
        missing = "it needs episodes that record success, or `termination` success"
        found = _where(record, kind="failure", target="success")
        yield _judged("min_success", c.min_success, record, found, missing)


def _error(record: "Record", c: Conditions, required: float) -> Condition:
    """The condition on the RMS error."""
    if c.unit != "off":
        found = _where(record, kind="mean-risk", unit=c.unit)
        missing = f"it needs `unit` {c.unit}"
        return _judged("max_rms", required, record, found, missing, _clipped(record, c))
    if c.share != "off":
        levels = _where(record, kind="tolerance")
        return _on_share("max_rms", required, record, levels, c.share, "it needs `scheme` auto")
    first = record.statements[record.headline]
    objection = ""
    if first.kind == "tolerance" and (first.share or 0.0) < _LEVEL:
        objection = "a level below 90 % counts only with `share`"
    elif first.kind == "mean-risk":
        objection = _clipped(record, c)
        if first.unit == "step":
            objection = "independent steps are assumed only with `unit` step"
    usable = first.kind in ("tolerance", "mean-risk")
    found = [record.headline] if usable else []
    missing = "its headline is not on the RMS error of the predicted return"
    return _judged("max_rms", required, record, found, missing, objection)


def _return(record: "Record", c: Conditions, required: float, target: str) -> Condition:
    """The condition on the return that a share of new episodes reaches."""
    stated = [i for i in _where(record, target=target) if record.statements[i].share is not None]
    if c.share == "off":
        low = stated and (record.statements[stated[0]].share or 0.0) < _LEVEL
        objection = "a share below 90 % counts only with `share`" if low else ""
        return _judged("min_return", required, record, stated, "", objection)
    return _on_share("min_return", required, record, stated, c.share, "")


def _failures(record: "Record", c: Conditions, required: float) -> Iterator[Condition]:
    """A condition on every kind of failure that is meant and stated."""
    targets = list(_EVENTS.values()) if c.failure == "all" else [_EVENTS[c.failure]]
    found = [i for target in targets for i in _where(record, kind="failure", target=target)]
    if not found:
        missing = {
            "early": "it needs `termination` failure or neutral",
            "success": "it needs episodes that record success, or `termination` success",
            "return": "it needs `fail_below`",
            "all": "it states no failure",
        }[c.failure]
        yield _judged("max_failure", required, record, [], missing)
    for index in found:
        yield _judged("max_failure", required, record, [index], "")


def _judged(
    name: str,
    required: float,
    record: "Record",
    found: Sequence[int],
    missing: str,
    objection: str = "",
) -> Condition:
    """A condition on the first of the statements found; without one it fails.

    Args:
        name: of the condition.
        required: the number asked for.
        record: the certificate.
        found: indices of statements that it may be judged by.
        missing: what a certificate needs to have one.
        objection: why the statement does not count; empty if it does.
    """
    if not found:
        reason = f"the certificate does not state this: {missing}; certify it {_AGAIN}"
        return Condition(name, required, None, False, None, reason)
    from tightrope.certificates.text import sentence

    statement = record.statements[found[0]]
    value, passed = statement.limit, statement.limit >= required
    if name.startswith("max_"):
        if statement.direction == "at-least":  # a failure is the lack of a success
            value = 1.0 - value
        passed = value <= required
    if statement.void or statement.vacuous:
        objection = "a limit that can never be exceeded says nothing"
    reason = f"{sentence(statement)} Statement {found[0]}, assumes {statement.assumes}"
    if statement.unit == "step" and record.checks.dependent:
        reason += f", which these are not (p = {record.checks.dependence:.3g})"
    reason += f"; does not count: {objection}" if objection else ""
    return Condition(name, required, value, bool(passed and not objection), found[0], reason)


def _clipped(record: "Record", c: Conditions) -> str:
    """Why a mean risk does not count: it says little of returns outside the range."""
    if record.clipped_share is None or record.clipped_share <= c.allow_clipped:
        return ""
    return (
        f"{record.clipped_share:.2%} of the returns are outside the range that it is clipped to; "
        "accept that with `allow_clipped`, or ask for a level that clips nothing with `share`"
    )


def _on_share(
    name: str, required: float, record: "Record", found: Sequence[int], share: float, missing: str
) -> Condition:
    """A condition on the statement about the smallest share that is large enough."""
    from tightrope.certificates.text import percent

    stated = sorted((record.statements[index].share or 0.0, index) for index in found)
    enough = [index for each, index in stated if each >= share]
    if stated:
        missing = f"it is stated for at most {percent(stated[-1][0])} of new episodes"
    return _judged(name, required, record, enough, missing)


def _where(record: "Record", **fields: Any) -> list[int]:
    def fits(statement: "Statement") -> bool:
        return all(getattr(statement, name) == value for name, value in fields.items())

    return [index for index, statement in enumerate(record.statements) if fits(statement)]


def _confidence(record: "Record", asked: Sequence[Condition], c: Conditions) -> Iterator[Condition]:
    """That the statements used hold together: by a union bound, or within what holds jointly."""
    if c.min_confidence == "off":
        return
    from tightrope.certificates.text import percent

    used = sorted({each.statement for each in asked if each.statement is not None})
    statements = [record.statements[index] for index in used]
    apart = sum(1.0 - s.confidence for s in statements)
    steps = sum(1.0 - s.confidence for s in statements if s.joint_confidence is None)
    joint = any(s.joint_confidence is not None for s in statements) or not used
    found = 1.0 - steps - (1.0 - record.joint_confidence if joint else 0.0)
    what = "all statements that need only independent episodes hold together"
    if used:
        found = max(found, 1.0 - apart)
        listed = ", ".join(map(str, used))
        what = (
            f"statement {listed} holds" if len(used) == 1 else f"statements {listed} hold together"
        )
    passed = found >= c.min_confidence - _ROUNDING
    reason = f"{what} with confidence {percent(found)}"
    yield Condition("min_confidence", c.min_confidence, found, passed, None, reason)


def _listed(names: Sequence[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}" if most else last
