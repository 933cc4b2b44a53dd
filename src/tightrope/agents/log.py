"""The log of a run, as log.csv and for TensorBoard; docs/guide.md defines its columns."""

import contextlib
import csv
import threading
import warnings
from pathlib import Path
from typing import Any

from tightrope.errors import one_line
from tightrope.files import WriteError, write_file

__all__ = ["COLUMNS", "Log", "read_log"]

COLUMNS = (
    *("step", "seconds", "episodes", "train_return", "train_length"),
    *("eval_return", "eval_deviation", "eval_length", "eval_value", "eval_discounted"),
    *("critic_loss", "actor_loss", "temperature", "entropy"),
)


class Log:
    """Rows of COLUMNS; what an agent does not have stays empty. A full disk costs rows only."""

    def __init__(self, folder: Path, *, resume_at: int) -> None:
        """Open the log; rows after the step that the run resumes at are dropped."""
        from torch.utils.tensorboard.writer import SummaryWriter

        path = folder / "log.csv"
        rows = [row for row in read_log(path) if row["step"] <= resume_at] if path.exists() else []

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="") as stream:
                csv.writer(stream).writerows([COLUMNS, *map(_cells, rows)])

        write_file(path, write, replace=True)
        self._failing = False  # the last row could not be written
        self._excepthook, threading.excepthook = threading.excepthook, self._quiet
        try:
            self._stream = path.open("a", newline="")
            self._board: SummaryWriter | None = SummaryWriter(
                str(folder / "tensorboard"), purge_step=resume_at + 1
            )
        except OSError as error:
            threading.excepthook = self._excepthook
            raise WriteError(folder, one_line(error)) from None

    def _quiet(self, args: threading.ExceptHookArgs) -> None:
        """TensorBoard's thread raises to us what it cannot write: it need not print it as well."""
        ours = type(args.thread).__module__.startswith("tensorboard.")
        if not (ours and issubclass(args.exc_type, OSError)):
            self._excepthook(args)

    def add(self, row: dict[str, Any]) -> None:
        """One row, by the names of its columns."""
        step, failing = row["step"], self._failing
        try:
            self._failing = True
            csv.writer(self._stream).writerow(_cells(row))
            self._stream.flush()  # what it cannot write now it keeps for the next time
            self._failing = False
        except OSError as error:
            if not failing:
                _warn(f"no row in the log from step {step:,} until there is room", error)
        if self._board is None:
            return
        try:
            for name, value in row.items():
                if name != "step" and value is not None:
                    self._board.add_scalar(name, value, int(step))
            self._board.flush()
        except OSError as error:
            self._board = None  # its thread has ended for good
            _warn(f"nothing for TensorBoard from step {step:,} on", error)

    def close(self) -> None:
        """Close both; what a full disk did not take is lost."""
        for stream in (self._stream, self._board):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        threading.excepthook = self._excepthook


def _warn(what: str, error: OSError) -> None:
    warnings.warn(f"{what}: {one_line(error)}", stacklevel=3)


def read_log(path: str | Path) -> list[dict[str, float]]:
    """The rows of a log.csv, without their empty cells."""
    with Path(path).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    whole = [row for row in rows if None not in row.values()]  # a kill may cut the last one
    return [{name: float(cell) for name, cell in row.items() if cell} for row in whole]


def _cells(row: dict[str, Any]) -> list[str]:
    values = [row.get(name) for name in COLUMNS]
    return ["" if v is None else f"{v:.6g}" if v % 1 else str(int(v)) for v in values]
