"""Tables with one row per episode: returns, successes and numbers of one's own; and counts.

Read by the standard library (Parquet with pyarrow): CSV, TSV, JSON lines, `monitor.csv` and
`evaluations.npz` of Stable-Baselines3, `eval_info.json` of LeRobot.
"""

import csv
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.rollouts.episodes import Episodes

__all__ = [
    "Evaluation",
    "Reading",
    "ResultsTable",
    "counts_of",
    "is_results",
    "read_results",
    "table_of",
]

Evaluation = int | Literal["last", "best"]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Reading:
    """How a table of results is read."""

    columns: Annotated[str, "ROLE=NAME,..."] = ""
    """Which column of a table is what, such as "return=score,success=ok,task=suite". Roles with a
    row per episode: return, success, seed, episode, task; with a row per step: obs, reward,
    episode, step, terminated, truncated, done, success, action ("obs=joint_*,torque"). By default
    they go by their usual names; nothing after = means that there is no such column."""
    frozen: bool = False
    """The rows of a monitor.csv of Stable-Baselines3 are evaluation episodes of one policy."""
    evaluation: Evaluation = "last"
    """Of an evaluations.npz of Stable-Baselines3: its number, from 1; the last; or the best, for
    which the confidence accounts."""


SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
_LARGEST = 200_000_000  # bytes of a table
_STEPS = ("obs", "observation")  # a table with such columns has a row for each step
# Names by role, the first that is there; the same unit is compared with the same.
_RETURNS = {
    "return": (
        *("return", "returns", "episode_return", "ep_return", "undiscounted_return"),
        *("sum_reward", "sum_rewards", "total_reward", "cumulative_reward", "episode_reward"),
        *("reward", "r"),
    ),
    "normalized return": ("normalized_return", "normalised_return", "normalized_score"),
    "score": ("score",),
    "largest reward": ("max_reward", "max_rewards"),
}
_USUAL: dict[str, tuple[str, ...]] = {
    "return": tuple(name for names in _RETURNS.values() for name in names),
    "success": ("success", "is_success", "successes", "succeeded", "solved"),
    "seed": ("seed", "episode_seed"),
    "episode": ("episode", "episode_index", "episode_ix", "episode_id", "trial"),
    "task": (
        *("task", "task_group", "task_id", "suite", "env", "env_id", "environment"),
        *("policy", "model", "checkpoint", "run", "training_seed", "train_seed"),
    ),
}
_TRUE = ("true", "1", "1.0", "yes", "y", "t", "success")
_FALSE = ("false", "0", "0.0", "no", "n", "f", "failure")
_OLDER = "per_episode"  # of LeRobot's evaluation before it had tasks


