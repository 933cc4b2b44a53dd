"""The certificate in plain words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["assumptions", "in_words"]

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
        f"With confidence {c.confidence:.1%}, the RMS error of the predicted return (gamma "
        f"{c.options.gamma:g})",
        f"on new episodes is at most {c.rms_raw:.4g}. Returns range over [{low:.4g}, {high:.4g}] "
        f"(from {_SOURCES[c.return_range_source]}).",
        "",
        f"{_INDENT}bound      {c.bound:.6f} of the squared range, unit {c.unit}"
        + (" (assumes independent steps)" if c.unit == "step" else ""),
        f"{_INDENT}other unit {c.other_bound:.6f}, RMS {c.other_bound**0.5 * c.width:.4g}, unit "
        f"{c.other_unit}" + (" (assumes independent steps)" if c.other_unit == "step" else ""),
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
            f"{_INDENT}{companion.quantity} is {companion.side} {companion.bound:.4g} "
            f"(estimate {companion.estimate:.4g}, confidence {companion.confidence:.1%})"
        )
        if companion.note:
            lines.append(f"{_INDENT * 2}{companion.note}")
    lines += ["", "Assumptions"]
    lines += [f"{_INDENT}- {sentence}" for sentence in c.assumptions]
    return "\n".join(lines)


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
    partial: str | None,
    kind: str,
) -> tuple[str, ...]:
    """The sentences that the certificate rests on."""
    said = ["New episodes come from the same policy in the same environment."]
    if logged:
        said.append("The logged episodes are independent and of one policy; this was not checked.")
    else:
        said.append("Episodes are independent: separate resets with distinct, recorded seeds.")
    if unit == "step":
        said.append(
            "Thinned steps count as independent. Steps of one episode are not: prefer the episode "
            "unit where this matters."
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
    if partial is not None:
        said.append(f"The episodes are partial ({partial}): they may favour short ones.")
    if kind != "holdout":
        said.append("Scheme, unit, preset and seed were chosen without comparing certificates.")
    else:
        said.append("Scheme, unit and seed were chosen without comparing certificates.")
    return tuple(said)
