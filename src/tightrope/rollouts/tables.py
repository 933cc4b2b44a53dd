"""Columns with a row per step as episodes: files, frames, dictionaries and arrays alike."""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.rollouts.columns import ENDS, SEVERAL, Chosen, Columns, as_number, choose
from tightrope.rollouts.episodes import Episodes
from tightrope.system import library_versions

__all__ = ["IMAGE_DEPTH", "Get", "Table", "episodes_of", "log_metadata", "numbers", "read_frame"]

Get = Callable[[str], Any]  # the values of a column, by its name

IMAGE_DEPTH = 3  # dimensions of a row that is an image: height, width and channels
_TYPES = {"obs": np.float32, "next_obs": np.float32, "reward": np.float64}


@dataclass(frozen=True)
class Table:
    """Rows of steps by the names of their columns.

    Attributes:
        name: of the log, on record.
        kind: of the table, on record, such as ``csv``.
        names: of the columns, in their order, images included.
        read: given which columns are needed, what gives the values of each.
        images: those of `names` that hold images or videos.
        optional: as for :func:`tightrope.rollouts.columns.choose`.
    """

    name: str
    kind: str
    names: Sequence[str]
    read: Callable[[Chosen], Get]
    images: Collection[str] = ()
    optional: Collection[str] = ()


def read_frame(frame: Any, columns: Columns = None) -> Episodes:
    """Episodes from a data frame, or a dictionary of columns, with one row per step.

    Args:
        frame: of pandas or polars, or arrays by name. No library is imported for it.
        columns: which column is what, such as ``"obs=joint_*,reward=r,episode=run"`` or
            ``{"obs": ["x", "y"], "reward": "r"}``. Roles that are not named go by usual names:
            columns that start with ``obs`` are the observation, in their order; ``reward``;
            ``episode``, any label that is the same in all rows of an episode, which must stand
            together; ``terminated`` and ``truncated``, or ``done``, true in the last row of an
            episode at most; ``step`` and ``success`` if there are such columns. docs/formats.md
            has the whole rule.

    Other columns are left alone. A last episode without an end is dropped with a warning.

    Raises:
        InputError: a column is missing or holds other than numbers, or the episodes are not whole.
    """
    mapping = isinstance(frame, Mapping)
    kind = "dictionary" if mapping else "data frame"
    own = {str(name): name for name in (frame if mapping else frame.columns)}  # may be numbers
    names = [str(name) for name in (own if mapping else frame.columns)]

    def get(name: str) -> Any:
        values = frame[own[name]]
        return values if mapping else values.to_numpy()

    return episodes_of(Table(f"the {kind}", kind, names, lambda chosen: get), columns)


def episodes_of(table: Table, columns: Columns = None) -> Episodes:
    """The episodes of a table; which columns these are is on record in their metadata.

    Raises:
        InputError: a column is missing or holds other than numbers, or episodes are not whole.
    """
    chosen, left_out = choose(table.names, columns, images=table.images, optional=table.optional)
    used = {role: names for role, names in chosen.items() if names}
    used = {role: list(n) if role in SEVERAL else n[0] for role, n in used.items()}  # type: ignore[misc]
    recording: dict[str, Any] = {"format": table.kind, "columns": used}
    if left_out:
        recording["left_out"] = list(left_out)
        line = f"left the images {', '.join(left_out)} out of the observation of {table.name}"
        warnings.warn(line, stacklevel=3)
    get = table.read(chosen)
    rows = len(numbers(get(chosen["reward"][0]), f"the column {chosen['reward'][0]}"))
    if rows == 0:
        raise InputError("expected at least one step, found an empty log")
    arrays = {
        role: np.concatenate([_matrix(get(n), n, rows, role) for n in names], axis=1)
        for role, names in chosen.items()
        if names and role != "episode"
    }
    marks = {}
    for role in (*ENDS, "success"):
        if not np.isin(arrays.get(role, 0), (0, 1)).all():
            name = chosen[role][0]
            raise InputError(f"expected only true and false in the column {name}")
        if role in arrays:
            marks[role] = arrays[role][:, 0].astype(np.bool_)
    success = marks.pop("success", None)
    if chosen["episode"]:
        labels = _labels(get(chosen["episode"][0]), chosen["episode"][0], rows)
    else:  # an episode is what ends with one of the two
        ended = marks["terminated"] | marks["truncated"]
        labels = np.cumsum(ended) - ended
    last = np.append(np.flatnonzero(labels[1:] != labels[:-1]), rows - 1)
    label, count = Counter(labels[last].tolist()).most_common(1)[0]
    if count > 1:
        raise InputError(
            f"expected the rows of an episode together, found episode {label} in {count} places: "
            "sort by episode and step"
        )
    if "step" in arrays:
        _require_consecutive(arrays["step"][:, 0], labels, last)
    terminated, truncated = _ends(marks, labels, last)
    if not (terminated[-1] or truncated[-1]):
        last = last[:-1]
        if len(last) == 0:
            raise InputError("expected at least one episode with an end, found none")
        dropped = rows - 1 - last[-1]
        line = f"dropped the last {dropped} steps of {table.name}: they have no end"
        warnings.warn(line, stacklevel=3)
    end, offsets = last[-1] + 1, np.append(0, last + 1).astype(np.int64)
    return Episodes(
        observations=arrays["obs"][:end],
        rewards=arrays["reward"][:end, 0],
        offsets=offsets,
        terminated=terminated[: len(last)],
        truncated=truncated[: len(last)],
        seeds=np.full(len(last), -1, np.int64),
        actions=arrays["action"][:end] if "action" in arrays else None,
        final_observations=arrays["next_obs"][last] if "next_obs" in arrays else None,
        success=None if success is None else np.logical_or.reduceat(success[:end], offsets[:-1]),
        subject={**log_metadata(table.name), "recording": recording},
    )


