"""LeRobot dataset folders of versions 2 and 3.

Both have `meta/info.json`, which names the features and where the data are. Version 2 keeps one
.parquet file per episode and lists episodes in `meta/episodes.jsonl`; version 3 packs several
episodes in a file and lists them in .parquet files under `meta/episodes`.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tightrope.errors import InputError, one_line
from tightrope.imports import needed
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.roles import Chosen, Columns, parse
from tightrope.rollouts.tables import Table, episodes_of, parquet, reading, values_of

__all__ = ["import_lerobot", "is_lerobot"]

_INFO = Path("meta", "info.json")
_INDEX = "episode_index"
_LISTED = (_INDEX, "length", "data/chunk_index", "data/file_index")
_IMAGES = ("image", "video")
_IMAGE_DIMENSIONS = 3
_DOWNLOAD = "download the whole dataset"


class _Data(NamedTuple):
    """Where the frames are, and how many each episode should have."""

    files: list[Path]
    lengths: dict[int, int]


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is a LeRobot dataset, by its `meta/info.json`."""
    return (folder / _INFO).is_file()


def import_lerobot(folder: str | Path, columns: Columns = None) -> Episodes:
    """Episodes of a LeRobot dataset folder, version 2 or 3.

    An episode is terminated if `next.done` is true in its last frame, and otherwise truncated
    there. Observations are the numeric features that start with `observation`; images and videos
    are left out with a warning. Actions are taken along.

    Args:
        folder: with `meta` and `data`; videos are not needed.
        columns: which feature is what, as for :func:`read_frame`.

    Raises:
        InputError: pandas or pyarrow is missing, there is no such dataset, it is damaged or
            incomplete, has no rewards, or only images for observations.
    """
    folder = Path(folder)
    if not is_lerobot(folder):
        raise InputError(f"expected a LeRobot dataset, found no {_INFO} in {str(folder)!r}")
    for package in ("pandas", "pyarrow"):
        needed(package, "a LeRobot dataset", "tables")
    info = _info(folder)
    features = info["features"]
    version = str(info["codebase_version"])
    data = _packed(folder, info) if _major(version) == 3 else _single(folder, info)
    where = f"the LeRobot dataset {str(folder)!r}"
    asked = parse(columns)
    if "action" not in asked and "action" in features:
        asked["action"] = ("action",)

    def read(chosen: Chosen) -> Callable[[str], Any]:
        import pandas as pd

        names = tuple(dict.fromkeys((*chosen.names, _INDEX)))
        frame = pd.concat([parquet(path, names) for path in data.files], ignore_index=True)
        found = frame[_INDEX].value_counts().to_dict()
        for index in sorted({*data.lengths, *found}):
            if data.lengths.get(index, 0) != found.get(index, 0):
                raise InputError(
                    f"expected {data.lengths.get(index, 0)} frames of episode {index}, as listed "
                    f"under meta, found {found.get(index, 0)} in {where}: {_DOWNLOAD}"
                )
        return values_of(frame, where)

    table = Table(
        name=folder.resolve().name,
        where=where,
        kind=f"LeRobot {version}",
        names=tuple(features),
        read=read,
        images=frozenset(name for name, feature in features.items() if _is_image(feature)),
        ends_with_rows=True,
        record={"fps": info["fps"]} if isinstance(info.get("fps"), int | float) else {},
    )
    return episodes_of(table, asked)


def _is_image(feature: dict[str, Any]) -> bool:
    return feature.get("dtype") in _IMAGES or len(feature.get("shape", ())) >= _IMAGE_DIMENSIONS


def _info(folder: Path) -> dict[str, Any]:
    path = folder / _INFO
    found = _json(path, path.read_bytes())
    kinds = {"codebase_version": str, "features": dict, "data_path": str}
    for name, kind in kinds.items():
        if not isinstance(found.get(name), kind):
            raise InputError(f"{str(path)!r} is damaged: expected {name}, found none")
    for name, feature in found["features"].items():
        if not isinstance(feature, dict) or not isinstance(feature.get("shape", []), list):
            raise InputError(
                f"{str(path)!r} is damaged: expected a record of each feature with its shape, "
                f"found {str(feature)[:80]} for {name[:80]!r}"
            )
    version = found["codebase_version"]
    if _major(version) not in (2, 3):
        raise InputError(
            f"expected a LeRobot dataset of version v2.0, v2.1 or v3.0, found {version!r} in "
            f"{str(folder)!r}: convert it with LeRobot's own scripts"
        )
    storage = found.get("storage_format", "parquet")
    if storage != "parquet":
        raise InputError(
            f"expected a LeRobot dataset of .parquet files, found {storage!r} in {str(folder)!r}: "
            "convert it with LeRobot's own scripts"
        )
    return found


