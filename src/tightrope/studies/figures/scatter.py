"""Bound against test error, one dot per certificate, with the correlation of each level."""

from typing import Any

import pandas as pd

from tightrope.studies.figures.chart import Chart
from tightrope.studies.figures.style import looks, new_axes, scale_axis
from tightrope.studies.metrics import pearson
from tightrope.studies.slices import main
from tightrope.studies.wording import rounded

__all__ = ["SCATTER", "scatter", "scatter_numbers"]

_GROUP = ["preset", "unit", "agent", "environment", "scheme", "level"]


def scatter_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Every dot, with the correlation of its environment, scheme and level."""
    values = {
        key: pearson(part["bound"], part["test_error"]) for key, part in table.groupby(_GROUP)
    }
    dots = table[[*_GROUP, "instance", "repetition", "bound", "test_error"]]
    keys = dots[_GROUP].itertuples(index=False, name=None)
    return dots.assign(correlation=[values[key] for key in keys])


def scatter(table: pd.DataFrame, ax: Any = None) -> Any:
    """Bound against test error; looks are levels, r is their correlation.

    Dots left of the dotted diagonal would be certificates whose bound lies below the test error.
    """
    ax = new_axes(ax)
    numbers = scatter_numbers(table)
    for level, look in looks("level", numbers["level"]).items():
        dots = numbers[numbers["level"] == level]
        label = f"r {rounded(dots['correlation'].iloc[0], '.2f')}"
        ax.plot(
            dots["bound"],
            dots["test_error"],
            ls="",
            marker=look.marker,
            color=look.colour,
            mec="white",
            mew=0.4,
            ms=5,
            label=label,
        )
    scale_axis(ax.xaxis, numbers["bound"])
    scale_axis(ax.yaxis, numbers["test_error"])
    ax.margins(0.08)
    _diagonal(ax)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(-0.06, 0.98),
        ncols=3,
        fontsize=8,
        columnspacing=0.6,
        handletextpad=0.0,
        handlelength=1.4,
        borderpad=0.1,
    )
    ax.tick_params(axis="x", labelrotation=0)
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=4)
    if ax.get_yscale() == "linear":
        ax.locator_params(axis="y", nbins=5)
    ax.set(xlabel="bound", ylabel="test error")
    return ax


def _diagonal(ax: Any) -> None:
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    ends = [min(left, bottom), max(right, top)]
    ax.plot(ends, ends, color="black", lw=0.8, ls=":", label="_bound = test error", zorder=1)
    ax.set(xlim=(left, right), ylim=(bottom, top))


def _select(table: pd.DataFrame) -> pd.DataFrame:
    table = main(table)
    return table[~table["void"] & table["test_error"].notna()]


SCATTER = Chart(
    name="scatter",
    title="Bound and test error of every certificate",
    reading="One dot per certificate. A bound is useful for choosing among policies where dots rise"
    " from left to right (r near 1), and tight where they lie close to the dotted line; a dot above"
    " that line has a test error larger than its bound.",
    select=_select,
    lacking="no test errors of certificates with local sampling",
    numbers=scatter_numbers,
    panel=scatter,
    rows="environment",
    columns="scheme",
    legend="level",
    x="bound (normalised); r is Pearson's correlation over instances and repetitions",
    y="test error (normalised)",
    size=(2.3, 2.2),
)
