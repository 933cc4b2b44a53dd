"""Tables with one row per step as episodes, wherever the rows come from.

Rows arrive in batches and only in the columns that are needed; observations are kept once, as the
float32 that they become.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tightrope.errors import InputError
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.logs.arrays import flags, numbers
from tightrope.rollouts.logs.columns import Chosen, Given, choose
from tightrope.rollouts.logs.shared import subject_of

__all__ = ["Batch", "Table", "episodes_of"]

Batch = Mapping[str, NDArray[Any]]  # (rows,) or (rows, ...) by column
_FLAGS = ("terminated", "truncated", "done", "success")
_FIRST_ROWS = 4096
_MOST_DIMENSIONS = 2  # of one step's array; with three it is an image


@dataclass(frozen=True)
class Table:
    """Rows of steps by the names of their columns.

    Attributes:
        name: of the log, on record.
        where: the same in messages.
        kind: of the table, on record, such as ``csv``.
        names: of the columns, in their order, images included.
        read: batches of rows, of the chosen columns at least.
        images: those of `names` that hold images or videos.
        ends_with_rows: an episode ends with its last row although no column says so.
        record: whatever else is known of the log, as JSON.
    """

    name: str
    where: str
    kind: str
    names: tuple[str, ...]
    read: Callable[[Chosen], Iterator[Batch]]
    images: Collection[str] = ()
    ends_with_rows: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)


def episodes_of(table: Table, columns: Given = None) -> Episodes:
    """The episodes of a table; which columns these are is on record in their subject.

    Raises:
        InputError: a column is missing or holds other than numbers, or episodes are not whole.
    """
    chosen = choose(
        table.names,
        columns,
        where=table.where,
        images=table.images,
        ends_with_rows=table.ends_with_rows,
    )
    if chosen.left_out:
        warnings.warn(
            f"left the images {', '.join(chosen.left_out)} out of the observation of {table.name}",
            stacklevel=3,
        )
    rows = _gather(table, chosen)
    last = _last_rows(rows.labels, table.where)
    if rows.steps is not None:
        _require_consecutive(rows.steps, rows.labels, last, table.where)
    terminated, truncated = _ends(rows, last, table.where)
    kept = len(last)
    if not (terminated[-1] or truncated[-1]):
        first = last[-2] + 1 if kept > 1 else 0
        if kept == 1:
            raise InputError(
                f"expected at least one episode with an end, found none in {table.where}"
            )
        warnings.warn(
            f"dropped the last {last[-1] + 1 - first} steps of {table.name}: they have no end",
            stacklevel=3,
        )
        kept -= 1
    offsets = np.concatenate([[0], last[:kept] + 1]).astype(np.int64)
    steps = int(offsets[-1])
    succeeded = None
    if rows.success is not None:
        succeeded = np.logical_or.reduceat(rows.success[:steps], offsets[:-1])
    recording: dict[str, Any] = {"format": table.kind, "columns": chosen.to_json(), **table.record}
    if chosen.left_out:
        recording["left_out"] = list(chosen.left_out)
    return Episodes(
        observations=rows.observations[:steps],
        rewards=rows.rewards[:steps],
        offsets=offsets,
        terminated=terminated[:kept],
        truncated=truncated[:kept],
        seeds=np.full(kept, -1, dtype=np.int64),
        actions=None if rows.actions is None else rows.actions[:steps],
        success=succeeded,
        subject={**subject_of(table.name), "recording": recording},
    )


# --- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """All rows of a table; None where it has no such column."""

    observations: NDArray[np.float32]  # (rows, features)
    rewards: NDArray[np.float64]
    labels: NDArray[Any]  # of the episodes
    steps: NDArray[np.int64] | None
    terminated: NDArray[np.bool_] | None
    truncated: NDArray[np.bool_] | None
    done: NDArray[np.bool_] | None
    success: NDArray[np.bool_] | None
    actions: NDArray[Any] | None  # (rows, actions)


class _Growing:
    """An array that rows are added to; memory grows in place, and is never held twice."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._array = np.empty((_FIRST_ROWS, *shape), dtype)
        self._rows = 0

    def more(self, rows: int) -> NDArray[Any]:
        """The next `rows` rows, to be filled."""
        start, self._rows = self._rows, self._rows + rows
        if self._rows > len(self._array):
            self._resize(max(self._rows, len(self._array) * 3 // 2))
        return self._array[start : self._rows]

    def whole(self) -> NDArray[Any]:
        self._resize(self._rows)
        return self._array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._array.shape[1:]), refcheck=False)


