"""Writing every figure that a table has data for, with the numbers behind each beside it."""

import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from tightrope.files import replace_atomically
from tightrope.studies.columns import SLICE
from tightrope.studies.figures.ablations import SAMPLING, VALIDATION_SIZE
from tightrope.studies.figures.chart import Chart, grid
from tightrope.studies.figures.heatmap import HEATMAP
from tightrope.studies.figures.levels import BOUNDS, BOXES
from tightrope.studies.figures.scatter import SCATTER
from tightrope.studies.figures.style import STYLE
from tightrope.studies.slices import ordered

__all__ = [
    "CHARTS",
    "FigureFiles",
    "LeftOut",
    "Shown",
    "file_names",
    "shown_figures",
    "write_figures",
]

CHARTS = (SCATTER, BOUNDS, BOXES, VALIDATION_SIZE, SAMPLING, HEATMAP)

# No dates, and no names of tools: the same table gives the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_DOTS_PER_INCH = 160


@dataclass(frozen=True)
class LeftOut:
    """A figure that could not be drawn, and what the table lacks for it."""

    figure: str
    reason: str


@dataclass(frozen=True)
class Shown:
    """A figure of a table, before it is drawn.

    Attributes:
        chart: what it is.
        preset: of its certificates.
        unit: of its certificates.
        agent: of its policies.
        name: of its files, without an ending.
        rows: of the table that it shows; none if there is no data for it.
    """

    chart: Chart
    preset: str
    unit: str
    agent: str
    name: str
    rows: pd.DataFrame


@dataclass(frozen=True)
class FigureFiles:
    """What was written.

    Attributes:
        files: their paths.
        left_out: figures that the table has no data for.
    """

    files: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]


def write_figures(table: pd.DataFrame, folder: Path) -> FigureFiles:
    """Draw every chart for each agent, preset and unit, as SVG, PDF and PNG, with a CSV.

    The CSV has exactly the numbers that are drawn. Files of the same name are replaced, others in
    the folder are left alone.

    Raises:
        InputError: it is no table of a study, or the folder cannot be written to.
    """
    files: list[Path] = []
    left_out: list[LeftOut] = []
    for shown in shown_figures(table):
        if len(shown.rows):
            files += _write(shown.chart, shown.rows, folder / shown.name)
        else:
            left_out.append(LeftOut(shown.name, shown.chart.lacking))
    return FigureFiles(tuple(files), tuple(left_out))


def shown_figures(table: pd.DataFrame) -> Iterator[Shown]:
    """Every chart for each agent, preset and unit, in the order of a page.

    Raises:
        InputError: it is no table of a study.
    """
    table = ordered(table)
    agents = file_names(table["agent"])
    for chart in CHARTS:
        selected = chart.select(table)
        for (preset, unit, agent), _ in table.groupby([*SLICE, "agent"], sort=True):
            here = (selected["preset"] == preset) & (selected["unit"] == unit)
            rows = selected[here & (selected["agent"] == agent)]
            name = f"{chart.name}-{agents[str(agent)]}-{preset}-{unit}"
            yield Shown(chart, str(preset), str(unit), str(agent), name, rows)


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for every name, safe on every system; distinct names stay distinct.

    >>> file_names(["REDQ", "a/b"])
    {'REDQ': 'redq', 'a/b': 'a-b-07f4401c'}
    """
    names = sorted(set(names))
    lower = Counter(name.lower() for name in names)
    safe = {}
    for name in names:
        short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
        if not short or short != name.lower() or lower[name.lower()] > 1:
            digest = f"{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
            short = f"{short}-{digest}" if short else digest
        safe[name] = short
    return safe


def _write(chart: Chart, rows: pd.DataFrame, stem: Path) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    numbers = chart.numbers(rows).to_csv(index=False, lineterminator="\n")
    csv = stem.with_name(f"{stem.name}.csv")
    replace_atomically(csv, lambda path: _text(path, numbers))
    figure = grid(chart, rows)
    written = [csv]
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name in letters that the font lacks is shown as boxes; the CSV has it in full.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        figure.draw_without_rendering()  # settles the layout once for all formats
        figure.set_layout_engine("none")
        figure.dpi = _DOTS_PER_INCH
        # Not savefig, which draws everything twice to ask for the layout once more.
        for kind, save in (
            ("png", FigureCanvasAgg(figure).print_png),  # the others set 72 dots per inch
            ("svg", FigureCanvasSVG(figure).print_svg),
            ("pdf", FigureCanvasPdf(figure).print_pdf),
        ):
            path = stem.with_name(f"{stem.name}.{kind}")
            replace_atomically(path, partial(save, metadata=_METADATA[kind]))
            written.append(path)
    return written


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
