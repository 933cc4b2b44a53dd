"""The log of a run, as log.csv and for TensorBoard; docs/guide.md defines its columns."""

import contextlib
import csv
import threading
import warnings
from collections.abc import Iterator
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

        write_file(path, write, replace=True)
        self._failing = False  # the last row could not be written
        self._cleanup = contextlib.ExitStack()
        self._cleanup.enter_context(_quiet_threads())
        try:
            self._stream = path.open("a", newline="")
            self._board: SummaryWriter | None = SummaryWriter(
                str(folder / "tensorboard"), purge_step=resume_at + 1
            )
        except OSError as error:
            self._cleanup.close()
            raise WriteError(folder, one_line(error)) from None

    def add(self, row: dict[str, Any]) -> None:
        """One row, by the names of its columns; a full disk costs rows, not the run."""
        step, failing = row["step"], self._failing
        try:
            self._failing = True
            csv.writer(self._stream).writerow([_text(row.get(name)) for name in COLUMNS])
            self._stream.flush()  # what it cannot write now it keeps for the next time
            self._failing = False
        except OSError as error:
            if not failing:
                _warn(f"no row in the log from step {step:,} until there is room", error)
        try:
            self._show(row)
        except OSError as error:
            self._board = None  # its thread has ended for good
            _warn(f"nothing for TensorBoard from step {step:,} on", error)

    def _show(self, row: dict[str, Any]) -> None:
        if self._board is None:
            return
        for name, value in row.items():
            if name != "step" and value is not None:
                self._board.add_scalar(name, value, int(row["step"]))
        self._board.flush()

    def close(self) -> None:
        """Close both; what a full disk did not take is lost."""
        for stream in (self._stream, self._board):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._cleanup.close()


def _warn(what: str, error: OSError) -> None:
    warnings.warn(f"{what}: {one_line(error)}", stacklevel=3)


@contextlib.contextmanager
def _quiet_threads() -> Iterator[None]:
    """TensorBoard's thread raises to us what it cannot write: it need not print it as well."""
    plain = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        ours = type(args.thread).__module__.startswith("tensorboard.")
        if not (ours and issubclass(args.exc_type, OSError)):
            plain(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = plain


def read_log(path: str | Path) -> list[dict[str, float]]:
    """The rows of a log.csv, without their empty cells."""
    with Path(path).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    whole = [row for row in rows if None not in row.values()]  # a kill may cut the last one
    return [{name: float(cell) for name, cell in row.items() if cell} for row in whole]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if value % 1 else str(int(value))
