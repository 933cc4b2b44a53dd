"""Per scheme and level: normalised bounds, and box plots of the tightness."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.studies.figures.chart import Chart
from tightrope.studies.figures.spread import spread
from tightrope.studies.figures.style import looks, new_axes, plain, scale_axis
from tightrope.studies.slices import in_order, main
from tightrope.studies.wording import MINUS

__all__ = ["BOUNDS", "BOXES", "bounds", "bounds_numbers", "boxes", "boxes_numbers"]

_GROUP = ["preset", "unit", "agent", "environment", "level", "scheme"]
_WHISKERS = 1.5  # times the interquartile range
_NEARLY_VACUOUS = 0.5  # from here on the line at 1 is worth its room


def bounds_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Mean bound per level and scheme, with the range over instances."""
    return spread(table, _GROUP, "bound")


def bounds(table: pd.DataFrame, ax: Any = None) -> Any:
    """Normalised bound per level and scheme: mean, and range over instances."""
    ax = new_axes(ax)
    numbers = bounds_numbers(table)
    for level, place, scheme, look in _places(numbers):
        row = numbers[(numbers["level"] == level) & (numbers["scheme"] == scheme)]
        for _, each in row.iterrows():
            ax.errorbar(
                place,
                each["bound"],
                yerr=[
                    [max(each["bound"] - each["lowest_instance"], 0.0)],
                    [max(each["highest_instance"] - each["bound"], 0.0)],
                ],
                color=look.colour,
                marker=look.marker,
                ms=5,
                mec="black",
                mew=0.5,
                capsize=2.5,
                lw=1.2,
                label=plain(scheme),
            )
    scale_axis(ax.yaxis, numbers[["bound", "lowest_instance", "highest_instance"]].to_numpy())
    if numbers["highest_instance"].max() > _NEARLY_VACUOUS:
        ax.axhline(1, color="black", lw=0.8, ls=":", label="_vacuous")
    _level_ticks(ax, numbers)
    ax.set(ylabel="bound (normalised)")
    return ax


def boxes_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Quartiles and whiskers of the tightness per level and scheme; outliers are counted."""
    rows = []
    for key, part in table.groupby(_GROUP):
        values = part["tightness"].dropna().to_numpy(dtype=float)
        if not len(values):
            continue
        first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
        reach = _WHISKERS * (third - first)
        inside = values[(values >= first - reach) & (values <= third + reach)]
        rows.append(
            {
                **dict(zip(_GROUP, key, strict=True)),
                # As usual, a whisker never ends inside of the box.
                "whisker_low": min(inside.min(), first),
                "quartile_1": first,
                "median": median,
                "quartile_3": third,
                "whisker_high": max(inside.max(), third),
                "certificates": len(values),
                "outliers_hidden": len(values) - len(inside),
            }
        )
    names = ["whisker_low", "quartile_1", "median", "quartile_3", "whisker_high"]
    return pd.DataFrame(rows, columns=[*_GROUP, *names, "certificates", "outliers_hidden"])


def boxes(table: pd.DataFrame, ax: Any = None) -> Any:
    """Box plots of bound − test error per level and scheme; outliers are not shown."""
    ax = new_axes(ax)
    numbers = boxes_numbers(table)
    for level, place, scheme, look in _places(numbers):
        row = numbers[(numbers["level"] == level) & (numbers["scheme"] == scheme)]
        for _, each in row.iterrows():
            box = {
                "whislo": each["whisker_low"],
                "q1": each["quartile_1"],
                "med": each["median"],
                "q3": each["quartile_3"],
                "whishi": each["whisker_high"],
            }
            ax.bxp(
                [box],
                positions=[place],
                widths=0.8 * _width(numbers),
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": look.colour, "hatch": look.hatch, "lw": 0.7},
                medianprops={"color": "black", "lw": 1.6},
                whiskerprops={"lw": 0.8},
                capprops={"lw": 0.8},
            )
    scale_axis(ax.yaxis, numbers[["whisker_low", "whisker_high"]].to_numpy())
    _level_ticks(ax, numbers)
    ax.set(ylabel=f"bound {MINUS} test error")
    return ax


def _width(numbers: pd.DataFrame) -> float:
    return min(0.84 / int(numbers["scheme"].nunique()), 0.2)


def _places(numbers: pd.DataFrame) -> Any:
    """(level, place on the x axis, scheme, its look): schemes beside each other within a level."""
    schemes = looks("scheme", numbers["scheme"])
    middle = (len(schemes) - 1) / 2
    for index, level in enumerate(in_order("level", numbers["level"])):
        for order, (scheme, look) in enumerate(schemes.items()):
            yield level, index + (order - middle) * _width(numbers), scheme, look


def _level_ticks(ax: Any, numbers: pd.DataFrame) -> None:
    levels = in_order("level", numbers["level"])
    ax.set_xticks(range(len(levels)), [plain(level, 14) for level in levels])
    ax.set_xlim(-0.5, len(levels) - 0.5)
    for edge in range(1, len(levels)):
        ax.axvline(edge - 0.5, color="#bbbbbb", lw=0.8, label="_between levels")
    ax.grid(visible=False, axis="x")
    ax.tick_params(axis="x", length=0)


def _tested(table: pd.DataFrame) -> pd.DataFrame:
    table = main(table)
    return table[table["tightness"].notna()]


BOUNDS = Chart(
    name="bounds",
    title="Normalised bounds",
    reading="Lower is better, and 1 says nothing. A marker is the mean over policy instances of"
    " their mean over repetitions, its bar goes from the lowest instance to the highest: where bars"
    " overlap, the difference between schemes is within that between trainings.",
    select=main,
    lacking="no certificates with local sampling",
    numbers=bounds_numbers,
    panel=bounds,
    rows=None,
    columns="environment",
    legend="scheme",
    x="level of the policy (bars: lowest to highest instance)",
    y="bound (normalised)",
    size=(3.4, 2.7),
    shared=("bound", "lowest_instance", "highest_instance"),
)

BOXES = Chart(
    name="tightness",
    title=f"Tightness: bound {MINUS} test error",
    reading="Lower is tighter: the part of the bound that is the price of being sure. A box holds"
    " the middle half of the certificates, its line is their median; certificates of one policy are"
    " not independent, so the box is narrower than what another training could give.",
    select=_tested,
    lacking="no test errors of certificates with local sampling",
    numbers=boxes_numbers,
    panel=boxes,
    rows=None,
    columns="environment",
    legend="scheme",
    x="level of the policy (box: quartiles; whiskers: 1.5 IQR; outliers hidden)",
    y=f"bound {MINUS} test error (normalised)",
    size=(3.4, 2.7),
    shared=("whisker_low", "whisker_high"),
    hatched=True,
)
