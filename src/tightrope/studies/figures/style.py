"""How figures of studies look: one colour-blind-safe palette by name, and no colour alone."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightrope.studies.slices import in_order
from tightrope.studies.wording import one_line

__all__ = ["STYLE", "Look", "looks", "new_axes", "plain", "scale_axis"]

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "tightrope",  # the same file for the same numbers
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@dataclass(frozen=True)
class Look:
    """How one name looks in every figure: in colour, and by shape without."""

    colour: str
    marker: str
    hatch: str
    line: Any
    filled: bool = True

    @property
    def fill(self) -> str:
        """Colour inside of the marker."""
        return self.colour if self.filled else "white"


# Okabe and Ito's colours, without their yellow, which is too pale for lines.
_KNOWN = {
    "starter": Look("#E69F00", "o", "", "-"),
    "intermediate": Look("#009E73", "^", "////", "--"),
    "expert": Look("#0072B2", "s", "xxxx", ":"),
    "nonrec-noninf": Look("#999999", "o", "", "-"),
    "nonrec-inf": Look("#E69F00", "s", "////", "--"),
    "rec-2": Look("#56B4E9", "^", "....", "-."),
    "rec-6": Look("#0072B2", "D", "xxxx", ":"),
    "holdout": Look("#009E73", "v", "\\\\\\\\", (0, (5, 1))),
    "auto": Look("#D55E00", "P", "++++", (0, (1, 1))),
    "local": Look("#0072B2", "o", "", "-"),
    "weights": Look("#D55E00", "s", "////", "--", filled=False),
}
_SPARE = (
    Look("#CC79A7", "X", "ooo", "-"),
    Look("#000000", "<", "----", "--"),
    Look("#8B5A2B", ">", "||||", "-."),
    Look("#6A3D9A", "*", "OO", ":"),
    Look("#666666", "h", "**", "-"),
)


_DECADES = 0.7  # a factor of five: from here on a logarithmic axis reads better


def looks(column: str, names: Iterable[str]) -> dict[str, Look]:
    """A look for every name of a column, in the order of legends.

    Known names look the same in every figure; others share the spare looks in order.
    """
    names = in_order(column, names)
    others = [name for name in names if name not in _KNOWN]
    spare = {name: _SPARE[place % len(_SPARE)] for place, name in enumerate(others)}
    return {name: _KNOWN.get(name) or spare[name] for name in names}


def plain(name: str, width: int = 32) -> str:
    r"""A name as matplotlib shows it literally: no formula, one line, shortened in the middle.

    >>> plain("a$b$"), plain("_x"), plain("dm_control/ball_in_cup-catch-v0", 20)
    ('a\\$b\\$', ' _x', 'dm_control…-catch-v0')
    """
    name = one_line(name)
    if len(name) > width:
        name = f"{name[: width // 2]}…{name[len(name) - (width - width // 2 - 1) :]}"
    hidden = name.startswith("_")  # legends leave such names out
    return (" " if hidden else "") + name.replace("$", r"\$")


def new_axes(ax: Any) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=(4.5, 3.5), layout="constrained").subplots()


def scale_axis(axis: Any, values: ArrayLike) -> None:
    """A logarithmic axis if the values span a factor of five, above 0; else a linear one.

    Values on both sides of 0 over several decades get a scale that is linear around 0.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, SymmetricalLogLocator

    ax = axis.axes
    set_scale = ax.set_yscale if axis is ax.yaxis else ax.set_xscale
    values = np.asarray(values, float)
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    decades = math.log10(sizes.max() / sizes.min()) if len(sizes) else 0.0
    formatter = FuncFormatter(lambda value, _: f"{value:g}")
    if decades >= _DECADES and not np.any(values <= 0):
        set_scale("log")
        steps = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades < 1.5 else (1.0, 3.0)
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(formatter)
        axis.set_minor_formatter(NullFormatter())
    elif decades >= 2:
        width = 10.0 ** math.floor(math.log10(np.quantile(sizes, 0.1)))
        set_scale("symlog", linthresh=width)
        axis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=width))
        axis.set_major_formatter(formatter)
    else:
        set_scale("linear")
