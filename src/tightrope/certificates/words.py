"""The certificate in plain words."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.companions import Companion

__all__ = ["LABELS", "assumptions", "in_words", "outward", "percent", "up"]

_INDENT = "  "


def in_words(certificate: "Certificate") -> str:
    """What is bounded, by how much, with which confidence and under which assumptions."""
    c = certificate
    subject = c.subject
    what = subject.get("policy", {}).get("name") or subject.get("log") or "the recorded policy"
    where = subject.get("environment", {}).get("id", "an unnamed environment")
    low, high = c.return_range
    lines = [f"Risk certificate for {what} in {where}", ""]
    if c.vacuous:
        lines.append("VACUOUS: the bound is 1, the largest possible error. It says nothing.")
    lines += [
        f"With confidence {percent(c.confidence)}, the RMS error of the predicted return on new "
        f"episodes is at most {up(c.rms_raw)}",
        f"({LABELS[c.unit]}; gamma {c.options.gamma:g}; returns clipped to [{low:.4g}, "
        f"{high:.4g}], from {_SOURCES[c.return_range_source]}).",
        "",
        f"{_INDENT}bound      {up(c.bound)} of the squared range; unit {c.unit}, {LABELS[c.unit]}",
        f"{_INDENT}other unit {up(c.other_bound)}, RMS {up(c.other_bound**0.5 * c.width)}; unit "
        f"{c.other_unit}, {LABELS[c.other_unit]}",
        f"{_INDENT}scheme     {c.scheme}, preset {c.options.preset}, {c.options.sampling} sampling",
        f"{_INDENT}data       {c.episodes['validation']} validation episodes, {c.steps:,} steps "
        f"after thinning by {c.thin}; n = {c.n:,}",
        f"{_INDENT}           effective sample size of the loss about {c.effective_n:,.0f} steps",
        f"{_INDENT}clipped    {c.clipped_share:.2%} of the validation returns, outside the range",
    ]
    lines += ["", "Comparison (enters no bound)"]
    lines.append(f"{_INDENT}train error          {c.train_error:.6f}")
    if c.test_error is not None:
        tests = c.episodes["test"]
        lines.append(f"{_INDENT}test error           {c.test_error:.6f} on {tests} episodes")
        lines.append(f"{_INDENT}tightness            {c.tightness:.6f} (bound - test error)")
    lines.append(f"{_INDENT}constant prediction  {c.constant_error:.6f}")
    if c.failed_fit:
        lines.append(
            f"{_INDENT}FAILED FIT: the predictor is no better than the constant mean return."
        )
    if not all(fit.converged for fit in c.fits):
        late = [str(t) for t, fit in enumerate(c.fits, start=1) if not fit.converged]
        lines.append(
            f"{_INDENT}not converged: fit {', '.join(late)} (the bound holds all the same)"
        )
    lines += ["", "How the bound builds up"]
    lines.append(f"{_INDENT}step  episodes        n        KL      loss    statement      bound")
    for t, s in enumerate(c.portions, start=1):
        lines.append(
            f"{_INDENT}{t:>4}  {s.episodes:>8}  {s.n:>7,}  {s.kl:>8.2f}  {s.mean:>8.5f}  "
            f"{s.kind:>7} {s.value:>8.5f}  {s.bound:>8.5f}"
        )
    lines += ["", "Failure probabilities"]
    for statement, source, share, failure in c.ledger:
        lines.append(f"{_INDENT}{statement:<24} {source:<12} x {share:<6} = {failure:.3g}")
    lines += ["", "From the same episodes, each with a confidence of its own"]
    for companion in c.companions:
        lines.append(
            f"{_INDENT}{companion.quantity} is {companion.side} {outward(companion)} "
            f"(estimate {companion.estimate:.4g}, confidence {percent(companion.confidence)})"
        )
        if companion.note:
            lines.append(f"{_INDENT * 2}{companion.note}")
    lines += ["", "Assumptions"]
    lines += [f"{_INDENT}- {sentence}" for sentence in c.assumptions]
    return "\n".join(lines)


LABELS = {"step": "assumes independent steps", "episode": "every episode weighs the same"}


def up(value: float) -> str:
    """Four digits, rounded up: what is printed bounds what was computed."""
    return _rounded(value, math.ceil)


def outward(companion: "Companion") -> str:
    """The bound of a companion statement, rounded to the safe side."""
    return _rounded(companion.bound, math.floor if companion.side == "at least" else math.ceil)


def percent(confidence: float) -> str:
    """A confidence in per cent, rounded down to a tenth."""
    return f"{math.floor(confidence * 1000 + 1e-9) / 10:.1f}%"


def _rounded(value: float, direction: Callable[[float], int]) -> str:
    if value == 0:
        return "0"
    scale = 10.0 ** (3 - math.floor(math.log10(abs(value))))
    return f"{direction(round(value * scale, 6)) / scale:.4g}"


_SOURCES = {
    "pilot": "pilot episodes that are in no bound",
    "user": "the user",
    "training": "the training log",
}


def assumptions(
    *,
    unit: str,
    sampled: bool | None,
    logged: bool,
    truncated: int,
    episodes: int,
    source: str,
    seeds: str | None,
) -> tuple[str, ...]:
    """The sentences that the certificate rests on."""
    said = ["New episodes come from the same policy in the same environment."]
    if logged:
        said.append(
            "The logged episodes are independent, identically distributed and of one policy; this "
            "was not checked."
        )
    else:
        said.append("Episodes are independent: separate resets with distinct, recorded seeds.")
    if unit == "step":
        said.append(
            "Thinned steps count as independent and identically distributed. Steps of one episode "
            "are not: prefer the episode unit where this matters."
        )
    else:
        said.append(
            "Each episode counts once, with the mean over its steps: nothing is assumed of steps, "
            "and the risk weighs episodes equally."
        )
    if sampled is not None:
        said.append(f"Actions are {'sampled' if sampled else 'deterministic'}, without learning.")
    if truncated:
        said.append(
            f"{truncated} of {episodes} validation episodes were cut by a time limit: their "
            "returns are finite-horizon returns."
        )
    said.append(
        "The certificate covers the loss clipped to the return range, which was fixed by "
        f"{_SOURCES[source]} before the validation data were used."
    )
    if seeds is not None:
        said.append(f"Seeds: {seeds}.")
    said.append(
        "Scheme, unit, preset, seed, range and every other option were chosen without comparing "
        "certificates."
    )
    return tuple(said)
