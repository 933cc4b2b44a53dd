"""Tables in files: .csv, .tsv, .parquet and .feather, by pyarrow.

Only the columns that are needed are read, batch by batch.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.imports import needed
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.logs.columns import Chosen, Given
from tightrope.rollouts.logs.tables import Batch, Table, episodes_of

__all__ = ["TABLES", "from_arrow", "import_table", "is_image", "parquet_batches", "reading"]

TABLES = (".csv", ".tsv", ".parquet", ".feather")
_BATCH_ROWS = 65_536
_CONVERSION = re.compile(r"In CSV column #(\d+): .*conversion error to \w+: invalid value ('.*')")
_NUMBER = 8  # bytes of the largest
_IMAGE_DEPTH = 3  # lists of lists of lists: height, width and channels


def import_table(path: str | Path, columns: Given = None) -> Episodes:
    """Episodes from a .csv, .tsv, .parquet or .feather file with one row per step.

    Args:
        path: of the file. Text has a line of names first, in UTF-8.
        columns: which column is what, as for :func:`import_frame`. A column of .parquet or
            .feather may hold lists of one length: these are several features.

    Raises:
        InputError: pyarrow is missing, the file is damaged, a column is missing or holds other
            than numbers, or the episodes are not whole.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"expected a table, found nothing at {str(path)!r}: check the path")
    if path.suffix not in TABLES:
        raise InputError(f"expected a table ({', '.join(TABLES)}), found {str(path)!r}")
    needed("pyarrow", f"a {path.suffix} table", "tables")
    if path.stat().st_size == 0:
        raise InputError(f"expected a table, found an empty file at {str(path)!r}")
    if path.suffix == ".parquet":
        table = _parquet(path)
    elif path.suffix == ".feather":
        table = _feather(path)
    else:
        table = _text(path)
    return episodes_of(table, columns)


