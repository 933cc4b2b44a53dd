"""A forecast in plain words: a table over numbers of episodes, and what the bound is made of."""

from collections.abc import Iterable

from tightrope.certificates.breakdown import PARTS
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.forecast import episodes_for, forecast, terms
from tightrope.certificates.statements import Statement
from tightrope.certificates.words import outward, percent, title
from tightrope.errors import InputError

__all__ = ["in_words", "wanted"]

_INDENT = "  "


def in_words(certificate: Certificate, numbers: Iterable[int]) -> str:
    """The statements as they are, and as they would be with so many validation episodes."""
    now = certificate.episodes.validation
    lines = [title(certificate).replace("Risk certificate", "Forecast"), ""]
    lines.append("A forecast, not a promise: what was measured is taken to stay as it is.")
    rows = {"now": list(certificate.statements)}
    for number in numbers:
        try:
            rows[f"{number:,}"] = list(forecast(certificate, number))
        except InputError as error:
            lines.append(f"{_INDENT}{number:,} episodes: {error}")
    for kind in ("tolerance", "mean-risk", "band", "monitor", "return", "failure"):
        lines += _table(kind, rows, now)
    made = terms(certificate)
    width = certificate.width
    lines += [
        "",
        f"What the mean risk of unit {certificate.unit} is made of (squared return units)",
    ]
    for key, name in PARTS.items():
        value = getattr(made.parts, key)
        if value:
            lines.append(
                f"{_INDENT}{name:<20} {value * width**2:>10.4g}   {_share(value, certificate)}"
            )
    lines.append(f"{_INDENT}Largest: {made.dominating}.")
    if certificate.unit == "step":
        lines.append(
            f"{_INDENT}Not in it: {made.dependence * width**2:.4g} more, if steps counted for as "
            f"much as they tell ({certificate.effective_n:,.0f} independent ones)."
        )
    return "\n".join(lines)


def wanted(certificate: Certificate, rms: float) -> tuple[int | None, str]:
    """How many validation episodes would certify a mean risk of `rms`, and that in words."""
    count = episodes_for(certificate, rms)
    if count is not None:
        return (
            count,
            f"rms<={rms:g}: about {count:,} validation episodes (unit {certificate.unit}).",
        )
    floor = certificate.portions[-1].loss ** 0.5 * certificate.width
    return None, (
        f"rms<={rms:g}: no number of episodes would do; the error itself is {floor:.4g} in the "
        "sample, and no bound goes below the error. A better predictor might: more episodes to fit "
        "to."
    )


def _table(kind: str, rows: dict[str, list[Statement]], now: int) -> list[str]:
    """One line for each statement of a kind, one column for each number of episodes."""
    lines: list[str] = []
    width = max(len(name) for name in rows)
    for name, said in rows.items():
        own = [s for s in said if s.kind == kind]
        if own and not lines:
            lines = ["", f"{kind}: {own[0].quantity}" if kind != "mean-risk" else kind]
        for statement in own:
            share = "" if statement.share is None else f"at least {percent(statement.share)}: "
            unit = f" (unit {statement.unit})" if kind == "mean-risk" else ""
            side = "at most" if statement.direction == "at-most" else "at least"
            what = f"{name:>{width}}" if name != "now" else f"{'now':>{width}}"
            also = f" [{now}]" if name == "now" else ""
            lines.append(f"{_INDENT}{what}{also}  {share}{side} {outward(statement)}{unit}")
    return lines


def _share(value: float, certificate: Certificate) -> str:
    return f"{value / certificate.bound:.0%}" if certificate.bound > 0 else ""
