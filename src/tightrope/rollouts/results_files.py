"""Rows of files with one row per episode: CSV, JSON, Parquet, and what SB3 and LeRobot write.

Read by the standard library, Parquet with pyarrow.
"""

import csv
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible

__all__ = ["Evaluation", "Recorded", "Row", "column_names", "read_rows"]

Evaluation = int | Literal["last", "best"]
Row = dict[str, Any]

_JSON = (".jsonl", ".ndjson", ".json")
_TEXT = (".csv", ".tsv")
_LARGEST = 200_000_000  # bytes of a table
_OLDER = "per_episode"  # of LeRobot's evaluation before it had tasks
_EVALUATIONS = {"timesteps.npy", "results.npy", "ep_lengths.npy"}


@dataclass(frozen=True)
class Recorded:
    """What is in a file.

    Attributes:
        rows: a dictionary for each episode, by the names of the columns.
        candidates: evaluations that this one was chosen from after looking.
        note: what else the rows rest on; empty for nothing.
    """

    rows: list[Row]
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
            return [each.name for each in _parquet(path).schema_arrow]
        return _header(path)[1] if path.suffix in _TEXT else None
    except InputError:
        return None if path.suffix == ".parquet" else []  # it is said when it is read


def read_rows(path: Path, *, frozen: bool, evaluation: Evaluation) -> Recorded:
    """The rows of a file, in recorded order.

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
    if path.suffix in _JSON:
        found = Recorded(_json_rows(path))
    elif path.suffix == ".parquet":
        found = Recorded(_parquet_rows(path))
    else:
        found = _text_rows(path, frozen)
    if not found.rows:
        raise InputError(f"expected at least one row of results in {str(path)!r}, found none")
    names = list(found.rows[0])
    for number, row in enumerate(found.rows, start=1):
        if set(row) != set(names):
            raise InputError(
                f"expected the columns {', '.join(names)} in row {number} of {str(path)!r}, found "
                f"{', '.join(row)}"
            )
    return found


def _header(path: Path) -> tuple[bool, list[str], str]:
    """Whether a file is a monitor of Stable-Baselines3, its columns, and what separates them."""
    try:
        with _opened(path) as file:
            first = file.readline()
            monitor = first.startswith("#{")
            line = file.readline() if monitor else first
        mark = "\t" if path.suffix == ".tsv" else ";" if ";" in line and "," not in line else ","
        names = next(csv.reader([line], delimiter=mark), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a table in {str(path)!r}: {one_line(error)}") from None
    if monitor and not {"r", "l", "t"} <= set(names):
        raise InputError(f"expected the columns r, l and t in the monitor file {str(path)!r}")
    return monitor, names, mark


def _opened(path: Path) -> Any:
    return open(path, encoding="utf-8-sig", errors="strict", newline="")


def _text_rows(path: Path, frozen: bool) -> Recorded:
    monitor, names, mark = _header(path)
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
    rows: list[Row] = []
    try:
        with _opened(path) as file:
            for _ in range(1 + monitor):
                file.readline()
            for number, cells in enumerate(csv.reader(file, delimiter=mark, strict=True), start=1):
                if cells and len(cells) != len(names):
                    raise InputError(
                        f"expected {len(names)} cells in row {number} of {str(path)!r}, found "
                        f"{len(cells)}"
                    )
                rows += [dict(zip(names, cells, strict=True))] if cells else []
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a table in {str(path)!r}: {one_line(error)}") from None
    if not monitor:
        return Recorded(rows)
    rows = [{k: v for k, v in row.items() if k not in ("l", "t")} for row in rows]  # no properties
    note = "The rows of the monitor file are episodes of one frozen policy, as stated."
    return Recorded(rows, note=note)


def _json_rows(path: Path) -> list[Row]:
    """A list of objects, one object per line, or LeRobot's evaluation, task by task."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            found = json.loads(text)
        else:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected JSON in {str(path)!r}: {one_line(error)}") from None
    if isinstance(found, dict):
        return _lerobot_rows(found, path)
    if not isinstance(found, list) or not all(isinstance(row, dict) and row for row in found):
        raise InputError(f"expected a JSON object for each episode in {str(path)!r}")
    for number, row in enumerate(found, start=1):
        for name, cell in row.items():
            if isinstance(cell, list | dict):
                raise InputError(
                    f"expected numbers, texts and booleans in row {number} of {str(path)!r}, found "
                    f"a {'list' if isinstance(cell, list) else 'record'} in {name!r}"
                )
    return found


def _lerobot_rows(found: Row, path: Path) -> list[Row]:
    tasks = found.get("per_task")
    if _OLDER in found and tasks is None:
        raise InputError(
            "expected an eval_info.json of LeRobot with results per task, found an older layout "
            f"in {str(path)!r}: evaluate again, or write its {_OLDER!r} as a .jsonl of its own"
        )
    rows: list[Row] = []
    for task in tasks if isinstance(tasks, list) else []:
        metrics = task.get("metrics") if isinstance(task, dict) else None
        metrics = metrics if isinstance(metrics, dict) else {}
        named = {"sum_reward": "sum_rewards", "success": "successes"}
        lists = {name: metrics.get(key) for name, key in named.items() if metrics.get(key)}
        if not lists or not all(isinstance(each, list) for each in lists.values()):
            rows = []
            break
        if len({len(each or ()) for each in lists.values()}) > 1:
            raise InputError(f"expected as many rewards as successes of a task in {str(path)!r}")
        label = {key: task[key] for key in ("task_group", "task_id") if key in task}
        for values in zip(*lists.values(), strict=True):
            rows.append({**label, **dict(zip(lists, values, strict=True))})
    if not rows:
        raise InputError(
            f"expected a list of objects or an eval_info.json of LeRobot in {str(path)!r}, found "
            "another layout"
        )
    return rows


def _parquet(path: Path) -> Any:
    from tightrope.imports import needed

    try:
        return needed("pyarrow.parquet", "a Parquet table", "tables").ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InputError(f"expected a Parquet table in {str(path)!r}: {one_line(error)}") from None


def _parquet_rows(path: Path) -> list[Row]:
    from tightrope.rollouts.tables import parquet

    schema = _parquet(path).schema_arrow
    for each in schema:
        if each.type.num_fields:
            raise InputError(
                f"expected plain columns in {str(path)!r}, found the nested column {each.name!r}"
            )
    table = parquet(path, [each.name for each in schema])
    require_plausible(path, sum(map(_unfolded, table.itercolumns())))
    found: list[Row] = table.to_pylist()
    return found


def _unfolded(column: Any) -> int:
    """Bytes of a column once each text of a dictionary is held in every row that has it."""
    from pyarrow import compute, types

    size = 0
    for chunk in column.chunks:
        if types.is_dictionary(chunk.type):
            lengths = compute.binary_length(chunk.dictionary.cast("string"))
            size += compute.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


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
            stated = arrays.get("successes", None)
            success = None if stated is None else np.asarray(stated, np.float64)
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
    if success is not None and success.shape == results.shape:
        if not np.isin(success, (0.0, 1.0)).all():
            raise InputError(f"expected successes of 0 or 1 in {str(path)!r}, found others")
        columns["success"] = (success[row] > 0).tolist()
    rows = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
    about = f"Evaluation {row + 1} of {count}, after {int(steps[row]):,} steps of training"
    return Recorded(rows, count if evaluation == "best" else 1, about + worth)
