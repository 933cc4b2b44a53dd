"""LeRobot dataset folders of versions 2 and 3.

Both have `meta/info.json`, which names the features and counts episodes and frames, and .parquet
files in the folders of `data`: one for each episode in version 2, several in each in version 3.
"""

from dataclasses import field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tightrope.errors import InputError
from tightrope.files import refuse_links
from tightrope.imports import needed
from tightrope.records import one_problem
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.roles import Chosen, Columns, parse
from tightrope.rollouts.tables import Get, Table, episodes_of, getter, parquet

__all__ = ["import_lerobot", "is_lerobot"]

_INFO = Path("meta", "info.json")
_INDEX = "episode_index"
_IMAGE_DIMENSIONS = 3
_DOWNLOAD = "download the whole dataset"


@dataclass
class _Feature:
    dtype: str = ""
    shape: list[int] = field(default_factory=list)

    @property
    def is_image(self) -> bool:
        return self.dtype in ("image", "video") or len(self.shape) >= _IMAGE_DIMENSIONS


@dataclass
class _Info:
    """What `meta/info.json` says, as far as it is needed here."""

    codebase_version: str
    features: dict[str, _Feature]
    total_episodes: int
    total_frames: int
    fps: float | None = None
    storage_format: str = "parquet"


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
        columns: which feature is what, as for :func:`tightrope.rollouts.tables.read_frame`.

    Raises:
        InputError: pandas or pyarrow is missing, there is no such dataset, it is damaged or
            incomplete, has no rewards, or only images for observations.
    """
    folder = Path(folder)
    if not is_lerobot(folder):
        raise InputError(f"expected a LeRobot dataset, found no {_INFO} in {str(folder)!r}")
    for package in ("pandas", "pyarrow"):
        needed(package, "a LeRobot dataset", "tables")
    refuse_links(folder.resolve(), deep=True)
    info = _info(folder)
    where = f"the LeRobot dataset {str(folder)!r}"
    asked = parse(columns)
    if "action" not in asked and "action" in info.features:
        asked["action"] = ("action",)

    def read(chosen: Chosen) -> Get:
        import pyarrow

        names = tuple(dict.fromkeys((*chosen.names, _INDEX)))
        files = sorted((folder / "data").glob("*/*.parquet"))
        if not files:
            raise InputError(f"expected data/*/*.parquet, found none in {where}: {_DOWNLOAD}")
        table = pyarrow.concat_tables(
            (parquet(path, names) for path in files), promote_options="permissive"
        )
        found = len(table[_INDEX].unique()), len(table)
        if found != (info.total_episodes, info.total_frames):
            raise InputError(
                f"expected {info.total_episodes} episodes with {info.total_frames} frames, as "
                f"meta/info.json says, found {found[0]} with {found[1]} in {where}: {_DOWNLOAD}"
            )
        return getter(table)

    table = Table(
        name=folder.resolve().name,
        where=where,
        kind=f"LeRobot {info.codebase_version}",
        names=tuple(info.features),
        read=read,
        images=[name for name, feature in info.features.items() if feature.is_image],
        ends_with_rows=True,
        record={} if info.fps is None else {"fps": info.fps},
    )
    return episodes_of(table, asked)


def _info(folder: Path) -> _Info:
    """What `meta/info.json` says; raises InputError if it is damaged or of another version."""
    path = folder / _INFO
    try:
        info = TypeAdapter(_Info).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        raise InputError(f"{str(path)!r} is damaged: {one_problem(error)}") from None
    version, storage = info.codebase_version, info.storage_format
    if version.removeprefix("v").partition(".")[0] not in ("2", "3") or storage != "parquet":
        raise InputError(
            f"expected a LeRobot dataset of .parquet files of version v2.0, v2.1 or v3.0, found "
            f"{storage[:40]!r} of version {version[:40]!r} in {str(folder)!r}: convert it "
            "with LeRobot's own scripts"
        )
    return info
