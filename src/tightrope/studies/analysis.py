"""All that a study's table says, written into one folder: metrics, claims, tables and figures."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tightrope.files import replace_atomically
from tightrope.studies.claims import claims, claims_markdown
from tightrope.studies.figures import LeftOut, write_figures
from tightrope.studies.metrics import metrics
from tightrope.studies.tables import write_tables

__all__ = ["Analysis", "write_analysis"]


@dataclass(frozen=True)
class Analysis:
    """What was found and written.

    Attributes:
        claims: a row per judgement, as :func:`tightrope.studies.claims.claims` gives them.
        files: everything that was written.
        left_out: figures that the table has no data for.
    """

    claims: pd.DataFrame
    files: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]


def write_analysis(table: pd.DataFrame, folder: Path, *, seed: int = 0) -> Analysis:
    """Write metrics.csv, claims.csv, claims.md, instances.* and figures/; names are replaced.

    Args:
        table: of a study.
        folder: that is written into.
        seed: of the bootstrap; the same table and seed give the same bytes.

    Raises:
        InputError: it is no table of a study, or the folder cannot be written to.
    """
    for_metrics, for_claims = np.random.default_rng(seed).spawn(2)
    judged = claims(table, generator=for_claims)
    measured = metrics(table, generator=for_metrics)
    texts = {
        "metrics.csv": measured.to_csv(index=False, lineterminator="\n"),
        "claims.csv": judged.to_csv(index=False, lineterminator="\n"),
        "claims.md": claims_markdown(judged),
    }
    for name, text in texts.items():
        replace_atomically(folder / name, lambda path, text=text: _write(path, text))  # type: ignore[misc]
    tables = write_tables(table, folder)
    drawn = write_figures(table, folder / "figures")
    files = (*(folder / name for name in texts), *tables, *drawn.files)
    return Analysis(judged, files, drawn.left_out)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
