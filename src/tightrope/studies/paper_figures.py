"""The paper's figures: functions from the certificates of one agent, preset and unit."""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tightrope.studies.certificate_records import SLICE, STRATUM
from tightrope.studies.plot_style import (
    STYLE,
    add_legend,
    facets,
    label,
    log_ticks,
    looks,
    panel_label,
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

__all__ = ["FIGURES", "READINGS", "PaperFigure", "draw_figures", "figure_numbers"]  # fmt: skip

FEWEST_IN_A_BOX = 5
_ROWS = 6  # environments in one scatter: what a printed page holds


def scatter(table: pd.DataFrame) -> "Figure":
    """Test error against bound, one point per certificate; both axes on one scale.

    A row of panels shares its scale, so that schemes can be compared. r is given with the number
    of its points.
    """
    side = min(1.35, 4.7 / table["scheme"].nunique())
    figure, panels = facets(table, "environment", "scheme", size=(side, side + 0.25))
    for ax, here in panels:
        beside = table[table["environment"] == here["environment"].iloc[0]]
        low, high = beside[["bound", "test_error"]].stack().agg(["min", "max"])
        if low > 0:
            ax.set(xscale="log", yscale="log")
            ends = low / 1.5, high * 1.5
        else:
            ends = low - 0.05 * high, 1.08 * high
        ax.set(xlim=ends, ylim=ends, box_aspect=1)
        if low > 0:
            log_ticks(ax.xaxis, 3)
            log_ticks(ax.yaxis, 3)
        ax.plot(ends, ends, color="black", lw=0.6, ls=":", zorder=1, label="bound = test error")
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
        r = correlations(here, ["level"])["r"].dropna()
        points = here["level"].value_counts()
        levels = looks("level", here["level"])
        for level, look in levels.items():
            dots = here[here["level"] == level]
            ax.plot(dots["bound"], dots["test_error"], look.marker, color=look.colour, ms=3)
        panel_label(ax, [(_r(r[level], points[level]), look.colour)
                         for level, look in levels.items() if level in r.index])  # fmt: skip
    figure.supxlabel("bound", fontsize=8)
    figure.supylabel("test error", fontsize=8)
    add_legend(figure, "level", table["level"], _line(":", "bound = test error"))
    return figure


def bounds(table: pd.DataFrame) -> "Figure":
    """Mean bound of each scheme and level with its range over instances, and the test error."""
    figure, panels = facets(table, None, "environment", size=(1.9, 1.5), sharey=True)
    means = instance_means(table)
    for ax, here in panels:
        for scheme, rows, x, width in _beside(ax, instance_means(here), "level", "scheme"):
            _range(ax, x, rows, "bound", looks("scheme", table["scheme"])[scheme])
            tests = [part["test_error"].mean() for part in rows]
            ax.hlines(tests, x - 0.45 * width, x + 0.45 * width, "black", lw=1.2)
    scale_values(figure.axes, means[["bound", "test_error"]])
    figure.supylabel("bound, test error", fontsize=8)
    add_legend(figure, "scheme", table["scheme"], _line("-", "test error"))
    return figure


def tightness(table: pd.DataFrame) -> "Figure":
    """Bound - test error of the certificates: boxes from five values on, points below.

    Boxes have quartiles and whiskers of 1.5 times their distance; outliers are hidden.
    """
    figure, panels = facets(table, None, "environment", size=(1.9, 1.5), sharey=True)
    for ax, here in panels:
        for scheme, rows, x, width in _beside(ax, here, "level", "scheme"):
            look = looks("scheme", table["scheme"])[scheme]
            for place, part in zip(x, rows, strict=True):
                values = part["tightness"].to_numpy()
                if len(values) < FEWEST_IN_A_BOX:
                    ax.plot(np.full(len(values), place), values, look.marker, color=look.colour,
                            ms=3)  # fmt: skip
                    continue
                line = {"lw": 0.6}
                ax.boxplot([values], positions=[place], widths=0.8 * width, showfliers=False,
                           patch_artist=True, manage_ticks=False, whiskerprops=line, capprops=line,
                           boxprops={"facecolor": look.colour, **line},
                           medianprops={"color": "black"})  # fmt: skip
                ax.plot(place, np.median(values), look.marker, color="white", mec="black", ms=3,
                        mew=0.6, zorder=4)  # fmt: skip
    scale_values(figure.axes, table["tightness"])
    figure.supylabel("bound \N{MINUS SIGN} test error", fontsize=8)
    add_legend(figure, "scheme", table["scheme"])
    return figure


def validation_size(table: pd.DataFrame) -> "Figure":
    """Bound - test error against the number of validation episodes, mean and range."""
    figure, panels = facets(
        table, "environment", "level", size=(1.9, 1.5), sharey="row", sharex=True
    )
    for ax, here in panels:
        names = looks("scheme", table["scheme"])
        apart = 0.02 * np.ptp(table["episodes"])  # so that ranges do not cover each other
        for place, (scheme, look) in enumerate(names.items()):
            groups = instance_means(here[here["scheme"] == scheme]).groupby("episodes")
            sizes = np.array(list(groups.groups), float)
            shift = apart * (place - (len(names) - 1) / 2)
            _range(ax, sizes + shift, [part for _, part in groups], "tightness", look, joined=True)
        ax.set_xticks(sorted(table["episodes"].unique()))
        beside = table[table["environment"] == here["environment"].iloc[0]]
        scale_values([ax], instance_means(beside)["tightness"])
    figure.supxlabel("validation episodes", fontsize=8)
    figure.supylabel("bound \N{MINUS SIGN} test error", fontsize=8)
    add_legend(figure, "scheme", table["scheme"])
    return figure


def sampling(table: pd.DataFrame) -> "Figure":
    """Bound - test error with and without local reparameterisation, mean and range."""
    figure, panels = facets(table, "environment", "level", size=(1.9, 1.5), sharey=True)
    for ax, here in panels:
        for way, rows, x, _ in _beside(ax, instance_means(here), "scheme", "sampling"):
            _range(ax, x, rows, "tightness", looks("sampling", [way])[way])
        ax.tick_params(axis="x", labelrotation=20)
    scale_values(figure.axes, instance_means(table)["tightness"])
    figure.supylabel("bound \N{MINUS SIGN} test error", fontsize=8)
    add_legend(figure, "sampling", table["sampling"])
    return figure


def correlation(table: pd.DataFrame) -> "Figure":
    """Pearson's r of bound and test error by validation size and scheme, with its points."""
    schemes, sizes = in_order("scheme", table["scheme"]), sorted(table["episodes"].unique())
    size = 0.45 * len(sizes) + 0.3, 0.4 * len(schemes) + 0.25
    figure, panels = facets(table, "environment", "level", size=size, sharex=True, sharey=True)
    for ax, here in panels:
        found = correlations(here, ["scheme", "episodes"])
        r, points = (found[name].unstack().reindex(index=schemes, columns=sizes)
                     for name in ("r", "points"))  # fmt: skip
        counts = points.to_numpy(float)
        ax.imshow(r, cmap="cividis", vmin=-1, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(r.to_numpy()):
            if np.isfinite(value):
                ax.text(j, i, _r(value, float(counts[i, j]), "\n"), ha="center", va="center",
                        fontsize=7, color="white" if value < 0.2 else "black")  # fmt: skip
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


Parts = list[pd.DataFrame]


def _beside(
    ax: Any, table: pd.DataFrame, by: str, within: str
) -> Iterator[tuple[str, Parts, Any, float]]:
    """For every value of `within`: its rows in each value of `by`, their places and the width."""
    groups, members = in_order(by, table[by]), in_order(within, table[within])
    width = 0.8 / len(members)
    ax.set_xticks(range(len(groups)), [label(name) for name in groups])
    ax.set_xlim(-0.5, len(groups) - 0.5)
    ax.grid(visible=False, axis="x")
    for k, member in enumerate(members):
        parts = [table[(table[by] == name) & (table[within] == member)] for name in groups]
        there = [place for place, part in enumerate(parts) if len(part)]
        shift = (k - (len(members) - 1) / 2) * width
        yield member, [parts[place] for place in there], np.array(there) + shift, width


def _range(ax: Any, x: Any, parts: Parts, name: str, look: Any, *, joined: bool = False) -> None:
    """Means with a line from the smallest to the largest value."""
    found = np.array([(v.mean(), v.mean() - v.min(), v.max() - v.mean())
                      for v in (part[name] for part in parts)]).reshape(-1, 3)  # fmt: skip
    ax.errorbar(x, found[:, 0], found[:, 1:].T, color=look.colour, marker=look.marker, ms=3.5,
                ls="-" if joined else "none", elinewidth=0.8, capsize=1.5)  # fmt: skip


def _several(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows of policies and schemes that were certified with several values of a column."""
    keys = ["environment", "level", *({"scheme"} if column != "scheme" else ())]
    return table[table.groupby(keys)[column].transform("nunique") > 1]


def _sizes(table: pd.DataFrame) -> pd.DataFrame:
    return _several(table[table["sampling"] == "local"], "episodes")


def _samplings(table: pd.DataFrame) -> pd.DataFrame:
    both = _several(table, "sampling")
    return both[both["episodes"] == both.groupby("environment")["episodes"].transform("max")]


Draw = Callable[[pd.DataFrame], "Figure"]
FIGURES: dict[str, tuple[Draw, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "scatter": (scatter, main_comparison),
    "bounds": (bounds, main_comparison),
    "tightness": (tightness, main_comparison),
    "validation-size": (validation_size, _sizes),
    "sampling": (sampling, _samplings),
    "correlation": (correlation, _sizes),
}
READINGS = {
    "scatter": "Bound and test error of every certificate. Certificates lie below the dotted line "
    "where the bound is above the test error. Numbers: Pearson's r of each level and, in brackets, "
    "the number of its points (instances times repetitions).",
    "bounds": "Mean bound over instances, with the range over instances; the black line is the "
    "mean test error, so that what lies between is slack.",
    "tightness": "Bound minus test error of every certificate: boxes from five values on (outliers "
    "hidden), otherwise each value.",
    "validation-size": "Bound minus test error by the number of validation episodes: mean and "
    "range over instances.",
    "sampling": "Bound minus test error with local reparameterisation and with one draw of weights "
    "per pass: mean and range over instances.",
    "correlation": "Pearson's r of bound and test error by the number of validation episodes, with "
    "the number of its points in brackets.",
}


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
    if kind != "scatter" or len(names) <= _ROWS:
        if len(rows):
            yield "", rows
        return
    for place, some in enumerate(np.array_split(names, -(-len(names) // _ROWS)), start=1):
        yield f"-{place}", rows[rows["environment"].isin(some)]


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
