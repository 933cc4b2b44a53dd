"""Tables with one row per episode: returns, successes and numbers of one's own; and counts."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, reading
from tightrope.rollouts.columns import (
    ROLES,
    Chosen,
    Columns,
    all_names,
    as_number,
    listed,
    matching,
    parse,
)
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.results_files import Evaluation, Recorded, column_names, read_columns

__all__ = [
    "Evaluation",
    "Reading",
    "ResultsTable",
    "counts_of",
    "is_results",
    "read_results",
    "table_of",
    "unit_of",
]

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
_LARGEST = 1e90  # sums of such, and their squares, are numbers as well
_RECORD = {"columns": Mapping, "returns": bool, "ordered": bool, "candidates": int, "notes": list}
_TRUE = ("true", "1", "1.0", "yes", "y", "t", "success")
_FALSE = ("false", "0", "0.0", "no", "n", "f", "failure")


@dataclass(frozen=True)
class Reading:
    """How a table of results is read.

    Attributes:
        columns: Which column of a table is what, such as "return=score,success=ok,task=suite".
            Roles with a row per episode are return, success, seed, episode, task; with a row per
            step obs, reward, episode, step, terminated, truncated, done, success, action, next_obs
            ("obs=joint_*,torque"). By default they go by their usual names; nothing after = means
            that there is no such column.
        frozen: The rows of a monitor.csv of Stable-Baselines3 are evaluation episodes of one
            policy.
        evaluation: Of an evaluations.npz of Stable-Baselines3; its number, from 1; the last; or
            the best, for which the confidence accounts.
    """

    columns: Annotated[str, "ROLE=NAME,..."] = ""
    frozen: bool = False
    evaluation: Evaluation = "last"


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
            rewards=np.zeros(count) if self.returns is None else self.returns,
            offsets=np.arange(count + 1),
            terminated=np.zeros(count, np.bool_),
            truncated=np.ones(count, np.bool_),
            seeds=self.keys,
            success=self.success,
            properties=dict(self.properties),
            subject={"log": self.name, "table": table},
        )


def table_of(recorded: Episodes) -> Mapping[str, Any] | None:
    """What is recorded of the table that episodes come from; None where they were rolled out.

    Raises:
        InputError: it is not what :meth:`ResultsTable.episodes` writes for them.
    """
    found = recorded.subject.get("table")
    if not isinstance(found, Mapping):
        return None
    try:
        counts = [count for _, count in found["tasks"]]
        fits = min(counts) >= 1 and sum(counts) == len(recorded)
        fits = fits and all(isinstance(found[name], kind) for name, kind in _RECORD.items())
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits or found["candidates"] < 1:
        kind = "the record of a table as tightrope writes it"
        raise InputError(f"expected {kind}, found another: read the table itself again")
    return found


def unit_of(columns: Mapping[str, str]) -> str:
    """The unit of the returns of a table, by the name of their column."""
    name = columns.get("return", "return")
    usual = (unit for unit, names in _RETURNS.items() if name.strip().lower() in names)
    return next(usual, name)


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
            "expected SUCCESSES/EPISODES, two whole numbers such as 74/80, the second at least the "
            f"first, found {source.strip()}"
        )
    return whole[0], whole[1]


def is_results(source: Any, columns: Columns = None) -> bool:
    """Whether a source names a table with a row per episode, or counts, rather than steps.

    A CSV or Parquet file is one unless a column starts with obs, or `columns` names observations.
    """
    if not isinstance(source, str | Path):
        return isinstance(source, ResultsTable)
    if isinstance(source, str) and counts_of(source) is not None:
        return True
    given = columns if isinstance(columns, Mapping) else re.findall(r"(\w+)\s*=", columns or "")
    path = Path(source)
    of_steps = (set(ROLES) - set(_USUAL)) & set(given)
    names = None if of_steps or not path.is_file() else column_names(path)
    return names is not None and not any(name.lower().startswith("obs") for name in names)


def read_results(
    source: "str | Path | ResultsTable",
    *,
    columns: Columns = None,
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
    if counts is None:
        asked, path = parse(columns, tuple(_USUAL)), Path(source)
        with reading(repr(str(path))):
            recorded = read_columns(path, frozen=frozen, evaluation=evaluation)
            return _table(path.name, recorded, asked)
    return ResultsTable(
        name=str(source).strip(),
        returns=None,
        success=np.arange(counts[1]) < counts[0],
        keys=np.full(counts[1], -1),
        tasks=(("", counts[1]),),
        columns={"success": "counts"},
        ordered=False,
        notes=("Counts alone: what was in the order of the episodes is not known.",),
    )


def _table(name: str, recorded: Recorded, asked: Chosen) -> ResultsTable:
    """The results in the columns of a file, task by task."""
    columns, names = recorded.columns, list(recorded.columns)
    by_name = {each.strip().lower(): each for each in names}
    chosen: Chosen = {}
    for role, known in _USUAL.items():
        usual = [by_name[each] for each in known if each in by_name]
        given = matching(role, asked.get(role, ()), names)
        chosen[role] = given if role in asked else tuple(usual if role == "task" else usual[:1])
    if not chosen["return"] and not chosen["success"]:
        raise InputError(
            f"expected a column of returns or successes, found {listed(names)}: name it, such as "
            f"`columns` return={names[0]} (or obs=... for a table with a row per step)"
        )

    def column(role: str, read: Callable[[list[Any], str], Any]) -> Any:
        """What `read` makes of the cells of a role; None without such a column."""
        for each in chosen[role]:
            return read(columns[each], f"column {each!r}")
        return None

    seeds, numbers = column("seed", _whole), column("episode", _whole)
    grouping = list(chosen["task"])
    if seeds is not None and len(set(seeds)) < len(seeds) and "seed" not in asked:
        grouping, seeds = [*grouping, *chosen["seed"]], None  # of the training
    grouping = [each for each in grouping if len(set(map(str, columns[each]))) > 1]
    count = len(columns[names[0]])
    labels = [", ".join(f"{n} {columns[n][row]}" for n in grouping) for row in range(count)]
    sizes = Counter(labels)  # in the order in which they come
    places = {label: index for index, label in enumerate(sizes)}
    order = np.argsort([places[label] for label in labels], kind="stable")
    keys = next((each for each in (seeds, numbers) if each is not None), [-1] * count)
    free = [each for each in names if each not in all_names(chosen) and each.isprintable()]
    others = {each: _numbers(columns[each]) for each in free}
    returns, success = column("return", _finite), column("success", _flags)
    table = ResultsTable(
        name=name,
        returns=None if returns is None else returns[order],
        success=None if success is None else success[order],
        keys=np.array(keys, np.int64)[order],
        tasks=tuple(sizes.items()),
        properties={
            n: values[order] for n, values in others.items() if (np.abs(values) <= _LARGEST).all()
        },
        columns={role: ", ".join(each) for role, each in chosen.items() if each},
        candidates=recorded.candidates,
        notes=(recorded.note,) if recorded.note else (),
    )
    for task, rows in table.parts():
        paired = table.keys[rows][table.keys[rows] >= 0]
        if len(np.unique(paired)) < len(paired):
            role = "episode" if seeds is None else "seed"
            raise InputError(
                f"expected each episode once, found a number twice in column {chosen[role][0]!r}"
                f"{f' ({task})' if task else ''}: name what tells them apart, such as `columns` "
                f"task=COLUMN, or leave it out with {role}="
            )
    return table


def _whole(cells: list[Any], where: str) -> list[int] | None:
    """Seeds or numbers of episodes; None where no cell is a whole number of at least 0."""
    found = _numbers(cells).tolist()
    fits = [math.isfinite(x) and x == int(x) and 0 <= x < 2**63 for x in found]
    if any(fits) and not all(fits):  # what has no number could be paired with anything
        row = fits.index(False)
        raise InputError(
            f"expected a whole number of at least 0 in every row of {where}, or in none, found "
            f"{_cell(cells, row)}: or leave the column out with seed= or episode="
        )
    return [int(x) for x in found] if any(fits) else None


def _finite(cells: list[Any], where: str) -> NDArray[np.float64]:
    found = _numbers(cells)
    for row in np.flatnonzero(~(np.abs(found) <= _LARGEST))[:1]:  # also where it is none
        cell, limit = _cell(cells, row), f" up to {_LARGEST:g}" if np.isfinite(found[row]) else ""
        raise InputError(f"expected a finite number{limit} in every row of {where}, found {cell}")
    return found


def _flags(cells: list[Any], where: str) -> NDArray[np.bool_]:
    words = [str(cell).strip().lower() for cell in cells]
    for row, word in enumerate(words):
        if word not in (*_TRUE, *_FALSE):
            share = " (a share or per cent is no result of one episode)"
            raise InputError(
                f"expected true or false, or 1 or 0, in {where}, found {_cell(cells, row)}"
                f"{share if word[:1].isdigit() else ''}"
            )
    return np.array([word in _TRUE for word in words])


def _cell(cells: list[Any], row: int) -> str:
    return f"{str(cells[row])[:40]!r} in row {row + 1}"


def _numbers(cells: list[Any]) -> NDArray[np.float64]:
    """Cells as numbers; NaN where one is none."""
    return np.array([as_number(cell) for cell in cells], np.float64)
