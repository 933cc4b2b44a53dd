"""Files with a row per step: .csv, .tsv and .parquet tables, and D4RL's arrays in .npz and .hdf5.

They come from strangers: only what is needed is read, and a file that leads out of itself, or
states more than could be packed into it, is refused.
"""

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.files import require_plausible, write_file
from tightrope.imports import needed
from tightrope.rollouts.columns import Chosen, Columns, all_names
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.tables import IMAGE_DEPTH, Get, Table, episodes_of

__all__ = [
    "NAMES",
    "export_arrays",
    "getter",
    "import_arrays",
    "parquet",
    "read_table",
    "require_plain",
    "require_tables",
]

NAMES = ("observations", "rewards", "terminals", "timeouts")
_ALSO = {"actions": "action", "next_observations": "next_obs"}  # and their roles
_NUMBER = 8  # bytes of the largest


# --- arrays --------------------------------------------------------------------------------------


def import_arrays(source: Path | Mapping[str, Any]) -> Episodes:
    """Episodes from flat D4RL-style arrays in an .npz or .hdf5 file, or in a mapping.

    Needs `observations`, `rewards`, `terminals` and `timeouts`; takes `actions` and
    `next_observations` along. Every episode but the last must end with a terminal or a timeout; a
    trailing incomplete episode is dropped with a warning.

    Raises:
        InputError: the file is damaged, a name is missing, or lengths disagree.
    """
    if isinstance(source, Mapping):
        name, kind, found = "arrays", "arrays", _wanted(source)
    else:
        name, kind, found = source.name, source.suffix[1:], _arrays(source)
    if missing := [key for key in NAMES if key not in found]:
        raise InputError(f"expected the arrays {', '.join(NAMES)}, found no {missing[0]}")
    get, free = found.__getitem__, ("episode",)
    table = Table(name, kind, list(found), lambda chosen: get, optional=free)
    return episodes_of(table, {role: key for key, role in _ALSO.items() if key in found})


def _wanted(archive: Mapping[str, Any]) -> dict[str, Any]:
    return {name: archive[name] for name in (*NAMES, *_ALSO) if name in archive}


def _arrays(path: Path) -> dict[str, Any]:
    if path.suffix == ".npz":
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            require_plausible(path, sum(entry.file_size for entry in archive.zip.infolist()))
            return _wanted(archive)
    with _h5py().File(path, "r") as archive:
        require_plain(archive, path)
        return {name: entry[()] for name, entry in _wanted(archive).items()}


def require_plain(archive: Any, path: Path) -> None:
    """Refuse an open HDF5 file that leads out of itself, or states more than could be in it.

    A data set may be a link to another file, or have its numbers in others; and one that was never
    written has any size and reads as zeros.

    Raises:
        InputError: it does either.
    """
    h5py, stated = _h5py(), 0
    links: list[tuple[str, Any]] = []
    archive.visititems_links(lambda name, link: links.append((name, link)))
    for name, link in links:
        outside = isinstance(link, h5py.ExternalLink)
        entry = archive[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(entry, h5py.Dataset):
            outside = entry.is_virtual or bool(entry.external)
            stated += math.prod(entry.shape or ()) * entry.dtype.itemsize
        if outside:
            found = f"found {name!r} in another file"
            raise InputError(
                f"expected all data in the file itself, {found}: copy it into one file"
            )
    require_plausible(path, stated)


def _h5py() -> Any:
    return needed("h5py", "an .hdf5 log")


def export_arrays(episodes: Episodes, path: str | Path) -> None:
    """Write flat D4RL-style arrays to a new .npz or .hdf5 file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    path = Path(path)
    last = episodes.offsets[1:] - 1
    terminals, timeouts = np.zeros((2, len(episodes.rewards)), dtype=np.bool_)
    terminals[last], timeouts[last] = episodes.terminated, episodes.truncated
    values = (episodes.observations, episodes.rewards, terminals, timeouts)
    arrays: dict[str, Any] = dict(zip(NAMES, values, strict=True))
    if episodes.actions is not None:
        arrays["actions"] = episodes.actions
    if episodes.final_observations is not None:
        following = np.roll(episodes.observations, -1, axis=0)
        following[last] = episodes.final_observations
        arrays["next_observations"] = following
    if path.suffix == ".npz":
        write_file(path, lambda temporary: np.savez_compressed(temporary, **arrays))
        return
    h5py = _h5py()

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w") as archive:
            archive.update(arrays)

    write_file(path, write)


# --- tables --------------------------------------------------------------------------------------


def read_table(path: Path, columns: Columns = None) -> Episodes:
    """Episodes from a .csv, .tsv or .parquet file with one row per step.

    Args:
        path: of the file. Text has a line of names first, in UTF-8.
        columns: which column is what, as for :func:`tightrope.rollouts.tables.read_frame`. A column
            of .parquet may hold lists of one length: these are several features.

    Raises:
        InputError: pandas or pyarrow is missing, the file is damaged, a column is missing or holds
            other than numbers, or the episodes are not whole.
    """
    require_tables(f"a {path.suffix} table")
    columnar = path.suffix == ".parquet"
    names, images = _of_parquet(path) if columnar else (_of_text(path), ())

    def read(chosen: Chosen) -> Get:
        return getter(parquet(path, all_names(chosen)) if columnar else _text(path, chosen))

    return episodes_of(Table(path.name, path.suffix[1:], names, read, images), columns)


def require_tables(what: str) -> None:
    """Raise InputError with the remedy if a library for tables is missing."""
    for package in ("pandas", "pyarrow"):
        needed(package, what, "tables")


def _separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _of_text(path: Path) -> Sequence[str]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return next(csv.reader(stream, delimiter=_separator(path), strict=True), [])


def _text(path: Path, chosen: Chosen) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    # Labels are only compared: 07 is not 7.
    labels = dict.fromkeys(chosen["episode"], pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    # One block: a column that is whole only at first is no column of whole numbers.
    block = min(path.stat().st_size + 1, 2**31 - 1)
    return arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(block_size=block, encoding="utf8"),
        parse_options=arrow_csv.ParseOptions(delimiter=_separator(path)),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=all_names(chosen),
            column_types=labels,
            strings_can_be_null=True,
        ),
    )


def parquet(path: Path, names: list[str]) -> Any:
    """Some columns of a .parquet file as an Arrow table.

    Raises:
        InputError: a column is not there, or it states more values than the file could hold.
    """
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    if missing := set(names) - set(schema.names):
        raise InputError(f"expected a column {min(missing)}, found none")
    kinds = {name: schema.field(name).type for name in names}
    for name, kind in kinds.items():
        if not _is_plain(kind):
            raise InputError(f"expected numbers in the column {name}, found {kind}")
    stated = metadata.num_rows * len(names) * _NUMBER
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name = chunk.path_in_schema.partition(".")[0]
            if name in names:
                stated += max(chunk.num_values * _NUMBER, chunk.total_uncompressed_size)
                if "DELTA_BYTE_ARRAY" in chunk.encodings:  # each text repeats the last
                    raise InputError(f"expected plain texts in {name}, found DELTA_BYTE_ARRAY")
    require_plausible(path, stated)
    # A few labels, each in many rows: as categories, no text is held twice.
    texts = [name for name in names if _is_text(kinds[name])]
    with ParquetFile(path, read_dictionary=texts) as file:
        return file.read(columns=names)


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
        if binary or depth >= IMAGE_DEPTH:
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
