"""From a study's table to its results: means, claims, figures; in memory, then in files."""

from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import pandas as pd

from tightrope.files import write_folder, write_text
from tightrope.studies.claims import ClaimResult, judge_claims
from tightrope.studies.latex import instances_latex
from tightrope.studies.paper_figures import PaperFigure, draw_figures, figure_numbers
from tightrope.studies.plot_style import STYLE
from tightrope.studies.summary_statistics import conditions, instance_means, main_comparison

__all__ = ["Results", "analyse", "write_results"]


@dataclass(frozen=True)
class Results:
    """What a study's certificates say.

    Attributes:
        table: a row per certificate.
        conditions: means and correlations, a row for everything that was certified.
        instances: train error, test error and bound of every policy; local sampling and the
            largest validation set.
        claims: of the paper, judged for every preset and unit.
        figures: of the paper, by name; those that the table has data for.
    """

    table: pd.DataFrame
    conditions: pd.DataFrame
    instances: pd.DataFrame
    claims: tuple[ClaimResult, ...]
    figures: dict[str, PaperFigure]


def analyse(table: pd.DataFrame) -> Results:
    """All results of a study.

    Args:
        table: as :func:`tightrope.studies.certificate_records.read_table` gives it.
    """
    return Results(
        table=table,
        conditions=conditions(table),
        instances=instance_means(main_comparison(table)),
        claims=tuple(judge_claims(table)),
        figures=draw_figures(table),
    )


def write_results(results: Results, folder: Path) -> None:
    """Write the tables, and figures/ as PDF and PNG with their numbers; files are replaced.

    The same results give the same bytes.

    Raises:
        InputError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in fields(ClaimResult)]
    tables = {
        "table": results.table,
        "conditions": results.conditions,
        "instances": results.instances,
        "claims": pd.DataFrame([asdict(each) for each in results.claims], columns=names),
    }
    for name, table in tables.items():
        write_text(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    write_text(folder / "instances.tex", instances_latex(results.instances))
    write_folder(folder / "figures", partial(_write_figures, results), replace=True)


def _write_figures(results: Results, folder: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        for name, drawn in results.figures.items():
            drawn.figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
            drawn.figure.savefig(folder / f"{name}.png", metadata={"Software": None})
    numbers = figure_numbers(results.figures)
    numbers.to_csv(folder / "numbers.csv", index=False, lineterminator="\n")
