"""What a study leaves: the table, its figures, its tables for print, and its claims."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tightrope.files import write_folder
from tightrope.studies.analysis import write_analysis
from tightrope.studies.study_folder import StudyFolder
from tightrope.studies.table import read_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_results"]


def write_results(done: Sequence[Path], folder: StudyFolder) -> "tuple[int, pd.DataFrame | None]":
    """Write all results anew from the certificates that there are.

    Returns:
        how many there are, and the claims as they are judged by them.
    """
    if not done:
        return 0, None
    folder.require_there()
    table = read_rows(done, folder.path)

    def fill(new: Path) -> "pd.DataFrame":
        table.to_csv(new / "table.csv", index=False, lineterminator="\n")
        table.to_parquet(new / "table.parquet", index=False)
        return write_analysis(table, new).claims

    return len(table), write_folder(folder.results, fill, replace=True)
