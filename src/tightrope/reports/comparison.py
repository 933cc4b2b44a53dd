"""The HTML page of a comparison."""

from pathlib import Path

import numpy as np

from tightrope.comparison import Comparison
from tightrope.files import write_text
from tightrope.reports.charts import Axis, Chart, Series, number
from tightrope.reports.render import as_json, render

__all__ = ["comparison_page", "write_comparison"]


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the page to a new file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    write_text(path, comparison_page(comparison), new=True)


def comparison_page(comparison: Comparison) -> str:
    """The page as one string: style, script and data are inside."""
    charts = [_returns(comparison)] if any(comparison.returns) else []
    return render(
        "comparison.html.j2",
        ["chart.js"],
        c=comparison,
        charts=charts,
        data=as_json({"charts": {chart.key: chart.data() for chart in charts}}),
        summary=str(comparison),
        title=comparison.title,
    )


def _returns(comparison: Comparison) -> Chart:
    """How many episodes of each return at most so much."""
    ordered = [np.sort(values) for values in comparison.returns]
    half = [number(float(np.median(values))) for values in ordered]
    return Chart(
        key="returns",
        says=f"Half of the episodes of A return at most {half[0]}, of B at most {half[1]}.",
        x=Axis.around("return of an episode", *ordered),
        y=Axis("% of episodes", 0.0, 103.0),
        series=tuple(
            Series(name, role, "steps", each, 100.0 * np.arange(1, len(each) + 1) / len(each))
            for name, role, each in zip("AB", ("predicted", "limit"), ordered, strict=True)
        ),
    )
