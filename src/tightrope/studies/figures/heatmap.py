"""Correlation of bound and test error over validation size and scheme."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.studies.figures.chart import Chart
from tightrope.studies.figures.style import new_axes, plain
from tightrope.studies.metrics import pearson
from tightrope.studies.slices import in_order, validation_sizes
from tightrope.studies.wording import rounded

__all__ = ["HEATMAP", "heatmap", "heatmap_numbers"]

_GROUP = ["preset", "unit", "agent", "environment", "level", "scheme", "episodes"]
_DARK = 0.65  # cells of a stronger correlation have white numbers


def heatmap_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The correlation of every scheme and number of validation episodes; empty if undefined."""
    rows = [
        {
            **dict(zip(_GROUP, key, strict=True)),
            "correlation": pearson(part["bound"], part["test_error"]),
            "instances": part["instance"].nunique(),
            "certificates": len(part),
        }
        for key, part in table.groupby(_GROUP)
    ]
    return pd.DataFrame(rows, columns=[*_GROUP, "correlation", "instances", "certificates"])


def heatmap(table: pd.DataFrame, ax: Any = None) -> Any:
    """Pearson's correlation in a cell per scheme and number of episodes; hatched if undefined."""
    from matplotlib.patches import Rectangle

    ax = new_axes(ax)
    numbers = heatmap_numbers(table)
    schemes = in_order("scheme", numbers["scheme"])
    wide = numbers.pivot_table(
        index="scheme", columns="episodes", values="correlation", dropna=False
    ).reindex(index=schemes, columns=sorted(set(numbers["episodes"])))
    values = wide.to_numpy(dtype=float)  # (schemes, sizes)
    ax.imshow(values, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            corner = (column - 0.5, row - 0.5)
            ax.add_patch(Rectangle(corner, 1, 1, fc="#eeeeee", ec="#999999", hatch="///", lw=0))
        text = rounded(value, ".2f")
        dark = abs(value) > _DARK
        ax.text(column, row, text, ha="center", va="center", color="white" if dark else "black")
    ax.set_xticks(range(values.shape[1]), [str(size) for size in wide.columns])
    ax.set_yticks(range(len(schemes)), [plain(scheme, 16) for scheme in schemes])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="validation episodes")
    return ax


def _select(table: pd.DataFrame) -> pd.DataFrame:
    table = validation_sizes(table)
    return table[~table["void"] & table["test_error"].notna()]


def _colour_bar(figure: Any, axes: Any) -> None:
    images = [image for ax in axes.flat for image in ax.get_images()]
    bar = figure.colorbar(images[0], ax=axes, fraction=0.04, pad=0.02, label="Pearson's r")
    bar.set_ticks([-1, -0.5, 0, 0.5, 1])
    bar.outline.set_visible(False)


HEATMAP = Chart(
    name="correlation",
    title="Correlation of bound and test error",
    reading="Each cell is Pearson's r over instances and repetitions: near 1 a lower bound goes"
    " with a lower test error, near 0 it says nothing about which policy is better predicted. With"
    " three to five instances r is itself uncertain; hatched cells have none.",
    select=_select,
    lacking="no environment with test errors and several numbers of validation episodes",
    numbers=heatmap_numbers,
    panel=heatmap,
    rows="environment",
    columns="level",
    legend=None,
    x="validation episodes",
    y="",
    size=(2.9, 2.3),
    finish=_colour_bar,
)