@contextmanager
def reading(path: Path, names: Sequence[str] = ()) -> Iterator[None]:
    """What pyarrow or the system says of a file, in one line; `names` are those of its columns."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # pyarrow has many kinds, some of them Python's own
        wrong = _CONVERSION.search(str(error))
        if wrong and int(wrong[1]) < len(names):
            raise InputError(
                f"expected numbers in the column {names[int(wrong[1])]}, found {wrong[2]} in "
                f"{str(path)!r}"
            ) from None
        raise InputError(f"cannot read {str(path)!r}: {one_line(error)}") from None


# --- formats -------------------------------------------------------------------------------------


def _parquet(path: Path) -> Table:
    parquet = needed("pyarrow.parquet", "a .parquet table", "tables")
    with reading(path):
        schema = parquet.read_schema(path)

    def read(chosen: Chosen) -> Iterator[Batch]:
        return parquet_batches(path, chosen.names, repr(str(path)), 0)

    return _table(path, schema, read)


def parquet_batches(path: Path, names: Sequence[str], where: str, start: int) -> Iterator[Batch]:
    """Batches of some columns of a .parquet file; `start` is its first row in `where`."""
    parquet = needed("pyarrow.parquet", "a .parquet table", "tables")
    with reading(path), parquet.ParquetFile(path, memory_map=True) as file:
        missing = set(names) - set(file.schema_arrow.names)
        if missing:
            raise InputError(f"expected a column {min(missing)}, found none in {str(path)!r}")
        require_plausible(path, file.metadata.num_rows * len(names) * _NUMBER)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(names)):
            yield _arrays(batch, names, where, start)
            start += batch.num_rows


def _feather(path: Path) -> Table:
    arrow = needed("pyarrow", "a .feather table", "tables")
    ipc = needed("pyarrow.ipc", "a .feather table", "tables")
    with reading(path), arrow.memory_map(str(path)) as source:
        schema = ipc.open_file(source).schema

    def read(chosen: Chosen) -> Iterator[Batch]:
        fields = sorted(schema.get_field_index(name) for name in chosen.names)
        options = ipc.IpcReadOptions(included_fields=fields)
        start = 0
        with reading(path), arrow.memory_map(str(path)) as source:
            file = ipc.open_file(source, options=options)
            for index in range(file.num_record_batches):
                batch = file.get_batch(index)
                yield _arrays(batch, chosen.names, repr(str(path)), start)
                start += batch.num_rows

    return _table(path, schema, read)


def _text(path: Path) -> Table:
    csv = needed("pyarrow.csv", f"a {path.suffix} table", "tables")
    parse = csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")

    def opened(**given: Any) -> Any:
        convert = csv.ConvertOptions(strings_can_be_null=True, **given)
        return csv.open_csv(path, parse_options=parse, convert_options=convert)

    with reading(path), opened() as file:
        schema = file.schema

    def read(chosen: Chosen) -> Iterator[Batch]:
        kinds = {name: _text_kind(name, schema.field(name).type, chosen) for name in chosen.names}
        start = 0
        with (
            reading(path, schema.names),
            opened(include_columns=list(kinds), column_types=kinds) as file,
        ):
            for batch in file:
                yield _arrays(batch, chosen.names, repr(str(path)), start)
                start += batch.num_rows

    return _table(path, schema, read)


def _text_kind(name: str, first: Any, chosen: Chosen) -> Any:
    """How a column of text is read that looks like the type `first` in the first block of a file.

    There may be fractions later where all was whole, or numbers where all was empty. Labels are
    only compared, so they stay text, and steps are counted, so they are not rounded.
    """
    arrow = needed("pyarrow", "a table", "tables")
    types = arrow.types
    if name == chosen.episode:
        return arrow.string()
    if name == chosen.step and types.is_integer(first):
        return first
    return arrow.float64() if types.is_integer(first) or types.is_null(first) else first


def _table(path: Path, schema: Any, read: Any) -> Table:
    with reading(path):  # names that are no text show only now
        names = tuple(schema.names)
        images = frozenset(field.name for field in schema if is_image(field.type))
    return Table(
        name=path.name,
        where=repr(str(path)),
        kind=path.suffix[1:],
        names=names,
        read=read,
        images=images,
    )


# --- columns -------------------------------------------------------------------------------------


def is_image(kind: Any) -> bool:
    """Whether an Arrow type is how images are stored: bytes, a record of them, or an array."""
    types = needed("pyarrow", "a table", "tables").types
    depth = 0
    while hasattr(kind, "value_type") and not types.is_dictionary(kind):
        kind, depth = kind.value_type, depth + 1
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_struct(kind)
    return binary or depth >= _IMAGE_DEPTH


def _arrays(batch: Any, names: Sequence[str], where: str, start: int) -> Batch:
    return {name: from_arrow(batch.column(name), name, where, start) for name in names}


def from_arrow(column: Any, name: str, where: str, start: int = 0) -> NDArray[Any]:
    """(rows, ...) the numbers or texts of a column, without a copy where its layout allows.

    Raises:
        InputError: a value is missing, lists differ in length, or there is no array of that type.
    """
    arrow = needed("pyarrow", "a table", "tables")
    types = arrow.types
    if isinstance(column, arrow.ExtensionArray):
        column = column.storage
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"expected a value in every row of the column {name}, found none in row {row} of "
            f"{where}"
        )
    kind = column.type
    if types.is_dictionary(kind):
        return _decoded(column)
    if types.is_string(kind) or types.is_large_string(kind):
        return _decoded(column.dictionary_encode())  # a few labels, each in many rows
    if types.is_decimal(kind):
        return np.asarray(column.cast(arrow.float64()).to_numpy(zero_copy_only=False))
    if hasattr(kind, "value_type"):
        return _lists(column, name, where, start)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    raise InputError(f"expected numbers in the column {name}, found {kind} in {where}")


def _decoded(column: Any) -> NDArray[Any]:
    listed = column.dictionary.to_pylist()
    text = any(isinstance(value, str) for value in listed)
    values = np.array(listed, dtype=object if text else None)
    return np.asarray(values[column.indices.to_numpy(zero_copy_only=False)])


def _lists(column: Any, name: str, where: str, start: int) -> NDArray[Any]:
    """(rows, length, ...) of lists of one length."""
    compute = needed("pyarrow.compute", "a table", "tables")
    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        raise InputError(
            f"expected {lengths[0]} numbers in each row of the column {name}, found "
            f"{lengths[other[0]]} in row {start + other[0]} of {where}"
        )
    length = int(lengths[0]) if len(lengths) else 0
    inner = column.flatten()
    if inner.null_count:
        row = int(np.flatnonzero(inner.is_null().to_numpy(zero_copy_only=False))[0]) // length
        raise InputError(
            f"expected a value in every place of the column {name}, found none in row "
            f"{start + row} of {where}"
        )
    values = from_arrow(inner, name, where, start)
    return values.reshape(len(column), length, *values.shape[1:])
