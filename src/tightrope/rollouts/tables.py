"""Tables with one row per step as episodes: .csv, .tsv, .parquet, frames, dictionaries.

Only the columns that are needed are read. A file is refused if it states more than it could hold.
"""

import csv
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
from tightrope.rollouts.arrays import flags, log_metadata, numbers, whole_episodes
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.roles import Chosen, Columns, choose

__all__ = [
    "Get",
    "Table",
    "episodes_of",
    "getter",
    "is_frame",
    "parquet",
    "read_frame",
    "read_table",
]

Get = Callable[[str], Any]  # the values of a column, by its name

_NUMBER = 8  # bytes of the largest
_IMAGE_DEPTH = 3  # lists of lists of lists: height, width and channels


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
    names: Sequence[str]
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
    own = {str(name): name for name in frame} if mapping else {}
    names = list(own) if mapping else [str(name) for name in frame.columns]
    own = own or {str(name): name for name in frame.columns}  # pandas allows numbers as names

    def get(name: str) -> Any:
        return frame[name] if mapping else frame[own[name]].to_numpy()

    table = Table(f"the {kind}", f"the {kind}", kind, names, lambda chosen: get)
    return episodes_of(table, columns)


def read_table(path: Path, columns: Columns = None) -> Episodes:
    """Episodes from a .csv, .tsv or .parquet file with one row per step.

    Args:
        path: of the file. Text has a line of names first, in UTF-8.
        columns: which column is what, as for :func:`read_frame`. A column of .parquet may
            hold lists of one length: these are several features.

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
    columnar = path.suffix == ".parquet"
    with _reading(path):
        names, images = _of_parquet(path) if columnar else (_of_text(path), ())

        def read(chosen: Chosen) -> Get:
            return getter(parquet(path, chosen.names) if columnar else _text(path, chosen))

        table = Table(path.name, repr(str(path)), path.suffix[1:], names, read, images)
        return episodes_of(table, columns)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What pandas, pyarrow or the system says of a file, in one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # they have many kinds, some of them Python's own
        raise InputError(f"cannot read {str(path)!r}: {one_line(error)}") from None


def _separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _of_text(path: Path) -> Sequence[str]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return next(csv.reader(stream, delimiter=_separator(path), strict=True), [])


def _text(path: Path, chosen: Chosen) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        path,
        # One block: a column that is whole only at first is no column of whole numbers.
        read_options=arrow_csv.ReadOptions(
            block_size=min(path.stat().st_size + 1, 2**31 - 1), encoding="utf8"
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=_separator(path)),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=list(chosen.names),
            # Labels are only compared: 07 is not 7.
            column_types={chosen.episode: pyarrow.dictionary(pyarrow.int32(), pyarrow.string())},
            strings_can_be_null=True,
        ),
    )


def parquet(path: Path, names: Sequence[str]) -> Any:
    """Some columns of a .parquet file as an Arrow table.

    Raises:
        InputError: a column is not there, or it states more values than the file could hold.
    """
    from pyarrow.parquet import ParquetFile

    with _reading(path):
        with ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            if missing := set(names) - set(schema.names):
                raise InputError(f"expected a column {min(missing)}, found none in {str(path)!r}")
            kinds = {name: schema.field(name).type for name in names}
            for name, kind in kinds.items():
                if not _is_plain(kind):
                    raise InputError(f"expected numbers in the column {name}, found {kind}")
            texts = [name for name in names if _is_text(kinds[name])]
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
            return file.read(columns=list(dict.fromkeys(names)))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_plain(kind: Any) -> bool:
    """Whether an Arrow type is of numbers, lists of these, or texts that can be held once each."""
    from pyarrow import types

    if _is_text(kind) or (types.is_dictionary(kind) and _is_text(kind.value_type)):
        return True
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return bool(types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind))


def _of_parquet(path: Path) -> tuple[Sequence[str], Collection[str]]:
    """Names of the columns, and of those with images: bytes, a record of them, or an array."""
    from pyarrow import types
    from pyarrow.parquet import read_schema

    schema, images = read_schema(path), []
    for each in schema:
        kind, depth = each.type, 0
        while hasattr(kind, "value_type") and not types.is_dictionary(kind):
            kind, depth = kind.value_type, depth + 1
        binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_struct(kind)
        if binary or depth >= _IMAGE_DEPTH:
            images.append(each.name)
    return schema.names, images


def getter(table: Any) -> Get:
    """What gives the values of a column of an Arrow table, by pandas; no column is an index."""
    frame = table.to_pandas(ignore_metadata=True, date_as_object=False)

    def get(name: str) -> Any:
        column = frame[name]
        if hasattr(column, "cat") and not column.hasnans:
            return column.cat.categories.to_numpy()[column.cat.codes.to_numpy()]
        return column.to_numpy()

    return get


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
    recording = {"format": table.kind, "columns": chosen.to_json(), **table.record}
    if chosen.left_out:
        recording["left_out"] = list(chosen.left_out)
        warnings.warn(
            f"left the images {', '.join(chosen.left_out)} out of the observation of {table.name}",
            stacklevel=3,
        )
    get = table.read(chosen)
    labels = _labels(get(chosen.episode), chosen.episode, where)
    rows, last = len(labels), _last_rows(labels, where)

    def matrix(names: Sequence[str], dtype: Any = None) -> NDArray[Any]:
        return np.concatenate([_matrix(get(n), n, rows, where, dtype) for n in names], axis=1)

    def single(name: str, dtype: Any = None) -> NDArray[Any]:
        values = matrix((name,), dtype)
        if values.shape[1] == 1:
            return values[:, 0]
        raise InputError(
            f"expected one number in each row of the column {name}, found {values.shape[1]} in "
            f"{where}"
        )

    if chosen.step is not None:
        _require_consecutive(single(chosen.step), labels, last, where)
    marks = {
        role: flags(single(name), name, where)
        for role in ("terminated", "truncated", "done", "success")
        if (name := getattr(chosen, role)) is not None
    }
    success = marks.pop("success", None)
    terminated, truncated = _ends(marks, labels, last, where)
    kept = len(last) - (not (terminated[-1] or truncated[-1]))
    return whole_episodes(
        last[:kept],
        terminated[:kept],
        truncated[:kept],
        observations=matrix(chosen.obs, np.float32),
        rewards=single(chosen.reward, np.float64),
        actions=matrix(chosen.action) if chosen.action else None,
        success=success,
        where=where,
        metadata={**log_metadata(table.name), "recording": recording},
    )


def _matrix(values: Any, name: str, rows: int, where: str, dtype: Any) -> NDArray[Any]:
    """(rows, width) the numbers of a column, finite after conversion; a list is several."""
    array = numbers(values, f"the column {name}", where)
    if array.ndim - 1 >= _IMAGE_DEPTH:
        raise InputError(
            f"expected numbers in the column {name}, found images of shape {array.shape[1:]} in "
            f"{where}: certificates are for numeric observations"
        )
    if len(array) != rows:
        raise InputError(f"expected {rows} rows of {name}, found {len(array)} in {where}")
    if array.size == 0:
        raise InputError(f"expected numbers in the column {name}, found empty lists in {where}")
    array = array.reshape(rows, -1)
    with np.errstate(over="ignore"):  # is refused below
        converted = array if dtype is None else array.astype(dtype)
    if converted.dtype.kind == "f" and not np.isfinite(converted).all():
        row, column = np.argwhere(~np.isfinite(converted))[0]
        raise InputError(
            f"expected finite numbers in the column {name}, found {array[row, column]:g} in row "
            f"{row} of {where}"
        )
    return converted


def _labels(values: Any, name: str, where: str) -> NDArray[Any]:
    """(rows,) numbers or texts that tell episodes apart."""
    labels = np.asarray(values)
    missing = labels.dtype.kind in "fMO" and any(v is None or v != v for v in set(labels.tolist()))
    if labels.dtype == object and {type(label) for label in set(labels.tolist())} != {str}:
        labels = np.array(labels.tolist())
    if labels.ndim != 1 or labels.dtype.kind not in "biufUOM" or missing:
        raise InputError(f"expected a number or text in every row of {name} in {where}")
    if len(labels) == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
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
    steps: NDArray[Any], labels: NDArray[Any], last: NDArray[np.intp], where: str
) -> None:
    """Steps rise by one, from one number in all episodes or on from the episode before."""
    steps = steps if steps.dtype.kind == "f" else steps.astype(np.int64)
    remedy = "sort by step, with every step in it; `columns` step= skips this check"
    jumps = np.diff(steps)
    jumps[last[:-1]] = 1
    if len(wrong := np.flatnonzero(jumps != 1)):
        row = int(wrong[0])
        raise InputError(
            f"expected steps in a row, found step {steps[row + 1]:g} after {steps[row]:g} in "
            f"episode {labels[row]} of {where}: {remedy}"
        )
    starts = steps[np.append(0, last[:-1] + 1)]
    odd = np.flatnonzero(starts != starts[0])
    if len(odd) and (starts[1:] != steps[last[:-1]] + 1).any():
        raise InputError(
            f"expected all episodes to start at step {starts[0]:g}, found step {starts[odd[0]]:g} "
            f"in episode {labels[last[odd[0]]]} of {where}: {remedy}"
        )


def _ends(
    marks: Mapping[str, NDArray[np.bool_]],
    labels: NDArray[Any],
    last: NDArray[np.intp],
    where: str,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(episodes,) terminated and truncated; neither is left only for the last, which is dropped."""
    for name, values in marks.items():
        if len(early := np.setdiff1d(np.flatnonzero(values), last)):
            raise InputError(
                f"expected {name} only in the last row of an episode, found it in row {early[0]}, "
                f"within episode {labels[early[0]]}, of {where}"
            )
    ended, cut, done = (
        marks[role][last] if role in marks else None for role in ("terminated", "truncated", "done")
    )
    if cut is None:  # an episode without the flag ended the other way
        if ended is None:
            ended, done = np.zeros(len(last), np.bool_) if done is None else done, None
        cut = ~ended if done is None else done & ~ended
    elif ended is None:
        ended = ~cut if done is None else done & ~cut
    if len(endless := np.flatnonzero(~(ended | cut)[:-1])):
        raise InputError(
            f"expected every episode to end terminated or truncated, found episode "
            f"{labels[last[endless[0]]]} with neither in {where}"
        )
    return ended, cut
