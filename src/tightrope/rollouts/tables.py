"""Tables with one row per step as episodes: .csv, .tsv, .parquet, .feather, frames, dictionaries.

Only the columns that are needed are read. A file is refused if it states more than it could hold.
"""

import csv
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.imports import needed
from tightrope.rollouts.arrays import flags, log_metadata, numbers
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.roles import Chosen, Columns, choose

__all__ = [
    "Table",
    "episodes_of",
    "is_frame",
    "parquet",
    "read_frame",
    "read_table",
    "reading",
    "values_of",
]

Get = Callable[[str], Any]  # the values of a column, by its name

_NUMBER = 8  # bytes of the largest
_IMAGE_DEPTH = 3  # lists of lists of lists: height, width and channels
_ZSTD = re.compile(rb"(?s)(.{8})\x28\xb5\x2f\xfd")


@dataclass(frozen=True)
class Table:
    """Rows of steps by the names of their columns.

    Attributes:
        name: of the log, on record.
        where: the same in messages.
        kind: of the table, on record, such as ``csv``.
        names: of the columns, in their order, images included.
        read: given which columns are needed, what gives the values of each.
        images: those of `names` that hold images or videos.
        ends_with_rows: an episode ends with its last row although no column says so.
        record: whatever else is known of the log, as JSON.
    """

    name: str
    where: str
    kind: str
    names: tuple[str, ...]
    read: Callable[[Chosen], Get]
    images: Collection[str] = ()
    ends_with_rows: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)


# --- sources -------------------------------------------------------------------------------------


def is_frame(source: Any) -> bool:
    """Whether an object has named columns that become arrays, as data frames do."""
    return hasattr(source, "columns") and hasattr(source, "to_numpy")


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
    listed = list(frame) if mapping else list(frame.columns)
    own = {str(name): name for name in listed}  # pandas allows numbers as names

    def read(chosen: Chosen) -> Get:
        if mapping:
            return lambda name: frame[own[name]]
        return lambda name: frame[own[name]].to_numpy()

    table = Table(f"the {kind}", f"the {kind}", kind, tuple(map(str, listed)), read)
    return episodes_of(table, columns)


def read_table(path: Path, columns: Columns = None) -> Episodes:
    """Episodes from a .csv, .tsv, .parquet or .feather file with one row per step.

    Args:
        path: of the file. Text has a line of names first, in UTF-8.
        columns: which column is what, as for :func:`read_frame`. A column of .parquet or .feather
            may hold lists of one length: these are several features.

    Raises:
        InputError: pandas or pyarrow is missing, the file is damaged, a column is missing or holds
            other than numbers, or the episodes are not whole.
    """
    if not path.is_file():
        raise InputError(f"expected a table, found nothing at {str(path)!r}: check the path")
    for package in ("pandas", "pyarrow"):
        needed(package, f"a {path.suffix} table", "tables")
    if path.stat().st_size == 0:
        raise InputError(f"expected a table, found an empty file at {str(path)!r}")
    opened = {".parquet": _parquet, ".feather": _feather}.get(path.suffix, _text)
    with reading(path):
        names, images, read = opened(path)
        where = repr(str(path))
        table = Table(path.name, where, path.suffix[1:], tuple(names), read, frozenset(images))
        return episodes_of(table, columns)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What pandas, pyarrow or the system says of a file, in one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # they have many kinds, some of them Python's own
        raise InputError(f"cannot read {str(path)!r}: {one_line(error)}") from None


def _text(path: Path) -> tuple[Sequence[str], Sequence[str], Callable[[Chosen], Get]]:
    import pyarrow
    from pyarrow import csv as arrow_csv

    separator = "\t" if path.suffix == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as stream:
        names = next(csv.reader(stream, delimiter=separator, strict=True), [])

    def read(chosen: Chosen) -> Get:
        table = arrow_csv.read_csv(
            path,
            # One block: a column that is whole only at first is no column of whole numbers.
            read_options=arrow_csv.ReadOptions(
                block_size=min(path.stat().st_size + 1, 2**31 - 1), encoding="utf8"
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(chosen.names),
                # Labels are only compared: 07 is not 7.
                column_types={
                    chosen.episode: pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
                },
                strings_can_be_null=True,
            ),
        )
        return values_of(_frame(table), repr(str(path)))

    return names, (), read