@dataclass(frozen=True)
class ResultsTable:
    """Results of whole episodes, in recorded order, task by task.

    Attributes:
        name: of the file, or the counts.
        returns: (episodes,) None without such a column.
        success: (episodes,) None without such a column.
        keys: (episodes,) a seed or number by which episodes of two tables are paired; -1 for none.
        tasks: name and number of episodes of each task, seed or checkpoint; one if nothing varies.
        properties: (episodes,) every other column of numbers, by name.
        columns: which column is what.
        unit: of the returns, as they are named.
        ordered: whether rows are in the order of the episodes; counts have none.
        candidates: evaluations that this one was chosen from after looking.
        notes: what else the numbers rest on, in sentences.
    """

    name: str
    returns: NDArray[np.float64] | None
    success: NDArray[np.bool_] | None
    keys: NDArray[np.int64]
    tasks: tuple[tuple[str, int], ...]
    properties: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str = "return"
    ordered: bool = True
    candidates: int = 1
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Each task and its rows."""
        start = 0
        for name, count in self.tasks:
            yield name, slice(start, start + count)
            start += count

    def episodes(self) -> Episodes:
        """One step for each episode, with its return as the reward and nothing observed."""
        count = len(self)
        rewards = np.zeros(count) if self.returns is None else self.returns
        table = {
            "columns": dict(self.columns),
            "returns": self.returns is not None,
            "tasks": [[name, size] for name, size in self.tasks],
            "ordered": self.ordered,
            "candidates": self.candidates,
            "notes": list(self.notes),
        }
        return Episodes(
            observations=np.zeros((count, 0), np.float32),
            rewards=rewards,
            offsets=np.arange(count + 1),
            terminated=np.zeros(count, np.bool_),
            truncated=np.ones(count, np.bool_),
            seeds=self.keys,
            success=self.success,
            properties=dict(self.properties),
            subject={"log": self.name, "table": table},
        )


def table_of(recorded: Episodes) -> Mapping[str, Any] | None:
    """What is recorded of the table that episodes come from; None where they were rolled out."""
    found = recorded.subject.get("table")
    return found if isinstance(found, Mapping) else None


def counts_of(source: Any) -> tuple[int, int] | None:
    """Successes and episodes of a text such as ``74/80``; None if it is no such text.

    Raises:
        InputError: it is one, but not of two whole numbers that fit.
    """
    parts = re.fullmatch(r"\s*([-+]?[\d.]+)\s*/\s*([-+]?[\d.]+)\s*", str(source))
    if not isinstance(source, str) or parts is None or Path(source).exists():
        return None
    whole = [int(part) if re.fullmatch(r"\d{1,9}", part) else -1 for part in parts.groups()]
    if not 0 <= whole[0] <= whole[1] or whole[1] < 1:
        raise InputError(
            "expected SUCCESSES/EPISODES, two whole numbers such as 74/80, the first not above the "
            f"second, found {source.strip()}"
        )
    return whole[0], whole[1]


def is_results(source: Any, columns: Any = None) -> bool:
    """Whether a source names a table with a row per episode, or counts, rather than steps.

    A CSV or Parquet file is one unless a column starts with obs, or `columns` names observations.
    """
    if not isinstance(source, str | Path):
        return isinstance(source, ResultsTable)
    if isinstance(source, str) and counts_of(source) is not None:
        return True
    path = Path(source)
    if not path.is_file():
        return False
    if path.suffix == ".npz":
        return _evaluation_names(path) is not None
    if path.suffix not in SUFFIXES:
        return False
    given = columns if isinstance(columns, Mapping) else re.findall(r"(\w+)\s*=", columns or "")
    if set(given) & {"obs", "reward", "step", "terminated", "truncated", "done", "action"}:
        return False
    if path.suffix in (".jsonl", ".ndjson", ".json"):
        return True
    try:
        names = _parquet_names(path) if path.suffix == ".parquet" else _header(path)[1]
    except InputError:
        return path.suffix != ".parquet"  # it is said when it is read
    return not any(name.lower().startswith(_STEPS) for name in names)


def read_results(
    source: "str | Path | ResultsTable",
    *,
    columns: str | Mapping[str, Any] | None = None,
    frozen: bool = False,
    evaluation: Evaluation = "last",
) -> ResultsTable:
    """Results per episode from a table, or from counts such as ``74/80``.

    Args:
        source: the name of a file, or counts.
        columns: which column is what, where names are not the usual ones, such as
            ``"return=score,success=ok,task=suite"``; nothing after ``=`` for no such column.
        frozen: the rows of a `monitor.csv` are evaluation episodes of one policy.
        evaluation: of an `evaluations.npz`: its number, from 1; the last; or the best.

    Raises:
        InputError: there is no such table, or a column is missing or not of its kind.
    """
    if isinstance(source, ResultsTable):
        return source
    counts = counts_of(source) if isinstance(source, str) else None
    path = Path(source)
    if counts is not None:
        success = np.arange(counts[1]) < counts[0]
        keys = np.full(counts[1], -1)
        note = "Counts alone: what was in the order of the episodes is not known."
        tasks = (("", counts[1]),)
        return ResultsTable(str(source).strip(), None, success, keys, tasks, ordered=False,
                            columns={"success": "counts"}, notes=(note,))  # fmt: skip
    if not path.is_file():
        raise InputError(f"expected a table of results, found nothing at {str(path)!r}")
    if path.stat().st_size > _LARGEST:
        raise InputError(f"expected a table of at most {_LARGEST:,} bytes in {str(path)!r}")
    if path.suffix == ".npz":
        return _evaluations(path, evaluation)
    if evaluation != "last":
        raise InputError(f"expected `evaluation` for an evaluations.npz, found {str(path)!r}")
    notes: tuple[str, ...] = ()
    if path.suffix in (".jsonl", ".ndjson", ".json"):
        rows = _json_rows(path)
    elif path.suffix == ".parquet":
        rows = _parquet_rows(path)
    else:
        monitor, _ = _header(path)
        if monitor:
            if not frozen:
                raise InputError(
                    f"expected evaluation episodes of one policy, found {str(path)!r}, a monitor "
                    "file of Stable-Baselines3, which records training: if the policy was frozen, "
                    "give `frozen`"
                )
            notes = ("The rows of the monitor file are episodes of one frozen policy, as stated.",)
        rows = _csv_rows(path)
    if not rows:
        raise InputError(f"expected at least one row of results in {str(path)!r}, found none")
    return _table(path, rows, _roles(columns), notes)


def _table(path: Path, rows: Rows, given: dict[str, tuple[str, ...]], notes: tuple[str, ...]
           ) -> ResultsTable:  # fmt: skip
    names = list(rows[0])
    for number, row in enumerate(rows, start=1):
        if list(row) != names and set(row) != set(names):
            raise InputError(
                f"expected the columns {', '.join(names)} in row {number} of {str(path)!r}, found "
                f"{', '.join(row)}"
            )
    chosen = {role: _column(role, names, given, path) for role in _USUAL}
    if not chosen["return"] and not chosen["success"]:
        raise InputError(
            f"expected a column of returns or successes in {str(path)!r}, found "
            f"{', '.join(names)[:200]}: name it, such as `columns` return={names[0]} (or obs=... "
            "for a table with a row per step)"
        )

    def column(role: str) -> list[Any] | None:
        return [row[chosen[role][0]] for row in rows] if chosen[role] else None

    seeds, numbers = (_whole(column(role)) for role in ("seed", "episode"))
    grouping = list(chosen["task"])
    if seeds is not None and len(set(seeds)) < len(seeds) and not given.get("seed"):
        grouping, seeds = [*grouping, chosen["seed"][0]], None  # of the training
    grouping = [name for name in grouping if len({str(row[name]) for row in rows}) > 1]
    labels = [", ".join(f"{name} {row[name]}" for name in grouping) for row in rows]
    place = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    order = np.argsort([place[label] for label in labels], kind="stable")
    counted = np.bincount([place[label] for label in labels]).tolist()
    tasks = tuple(zip(place, counted, strict=True))
    keys = seeds if seeds is not None else numbers
    found = _numbers(column("return"), chosen["return"], path)
    flags = _flags(column("success"), chosen["success"], path)
    used = {name for each in chosen.values() for name in each}
    others = {name: _numbers_or_none([row[name] for row in rows]) for name in names
              if name not in used and name.isprintable()}  # fmt: skip
    made = ResultsTable(
        name=path.name,
        returns=None if found is None else found[order],
        success=None if flags is None else flags[order],
        keys=np.full(len(rows), -1) if keys is None else np.array(keys, np.int64)[order],
        tasks=tasks,
        properties={k: v[order] for k, v in others.items() if v is not None},
        columns={role: ", ".join(each) for role, each in chosen.items() if each},
        unit=_unit(chosen["return"]),
        notes=notes,
    )
    for name, part in made.parts():
        known = made.keys[part]
        if len(np.unique(known[known >= 0])) < len(known[known >= 0]):
            role = "episode" if seeds is None else "seed"
            raise InputError(
                f"expected each episode once, found a number twice in column "
                f"{chosen[role][0]!r} of "
                f"{str(path)!r}{f' ({name})' if name else ''}: name what tells them apart, such as "
                f"`columns` task=COLUMN, or leave it out with {role}="
            )
    return made


def _roles(columns: str | Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Names that the user gives for each role; an empty tuple for none."""
    if not columns:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    if isinstance(columns, Mapping):
        for role, names in columns.items():
            found[role] = (names,) if isinstance(names, str) else tuple(names or ())
    else:
        role = ""
        for entry in columns.split(","):
            first, equals, rest = (part.strip() for part in entry.partition("="))
            role, name = (first, rest) if equals else (role, first)
            found[role] = (*found.get(role, ()), *([name] if name else []))
    for role in found:
        if role not in _USUAL:
            raise InputError(
                f"expected roles of `columns` among {', '.join(_USUAL)} for a table with a row per "
                f"episode, found {role!r}"
            )
    return found