def _major(version: str) -> int | None:
    found = re.fullmatch(r"v?(\d+)(\.\d+)*", version)
    return int(found[1]) if found else None


def _json(path: Path, text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is damaged: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise InputError(
            f"{str(path)!r} is damaged: expected a record, found {type(found).__name__}"
        )
    return found


def _single(folder: Path, info: dict[str, Any]) -> _Data:
    """Version 2: a file for each episode that `meta/episodes.jsonl` lists."""
    path = _existing(folder / "meta" / "episodes.jsonl")
    chunk = info.get("chunks_size", 1000)
    if not isinstance(chunk, int) or chunk < 1:
        raise InputError(f"{str(folder / _INFO)!r} is damaged: expected chunks_size of at least 1")
    with reading(path):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    listed = [_json(path, line) for line in lines]
    pairs = [(_number(one, _INDEX, path), _number(one, "length", path)) for one in listed]
    lengths = dict(sorted(pairs))
    files = [
        _place(folder, info, episode_chunk=index // chunk, episode_index=index) for index in lengths
    ]
    return _whole(folder, _Data(files, lengths), len(listed), info)


def _packed(folder: Path, info: dict[str, Any]) -> _Data:
    """Version 3: the files that episodes are said to be in, and any others beside them.

    A file that no episode names is not an error: early converters noted the first episode of a
    file under the file before it.
    """
    lists = sorted((folder / "meta" / "episodes").glob("*/*.parquet"))
    if not lists:
        raise InputError(
            f"expected meta/episodes/chunk-000/file-000.parquet, found none in {str(folder)!r}: "
            f"{_DOWNLOAD}"
        )
    lengths, files = {}, set((folder / "data").glob("*/*.parquet"))
    count = 0
    for path in lists:
        frame = parquet(path, _LISTED)
        for entry in frame[list(_LISTED)].itertuples(index=False, name=None):
            index, lengths[index], chunk, file = entry
            files.add(_place(folder, info, chunk_index=chunk, file_index=file))
            count += 1
    return _whole(folder, _Data(sorted(files), lengths), count, info)


def _whole(folder: Path, data: _Data, listed: int, info: dict[str, Any]) -> _Data:
    """The same; raises InputError if a file is missing, or an episode by the number of them."""
    total = info.get("total_episodes", listed)
    if not (listed == total == len(data.lengths)):
        raise InputError(
            f"expected {total} episodes in {str(folder)!r}, found {len(data.lengths)} listed under "
            f"meta: {_DOWNLOAD}"
        )
    if not data.lengths:
        raise InputError(f"expected at least one episode, found none in {str(folder)!r}")
    for path in data.files:
        _existing(path)
    return data


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"expected a LeRobot dataset, found no {str(path)!r}: {_DOWNLOAD}")
    return path


def _place(folder: Path, info: dict[str, Any], **numbers: int) -> Path:
    path = info["data_path"]
    try:
        # Names and short widths only: other formats reach attributes, or make texts of gigabytes.
        plain = re.fullmatch(r"([^{}]|{\w+(:0?\d{0,2}d?)?})*", path)
        place = Path(path.format(**numbers) if plain else "..")
    except (LookupError, ValueError, TypeError):
        place = Path("..")
    if place.is_absolute() or ".." in place.parts:  # the folder and nothing else is read
        raise InputError(
            f"{str(folder / _INFO)!r} is damaged: expected a data_path such as "
            f"data/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}.parquet, found "
            f"{path[:80]!r}"
        )
    return folder / place


def _number(entry: dict[str, Any], name: str, path: Path) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(
            f"{str(path)!r} is damaged: expected a number for {name}, found {str(value)[:80]}"
        )
    return value