def _parquet(path: Path) -> tuple[Sequence[str], Sequence[str], Callable[[Chosen], Get]]:
    from pyarrow.parquet import read_schema

    schema = read_schema(path)
    images = [field.name for field in schema if _is_image(field.type)]
    return (
        schema.names,
        images,
        lambda chosen: values_of(parquet(path, chosen.names), repr(str(path))),
    )


def parquet(path: Path, names: Sequence[str]) -> Any:
    """Some columns of a .parquet file as a data frame.

    Raises:
        InputError: a column is not there, or it states more values than the file could hold.
    """
    from pyarrow import types
    from pyarrow.parquet import ParquetFile

    with reading(path):
        with ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            missing = set(names) - set(schema.names)
            if missing:
                raise InputError(f"expected a column {min(missing)}, found none in {str(path)!r}")
            texts = [name for name in names if types.is_string(schema.field(name).type)]
            stated = metadata.num_rows * len(names) * _NUMBER
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for chunk in map(group.column, range(group.num_columns)):
                    if chunk.path_in_schema.partition(".")[0] in names:
                        stated += max(chunk.num_values * _NUMBER, chunk.total_uncompressed_size)
                        if "DELTA_BYTE_ARRAY" in chunk.encodings:  # each text repeats the last
                            raise InputError(
                                f"expected a plain encoding of {chunk.path_in_schema} in "
                                f"{str(path)!r}, found DELTA_BYTE_ARRAY"
                            )
            require_plausible(path, stated)
        # A few labels, each in many rows: as categories, no text is held twice.
        with ParquetFile(path, read_dictionary=texts) as file:
            return _frame(file.read(columns=list(dict.fromkeys(names))))


def _feather(path: Path) -> tuple[Sequence[str], Sequence[str], Callable[[Chosen], Get]]:
    import pyarrow
    from pyarrow import feather, ipc

    with pyarrow.memory_map(str(path)) as source:
        schema = ipc.open_file(source).schema
    images = [field.name for field in schema if _is_image(field.type)]

    def read(chosen: Chosen) -> Get:
        # In front of a compressed buffer stands its true size; lz4 packs 255 into one at most.
        sizes = (int.from_bytes(m[1], "little") for m in _ZSTD.finditer(path.read_bytes()))
        require_plausible(path, sum(size for size in sizes if size < 1 << 40))
        return values_of(_frame(feather.read_table(path, list(chosen.names))), repr(str(path)))

    return schema.names, images, read


def _frame(table: Any) -> Any:
    """An Arrow table as a data frame; no column becomes an index because a file says so."""
    for each in table.schema:
        kind = each.type
        while hasattr(kind, "value_type"):
            kind = kind.value_type
        if hasattr(kind, "num_fields") and kind.num_fields:
            raise InputError(f"expected numbers in the column {each.name}, found {each.type}")
    return table.to_pandas(ignore_metadata=True, date_as_object=False)


def values_of(frame: Any, where: str) -> Get:
    """What gives the values of a column of a data frame, none of them missing."""
    import pandas as pd

    def get(name: str) -> Any:
        column = frame[name]
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise InputError(
                f"expected a value in every row of the column {name}, found none in row {row} of "
                f"{where}"
            )
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.categories.to_numpy()[column.cat.codes.to_numpy()]
        return column.to_numpy()

    return get


def _is_image(kind: Any) -> bool:
    """Whether an Arrow type is how images are stored: bytes, a record of them, or an array."""
    from pyarrow import types

    depth = 0
    while hasattr(kind, "value_type") and not types.is_dictionary(kind):
        kind, depth = kind.value_type, depth + 1
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_struct(kind)
    return binary or depth >= _IMAGE_DEPTH


