"""Files with a row per episode: CSV, JSON, Parquet, and what SB3 and LeRobot write.

Read by the standard library, Parquet with pyarrow and pandas.
"""

import csv
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tightrope.errors import InputError, one_line

__all__ = ["Evaluation", "Recorded", "column_names", "read_columns"]

Evaluation = int | Literal["last", "best"]

_JSON = (".jsonl", ".ndjson", ".json")
_TEXT = (".csv", ".tsv")
_LARGEST = 200_000_000  # bytes of a table
_OLDER = "per_episode"  # of LeRobot's evaluation before it had tasks
_METRICS = {"sum_reward": "sum_rewards", "success": "successes"}  # of its tasks, by column
_EVALUATIONS = {"timesteps.npy", "results.npy", "ep_lengths.npy"}


@dataclass(frozen=True)
class Recorded:
    """What is in a file.

    Attributes:
        columns: the cells of each column, by its name.
        candidates: evaluations that this one was chosen from after looking.
        note: what else the rows rest on; empty for nothing.
    """

    columns: dict[str, list[Any]]
    candidates: int = 1
    note: str = ""


def column_names(path: Path) -> list[str] | None:
    """The columns of a file with a row per episode or step; None for a file of another kind.

    Nothing of JSON, whose rows are episodes. Of a damaged table, what can be read of it.
    """
    if path.suffix == ".npz":
        return [] if _is_evaluations(path) else None
    if path.suffix in _JSON:
        return []
    try:
        if path.suffix == ".parquet":
            return _parquet_names(path)
        return next(_cells(path))[0] if path.suffix in _TEXT else None
    except InputError:
        return None if path.suffix == ".parquet" else []  # it is said when it is read


def read_columns(path: Path, *, frozen: bool, evaluation: Evaluation) -> Recorded:
    """The columns of a file, its rows in recorded order.

    Raises:
        InputError: there is no such file, it is damaged, too large or of another layout.
    """
    if not path.is_file():
        raise InputError(f"expected a table of results, found nothing at {str(path)!r}")
    if path.stat().st_size > _LARGEST:
        raise InputError(f"expected a table of at most {_LARGEST:,} bytes in {str(path)!r}")
    if path.suffix == ".npz":
        return _evaluations(path, evaluation)
    if evaluation != "last":
        raise InputError(f"expected `evaluation` for an evaluations.npz, found {str(path)!r}")
    note = ""
    if path.suffix in _JSON:
        columns = _json(path)
    elif path.suffix == ".parquet":
        columns = _parquet(path)
    else:
        columns, note = _text(path, frozen)
    if not any(columns.values()):
        raise InputError(f"expected at least one row of results in {str(path)!r}, found none")
    return Recorded(columns, note=note)