def _column(
    role: str, names: Sequence[str], given: dict[str, tuple[str, ...]], path: Path
) -> tuple[str, ...]:
    if role in given:
        for name in given[role]:
            if name not in names:
                raise InputError(
                    f"expected a column {name!r} in {str(path)!r}, found {', '.join(names)[:200]}"
                )
        return given[role]
    by_name = {name.strip().lower(): name for name in names}
    found = [by_name[name] for name in _USUAL[role] if name in by_name]
    return tuple(found if role == "task" else found[:1])


def _unit(column: tuple[str, ...]) -> str:
    for unit, names in _RETURNS.items():
        if column and column[0].strip().lower() in names:
            return unit
    return column[0] if column else "return"


def _number(cell: Any) -> float:
    """A cell as a number; NaN where it is none."""
    if isinstance(cell, bool) or cell is None:
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _numbers_or_none(cells: Sequence[Any]) -> NDArray[np.float64] | None:
    found = np.array([_number(cell) for cell in cells], np.float64)
    return found if np.isfinite(found).all() else None


def _numbers(
    cells: Sequence[Any] | None, column: tuple[str, ...], path: Path
) -> NDArray[np.float64] | None:
    if cells is None:
        return None
    found = np.array([_number(cell) for cell in cells], np.float64)
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise InputError(
            f"expected a finite number in every row of column {column[0]!r} of {str(path)!r}, "
            f"found {str(cells[wrong[0]])[:40]!r} in row {wrong[0] + 1}"
        )
    return found


