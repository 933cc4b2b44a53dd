"""Figures of a study: functions from its table to axes, and a writer for all of them."""

from tightrope.studies.figures.ablations import SAMPLING, VALIDATION_SIZE, sampling, validation_size
from tightrope.studies.figures.chart import Chart, grid
from tightrope.studies.figures.heatmap import HEATMAP, heatmap
from tightrope.studies.figures.levels import BOUNDS, BOXES, bounds, boxes
from tightrope.studies.figures.scatter import SCATTER, scatter
from tightrope.studies.figures.write import CHARTS, FigureFiles, LeftOut, write_figures

__all__ = [
    "BOUNDS",
    "BOXES",
    "CHARTS",
    "HEATMAP",
    "SAMPLING",
    "SCATTER",
    "VALIDATION_SIZE",
    "Chart",
    "FigureFiles",
    "LeftOut",
    "bounds",
    "boxes",
    "grid",
    "heatmap",
    "sampling",
    "scatter",
    "validation_size",
    "write_figures",
]
