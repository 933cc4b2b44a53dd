"""A chart: which rows of a table it shows, the numbers behind it, and a grid of its panels."""

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tightrope.studies.figures.style import STYLE, looks, plain, scale_axis
from tightrope.studies.slices import in_order

__all__ = ["Chart", "grid"]

_WIDEST = 4  # panels beside each other where only one column of the table tells them apart


@dataclass(frozen=True)
class Chart:
    """One kind of figure, drawn for one agent, preset and unit at a time.

    Attributes:
        name: of its files.
        title: of the figure.
        reading: how to read it, in a sentence or two.
        select: the rows of the table that it can show.
        lacking: what the table lacks if there are none.
        numbers: from these rows to the numbers behind the figure.
        panel: from rows to axes.
        rows: column of the table that tells rows of panels apart; None for one row, wrapped.
        columns: column of the table that tells columns of panels apart.
        legend: column of the table that looks stand for; None for a chart without.
        x: name of the axis.
        y: name of the axis.
        size: of a panel in inches.
        shared: columns of `numbers` on the y axis, if all panels of a row share it.
        hatched: whether looks are areas rather than markers.
        finish: what is added to the whole figure.
    """

    name: str
    title: str
    reading: str
    select: Callable[[pd.DataFrame], pd.DataFrame]
    lacking: str
    numbers: Callable[[pd.DataFrame], pd.DataFrame]
    panel: Callable[..., Any]
    rows: str | None
    columns: str
    legend: str | None
    x: str
    y: str
    size: tuple[float, float]
    shared: tuple[str, ...] = ()
    hatched: bool = False
    finish: Callable[[Any, Any], None] | None = None


def grid(chart: Chart, table: pd.DataFrame) -> Any:
    """A figure with every panel of a chart, from the rows that :attr:`Chart.select` gives.

    Args:
        chart: what to draw.
        table: rows of one agent, preset and unit.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = in_order(chart.columns, table[chart.columns])
    down = [None] if chart.rows is None else in_order(chart.rows, table[chart.rows])
    if chart.rows is None:
        width = min(len(across), _WIDEST)
        height = -(-len(across) // width)
    else:
        width, height = len(across), len(down)
    with mpl.rc_context(STYLE):
        # The heading and the legend need some room even beside a single panel.
        size = max(width * chart.size[0] + 0.6, 4.2), height * chart.size[1] + 1.1
        figure = Figure(figsize=size, layout="constrained")
        share: Any = chart.shared and ("row" if chart.rows else "all")
        axes = figure.subplots(height, width, squeeze=False, sharey=share or "none")
        for place, ax in enumerate(axes.flat):
            column = across[place % width] if chart.rows else next(iter(across[place:]), None)
            row = down[place // width] if chart.rows else None
            _panel(chart, table, ax, row=row, column=column, corner=place)
        figure.suptitle(_heading(chart, table))
        figure.supylabel(chart.y, fontsize=9)
        if chart.legend:
            _legend(figure, chart, table)
        else:
            figure.supxlabel(_wrapped(figure, chart.x), fontsize=9)
        if chart.rows:
            _label_once(axes)
        if chart.finish:
            chart.finish(figure, axes)
    return figure


def _panel(
    chart: Chart, table: pd.DataFrame, ax: Any, *, row: str | None, column: str | None, corner: int
) -> None:
    here = table[table[chart.columns] == column] if column is not None else table[:0]
    if row is not None:
        here = here[here[chart.rows] == row]
    beside = table if chart.rows is None else table[table[chart.rows] == row]
    if len(here):
        chart.panel(here, ax=ax)
        if chart.shared:
            scale_axis(ax.yaxis, chart.numbers(beside)[list(chart.shared)].to_numpy(dtype=float))
    elif column is None:
        ax.set_axis_off()
    else:
        ax.text(0.5, 0.5, "no data", transform=ax.transAxes, ha="center", va="center")
        ax.set(xticks=[])
        if not chart.shared:  # else these are the ticks of its neighbours, too
            ax.set(yticks=[])
    ax.set(xlabel="", ylabel="")
    first_row = chart.rows is None or corner < table[chart.columns].nunique()
    pad = 6.0 if ax.get_legend() is None else 22.0
    if column is not None and first_row:
        ax.set_title(plain(column), pad=pad, fontweight="bold")
    else:
        ax.set_title("")
    if row is not None and corner % table[chart.columns].nunique() == 0:
        ax.set_ylabel(plain(row, 26), fontweight="bold")


def _heading(chart: Chart, table: pd.DataFrame) -> str:
    first = table.iloc[0]
    about = f"{plain(first['agent'])}, preset {first['preset']}, unit {first['unit']}"
    return f"{chart.title}\n{about}"


def _legend(figure: Any, chart: Chart, table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for name, look in looks(chart.legend or "", table[chart.legend]).items():
        if chart.hatched:
            area: dict[str, Any] = {
                "facecolor": look.colour,
                "edgecolor": "black",
                "hatch": look.hatch,
                "lw": 0.7,
            }
            handles.append(Patch(label=plain(name), **area))
        else:
            dot: dict[str, Any] = {
                "color": look.colour,
                "marker": look.marker,
                "mfc": look.fill,
                "mew": 1.4,
            }
            handles.append(Line2D([], [], label=plain(name), ls="", ms=6, **dot))
    rows = math.ceil(len(handles) / max(2, int(figure.get_figwidth() / 1.35)))
    # The name of the x axis is its title: matplotlib would draw the two over each other.
    figure.legend(
        handles=handles,
        title=_wrapped(figure, chart.x),
        title_fontsize=9,
        loc="outside lower center",
        ncols=math.ceil(len(handles) / rows),
        handletextpad=0.3,
        columnspacing=1.5,
    )


def _wrapped(figure: Any, text: str) -> str:
    return textwrap.fill(text, int(13 * figure.get_figwidth()))  # letters per inch


def _label_once(axes: Any) -> None:
    """Names along an axis are shown once where all panels of the row, or column, have the same."""
    for column in axes.T:
        if _same([ax.xaxis for ax in column]):
            for ax in column[:-1]:
                ax.tick_params(labelbottom=False)
    for row in axes:
        if _same([ax.yaxis for ax in row]):
            for ax in row[1:]:
                ax.tick_params(labelleft=False)


def _same(axes: list[Any]) -> bool:
    from matplotlib.ticker import FixedLocator

    if not all(isinstance(axis.get_major_locator(), FixedLocator) for axis in axes):
        return False  # numbers, each panel with its own
    return len({tuple(text.get_text() for text in axis.get_ticklabels()) for axis in axes}) == 1
