"""The paper's figures: functions from the certificates of one agent, preset and unit.

Their docstrings are what a reader of the study's page is told about them.
"""

import inspect
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from tightrope.studies.certificate_records import SLICE, STRATUM
from tightrope.studies.plot_style import (
    STYLE,
    Look,
    add_legend,
    facets,
    label,
    log_ticks,
    looks,
    scale_values,
)
from tightrope.studies.summary_statistics import (
    correlations,
    in_order,
    instance_means,
    main_comparison,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "READINGS", "PaperFigure", "draw_figures", "figure_numbers"]

FEWEST_IN_A_BOX = 5
_ROWS = 6  # environments in one scatter: what a printed page holds
_TIGHTNESS = "bound \N{MINUS SIGN} test error"
Parts = list[pd.DataFrame]


def scatter(table: pd.DataFrame) -> "Figure":
    """Bound and test error of every certificate.

    Certificates lie below the dotted line where the bound is above the test error. Numbers:
    Pearson's r of each level and, in brackets, the number of its points (instances times
    repetitions).
    """
    side = min(1.35, 4.7 / table["scheme"].nunique())
    figure, panels = facets(table, "environment", "scheme", size=(side, side + 0.25))
    for ax, here in panels:
        # A row of panels shares its scale, so that schemes can be compared.
        beside = table[table["environment"] == here["environment"].iloc[0]]
        low, high = beside[["bound", "test_error"]].stack().agg(["min", "max"])
        ends = (low / 1.5, high * 1.5) if low > 0 else (low - 0.05 * high, 1.08 * high)
        scale = "log" if low > 0 else "linear"
        ax.set(xscale=scale, yscale=scale, xlim=ends, ylim=ends, box_aspect=1)
        if low > 0:
            log_ticks(ax.xaxis, 3)
            log_ticks(ax.yaxis, 3)
        ax.plot(ends, ends, color="black", lw=0.6, ls=":", zorder=1, label="bound = test error")
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
        found = correlations(here, ["level"])["r"].dropna()
        place = -1
        for level, look in looks("level", here["level"]).items():
            dots = here[here["level"] == level]
            ax.plot(dots["bound"], dots["test_error"], look.marker, color=look.colour, ms=3)
            if level in found.index:
                ax.annotate(_r(found[level], len(dots)), (0, 1), (2, place), va="top", fontsize=7,
                            xycoords="axes fraction", textcoords="offset points",
                            color=look.colour)  # fmt: skip
                place -= 8
    figure.supxlabel("bound", fontsize=8)
    figure.supylabel("test error", fontsize=8)
    add_legend(figure, "level", table["level"], _line(":", "bound = test error"))
    return figure


def bounds(table: pd.DataFrame) -> "Figure":
    """Mean bound over instances, with the range over instances.

    The black line is the mean test error, so that what lies between is slack.
    """

    def draw(ax: Any, x: Any, parts: Parts, look: Look, width: float) -> None:
        _range(ax, x, parts, "bound", look)
        tests = [part["test_error"].mean() for part in parts]
        ax.hlines(tests, x - 0.45 * width, x + 0.45 * width, "black", lw=1.2)

    means = instance_means(table)
    figure = _side_by_side(means, (None, "environment"), ("level", "scheme"), draw,
                           _line("-", "test error"))  # fmt: skip
    scale_values(figure.axes, means[["bound", "test_error"]])
    figure.supylabel("bound, test error", fontsize=8)
    return figure


def tightness(table: pd.DataFrame) -> "Figure":
    """Bound minus test error of every certificate.

    Boxes from five values on (with quartiles, and whiskers of 1.5 times their distance; outliers
    are hidden), otherwise each value.
    """

    def draw(ax: Any, x: Any, parts: Parts, look: Look, width: float) -> None:
        for place, part in zip(x, parts, strict=True):
            values = part["tightness"].to_numpy()
            if len(values) < FEWEST_IN_A_BOX:
                ax.plot(np.full(len(values), place), values, look.marker, color=look.colour, ms=3)
                continue
            line = {"lw": 0.6}
            ax.boxplot([values], positions=[place], widths=0.8 * width, showfliers=False,
                       patch_artist=True, manage_ticks=False, whiskerprops=line, capprops=line,
                       boxprops={"facecolor": look.colour, **line},
                       medianprops={"color": "black"})  # fmt: skip
            ax.plot(place, np.median(values), look.marker, color="white", mec="black", ms=3,
                    mew=0.6, zorder=4)  # fmt: skip

    figure = _side_by_side(table, (None, "environment"), ("level", "scheme"), draw)
    scale_values(figure.axes, table["tightness"])
    return figure


