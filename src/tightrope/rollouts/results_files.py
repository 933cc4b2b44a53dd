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

from tightrope.errors import InputError, reading
from tightrope.rollouts.columns import listed

__all__ = ["Evaluation", "Recorded", "column_names", "read_columns"]

Evaluation = int | Literal["last", "best"]

_JSON = (".jsonl", ".ndjson", ".json")
_TEXT = (".csv", ".tsv")
_LARGEST = 200_000_000  # bytes of a table
_LONGEST = 1_000_000  # characters of its line of names
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
        with reading(str(path)):
            if path.suffix == ".parquet":
                return _parquet_names(path)
            return next(_lines(path))[0] if path.suffix in _TEXT else None
    except InputError:
        return None if path.suffix == ".parquet" else []  # it is said when it is read


def read_columns(path: Path, *, frozen: bool, evaluation: Evaluation) -> Recorded:
    """The columns of a file, its rows in recorded order.

    Raises:
        InputError: it is too large or of another layout; for damage, whatever the libraries raise.
    """
    if not path.is_file():
        raise InputError("expected a table of results, found nothing: check the path")
    if path.stat().st_size > _LARGEST:
        raise InputError(f"expected a table of at most {_LARGEST:,} bytes")
    if path.suffix == ".npz":
        return _evaluations(path, evaluation)
    if evaluation != "last":
        raise InputError("expected `evaluation` for an evaluations.npz, found it for another file")
    if path.suffix in _JSON:
        found = Recorded(_json(path))
    elif path.suffix == ".parquet":
        found = Recorded(_parquet(path))
    else:
        found = _text(path, frozen)
    if not any(found.columns.values()):
        raise InputError("expected at least one row of results, found none")
    return found


def _lines(path: Path) -> Iterator[tuple[list[str], bool]]:
    """The cells of each line of text, names first, and whether it is a monitor file of SB3."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(_LONGEST)
        monitor = line.startswith("#{")
        line = file.readline(_LONGEST) if monitor else line
        if len(line) == _LONGEST:
            raise InputError(f"expected a line of names below {_LONGEST:,} characters")
        mark = "\t" if path.suffix == ".tsv" else ";" if ";" in line and "," not in line else ","
        yield next(csv.reader([line], delimiter=mark), []), monitor
        for cells in csv.reader(file, delimiter=mark, strict=True):
            yield cells, monitor


def _text(path: Path, frozen: bool) -> Recorded:
    lines = _lines(path)
    names, monitor = next(lines)
    if monitor and not {"r", "l", "t"} <= set(names):
        raise InputError("expected the columns r, l and t of a monitor file, found others")
    if monitor and not frozen:
        raise InputError(
            "expected evaluation episodes of one policy, found a monitor file of "
            "Stable-Baselines3, which records training: if the policy was frozen, give `frozen`"
        )
    if len(set(names)) < len(names) or not all(names):
        found = repr(listed(names))
        raise InputError(f"expected a name for each column, all different, found {found}")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, (cells, _) in enumerate(lines, start=1):
        if cells and len(cells) != len(names):
            raise InputError(f"expected {len(names)} cells in row {number}, found {len(cells)}")
        for column, cell in zip(columns.values(), cells, strict=False):
            column.append(cell)
    if not monitor:
        return Recorded(columns)
    del columns["l"], columns["t"]  # no properties
    note = "The rows of the monitor file are episodes of one frozen policy, as stated."
    return Recorded(columns, note=note)


def _json(path: Path) -> dict[str, list[Any]]:
    """Columns of a list of objects, of one object per line, or of LeRobot's evaluation."""
    text = path.read_text(encoding="utf-8")
    lines = [text] if path.suffix == ".json" else filter(str.strip, text.splitlines())
    parsed = [json.loads(line) for line in lines]
    rows = parsed[0] if path.suffix == ".json" else parsed
    rows = _lerobot(rows) if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row for row in rows):
        raise InputError("expected a JSON object for each episode, found others")
    names = list(rows[0]) if rows else []
    for number, row in enumerate(rows, start=1):
        if set(row) != set(names):
            found = f"found {listed(list(row))}"
            raise InputError(f"expected the columns {listed(names)} in row {number}, {found}")
    return {name: [row[name] for row in rows] for name in names}


def _lerobot(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of an eval_info.json, task by task."""
    rows: list[dict[str, Any]] = []
    try:
        for task in found["per_task"]:
            lists = {name: task["metrics"].get(key) for name, key in _METRICS.items()}
            lists = {name: values for name, values in lists.items() if values}
            label = {key: task[key] for key in ("task_group", "task_id") if key in task}
            episodes = list(zip(*lists.values(), strict=True))
            rows += [{**label, **dict(zip(lists, each, strict=True))} for each in episodes]
            if not episodes:
                raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        older = _OLDER in found and "per_task" not in found
        layout = f"an older layout: evaluate again, or write its {_OLDER!r} as a .jsonl of its own"
        raise InputError(
            "expected a list of objects, or an eval_info.json of LeRobot with as many rewards as "
            f"successes of each task, found {layout if older else 'another layout'}"
        ) from None
    return rows


def _parquet_names(path: Path) -> list[str]:
    from tightrope.rollouts.logs import require_tables

    require_tables("a Parquet table")
    from pyarrow.parquet import read_schema

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
    found = set(sizes) >= _EVALUATIONS
    if found and sum(sizes.values()) > _LARGEST:
        raise InputError(f"{str(path)!r}: expected arrays of at most {_LARGEST:,} bytes")
    return found


def _evaluations(path: Path, evaluation: Evaluation) -> Recorded:
    """The episodes of one checkpoint, from what SB3's EvalCallback wrote."""
    if not _is_evaluations(path):
        kind = "the evaluations.npz of an EvalCallback (timesteps, results, ep_lengths)"
        raise InputError(f"expected {kind}, found another file")
    with np.load(path, allow_pickle=False) as arrays:
        results, steps = (np.asarray(arrays[n], np.float64) for n in ("results", "timesteps"))
        success = np.asarray(arrays.get("successes", ()), np.float64)
    fits = results.ndim == 2 and results.size and steps.shape == (len(results),)
    if not fits or not (np.isfinite(results).all() and np.isfinite(steps).all()):
        found = f"found shape {results.shape}"
        raise InputError(f"expected results (evaluations, episodes) of finite numbers, {found}")
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
        found = f"found {evaluation!r}"
        raise InputError(f"expected `evaluation` from 1 to {count}, last or best, {found}")
    columns = {"return": results[row].tolist()}
    if success.shape == results.shape:
        if not np.isin(success, (0.0, 1.0)).all():
            raise InputError("expected successes of 0 or 1, found others")
        columns["success"] = (success[row] > 0).tolist()
    about = f"Evaluation {row + 1} of {count}, after {int(steps[row]):,} steps of training"
    return Recorded(columns, count if evaluation == "best" else 1, about + worth)
