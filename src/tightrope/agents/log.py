"""The log of a run, as log.csv and for TensorBoard; docs/guide.md defines its columns."""

import contextlib
import csv
import warnings
from pathlib import Path
from typing import Any

from tightrope.errors import one_line
from tightrope.files import replace_atomically

__all__ = ["COLUMNS", "Log", "read_log"]

COLUMNS = (
    *("step", "seconds", "episodes", "train_return", "train_length"),
    *("eval_return", "eval_deviation", "eval_length", "eval_value", "eval_discounted"),
    *("critic_loss", "actor_loss", "temperature", "entropy"),
)


class Log:
    """Rows of COLUMNS; what an agent does not have stays empty."""

    def __init__(self, folder: Path, *, resume_at: int) -> None:
        """Open the log; rows after the step that the run resumes at are dropped."""
        from torch.utils.tensorboard.writer import SummaryWriter

        path = folder / "log.csv"
        rows = [row for row in read_log(path) if row["step"] <= resume_at] if path.exists() else []

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(COLUMNS)
                writer.writerows([_text(row.get(name)) for name in COLUMNS] for row in rows)

        replace_atomically(path, write)
        self._stream = path.open("a", newline="")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=resume_at + 1)

    def add(self, row: dict[str, Any]) -> None:
        """One row, by the names of its columns; a full disk costs the row, not the run."""
        try:
            self._write(row)
        except OSError as error:
            warnings.warn(
                f"no row in the log at step {row['step']:,}: {one_line(error)}", stacklevel=2
            )

    def _write(self, row: dict[str, Any]) -> None:
        csv.writer(self._stream).writerow([_text(row.get(name)) for name in COLUMNS])
        self._stream.flush()
        for name, value in row.items():
            if name != "step" and value is not None:
                self._board.add_scalar(name, value, int(row["step"]))
        self._board.flush()

    def close(self) -> None:
        """Close both; what a full disk did not take is lost."""
        for stream in (self._stream, self._board):
            with contextlib.suppress(OSError):
                stream.close()


def read_log(path: Path) -> list[dict[str, float]]:
    """The rows of a log.csv, without their empty cells."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    whole = [row for row in rows if None not in row.values()]  # a kill may cut the last one
    return [{name: float(cell) for name, cell in row.items() if cell} for row in whole]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if value % 1 else str(int(value))