def _cells(path: Path) -> Iterator[tuple[list[str], bool]]:
    """The cells of each line of text, the names first, and whether it is a monitor of SB3."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            monitor = line.startswith("#{")
            line = file.readline() if monitor else line
            mark = (
                "\t" if path.suffix == ".tsv" else ";" if ";" in line and "," not in line else ","
            )
            yield next(csv.reader([line], delimiter=mark), []), monitor
            for cells in csv.reader(file, delimiter=mark, strict=True):
                yield cells, monitor
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a table in {str(path)!r}: {one_line(error)}") from None


def _text(path: Path, frozen: bool) -> tuple[dict[str, list[Any]], str]:
    lines = _cells(path)
    names, monitor = next(lines)
    if monitor and not {"r", "l", "t"} <= set(names):
        raise InputError(f"expected the columns r, l and t in the monitor file {str(path)!r}")
    if monitor and not frozen:
        raise InputError(
            f"expected evaluation episodes of one policy, found {str(path)!r}, a monitor file of "
            "Stable-Baselines3, which records training: if the policy was frozen, give `frozen`"
        )
    if len(set(names)) < len(names) or not all(names):
        raise InputError(
            f"expected a name for each column in the first line of {str(path)!r}, all different, "
            f"found {', '.join(names)[:200]!r}"
        )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, (cells, _) in enumerate(lines, start=1):
        if cells and len(cells) != len(names):
            raise InputError(
                f"expected {len(names)} cells in row {number} of {str(path)!r}, found {len(cells)}"
            )
        for column, cell in zip(columns.values(), cells, strict=False):
            column.append(cell)
    if not monitor:
        return columns, ""
    del columns["l"], columns["t"]  # no properties
    return columns, "The rows of the monitor file are episodes of one frozen policy, as stated."


def _json(path: Path) -> dict[str, list[Any]]:
    """Columns of a list of objects, of one object per line, or of LeRobot's evaluation."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            found = json.loads(text)
        else:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected JSON in {str(path)!r}: {one_line(error)}") from None
    rows = _lerobot(found, path) if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row for row in rows):
        raise InputError(f"expected a JSON object for each episode in {str(path)!r}")
    names = list(rows[0]) if rows else []
    for number, row in enumerate(rows, start=1):
        if set(row) != set(names):
            raise InputError(
                f"expected the columns {', '.join(names)[:200]} in row {number} of {str(path)!r}, "
                f"found {', '.join(row)[:200]}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _lerobot(found: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """Rows of an eval_info.json, task by task."""
    rows: list[dict[str, Any]] = []
    try:
        for task in found["per_task"]:
            lists = {name: task["metrics"].get(key) for name, key in _METRICS.items()}
            lists = {name: values for name, values in lists.items() if values}
            label = {key: task[key] for key in ("task_group", "task_id") if key in task}
            before = len(rows)
            for values in zip(*lists.values(), strict=True):
                rows.append({**label, **dict(zip(lists, values, strict=True))})
            if len(rows) == before:
                raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        rows = []
    if rows:
        return rows
    if _OLDER in found and "per_task" not in found:
        raise InputError(
            "expected an eval_info.json of LeRobot with results per task, found an older layout "
            f"in {str(path)!r}: evaluate again, or write its {_OLDER!r} as a .jsonl of its own"
        )
    raise InputError(
        "expected a list of objects or an eval_info.json of LeRobot, with as many rewards as "
        f"successes of each task, in {str(path)!r}, found another layout"
    )


def _parquet_names(path: Path) -> list[str]:
    from tightrope.rollouts.logs import reading, require_tables

    require_tables("a Parquet table")
    from pyarrow.parquet import read_schema

    with reading(path):
        return list(read_schema(path).names)


def _parquet(path: Path) -> dict[str, list[Any]]:
    from tightrope.rollouts.logs import getter, parquet

    names = _parquet_names(path)
    get = getter(parquet(path, names))
    return {name: get(name).tolist() for name in names}


def _is_evaluations(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {each.filename: each.file_size for each in archive.infolist()}
    except (OSError, zipfile.BadZipFile):
        return False
    if sum(sizes.values()) > _LARGEST and set(sizes) >= _EVALUATIONS:
        raise InputError(f"expected arrays of at most {_LARGEST:,} bytes in {str(path)!r}")
    return set(sizes) >= _EVALUATIONS


def _evaluations(path: Path, evaluation: Evaluation) -> Recorded:
    """The episodes of one checkpoint, from what SB3's EvalCallback wrote."""
    if not _is_evaluations(path):
        raise InputError(
            f"expected the evaluations.npz of an EvalCallback (timesteps, results, ep_lengths) in "
            f"{str(path)!r}, found another file"
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            results, steps = (np.asarray(arrays[n], np.float64) for n in ("results", "timesteps"))
            success = np.asarray(arrays.get("successes", ()), np.float64)
    except Exception as error:  # zipfile and NumPy raise many kinds for a damaged file
        raise InputError(f"expected plain arrays in {str(path)!r}: {one_line(error)}") from None
    fits = results.ndim == 2 and results.size and steps.shape == (len(results),)
    if not fits or not (np.isfinite(results).all() and np.isfinite(steps).all()):
        raise InputError(
            f"expected results (evaluations, episodes) of finite numbers in {str(path)!r}, found "
            f"shape {results.shape}"
        )
    count, means = len(results), results.mean(axis=1)
    if evaluation == "best":
        row = int(means.argmax())
        worth = (
            f", is the best of {count}: its mean is {means.max() - means.mean():.4g} above that of "
            "all, part of it luck of the draw; the confidence accounts for the choice."
        )
    elif evaluation == "last" or (1 <= evaluation <= count and not isinstance(evaluation, bool)):
        row, worth = count - 1 if evaluation == "last" else int(evaluation) - 1, ", chosen before."
    else:
        raise InputError(
            f"expected `evaluation` from 1 to {count}, last or best, found {evaluation!r}"
        )
    columns = {"return": results[row].tolist()}
    if success.shape == results.shape:
        if not np.isin(success, (0.0, 1.0)).all():
            raise InputError(f"expected successes of 0 or 1 in {str(path)!r}, found others")
        columns["success"] = (success[row] > 0).tolist()
    about = f"Evaluation {row + 1} of {count}, after {int(steps[row]):,} steps of training"
    return Recorded(columns, count if evaluation == "best" else 1, about + worth)
