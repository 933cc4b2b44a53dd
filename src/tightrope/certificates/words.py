"""The certificate in plain words."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING

from tightrope.certificates.assumptions import SOURCES

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.statements import Statement

__all__ = ["down", "headline", "in_words", "outward", "percent", "sentence", "title", "up"]
__all__ += ["warnings_of"]

_INDENT = "  "
_NEEDS = {
    "independent steps": "assumes independent steps",
    "independent episodes": "needs only independent episodes",
}


def in_words(certificate: "Certificate") -> str:
    """What is promised, with which confidence and under which assumptions."""
    c = certificate
    lines = [title(c), ""]
    lines += warnings_of(c)
    lines += [headline(c), ""]
    joint = c.statements[0].joint_confidence
    lines.append(
        f"All statements hold at once with confidence {percent(joint)}"
        + (":" if c.scheme == "auto" else "; each alone as it says:")
    )
    for statement in c.statements:
        own = "" if c.scheme == "auto" else f", confidence {percent(statement.confidence)}"
        lines.append(f"{_INDENT}{sentence(statement)}")
        lines.append(
            f"{_INDENT * 2}({_NEEDS[statement.assumes]}{own}; in the sample "
            f"{statement.estimate:.4g}, n = {statement.n:,}"
            + (f"; {statement.note}" if statement.note else "")
            + ")"
        )
    lines += ["", *_details(c), "", *_comparison(c), "", "How the bound builds up"]
    lines.append(f"{_INDENT}step  episodes        n        KL      loss  statement        bound")
    for t, s in enumerate(c.portions, start=1):
        lines.append(
            f"{_INDENT}{t:>4}  {s.episodes:>8}  {s.n:>7,}  {s.kl:>8.2f}  {s.loss:>8.5f}  "
            f"{s.kind:<9} {up(s.value):>8}  {up(s.bound):>8}"
        )
    lines += ["", "Failure probabilities"]
    for entry in c.ledger:
        lines.append(
            f"{_INDENT}{entry.statement:<44} {entry.source:<12} x {entry.share:<8} = "
            f"{entry.failure:.3g}"
        )
    lines += ["", "Assumptions"]
    lines += [f"{_INDENT}- {each}" for each in c.assumptions]
    return "\n".join(lines)


def title(certificate: "Certificate") -> str:
    """Who and what was certified."""
    subject = certificate.subject
    what = subject.get("policy", {}).get("name") or subject.get("log") or "the recorded policy"
    where = subject.get("environment", {}).get("id", "an unnamed environment")
    return f"Risk certificate for {what} in {where}"


def warnings_of(certificate: "Certificate") -> list[str]:
    """What a reader must know before anything else."""
    c, said = certificate, []
    if c.void:
        said.append("VOID: a step of the recursion is negative, so its portions differ.")
    elif c.vacuous:
        said.append("VACUOUS: the bound is 1, the largest possible error. It says nothing.")
    if c.failed_fit:
        than = "a constant" if c.constant_error <= c.per_step_error else "the mean of each step"
        said.append(f"FAILED FIT: the predictor is no better than {than}.")
    if c.checks.dependent:
        said.append(
            "DEPENDENT STEPS: steps of one episode have losses that are alike (p = "
            f"{c.checks.dependence:.3g}): do not rely on what assumes independent steps."
        )
    if c.checks.drifting:
        said.append(
            "DRIFT: returns change over the validation episodes (p = "
            f"{c.checks.drift:.3g}): they are not alike, and new ones may be different again."
        )
    return said


def headline(certificate: "Certificate") -> str:
    """The statement to read first, with its confidence and what it needs."""
    c = certificate
    first = c.statements[c.headline]
    confidence = first.joint_confidence if c.scheme == "auto" else first.confidence
    return (
        f"{sentence(first)}\n(confidence {percent(confidence)}; {_NEEDS[first.assumes]}; gamma "
        f"{c.options.gamma:g})."
    )


def sentence(statement: "Statement") -> str:
    """A statement as a sentence, every number rounded to the safe side."""
    s = statement
    side = "at most" if s.direction == "at-most" else "at least"
    if s.kind == "mean-risk":
        how = "all steps" if s.unit == "step" else "episodes"
        return (
            f"RMS error of the predicted return on new episodes, mean over {how}: {side} "
            f"{outward(s)} ({up(s.value)} of the squared range)"
        )
    if s.share is not None:
        return f"At least {percent(s.share)} of new episodes: {s.quantity} {side} {outward(s)}"
    return f"{s.quantity[0].upper()}{s.quantity[1:]}: {side} {outward(s)}"


def _details(c: "Certificate") -> list[str]:
    clock = f"clock to {c.time_limit:,} steps" if c.time_limit is not None else "no clock"
    low, high = c.return_range.low, c.return_range.high
    policy = c.subject.get("policy", {})
    normalised = policy.get("normalization")
    known = [] if normalised is None else [f"{_INDENT}policy     {_normalised(normalised)}"]
    return [
        "Made from",
        f"{_INDENT}scheme     {c.scheme}, preset {c.options.preset}, unit {c.unit}, {clock}",
        *known,
        f"{_INDENT}episodes   {c.episodes.pilot} pilot, {c.episodes.validation} validation "
        f"({c.episodes.free} only to fit), {c.episodes.test} test; seed {c.options.seed}",
        f"{_INDENT}steps      {c.steps:,} after thinning by {c.thin}; those of the last portion "
        f"tell as much of the loss as {c.effective_n:,.0f} independent ones",
        f"{_INDENT}returns    clipped to [{low:.4g}, {high:.4g}] in mean risks, from "
        f"{SOURCES[c.return_range.source]}; {c.clipped_share:.2%} lie outside",
    ]


def _normalised(by: str) -> str:
    return "observations not normalised" if by == "none" else f"observations normalised by {by}"


def _comparison(c: "Certificate") -> list[str]:
    lines = [f"Comparison, unit {c.unit} (enters no bound)"]
    rows = [("bound", c.bound), ("train error", c.train_error), ("test error", c.test_error)]
    rows += [("constant prediction", c.constant_error), ("mean of each step", c.per_step_error)]
    for name, value in rows:
        if value is not None:
            rms = value**0.5 * c.width
            lines.append(f"{_INDENT}{name:<20} {_ceil(value, 6):.6f}   RMS {up(rms)}")
    late = [str(t) for t, fit in enumerate(c.fits, start=1) if not fit.converged]
    if late:
        lines.append(
            f"{_INDENT}not converged: fit {', '.join(late)} (the statements hold all the same)"
        )
    return lines


def up(value: float) -> str:
    """Four digits, rounded up: what is printed bounds what was computed."""
    return _rounded(value, ROUND_CEILING)


def down(value: float) -> str:
    """Four digits, rounded down."""
    return _rounded(value, ROUND_FLOOR)


def outward(statement: "Statement") -> str:
    """The number of a statement in the units a person understands, rounded to the safe side."""
    value = statement.value_raw if statement.rms_raw is None else statement.rms_raw
    return _rounded(value, ROUND_FLOOR if statement.direction == "at-least" else ROUND_CEILING)


def percent(probability: float) -> str:
    """A confidence or share in per cent, rounded down to a tenth."""
    return f"{math.floor(probability * 1000 + 1e-9) / 10:.1f} %"


def _rounded(value: float, direction: str) -> str:
    """Four digits of the shortest decimal that reads back as `value`, which a person would see."""
    return f"{float(Context(prec=4, rounding=direction).create_decimal(repr(float(value)))):.4g}"


def _ceil(value: float, digits: int) -> Decimal:
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)