def validation_size(table: pd.DataFrame) -> "Figure":
    """Bound minus test error by the number of validation episodes.

    Mean and range over instances.
    """
    means, names = instance_means(table), looks("scheme", table["scheme"])
    apart = 0.02 * np.ptp(table["episodes"])  # so that ranges do not cover each other
    figure, panels = facets(
        means, "environment", "level", size=(1.9, 1.5), sharey="row", sharex=True
    )
    for ax, here in panels:
        for place, (scheme, look) in enumerate(names.items()):
            groups = dict(list(here[here["scheme"] == scheme].groupby("episodes")))
            x = np.array(list(groups), float) + apart * (place - (len(names) - 1) / 2)
            _range(ax, x, list(groups.values()), "tightness", look, joined=True)
        ax.set_xticks(sorted(table["episodes"].unique()))
        beside = means[means["environment"] == here["environment"].iloc[0]]
        scale_values([ax], beside["tightness"])
    figure.supxlabel("validation episodes", fontsize=8)
    figure.supylabel(_TIGHTNESS, fontsize=8)
    add_legend(figure, "scheme", table["scheme"])
    return figure


def sampling(table: pd.DataFrame) -> "Figure":
    """Bound minus test error with local reparameterisation and without.

    Without, one draw of weights serves a whole pass. Mean and range over instances.
    """

    def draw(ax: Any, x: Any, parts: Parts, look: Look, width: float) -> None:
        _range(ax, x, parts, "tightness", look)
        ax.tick_params(axis="x", labelrotation=20)

    means = instance_means(table)
    figure = _side_by_side(means, ("environment", "level"), ("scheme", "sampling"), draw)
    scale_values(figure.axes, means["tightness"])
    return figure


def correlation(table: pd.DataFrame) -> "Figure":
    """Pearson's r of bound and test error by the number of validation episodes.

    With the number of its points in brackets.
    """
    schemes, sizes = in_order("scheme", table["scheme"]), sorted(table["episodes"].unique())
    size = 0.45 * len(sizes) + 0.3, 0.4 * len(schemes) + 0.25
    figure, panels = facets(table, "environment", "level", size=size, sharex=True, sharey=True)
    for ax, here in panels:
        found = correlations(here, ["scheme", "episodes"])
        places = found["r"].unstack().reindex(index=schemes, columns=sizes)
        ax.imshow(places, cmap="cividis", vmin=-1, vmax=1, aspect="auto")
        for key, each in found.dropna().iterrows():
            scheme, count = cast(tuple[str, int], key)
            ax.text(sizes.index(count), schemes.index(scheme), _r(each["r"], each["points"], "\n"),
                    ha="center", va="center", fontsize=7,
                    color="white" if each["r"] < 0.2 else "black")  # fmt: skip
        ax.set_xticks(range(len(sizes)), sizes)
        ax.set_yticks(range(len(schemes)), map(label, schemes))
        ax.grid(visible=False)
    figure.supxlabel("validation episodes", fontsize=8)
    return figure


def _r(value: float, points: float, between: str = " ") -> str:
    return f"{value:.2f}{between}({points:.0f})".replace("-", "\N{MINUS SIGN}")


def _line(style: str, name: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color="black", lw=1.0, ls=style, label=name)


def _side_by_side(
    table: pd.DataFrame,
    rows_and_columns: tuple[str | None, str],
    names: tuple[str, str],
    draw: Callable[..., None],
    *more: Any,
) -> "Figure":
    """Panels with a group for each name of one column, and in it each of another side by side.

    `draw` gets the panel, places, the rows at each of them, a look and the width of one.
    """
    by, within = names
    groups, members = in_order(by, table[by]), looks(within, table[within])
    width = 0.8 / len(members)
    figure, panels = facets(table, *rows_and_columns, size=(1.9, 1.5), sharey=True)
    for ax, here in panels:
        there = [name for name in groups if name in set(here[by])]
        ax.set_xticks(range(len(there)), [label(name) for name in there])
        ax.set_xlim(-0.5, len(there) - 0.5)
        ax.grid(visible=False, axis="x")
        for k, (member, look) in enumerate(members.items()):
            own = {str(key): rows for key, rows in here[here[within] == member].groupby(by)}
            x = [there.index(name) + (k - (len(members) - 1) / 2) * width for name in own]
            draw(ax, np.array(x), list(own.values()), look, width)
    figure.supylabel(_TIGHTNESS, fontsize=8)
    add_legend(figure, within, table[within], *more)
    return figure


