"""LeRobot dataset folders of versions 2 and 3.

Both have `meta/info.json`, which names the features and counts episodes and frames, and .parquet
files in the folders of `data`: one for each episode in version 2, several in each in version 3.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line
from tightrope.imports import needed
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.roles import Chosen, Columns, parse
from tightrope.rollouts.tables import Table, episodes_of, parquet, values_of

__all__ = ["import_lerobot", "is_lerobot"]

_INFO = Path("meta", "info.json")
_INDEX = "episode_index"
_IMAGES = ("image", "video")
_IMAGE_DIMENSIONS = 3
_DOWNLOAD = "download the whole dataset"
_KINDS = {"codebase_version": str, "features": dict, "total_episodes": int, "total_frames": int}


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
    where = f"the LeRobot dataset {str(folder)!r}"
    asked = parse(columns)
    if "action" not in asked and "action" in features:
        asked["action"] = ("action",)

    def read(chosen: Chosen) -> Callable[[str], Any]:
        import pandas as pd

        names = tuple(dict.fromkeys((*chosen.names, _INDEX)))
        files = sorted((folder / "data").glob("*/*.parquet"))
        if not files:
            raise InputError(f"expected data/*/*.parquet, found none in {where}: {_DOWNLOAD}")
        frame = pd.concat([parquet(path, names) for path in files], ignore_index=True)
        found = frame[_INDEX].nunique(), len(frame)
        if found != (info["total_episodes"], info["total_frames"]):
            raise InputError(
                f"expected {info['total_episodes']} episodes with {info['total_frames']} frames, "
                f"as meta/info.json says, found {found[0]} with {found[1]} in {where}: {_DOWNLOAD}"
            )
        return values_of(frame, where)

    table = Table(
        name=folder.resolve().name,
        where=where,
        kind=f"LeRobot {info['codebase_version']}",
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
    """What `meta/info.json` says; raises InputError if it is damaged or of another version."""
    path = folder / _INFO
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is damaged: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise InputError(
            f"{str(path)!r} is damaged: expected a record, found {type(found).__name__}"
        )
    for name, kind in _KINDS.items():
        if not isinstance(found.get(name), kind):
            raise InputError(f"{str(path)!r} is damaged: expected {name}, found none")
    for name, feature in found["features"].items():
        if not isinstance(feature, dict) or not isinstance(feature.get("shape", []), list):
            raise InputError(
                f"{str(path)!r} is damaged: expected a record of each feature with its shape, "
                f"found {str(feature)[:80]} for {name[:80]!r}"
            )
    version, storage = found["codebase_version"], found.get("storage_format", "parquet")
    if not re.fullmatch(r"v?[23](\.\d+)*", version) or storage != "parquet":
        raise InputError(
            f"expected a LeRobot dataset of .parquet files of version v2.0, v2.1 or v3.0, found "
            f"{str(storage)[:40]!r} of version {version[:40]!r} in {str(folder)!r}: convert it "
            "with LeRobot's own scripts"
        )
    return found
