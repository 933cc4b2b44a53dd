"""The HTML page of a comparison."""

from pathlib import Path
from typing import Any

import numpy as np

from tightrope.certificates.plots import PALETTE
from tightrope.comparison import Comparison
from tightrope.files import write_text
from tightrope.reports.render import figure_svg, render

__all__ = ["comparison_figure", "comparison_page", "write_comparison"]

_COLOURS = {"A": PALETTE["bound"], "B": PALETTE["test"]}


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the page to a new file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    text = comparison_page(comparison)
    write_text(path, text, new=True)


def comparison_page(comparison: Comparison) -> str:
    """The page as one string: style and figure are inside."""
    return render(
        "comparison.html.j2",
        [],
        c=comparison,
        figure=figure_svg(comparison_figure(comparison)),
        summary=str(comparison),
        title=comparison.title,
    )


def comparison_figure(comparison: Comparison) -> Any:
    """The returns of both, and the interval of every question as a share of its largest value."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, values in zip("AB", comparison.returns, strict=True):
        share = 100.0 * np.arange(1, len(values) + 1) / len(values)
        left.step(np.sort(values), share, where="post", color=_COLOURS[name], label=name)
    left.set(xlabel="return of an episode", ylabel="% of episodes with at most this return",
             title="Returns", ylim=(0, 101))  # fmt: skip
    left.legend(frameon=False, loc="lower right")
    for row, interval in enumerate(reversed(comparison.intervals)):
        low, high, effect = interval.low, interval.high, interval.effect
        scale = max(abs(low), abs(high), abs(effect)) or 1.0
        right.plot([low / scale, high / scale], [row, row], color="black", lw=1.5)
        right.plot([effect / scale], [row], "o", color="black")
    right.axvline(0.0, color=PALETTE["constant"], ls=":")
    names = [interval.name for interval in reversed(comparison.intervals)]
    right.set_yticks(range(len(names)), names)
    right.set_xticks([-1, 0, 1], ["for B", "0", "for A"])
    right.set(xlim=(-1.1, 1.1), title="Intervals, each scaled")
    return figure