class _Block:
    """Several columns side by side in one array."""

    def __init__(self, names: Sequence[str], where: str, dtype: DTypeLike | None) -> None:
        self._names, self._where, self._dtype = names, where, dtype
        self._widths: list[int] = []
        self._rows: _Growing | None = None

    def add(self, batch: Batch, start: int) -> None:
        parts = [_flat(batch[name], name, self._where) for name in self._names]
        widths = [part.shape[1] for part in parts]
        if self._rows is None:
            dtype = np.result_type(*parts) if self._dtype is None else self._dtype
            self._widths, self._rows = widths, _Growing((sum(widths),), dtype)
        for name, width, expected in zip(self._names, widths, self._widths, strict=True):
            if width != expected:
                raise InputError(
                    f"expected {expected} numbers in each row of the column {name}, found {width} "
                    f"from row {start} of {self._where}"
                )
        room, at = self._rows.more(len(parts[0])), 0
        with np.errstate(over="ignore"):  # is refused below
            for name, part in zip(self._names, parts, strict=True):
                filled = room[:, at : at + part.shape[1]]
                filled[:] = part
                _require_finite(filled, part, name, start, self._where)
                at += part.shape[1]

    def whole(self) -> NDArray[Any]:
        assert self._rows is not None  # an empty table was refused
        return self._rows.whole()


def _gather(table: Table, chosen: Chosen) -> _Rows:
    where = table.where
    observed = _Block(chosen.obs, where, np.float32)
    rewards = _Block([chosen.reward], where, np.float64)
    acted = _Block(chosen.action, where, None)
    labels: list[NDArray[Any]] = []
    single = {role: _Growing((), np.bool_) for role in _FLAGS if getattr(chosen, role) is not None}
    if chosen.step is not None:
        single["step"] = _Growing((), np.int64)
    rows = 0
    for batch in table.read(chosen):
        size = len(batch[chosen.episode])
        if size == 0:
            continue
        observed.add(batch, rows)
        rewards.add(batch, rows)
        if chosen.action:
            acted.add(batch, rows)
        labels.append(_labels(batch[chosen.episode], chosen.episode, where))
        for role, column in single.items():
            name = getattr(chosen, role)
            values = numbers(batch[name], f"the column {name}", where)
            whole = _whole if role == "step" else flags
            column.more(size)[:] = whole(values, name, where)
        rows += size
    if rows == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
    total = rewards.whole()
    if total.shape[1] != 1:
        raise InputError(
            f"expected one number in each row of the column {chosen.reward}, found "
            f"{total.shape[1]} in {where}"
        )
    found = {role: column.whole() for role, column in single.items()}
    return _Rows(
        observations=observed.whole(),
        rewards=total.reshape(-1),
        labels=labels[0] if len(labels) == 1 else np.concatenate(labels),
        steps=found.pop("step", None),
        actions=acted.whole() if chosen.action else None,
        **{role: found.get(role) for role in _FLAGS},
    )


def _flat(values: NDArray[Any], name: str, where: str) -> NDArray[Any]:
    array = numbers(values, f"the column {name}", where)
    if array.ndim - 1 > _MOST_DIMENSIONS:
        raise InputError(
            f"expected numbers in the column {name}, found images of shape {array.shape[1:]} in "
            f"{where}: certificates are for numeric observations"
        )
    flat = array.reshape(len(array), -1)  # (rows, features)
    if flat.shape[1] == 0:
        raise InputError(f"expected numbers in the column {name}, found empty lists in {where}")
    return flat


def _require_finite(
    filled: NDArray[Any], values: NDArray[Any], name: str, start: int, where: str
) -> None:
    """Refuse NaN, infinity, and what float32 cannot hold; `filled` is what `values` became."""
    if filled.dtype.kind != "f" or np.isfinite(filled).all():
        return
    row, column = np.argwhere(~np.isfinite(filled))[0]
    raise InputError(
        f"expected finite numbers in the column {name}, found {values[row, column]:g} in row "
        f"{start + row} of {where}"
    )


def _whole(values: NDArray[Any], name: str, where: str) -> NDArray[np.int64]:
    """(rows,) a whole number per step."""
    flat = values.reshape(-1)
    fits = flat.dtype.kind != "f" or bool((np.abs(flat) < 2**53).all())  # false for NaN, too
    whole = flat.astype(np.int64) if fits else np.zeros(len(flat), np.int64)
    if not fits or len(flat) != len(values) or (whole != flat).any():
        raise InputError(
            f"expected a whole number in each row of the column {name}, in {where}: with `columns` "
            "step= steps are not looked at"
        )
    return whole


