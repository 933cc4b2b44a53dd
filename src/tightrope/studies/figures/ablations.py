"""Tightness against the number of validation episodes, and with either way of sampling."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.studies.columns import SLICE
from tightrope.studies.figures.chart import Chart
from tightrope.studies.figures.spread import spread
from tightrope.studies.figures.style import looks, new_axes, plain, scale_axis
from tightrope.studies.slices import in_order, validation_sizes
from tightrope.studies.wording import MINUS

__all__ = [
    "SAMPLING",
    "VALIDATION_SIZE",
    "sampling",
    "sampling_numbers",
    "validation_size",
    "validation_size_numbers",
]

_GROUP = ["preset", "unit", "agent", "environment", "level", "scheme"]
_ENDS = ("tightness", "lowest_instance", "highest_instance")


def validation_size_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Mean tightness per scheme and number of validation episodes."""
    return spread(table, [*_GROUP, "episodes"], "tightness")


def validation_size(table: pd.DataFrame, ax: Any = None) -> Any:
    """Tightness against the number of validation episodes, a line per scheme."""
    ax = new_axes(ax)
    numbers = validation_size_numbers(table)
    schemes = looks("scheme", numbers["scheme"])
    for order, (scheme, look) in enumerate(schemes.items()):
        rows = numbers[numbers["scheme"] == scheme]
        aside = 1.02 ** (order - (len(schemes) - 1) / 2)  # so that ranges stay apart
        ax.errorbar(
            rows["episodes"] * aside,
            rows["tightness"],
            yerr=_reach(rows),
            color=look.colour,
            marker=look.marker,
            ls=look.line,
            ms=5,
            lw=1.3,
            elinewidth=0.9,
            capsize=2,
            label=plain(scheme),
        )
    sizes = sorted(set(numbers["episodes"]))
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.set_xticks([], minor=True)
    ax.margins(x=0.1)
    scale_axis(ax.yaxis, numbers[list(_ENDS)].to_numpy())
    ax.set(xlabel="validation episodes", ylabel=f"bound {MINUS} test error")
    return ax


def sampling_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Mean tightness per scheme with local sampling and with that of weights."""
    return spread(table, [*_GROUP, "sampling", "episodes"], "tightness")


def sampling(table: pd.DataFrame, ax: Any = None) -> Any:
    """Tightness of every scheme with local sampling, and with that of weights."""
    ax = new_axes(ax)
    numbers = sampling_numbers(table)
    schemes = in_order("scheme", numbers["scheme"])
    places = numbers["scheme"].map(schemes.index)
    ways = looks("sampling", numbers["sampling"])
    for order, (way, look) in enumerate(ways.items()):
        rows = numbers[numbers["sampling"] == way]
        ax.errorbar(
            places[rows.index] + 0.24 * (order - (len(ways) - 1) / 2),
            rows["tightness"],
            yerr=_reach(rows),
            color=look.colour,
            marker=look.marker,
            mfc=look.fill,
            mew=1.4,
            ls="",
            ms=5.5,
            lw=1.2,
            capsize=2.5,
            label=plain(way),
        )
    scale_axis(ax.yaxis, numbers[list(_ENDS)].to_numpy())
    names = [plain(scheme, 16) for scheme in schemes]
    ax.set_xticks(range(len(schemes)), names, rotation=35, ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.6, len(schemes) - 0.4)
    ax.grid(visible=False, axis="x")
    ax.set(ylabel=f"bound {MINUS} test error")
    return ax


def _reach(rows: pd.DataFrame) -> Any:
    """(2, points) from the mean down to the lowest instance, and up to the highest."""
    down = rows["tightness"] - rows["lowest_instance"]
    up = rows["highest_instance"] - rows["tightness"]
    return np.clip([down, up], 0.0, None)


def _sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of levels that were certified with several numbers of validation episodes."""
    table = validation_sizes(table)
    table = table[table["tightness"].notna()]
    level = [*SLICE, "agent", "environment", "level"]
    return table[table.groupby(level)["episodes"].transform("nunique") > 1]


def _both_ways(table: pd.DataFrame) -> pd.DataFrame:
    """Rows at the largest number of episodes that were certified both ways."""
    table = table[table["tightness"].notna()]
    cell = [*_GROUP, "episodes"]
    table = table[table.groupby(cell)["sampling"].transform("nunique") > 1]
    largest = table.groupby([*SLICE, "agent", "environment"])["episodes"].transform("max")
    return table[table["episodes"] == largest]


VALIDATION_SIZE = Chart(
    name="validation-size",
    title="Tightness and the number of validation episodes",
    reading="A line that falls to the right: more episodes buy a tighter bound. Compare the fall"
    " with the bars, which go from the lowest policy instance to the highest.",
    select=_sizes,
    lacking="no environment with test errors and several numbers of validation episodes",
    numbers=validation_size_numbers,
    panel=validation_size,
    rows="environment",
    columns="level",
    legend="scheme",
    x="validation episodes (bars: lowest to highest instance)",
    y=f"bound {MINUS} test error (normalised)",
    size=(2.9, 2.3),
    shared=_ENDS,
)

SAMPLING = Chart(
    name="sampling",
    title="Effect of local reparameterisation on the tightness",
    reading="Two markers per scheme, for the same policies and episodes: where the filled one"
    " (local) is lower than the open one (weights), drawing predictors anew for every step pays.",
    select=_both_ways,
    lacking="no scheme with test errors and both ways of sampling",
    numbers=sampling_numbers,
    panel=sampling,
    rows="environment",
    columns="level",
    legend="sampling",
    x="scheme (bars: lowest to highest instance)",
    y=f"bound {MINUS} test error (normalised)",
    size=(2.7, 2.5),
    shared=_ENDS,
)