# --- episodes ------------------------------------------------------------------------------------


def episodes_of(table: Table, columns: Columns = None) -> Episodes:
    """The episodes of a table; which columns these are is on record in their metadata.

    Raises:
        InputError: a column is missing or holds other than numbers, or episodes are not whole.
    """
    where = table.where
    chosen = choose(
        table.names, columns, where=where, images=table.images, ends_with_rows=table.ends_with_rows
    )
    if chosen.left_out:
        warnings.warn(
            f"left the images {', '.join(chosen.left_out)} out of the observation of {table.name}",
            stacklevel=3,
        )
    get = table.read(chosen)
    labels = _labels(get(chosen.episode), chosen.episode, where)
    rows = len(labels)
    if rows == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
    observations = _block(get, chosen.obs, rows, where, np.float32)
    rewards = _block(get, (chosen.reward,), rows, where, np.float64)
    if rewards.shape[1] != 1:
        raise InputError(
            f"expected one number in each row of the column {chosen.reward}, found "
            f"{rewards.shape[1]} in {where}"
        )
    actions = _block(get, chosen.action, rows, where, None) if chosen.action else None
    last = _last_rows(labels, where)
    if chosen.step is not None:
        steps = _whole(_matrix(get(chosen.step), chosen.step, rows, where), chosen.step, where)
        _require_consecutive(steps, labels, last, where)
    marks = {
        role: flags(_matrix(get(name), name, rows, where), name, where)
        for role in ("terminated", "truncated", "done", "success")
        if (name := getattr(chosen, role)) is not None
    }
    success = marks.pop("success", None)
    terminated, truncated = _ends(marks, labels, last, where)
    kept = len(last) - (not (terminated[-1] or truncated[-1]))
    if kept == 0:
        raise InputError(f"expected at least one episode with an end, found none in {where}")
    offsets = np.concatenate([[0], last[:kept] + 1]).astype(np.int64)
    end = int(offsets[-1])
    if end < rows:
        warnings.warn(
            f"dropped the last {rows - end} steps of {table.name}: they have no end", stacklevel=3
        )
    recording: dict[str, Any] = {"format": table.kind, "columns": chosen.to_json(), **table.record}
    if chosen.left_out:
        recording["left_out"] = list(chosen.left_out)
    return Episodes(
        observations=observations[:end],
        rewards=rewards[:end, 0],
        offsets=offsets,
        terminated=terminated[:kept],
        truncated=truncated[:kept],
        seeds=np.full(kept, -1, dtype=np.int64),
        actions=None if actions is None else actions[:end],
        success=None if success is None else np.logical_or.reduceat(success[:end], offsets[:-1]),
        subject={**log_metadata(table.name), "recording": recording},
    )


def _matrix(values: Any, name: str, rows: int, where: str) -> NDArray[Any]:
    """(rows, width) the numbers of a column; lists of one length are several."""
    try:
        array = _stacked(np.asarray(values))
    except ValueError as error:  # ragged lists
        raise InputError(
            f"expected numbers in the column {name}, the same number in each row, found "
            f"{one_line(error)} in {where}"
        ) from None
    if array.dtype.kind not in "biuf":
        flat = np.ravel(array).tolist()
        wrong = next((value for value in flat if not _is_number(value)), flat[0])
        row = f" in row {flat.index(wrong)}" if array.ndim == 1 else ""
        raise InputError(
            f"expected numbers in the column {name}, found {str(wrong)[:40]!r}{row} of {where}"
        )
    if array.ndim - 1 >= _IMAGE_DEPTH:
        raise InputError(
            f"expected numbers in the column {name}, found images of shape {array.shape[1:]} in "
            f"{where}: certificates are for numeric observations"
        )
    array = numbers(array, f"the column {name}", where)
    if len(array) != rows:
        raise InputError(f"expected {rows} rows of {name}, found {len(array)} in {where}")
    if array.size == 0:
        raise InputError(f"expected numbers in the column {name}, found empty lists in {where}")
    return array.reshape(rows, -1)


