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
_EVENTS = {"early": "early-termination", "success": "success", "return": "low-return"}
_NEEDED = {
    "early": "it needs `termination` failure or neutral",
    "success": "it needs episodes that record success, or `termination` success",
    "return": "it needs `fail_below`",
    "all": "it states no failure",
}
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
        for rule in _rules(record, conditions)
        if (required := getattr(conditions, rule.name)) != "off"
        for each in _judged(record, rule, required)
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


@dataclass(frozen=True)
class _Rule:
    """What one condition is judged by.

    Attributes:
        name: of the condition.
        found: indices of statements that are about it; those of one name are levels of one kind.
        missing: what a certificate needs to have one.
        share: of new episodes that a level must be about at least; None for the first statement.
        objection: why it does not count; empty if it does.
    """

    name: str
    found: Sequence[int]
    missing: str
    share: float | None = None
    objection: str = ""


def _rules(record: "Record", c: Conditions) -> Iterator[_Rule]:
    """What every condition would be judged by, asked or not; the confidence comes last."""
    share = None if c.share == "off" else c.share
    found, missing, objection = _errors(record, c)
    levels = share if c.unit == "off" else None
    yield _Rule("max_rms", found, missing, levels, objection)
    discounted = c.discounted and record.settings.gamma != 1  # with 1 both are one
    returns = _where(record, target="discounted-return" if discounted else "undiscounted-return")
    reached = [index for index in returns if record.statements[index].share is not None]
    yield _Rule("min_return", reached, "it needs returns", share)
    means = [index for index in returns if index not in reached]
    floor = "discounted_floor" if discounted else "return_floor"
    missing = f"it needs `{floor}`, a return that no episode can fall below"
    yield _Rule("min_mean_return", means, missing)
    targets = _EVENTS.values() if c.failure == "all" else [_EVENTS[c.failure]]
    failures = [i for each in targets for i in _where(record, kind="failure", target=each)]
    yield _Rule("max_failure", failures, _NEEDED[c.failure])
    successes = _where(record, kind="failure", target="success")
    yield _Rule("min_success", successes, _NEEDED["success"])


def _errors(record: "Record", c: Conditions) -> tuple[list[int], str, str]:
    """Statements on the RMS error, what they need, and why they do not count.

    A mean risk, levels, or the headline.
    """
    if c.unit != "off":
        found = _where(record, kind="mean-risk", unit=c.unit)
        return found, f"it needs `unit` {c.unit}", _clipped(record, c)
    if c.share != "off":
        return _where(record, kind="tolerance"), "it needs `scheme` auto", ""
    first = record.statements[record.headline]
    found = [record.headline] if first.kind in ("tolerance", "mean-risk") else []
    objection = _clipped(record, c) if first.kind == "mean-risk" else ""
    if first.kind == "mean-risk" and first.unit == "step":
        objection = "independent steps are assumed only with `unit` step"
    return found, "its headline is not on the RMS error of the predicted return", objection


def _judged(record: "Record", rule: _Rule, required: float) -> Iterator[Condition]:
    """The rule on every kind of statement found, such as that of each task; without one a no."""
    from tightrope.certificates.text import percent

    kinds: dict[str, list[int]] = {}
    for index in rule.found:
        kinds.setdefault(record.statements[index].name, []).append(index)
    missing = [] if kinds else [rule.missing]
    for found in kinds.values():
        levels = sorted((record.statements[index].share or 0.0, index) for index in found)
        if rule.share is not None:
            found = [index for share, index in levels if share >= rule.share]
        if found:
            yield _judge(record, rule, required, found[0])
        else:
            missing.append(f"it is stated for at most {percent(levels[-1][0])} of new episodes")
    for each in missing:
        reason = f"the certificate does not state this: {each}; certify it {_AGAIN}"
        yield Condition(rule.name, required, None, False, None, reason)


def _judge(record: "Record", rule: _Rule, required: float, index: int) -> Condition:
    """One statement against what is required."""
    from tightrope.certificates.text import sentence

    s, objection = record.statements[index], rule.objection
    value, passed = s.limit, s.limit >= required
    if rule.name.startswith("max_"):
        if s.direction == "at-least":  # a failure is the lack of a success
            value = 1.0 - value
        passed = value <= required
    if rule.share is None and s.share is not None and s.share < _LEVEL:
        objection = "a level below 90 % counts only with `share`"
    if s.void or s.vacuous:
        objection = "a limit that can never be exceeded says nothing"
    reason = f"{sentence(s)} Statement {index}, assumes {s.assumes}"
    if s.unit == "step" and record.checks.dependent:
        reason += f", which these are not (p = {record.checks.dependence:.3g})"
    reason += f"; does not count: {objection}" if objection else ""
    return Condition(rule.name, required, value, passed and not objection, index, reason)


def _clipped(record: "Record", c: Conditions) -> str:
    """Why a mean risk does not count: it says little of returns outside the range."""
    if record.clipped_share is None or record.clipped_share <= c.allow_clipped:
        return ""
    return (
        f"{record.clipped_share:.2%} of the returns are outside the range that it is clipped to; "
        "accept that with `allow_clipped`, or ask for a level that clips nothing with `share`"
    )


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