def log_metadata(log: str, environment: str | None = None) -> dict[str, Any]:
    """The metadata of episodes from a log: its name, and its environment if that is known."""
    found: dict[str, Any] = {"log": log, "versions": library_versions()}
    return found if environment is None else {**found, "environment": {"id": environment}}


# --- columns -------------------------------------------------------------------------------------


def numbers(values: Any, name: str) -> NDArray[Any]:
    """(rows, ...) values that are all numbers; raises InputError for anything else."""
    try:
        array = _plain(values)
    except ValueError as error:  # lists of different lengths
        line = f"expected numbers in {name}, as many in each row, found {one_line(error)}"
        raise InputError(line) from None
    if array.dtype.kind in "biuf" and array.ndim:
        return array
    cells = array.tolist() if array.ndim == 1 else []
    wrong = (row for row, cell in enumerate(cells) if np.isnan(as_number(cell)))
    row = next(wrong, None)
    found = f"{array.dtype} of shape {array.shape}"
    found = found if row is None else f"{str(cells[row])[:40]!r} in row {row}"
    raise InputError(f"expected numbers in {name}, found {found}")


def _plain(values: Any) -> NDArray[Any]:
    """Lists in rows, decimals, and numbers where pandas lets some be missing, as one array."""
    array = np.asarray(values)
    if array.dtype != object:
        return array
    nested = (list, tuple, np.ndarray)
    cells = [float(cell) if isinstance(cell, Decimal) else cell for cell in array.tolist()]
    return np.array([_plain(cell) if isinstance(cell, nested) else cell for cell in cells])


def _matrix(values: Any, name: str, rows: int, role: str) -> NDArray[Any]:
    """(rows, width) the numbers of a column, finite after conversion; a list is several."""
    array = numbers(values, f"the column {name}")
    if len(array) != rows:
        raise InputError(f"expected {rows} rows of {name}, found {len(array)}")
    if array.size == 0 or (role not in SEVERAL and array.size != rows):
        kind = "numbers" if role in SEVERAL else "one number"
        found = f"found shape {array.shape}"
        raise InputError(f"expected {kind} in each row of the column {name}, {found}")
    if array.ndim > IMAGE_DEPTH:
        found = f"found images of shape {array.shape[1:]}"
        raise InputError(f"expected a few numbers in each row of the column {name}, {found}")
    array = array.reshape(rows, -1)
    with np.errstate(over="ignore"):  # is refused below
        converted = array.astype(_TYPES.get(role, array.dtype), copy=False)
    if converted.dtype.kind == "f" and not np.isfinite(converted).all():
        row, column = np.argwhere(~np.isfinite(converted))[0]
        found = f"{array[row, column]:g}".replace("nan", "NaN")
        raise InputError(
            f"expected finite numbers in the column {name}, found {found} in row {row}"
        )
    return converted


def _labels(values: Any, name: str, rows: int) -> NDArray[Any]:
    """(rows,) numbers or texts that tell episodes apart."""
    labels = np.asarray(values)
    texts = labels.dtype.kind in "OU" and all(isinstance(label, str) for label in labels.flat)
    if labels.dtype == object and not texts:  # numbers, or some are missing
        labels = np.array(labels.tolist())
    missing = labels.dtype.kind in "fM" and (labels != labels).any()
    if labels.shape != (rows,) or missing or not (texts or labels.dtype.kind in "biufM"):
        raise InputError(f"expected a number or text in every row of {name}")
    return labels.astype(object) if texts else labels


# --- episodes ------------------------------------------------------------------------------------


def _require_consecutive(steps: NDArray[Any], labels: NDArray[Any], last: NDArray[np.intp]) -> None:
    """Steps rise by one, from one number in all episodes or on from the episode before."""
    steps = steps if steps.dtype.kind == "f" else steps.astype(np.int64)
    remedy = "sort by step, with every step in it; `columns` step= skips this check"
    jumps = np.diff(steps)
    jumps[last[:-1]] = 1
    for row in np.flatnonzero(jumps != 1)[:1]:
        raise InputError(
            f"expected steps in a row, found step {steps[row + 1]:g} after {steps[row]:g} in "
            f"episode {labels[row]}: {remedy}"
        )
    starts = steps[np.append(0, last[:-1] + 1)]
    odd = np.flatnonzero(starts != starts[0])
    if len(odd) and (starts[1:] != steps[last[:-1]] + 1).any():
        raise InputError(
            f"expected all episodes to start at step {starts[0]:g}, found step {starts[odd[0]]:g} "
            f"in episode {labels[last[odd[0]]]}: {remedy}"
        )


def _ends(
    marks: Mapping[str, NDArray[np.bool_]], labels: NDArray[Any], last: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(episodes,) terminated and truncated; neither is left only for the last, which is dropped."""
    for name, values in marks.items():
        for row in np.setdiff1d(np.flatnonzero(values), last)[:1]:
            found = f"found it in row {row}, within episode {labels[row]}"
            raise InputError(f"expected {name} only in the last row of an episode, {found}")
    ended, cut, done = (marks[role][last] if role in marks else None for role in ENDS)
    if cut is None:  # an episode without the flag ended the other way
        if ended is None:
            ended, done = np.zeros(len(last), np.bool_) if done is None else done, None
        cut = ~ended if done is None else done & ~ended
    elif ended is None:
        ended = ~cut if done is None else done & ~cut
    for index in np.flatnonzero(~(ended | cut)[:-1])[:1]:
        raise InputError(
            "expected every episode to end terminated or truncated, found episode "
            f"{labels[last[index]]} with neither"
        )
    return ended, cut