def _stacked(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as numbers where they are: lists of one length, or what may be missing in pandas."""
    if values.dtype != object or not len(values):
        return values
    if isinstance(values[0], np.ndarray | list | tuple):
        return np.stack([_stacked(np.asarray(row)) for row in values])
    return np.array([float(v) if hasattr(v, "as_tuple") else v for v in values.tolist()])


def _is_number(value: Any) -> bool:
    try:
        return float(value) == float(value)
    except (TypeError, ValueError):
        return False


def _block(get: Get, names: Sequence[str], rows: int, where: str, dtype: Any) -> NDArray[Any]:
    """(rows, width) several columns side by side, all finite after their conversion."""
    parts = []
    for name in names:
        values = _matrix(get(name), name, rows, where)
        with np.errstate(over="ignore"):  # is refused below
            parts.append(values if dtype is None else values.astype(dtype))
        if parts[-1].dtype.kind == "f" and not np.isfinite(parts[-1]).all():
            row, column = np.argwhere(~np.isfinite(parts[-1]))[0]
            raise InputError(
                f"expected finite numbers in the column {name}, found {values[row, column]:g} in "
                f"row {row} of {where}"
            )
    return np.concatenate(parts, axis=1)


def _whole(values: NDArray[Any], name: str, where: str) -> NDArray[np.int64]:
    """(rows,) a whole number per step."""
    fits = values.dtype.kind != "f" or bool((np.abs(values) < 2**53).all())  # false for NaN, too
    whole = values.astype(np.int64) if fits else np.zeros_like(values, np.int64)
    if not fits or values.shape[1] != 1 or (whole != values).any():
        raise InputError(
            f"expected a whole number in each row of the column {name}, in {where}: with `columns` "
            "step= steps are not looked at"
        )
    return whole[:, 0]


def _labels(values: Any, name: str, where: str) -> NDArray[Any]:
    """(rows,) numbers or texts that tell episodes apart."""
    labels = np.asarray(values)
    if labels.dtype == object and {type(label) for label in set(labels.tolist())} != {str}:
        labels = np.array(labels.tolist())
    missing = labels.dtype.kind == "f" and np.isnan(labels).any()
    if labels.ndim != 1 or labels.dtype.kind not in "biufUOM" or missing:
        raise InputError(f"expected a number or text in every row of {name} in {where}")
    return labels.astype(object) if labels.dtype.kind == "U" else labels


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
        found = f"step {after} after {before} in episode {label}"
        if after in steps[start : row + 1]:
            found, hint = f"step {after} of episode {label} twice", "remove one"
        elif after < before:
            hint = "sort by step"
        else:
            hint = "a return needs every step; if none is missing, `columns` step= skips this check"
        raise InputError(f"expected steps in a row, found {found} of {where}: {hint}")
    starts = steps[np.append(0, last[:-1] + 1)]
    alike = starts == starts[0]
    if not (alike.all() or (starts[1:] == steps[last[:-1]] + 1).all()):
        odd = int(np.flatnonzero(~alike)[0])
        raise InputError(
            f"expected all episodes to start at step {starts[0]}, found step {starts[odd]} in "
            f"episode {labels[last[odd]]} of {where}: if none is missing, `columns` step= skips "
            "this check"
        )


def _ends(
    marks: Mapping[str, NDArray[np.bool_]],
    labels: NDArray[Any],
    last: NDArray[np.intp],
    where: str,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(episodes,) terminated and truncated; neither is left only for the last, which is dropped."""
    inner = np.ones(len(labels), dtype=np.bool_)
    inner[last] = False
    for name, values in marks.items():
        early = np.flatnonzero(values & inner)
        if len(early):
            raise InputError(
                f"expected {name} only in the last row of an episode, found it in row {early[0]}, "
                f"within episode {labels[early[0]]}, of {where}"
            )
    at = {name: values[last] for name, values in marks.items()}
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
            f"{labels[last[endless[0]]]} with neither in {where}"
        )
    return terminated, truncated
