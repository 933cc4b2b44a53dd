"""How figures of studies look: sizes in print, colours and markers by name, panels, legends."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tightrope.errors import printable
from tightrope.studies.summary_statistics import in_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLE", "WIDTH", "Look", "add_legend", "facets", "label", "log_ticks", "looks",
           "scale_values"]  # fmt: skip

WIDTH = 5.5  # inches: a paper's column of text; no figure is wider, so that type keeps its size
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("axes.axisbelow", "axes.grid"), True),
    **dict.fromkeys(("axes.spines.right", "axes.spines.top", "legend.frameon"), False),
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 7),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.0,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "tightrope",  # the same file for the same numbers
}


class Look(NamedTuple):
    """How one name looks in every figure: in colour, and by its marker without."""

    colour: str
    marker: str


# Okabe and Ito's colours, without their yellow, which is too pale for lines.
_KNOWN = {
    "starter": Look("#E69F00", "o"),
    "intermediate": Look("#009E73", "^"),
    "expert": Look("#0072B2", "s"),
    "nonrec-noninf": Look("#777777", "o"),
    "nonrec-inf": Look("#E69F00", "s"),
    "rec-2": Look("#56B4E9", "^"),
    "rec-6": Look("#0072B2", "D"),
    "holdout": Look("#009E73", "v"),
    "auto": Look("#D55E00", "P"),
    "local": Look("#0072B2", "o"),
    "weights": Look("#D55E00", "s"),
}
_SPARE = (Look("#CC79A7", "X"), Look("#000000", "<"), Look("#8B5A2B", ">"), Look("#6A3D9A", "*"))
_NAMES = {
    "redq": "REDQ",
    "sac": "SAC",
    "ppo": "PPO",
    "nonrec-noninf": "NonRec-NonInf",
    "nonrec-inf": "NonRec-Inf",
    "holdout": "Hold-out",
    "auto": "Auto",
    "local": "local reparameterisation",
    "weights": "one draw of weights per pass",
}


def looks(column: str, names: Iterable[str]) -> dict[str, Look]:
    """A look for every name of a column, in the order of legends; known names keep theirs."""
    names = in_order(column, names)
    others = [name for name in names if name not in _KNOWN]
    return {n: _KNOWN.get(n) or _SPARE[others.index(n) % len(_SPARE)] for n in names}


def label(name: str, width: int = 22) -> str:
    r"""A name as the paper writes it, or as matplotlib shows it literally, on one line.

    >>> label("rec-6"), label("redq"), label("a$b$"), label("dm_control/ball_in_cup-catch-v0")
    ('Rec T=6', 'REDQ', 'a\\$b\\$', 'ball_in_cup-catch-v0')
    """
    if name.startswith("rec-") and name[4:].isdecimal():
        return f"Rec T={name[4:]}"
    shown = _NAMES.get(name) or printable(name).removeprefix("dm_control/")
    if name not in _NAMES and len(shown) > width:
        shown = f"{shown[: width - 1]}…"
    return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")


def facets(
    table: pd.DataFrame, row: str | None, column: str, *, size: tuple[float, float], **share: Any
) -> "tuple[Figure, Iterator[tuple[Any, pd.DataFrame]]]":
    """A figure with a panel for every value of two columns, and each panel with its rows.

    Without `row` the panels of one column are wrapped, three beside each other.

    Args:
        table: what to draw.
        row: column of the table that tells rows of panels apart.
        column: the same for columns of panels.
        size: of a panel, in inches; panels are narrower where the page is.
        share: options of `Figure.subplots`.
    """
    from matplotlib.figure import Figure

    across = in_order(column, table[column])
    down = in_order(row, table[row]) if row else [""] * -(-len(across) // 3)
    width = len(across) if row else min(len(across), 3)
    whole = min(WIDTH, size[0] * width + 0.8), size[1] * len(down) + 0.8
    figure = Figure(figsize=whole, layout="constrained")
    axes = figure.subplots(len(down), width, squeeze=False, **share)

    def panels() -> Iterator[tuple[Any, pd.DataFrame]]:
        for (i, j), ax in np.ndenumerate(axes):
            place = j if row else i * width + j
            if place >= len(across):
                ax.set_axis_off()
                continue
            here = table[table[column] == across[place]]
            if row:
                here = here[here[row] == down[i]]
            if i == 0 or not row:
                ax.set_title(label(across[place], 26))
            if row and j == 0:
                ax.set_ylabel(label(down[i], int(17 * size[1])), fontsize=7)
            if len(here):
                yield ax, here
            else:
                ax.text(0.5, 0.5, "\N{EN DASH}", transform=ax.transAxes, ha="center")

    return figure, panels()


def add_legend(figure: "Figure", column: str, names: Iterable[str], *more: Any) -> None:
    """The names of a column above the panels, in as many rows as they need."""
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        Line2D([], [], ls="", color=look.colour, marker=look.marker, label=label(name, 30))
        for name, look in looks(column, names).items()
    ]
    handles += more
    longest = max(len(str(handle.get_label())) for handle in handles) + 6
    columns = max(int(15 * figure.get_figwidth() / longest), 1)  # letters per inch at 8 pt
    figure.legend(handles=handles, loc="outside upper center", handletextpad=0.4,
                  ncols=min(columns, len(handles)), columnspacing=1.0, borderpad=0.1)  # fmt: skip


def scale_values(axes: Iterable[Any], values: ArrayLike) -> None:
    """The y axes that share these values: from 0, or logarithmic where they span decades."""
    found = np.asarray(values, float)
    low, high = float(np.nanmin(found)), float(np.nanmax(found))
    for ax in axes:
        if low > 0 and high > 20 * low:
            ax.set(yscale="log", ylim=(low / 1.4, high * 1.4))
            log_ticks(ax.yaxis, 6)
        else:
            ax.set_ylim(min(0.0, 1.1 * low), 1.08 * max(high, 0.0) or 1.0)


def log_ticks(axis: Any, most: int) -> None:
    """Round numbers along a logarithmic axis: 1, 2, 5 in few decades, powers of ten in many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = float(np.ptp(np.log10(axis.get_view_interval())))
    steps = (1.0, 2.0, 5.0)[: 3 if 3 * decades <= most else 1]
    axis.set_major_locator(LogLocator(subs=steps, numticks=most))
    if decades <= 3:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