def _flags(
    cells: Sequence[Any] | None, column: tuple[str, ...], path: Path
) -> NDArray[np.bool_] | None:
    if cells is None:
        return None
    words = [str(cell).strip().lower() for cell in cells]
    for number, word in enumerate(words, start=1):
        if word not in _TRUE and word not in _FALSE:
            share = (
                " (a share or per cent is no result of one episode)" if word[:1].isdigit() else ""
            )
            raise InputError(
                f"expected true or false, or 1 or 0, in column {column[0]!r} of {str(path)!r}, "
                f"found {word[:40]!r} in row {number}{share}"
            )  # fmt: skip
    return np.array([word in _TRUE for word in words])


def _whole(cells: Sequence[Any] | None) -> list[int] | None:
    """Seeds or numbers of episodes; None where they are no whole numbers of at least 0."""
    if cells is None:
        return None
    found = [_number(cell) for cell in cells]
    fits = all(math.isfinite(x) and x == int(x) and 0 <= x < 2**63 for x in found)
    return [int(x) for x in found] if fits else None


def _header(path: Path) -> tuple[bool, list[str]]:
    """Whether a file is a monitor of Stable-Baselines3, and the names of its columns."""
    try:
        with _opened(path) as file:
            first = file.readline()
            monitor = first.startswith("#{")
            line = file.readline() if monitor else first
        names = next(csv.reader([line], delimiter=_delimiter(path, line)), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a table in {str(path)!r}: {one_line(error)}") from None
    if monitor and not {"r", "l", "t"} <= set(names):
        raise InputError(f"expected the columns r, l and t in the monitor file {str(path)!r}")
    return monitor, names


def _delimiter(path: Path, line: str) -> str:
    return "\t" if path.suffix == ".tsv" else ";" if ";" in line and "," not in line else ","


def _opened(path: Path) -> Any:
    return open(path, encoding="utf-8-sig", errors="strict", newline="")


def _csv_rows(path: Path) -> Rows:
    try:
        monitor, names = _header(path)
        with _opened(path) as file:
            if monitor:
                file.readline()
            line = file.readline()
            reader = csv.reader(file, delimiter=_delimiter(path, line), strict=True)
            if len(set(names)) < len(names) or not all(names):
                raise InputError(
                    f"expected a name for each column in the first line of {str(path)!r}, all "
                    f"different, found {line.strip()[:200]!r}"
                )
            rows = []
            for number, cells in enumerate(reader, start=1):
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise InputError(
                        f"expected {len(names)} cells in row {number} of {str(path)!r}, found "
                        f"{len(cells)}"
                    )
                rows.append(dict(zip(names, cells, strict=True)))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a table in {str(path)!r}: {one_line(error)}") from None
    if monitor:  # how long it took is no property
        rows = [{k: v for k, v in row.items() if k not in ("l", "t")} for row in rows]
    return rows


def _json_rows(path: Path) -> Rows:
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
        return _tasks_of_lerobot(found, path)
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


def _tasks_of_lerobot(found: dict[str, Any], path: Path) -> Rows:
    tasks = found.get("per_task")
    if _OLDER in found and tasks is None:
        raise InputError(
            "expected an eval_info.json of LeRobot with results per task, found an older layout "
            f"in {str(path)!r}: evaluate again, or write its {_OLDER!r} as a .jsonl of its own"
        )
    rows: Rows = []
    for task in tasks if isinstance(tasks, list) else []:
        metrics = task.get("metrics") if isinstance(task, dict) else None
        if not isinstance(metrics, dict):
            break
        named = {"sum_reward": "sum_rewards", "success": "successes"}
        lists = {name: metrics.get(key) for name, key in named.items() if metrics.get(key)}
        if not lists or not all(isinstance(each, list) for each in lists.values()):
            break
        if len({len(each or ()) for each in lists.values()}) > 1:
            raise InputError(f"expected as many rewards as successes of a task in {str(path)!r}")
        label = {key: task[key] for key in ("task_group", "task_id") if key in task}
        for values in zip(*lists.values(), strict=True):
            rows.append({**label, **dict(zip(lists, values, strict=True))})
    else:
        if rows:
            return rows
    raise InputError(
        f"expected a list of objects or an eval_info.json of LeRobot in {str(path)!r}, found "
        "another layout"
    )


def _parquet_names(path: Path) -> list[str]:
    return [each.name for each in _parquet(path).schema_arrow]


def _parquet(path: Path) -> Any:
    from tightrope.imports import needed

    try:
        return needed("pyarrow.parquet", "a Parquet table", "tables").ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InputError(f"expected a Parquet table in {str(path)!r}: {one_line(error)}") from None


def _parquet_rows(path: Path) -> Rows:
    from tightrope.rollouts.tables import parquet

    for each in _parquet(path).schema_arrow:
        if each.type.num_fields:
            raise InputError(
                f"expected plain columns in {str(path)!r}, found the nested column {each.name!r}"
            )
    table = parquet(path, _parquet_names(path))
    require_plausible(path, sum(map(_unfolded, table.itercolumns())))
    found: Rows = table.to_pylist()
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


def _evaluation_names(path: Path) -> list[str] | None:
    """The arrays of an `evaluations.npz`; None for another file."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {each.filename: each.file_size for each in archive.infolist()}
    except (OSError, zipfile.BadZipFile):
        return None
    if not {"timesteps.npy", "results.npy", "ep_lengths.npy"} <= set(sizes):
        return None
    if sum(sizes.values()) > _LARGEST:
        raise InputError(f"expected arrays of at most {_LARGEST:,} bytes in {str(path)!r}")
    return list(sizes)


def _evaluations(path: Path, evaluation: Evaluation) -> ResultsTable:
    """One row of what SB3's EvalCallback wrote: the episodes of one checkpoint."""
    names = _evaluation_names(path)
    if names is None:
        raise InputError(
            f"expected the evaluations.npz of an EvalCallback (timesteps, results, ep_lengths) in "
            f"{str(path)!r}, found another file"
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            results = np.asarray(arrays["results"], np.float64)
            steps = np.asarray(arrays["timesteps"], np.float64)
            stated = arrays["successes"] if "successes.npy" in names else None
            success = None if stated is None else np.asarray(stated, np.float64)
    except Exception as error:  # zipfile and NumPy raise many kinds for a damaged file
        raise InputError(f"expected plain arrays in {str(path)!r}: {one_line(error)}") from None
    fits = results.ndim == 2 and results.size and steps.shape == (len(results),)
    if not fits or not (np.isfinite(results).all() and np.isfinite(steps).all()):
        raise InputError(
            f"expected results (evaluations, episodes) of finite numbers in {str(path)!r}, found "
            f"shape {results.shape}"
        )
    count, candidates = len(results), 1
    row = count - 1
    if evaluation == "best":
        row, candidates = int(results.mean(axis=1).argmax()), count
    elif evaluation != "last":
        if isinstance(evaluation, bool) or not 1 <= evaluation <= count:
            raise InputError(
                f"expected `evaluation` from 1 to {count}, last or best, found {evaluation!r}"
            )
        row = int(evaluation) - 1
    about = f"Evaluation {row + 1} of {count}, after {int(steps[row]):,} steps of training"
    worth = ", chosen beforehand."
    if candidates > 1:
        gain = results.mean(axis=1).max() - results.mean(axis=1).mean()
        worth = (
            f", is the best of {count}: its mean is {gain:.4g} above that of all, part of it luck "
            "of the draw; the confidence accounts for the choice."
        )
    flags = None
    if success is not None and np.shape(success) == results.shape:
        flags = success[row] > 0
    return ResultsTable(
        name=path.name,
        returns=results[row],
        success=flags,
        keys=np.full(results.shape[1], -1),
        tasks=(("", results.shape[1]),),
        columns={"return": "results", **({"success": "successes"} if flags is not None else {})},
        candidates=candidates,
        notes=(about + worth,),
    )