def _labels(values: NDArray[Any], name: str, where: str) -> NDArray[Any]:
    """(rows,) numbers or texts that tell episodes apart."""
    labels = values
    if labels.dtype == object:
        kinds = {type(label) for label in set(labels.tolist())}
        labels = labels if kinds == {str} else np.array(labels.tolist())
    missing = labels.dtype.kind == "f" and np.isnan(labels).any()
    if labels.ndim != 1 or labels.dtype.kind not in "biufUO" or missing:
        raise InputError(f"expected a number or text in every row of {name} in {where}")
    return labels.astype(object) if labels.dtype.kind == "U" else labels


# --- episodes ------------------------------------------------------------------------------------


def _last_rows(labels: NDArray[Any], where: str) -> NDArray[np.intp]:
    """The last row of each episode; raises InputError unless rows of one label stand together."""
    last = np.append(np.flatnonzero(labels[1:] != labels[:-1]), len(labels) - 1)
    label, count = Counter(labels[last].tolist()).most_common(1)[0]
    if count > 1:
        raise InputError(
            f"expected the rows of an episode together, found episode {label} in {count} places "
            f"of {where}: sort by episode and step"
        )
    return last


def _require_consecutive(
    steps: NDArray[np.int64], labels: NDArray[Any], last: NDArray[np.intp], where: str
) -> None:
    """Steps rise by one, from one number in all episodes or on from the episode before."""
    jumps = np.diff(steps)
    jumps[last[:-1]] = 1
    wrong = np.flatnonzero(jumps != 1)
    if len(wrong):
        row = int(wrong[0])
        before, after, label = steps[row], steps[row + 1], labels[row]
        start = last[np.searchsorted(last, row) - 1] + 1 if row > last[0] else 0
        if after in steps[start : row + 1]:
            found = f"step {after} of episode {label} twice"
            hint = "remove one"
        elif after < before:
            found, hint = f"step {after} after {before} in episode {label}", "sort by step"
        else:
            found = f"step {after} after {before} in episode {label}"
            hint = "a return needs every step; if none is missing, `columns` step= skips this check"
        raise InputError(f"expected steps in a row, found {found} of {where}: {hint}")
    starts = steps[np.append(0, last[:-1] + 1)]
    follows = starts[1:] == steps[last[:-1]] + 1
    alike = starts == starts[0]
    if not (alike.all() or follows.all()):
        odd = int(np.flatnonzero(~alike)[0])
        raise InputError(
            f"expected all episodes to start at step {starts[0]}, found step {starts[odd]} in "
            f"episode {labels[last[odd]]} of {where}: if none is missing, `columns` step= skips "
            "this check"
        )


def _ends(
    rows: _Rows, last: NDArray[np.intp], where: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(episodes,) terminated and truncated; neither is left only for the last, which is dropped."""
    given = {name: getattr(rows, name) for name in ("terminated", "truncated", "done")}
    present = {name: values for name, values in given.items() if values is not None}
    inner = np.ones(len(rows.labels), dtype=np.bool_)
    inner[last] = False
    for name, values in present.items():
        early = np.flatnonzero(values & inner)
        if len(early):
            raise InputError(
                f"expected {name} only in the last row of an episode, found it in row {early[0]}, "
                f"within episode {rows.labels[early[0]]}, of {where}"
            )
    at = {name: values[last] for name, values in present.items()}
    if not at:
        return np.zeros(len(last), np.bool_), np.ones(len(last), np.bool_)
    if len(at) == 1:  # an episode without the flag ended the other way
        ((name, flag),) = at.items()
        return (~flag, flag) if name == "truncated" else (flag, ~flag)
    if "done" not in at:
        terminated, truncated = at["terminated"], at["truncated"]
    elif "truncated" in at:
        terminated, truncated = at["done"] & ~at["truncated"], at["truncated"]
    else:
        terminated, truncated = at["terminated"], at["done"] & ~at["terminated"]
    endless = np.flatnonzero(~(terminated | truncated)[:-1])
    if len(endless):
        raise InputError(
            f"expected every episode to end terminated or truncated, found episode "
            f"{rows.labels[last[endless[0]]]} with neither in {where}"
        )
    return terminated, truncated
