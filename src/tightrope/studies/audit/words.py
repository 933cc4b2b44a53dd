"""An audit in words: a table for people."""

from tightrope.studies.audit.run import Audited
from tightrope.studies.audit.tally import Row

__all__ = ["in_words"]

_OUTSIDE = "outside its assumption"
_HEAD = ("scheme", "statement", "promise", "broken", "95 % interval", "tightness", "verdict")


def in_words(found: Audited) -> str:
    """Every row with its verdict, the warnings, and what came of it."""
    lines = [f"Audit of {found.subject}", f"fits: {found.fits}", ""]
    cells = [_HEAD, *(_cells(row) for row in found.rows)]
    widths = [max(len(each[column]) for each in cells) for column in range(len(_HEAD))]
    for each in cells:
        padded = (cell.ljust(width) for cell, width in zip(each, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
    lines += ["", "Warnings of the certificates"]
    for flag in found.flags:
        if flag.fired or flag.warning in ("dependent steps", "drift"):
            lines.append(f"  {flag.scheme}: {flag.warning} in {flag.fired} of {flag.runs}")
    lines.append("")
    close = sum(row.unclear for row in found.rows if row.value is not None)
    if close:
        lines.append(
            f"{close} statements were too close to call (they count as broken for kept, as kept "
            "for broken): more `truth_episodes` would tell"
        )
    counts = {name: sum(row.verdict == name for row in found.rows) for name in _VERDICTS}
    lines.append(", ".join(f"{count} {name}" for name, count in counts.items()))
    wrong = [row for row in found.rows if row.failed]
    lines += [f"BROKEN: {row.scheme}, {row.statement}" for row in wrong]
    return "\n".join(lines)


_VERDICTS = ("kept", "broken", "too few runs")


def _cells(row: Row) -> tuple[str, ...]:
    unclear = f" to {row.broken + row.unclear}" if row.unclear else ""
    outside = f" ({_OUTSIDE})" if row.assumption == "broken" else ""
    return (
        row.scheme,
        row.statement,
        f"{row.promise:.4f}",
        f"{row.broken}{unclear} of {row.runs}",
        f"{row.low:.4f} to {row.high:.4f}",
        "" if row.tightness is None else f"{row.tightness:.4g}",
        f"{row.verdict}{outside}",
    )
