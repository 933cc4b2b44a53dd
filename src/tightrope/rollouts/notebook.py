"""How recorded episodes look in a notebook: plain tables, every word escaped."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tightrope.rollouts.episodes import Episodes

__all__ = ["episodes_html", "table"]


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> str:
    """An HTML table; cells are text, whatever is in them."""

    def row(cells: Sequence[object], tag: str) -> str:
        made = "".join(
            f'<{tag} style="text-align: left">{escape(str(cell))}</{tag}>' for cell in cells
        )
        return f"<tr>{made}</tr>"

    first = row(head, "th") if head else ""
    return f"<table>{first}{''.join(row(cells, 'td') for cells in rows)}</table>"


def episodes_html(episodes: "Episodes") -> str:
    """What was recorded, of whom, and how it went."""
    import numpy as np

    subject, totals = episodes.subject, np.add.reduceat(episodes.rewards, episodes.offsets[:-1])
    lengths = episodes.lengths
    who = subject.get("policy", {}).get("name") or subject.get("log") or "not recorded"
    rows: list[tuple[str, object]] = [
        ("policy or log", who),
        ("environment", subject.get("environment", {}).get("id", "not recorded")),
        ("episodes", f"{len(episodes):,}, {len(episodes.rewards):,} steps"),
        ("length", f"{lengths.min():,} to {lengths.max():,}, mean {lengths.mean():,.1f}"),
        (
            "undiscounted return",
            f"{totals.min():.6g} to {totals.max():.6g}, mean {totals.mean():.6g}",
        ),
        ("terminated", f"{int(episodes.terminated.sum()):,}"),
    ]
    if episodes.success is not None:
        rows.append(("success", f"{int(episodes.success.sum()):,}"))
    rows.append(("features of an observation", episodes.observations.shape[1]))
    return table(rows)