def _range(ax: Any, x: Any, parts: Parts, name: str, look: Look, *, joined: bool = False) -> None:
    """Means with a line from the smallest to the largest value."""
    found = np.array([part[name].agg(["mean", "min", "max"]) for part in parts]).reshape(-1, 3)
    mean, low, high = found.T
    ax.errorbar(x, mean, [mean - low, high - mean], color=look.colour, marker=look.marker, ms=3.5,
                ls="-" if joined else "none", elinewidth=0.8, capsize=1.5)  # fmt: skip


def _several(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows of policies and schemes that were certified with several values of a column."""
    groups = table.groupby(["environment", "level", "scheme"])
    return table[groups[column].transform("nunique") > 1]


def _sizes(table: pd.DataFrame) -> pd.DataFrame:
    return _several(table[table["sampling"] == "local"], "episodes")


def _samplings(table: pd.DataFrame) -> pd.DataFrame:
    both = _several(table, "sampling")
    return both[both["episodes"] == both.groupby("environment")["episodes"].transform("max")]


# How each kind is drawn, and from which certificates.
FIGURES: dict[str, tuple[Callable[[pd.DataFrame], "Figure"], Callable[..., pd.DataFrame]]] = {
    "scatter": (scatter, main_comparison),
    "bounds": (bounds, main_comparison),
    "tightness": (tightness, main_comparison),
    "validation-size": (validation_size, _sizes),
    "sampling": (sampling, _samplings),
    "correlation": (correlation, _sizes),
}
READINGS = {kind: " ".join(str(inspect.getdoc(f)).split()) for kind, (f, _) in FIGURES.items()}


@dataclass(frozen=True)
class PaperFigure:
    """A figure, and the certificates in it."""

    kind: str
    about: str
    rows: pd.DataFrame
    figure: "Figure"


def draw_figures(table: pd.DataFrame) -> dict[str, PaperFigure]:
    """Every figure that the table has data for, by name: kind, agent, preset and unit."""
    import matplotlib as mpl

    found = {}
    sound = table[~table["void"] & table["test_error"].notna()]
    with mpl.rc_context(STYLE):
        for kind, (draw, select) in FIGURES.items():
            for key, part in sound.groupby(["agent", *SLICE], sort=True):
                agent, preset, unit = map(str, key)
                name = f"{kind}-{_file_name(agent)}-{preset}-{unit}"
                about = f"{label(agent)}, preset {preset}, unit {unit}"
                for number, rows in _sheets(kind, select(part)):
                    found[name + number] = PaperFigure(kind, about, rows, draw(rows))
    return found


def _sheets(kind: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each figure: scatters of many environments are divided evenly."""
    names = in_order("environment", rows["environment"])
    sheets = -(-len(names) // _ROWS) if kind == "scatter" else min(len(names), 1)
    for place in range(sheets):
        some = np.array_split(names, sheets)[place]
        yield f"-{place + 1}" if sheets > 1 else "", rows[rows["environment"].isin(some)]


def _file_name(name: str) -> str:
    """A name as part of a file's: letters, digits and hyphens; digits of it where it is not."""
    plain = re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[:40]
    return plain if plain == name else f"{plain}-{zlib.crc32(name.encode()):08x}"


def figure_numbers(figures: Mapping[str, PaperFigure]) -> pd.DataFrame:
    """The numbers behind figures: a row for each certificate in each."""
    columns = [*STRATUM, "instance", "level", "scheme", *SLICE, "sampling", "episodes",
               "repetition", "bound", "test_error", "tightness"]  # fmt: skip
    parts = [each.rows[columns].assign(figure=name) for name, each in figures.items()]
    found = pd.concat(parts) if parts else pd.DataFrame(columns=[*columns, "figure"])
    return found[["figure", *columns]]
