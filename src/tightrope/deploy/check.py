"""Check what a certificate or a table states against conditions: a yes or a no for machines."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tightrope.certificates.options import Off, Unit
from tightrope.errors import InputError, as_lines
from tightrope.records import checked
from tightrope.rollouts.results_table import ResultsTable, is_results

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Record
    from tightrope.certificates.statements.base import Statement

__all__ = ["CheckReport", "Condition", "Conditions", "check", "is_table"]

_Probability = Annotated[float, Field(ge=0, le=1)]
_EVENTS = {  # of each failure: the target of its statement, and what a certificate needs for it
    "early": ("early-termination", "it needs `termination` failure or neutral"),
    "success": ("success", "it needs episodes that record success, or `termination` success"),
    "return": ("low-return", "it needs `fail_below`"),
}
# Of what only goes with other conditions: those.
_GOES_WITH = {
    "share": ("max_rms", "min_return"),
    "unit": ("max_rms",),
    "failure": ("max_failure",),
    "discounted": ("min_return", "min_mean_return"),
    "allow_clipped": ("max_rms",),
}
_LEVEL = 0.9  # of new episodes: what a condition without `share` must be about
_ROUNDING = 1e-12  # of a confidence
_AGAIN = "on other episodes, or with `candidates`"  # these have been looked at


@checked
class Conditions:
    """What a certificate must state.

    Attributes:
        max_rms: Largest RMS error of the predicted return, in return units: of the headline, or of
            the statement that share or unit names.
        min_return: Smallest return, undiscounted, that 90 % of new episodes must reach.
        min_mean_return: Smallest expected return, undiscounted; needs a certificate with a return
            floor.
        max_failure: Largest probability that an episode fails.
        min_success: Smallest probability that an episode succeeds.
        min_confidence: Smallest confidence that all statements used hold together; without another
            condition, all statements that need only independent episodes.
        share: Share of new episodes that max-rms and min-return must be stated for, at the least;
            off: the headline's for max-rms, 90 % for min-return, and nothing below 90 % for either.
        unit: Use the mean risk of this unit for max-rms instead of the headline; step rests on
            independent steps.
        failure: The failure of max-failure: early (it terminates), success (there was none) or
            return (less than the certificate's fail-below); all: every one that the certificate
            states.
        discounted: Use discounted returns for min-return and min-mean-return.
        allow_clipped: Largest share of returns outside the range that a mean risk is clipped to,
            for max-rms.

    Raises:
        InputError: a value is outside its set, or goes with a condition that is not there.
    """

    max_rms: Annotated[float, Field(ge=0)] | Off = "off"
    min_return: float | Off = "off"
    min_mean_return: float | Off = "off"
    max_failure: _Probability | Off = "off"
    min_success: _Probability | Off = "off"
    min_confidence: _Probability | Off = "off"
    share: _Probability | Off = "off"
    unit: Unit | Off = "off"
    failure: Literal["early", "success", "return", "all"] = "all"
    discounted: bool = False
    allow_clipped: _Probability = 0.01

    def __post_init__(self) -> None:
        for name, conditions in _GOES_WITH.items():
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
        required = "" if self.required is None else f" {self.required:.12g}"
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


def check(
    source: "Record | ResultsTable | str | Path", conditions: Conditions, **reading: Any
) -> CheckReport:
    """Check whether the statements of a certificate, or of a table of results, meet the conditions.

    Of a certificate digests are compared and numbers are not recomputed: :func:`tightrope.verify`
    does that. A certificate that is void or vacuous, or whose files have changed, meets none;
    neither does one without a statement that a condition is about. A table, or counts, are
    certified first; nothing is written.

    Args:
        source: a certificate, its folder, its certificate.json alone, a table of results, or counts
            such as ``74/80``.
        conditions: what it must state.
        reading: how a table is read: `columns`, `frozen`, `evaluation`, as for
            :func:`tightrope.certify`.

    Raises:
        InputError: there is no condition, or no certificate.
    """
    from tightrope.certificates.folder import digest_problems, read_document

    if all(getattr(conditions, name) == "off" for name in _CONDITIONS):
        raise InputError(f"expected a condition among {_listed(_CONDITIONS)}, found none")
    record: Any = source
    problems: list[str] = []
    if is_table(source, reading.get("columns")):
        from tightrope.certificates.certify import certify

        record = certify(source, **reading)
    elif isinstance(source, str | Path):
        record, problems = read_document(source)
        if Path(source).is_dir():
            problems += digest_problems(Path(source), record)
    if record.void:
        problems.append("the certificate is void: a step of its recursion is negative")
    elif record.vacuous:
        problems.append("the certificate is vacuous: its bound is the largest possible error")
    whole = [Condition("certificate", None, None, False, None, problem) for problem in problems]
    asked = [
        each
        for name, (found, missing) in _statements(record, conditions).items()
        if getattr(conditions, name) != "off"
        for each in _judged(record, conditions, name, found, missing)
    ]
    return CheckReport((*whole, *asked, *_confidence(record, asked, conditions)))


def is_table(source: Any, columns: Any = None) -> bool:
    """Whether a source is a table of results or counts, rather than a certificate."""
    named = isinstance(source, str | Path) and Path(source).suffix == ".json"
    if named and Path(source).is_file():  # a pipe would be read for ever
        with (
            contextlib.suppress(OSError, UnicodeDecodeError),
            open(source, encoding="utf-8") as file,
        ):
            if '"schema_version"' in file.read(200):
                return False
    return is_results(source, columns)


def _statements(record: "Record", c: Conditions) -> dict[str, tuple[list[int], str]]:
    """By condition: the statements that are about it, and what a certificate needs to have one."""

    def where(**fields: Any) -> list[int]:
        return [
            index
            for index, s in enumerate(record.statements)
            if all(getattr(s, name) == value for name, value in fields.items())
        ]

    first = record.statements[record.headline]
    headline = [record.headline] if first.kind in ("tolerance", "mean-risk") else []
    errors = headline, "its headline is not on the RMS error of the predicted return"
    if c.unit != "off":
        errors = where(kind="mean-risk", unit=c.unit), f"it needs `unit` {c.unit}"
    elif c.share != "off":
        errors = where(kind="tolerance"), "it needs `scheme` auto"
    discounted = c.discounted and record.settings.gamma != 1  # with 1 both are one
    returns = where(target="discounted-return" if discounted else "undiscounted-return")
    means = [index for index in returns if record.statements[index].share is None]
    floor = "discounted_floor" if discounted else "return_floor"
    events = [_EVENTS[c.failure]] if c.failure in _EVENTS else _EVENTS.values()
    failures = [index for target, _ in events for index in where(kind="failure", target=target)]
    unstated = _EVENTS[c.failure][1] if c.failure in _EVENTS else "it states no failure"
    success, unrecorded = _EVENTS["success"]
    return {
        "max_rms": errors,
        "min_return": ([i for i in returns if i not in means], "it needs returns"),
        "min_mean_return": (means, f"it needs `{floor}`, a return that no episode can fall below"),
        "max_failure": (failures, unstated),
        "min_success": (where(kind="failure", target=success), unrecorded),
    }


def _judged(
    record: "Record", c: Conditions, name: str, found: Sequence[int], missing: str
) -> Iterator[Condition]:
    """The condition on every kind of statement found, such as each task's; without one a no."""
    from tightrope.certificates.text import percent

    least = 0.0 if c.share == "off" else c.share
    kinds: dict[str, list[tuple[float, int]]] = {}  # levels of one kind have one name
    for index in found:
        s = record.statements[index]
        kinds.setdefault(s.name, []).append((1.0 if s.share is None else s.share, index))
    unstated = [] if kinds else [missing]
    for levels in kinds.values():
        if enough := [level for level in levels if level[0] >= least]:
            yield _judge(record, c, name, min(enough)[1])
        else:
            unstated.append(f"it is stated for at most {percent(max(levels)[0])} of new episodes")
    for each in unstated:
        reason = f"the certificate does not state this: {each}; certify it {_AGAIN}"
        yield Condition(name, getattr(c, name), None, False, None, reason)


def _judge(record: "Record", c: Conditions, name: str, index: int) -> Condition:
    """One statement against what is required."""
    from tightrope.certificates.text import sentence

    s, required = record.statements[index], getattr(c, name)
    value, passed = s.limit, s.limit >= required
    if name.startswith("max_"):
        if s.direction == "at-least":  # a failure is the lack of a success
            value = 1.0 - value
        passed = value <= required
    objection = _objection(record, c, s)
    reason = f"{sentence(s)} Statement {index}, assumes {s.assumes}"
    if s.unit == "step" and record.checks.dependent:
        reason += f", which these are not (p = {record.checks.dependence:.3g})"
    if record.checks.drifting:
        reason += f"; returns change over the episodes (p = {record.checks.drift:.3g})"
    reason += f"; does not count: {objection}" if objection else ""
    return Condition(name, required, value, passed and not objection, index, reason)


def _objection(record: "Record", c: Conditions, s: "Statement") -> str:
    """Why a statement does not count; empty if it does."""
    if s.void or s.vacuous:
        return "a limit that can never be exceeded says nothing"
    if s.share is not None and s.share < _LEVEL and c.share == "off":
        return "a level below 90 % counts only with `share`"
    if s.kind == "mean-risk" and s.unit == "step" and c.unit == "off":
        return "independent steps are assumed only with `unit` step"
    if s.kind == "mean-risk" and (record.clipped_share or 0.0) > c.allow_clipped:
        return (
            f"{record.clipped_share:.2%} of the returns are outside the range that it is clipped "
            "to; accept that with `allow_clipped`, or ask for a level that clips nothing with "
            "`share`"
        )
    return ""


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
        what = f"what was used (statement {', '.join(map(str, used))}) holds"
    passed = found >= c.min_confidence - _ROUNDING
    reason = f"{what} with confidence {percent(found)}"
    yield Condition("min_confidence", c.min_confidence, found, passed, None, reason)


def _listed(names: Sequence[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}" if most else last
