"""From a study's table to its results: means, claims, figures; in memory, then in files."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import pandas as pd

from tightrope.errors import printable
from tightrope.files import write_folder, write_text
from tightrope.studies.certificate_records import SLICE, STRATUM
from tightrope.studies.claims import ClaimResult, judge_claims
from tightrope.studies.paper_figures import PaperFigure, draw_figures, figure_numbers
from tightrope.studies.plot_style import STYLE
from tightrope.studies.summary_statistics import (
    conditions,
    in_order,
    instance_means,
    main_comparison,
)

__all__ = ["Results", "analyse", "instances_latex", "write_results"]

_VALUES = {"train_error": "train", "test_error": "test", "bound": "bound"}


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


def instances_latex(means: pd.DataFrame) -> str:
    r"""A tabular for every preset, unit, agent and environment.

    Args:
        means: as :func:`tightrope.studies.summary_statistics.instance_means` gives them.
    """
    return "% Needs \\usepackage{booktabs,multirow}\n" + "\n".join(_tables(means))


def _tables(means: pd.DataFrame) -> Iterator[str]:
    for key, part in means.groupby([*SLICE, *STRATUM], sort=True):
        preset, unit, agent, environment = map(str, key)
        title = printable(f"{agent}, {environment} (preset {preset}, unit {unit})")
        for name in ("level", "instance", "scheme"):
            order = in_order(name, part[name])
            part = part.assign(**{name: pd.Categorical(part[name], order)})
        wide = part.pivot(index=["level", "instance"], columns="scheme", values=list(_VALUES))
        wide = wide.swaplevel(axis=1).sort_index(axis=1, level=0, sort_remaining=False).sort_index()
        wide.columns = pd.MultiIndex.from_tuples(
            [(title, printable(str(key[0])), _VALUES[key[1]]) for key in wide.columns]
        )
        wide.index = pd.MultiIndex.from_tuples(
            [tuple(map(printable, map(str, row))) for row in wide.index],
            names=["level", "instance"],
        )
        style = wide.style.format("{:#.3g}", na_rep="--")
        for axis in (0, 1):
            style = style.format_index(escape="latex", axis=axis)
        yield style.to_latex(hrules=True, multicol_align="c", clines="skip-last;data")
