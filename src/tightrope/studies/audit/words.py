"""An audit in words: a table for people."""

from typing import get_args

from tightrope.studies.audit.run import Audited
from tightrope.studies.audit.tally import Row, Verdict

__all__ = ["in_words"]

_HEAD = ("scheme", "statement", "nominal", "violated", "95 % interval", "tightness", "verdict")
_CLAIMS = {
    "made": "",
    "assumption violated": " (outside its assumption)",
    "not made": " (not claimed)",
}


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
    close = sum(row.inconclusive for row in found.rows if row.value is not None)
    if close:
        lines.append(
            f"{close} statements were inconclusive (they count neither as held nor as violated): "
            "more `truth_episodes` would tell"
        )
    claimed = [row for row in found.rows if row.claim == "made"]
    counts = {name: sum(row.verdict == name for row in claimed) for name in get_args(Verdict)}
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    lines.append(f"of {len(claimed)} claims: {told}")
    lines += [f"VIOLATED: {row.scheme}, {row.statement}" for row in found.rows if row.failed]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    close = f" to {row.violated + row.inconclusive}" if row.inconclusive else ""
    return (
        row.scheme,
        row.statement,
        f"{row.nominal:.4f}",
        f"{row.violated}{close} of {row.runs}",
        f"{row.low:.4f} to {row.high:.4f}",
        "" if row.tightness is None else f"{row.tightness:.4g}",
        f"{row.verdict}{_CLAIMS[row.claim]}",
    )
