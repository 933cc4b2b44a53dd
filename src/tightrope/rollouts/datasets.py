"""Folders of others: LeRobot datasets of versions 2 and 3, and Minari's, also by their id.

A LeRobot dataset has `meta/info.json`, which names the features and counts episodes and frames, and
.parquet files in the folders of `data`: one for each episode in version 2, several in each in
version 3.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tightrope.errors import InputError, reading
from tightrope.files import refuse_links
from tightrope.imports import needed
from tightrope.records import one_problem
from tightrope.rollouts.columns import Chosen, Columns, all_names, parse
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.logs import getter, parquet, require_plain, require_tables
from tightrope.rollouts.tables import IMAGE_DEPTH, Get, Table, episodes_of, log_metadata

__all__ = ["import_lerobot", "import_minari", "is_lerobot", "is_minari_id"]

_INFO = Path("meta", "info.json")
_INDEX = "episode_index"
_DOWNLOAD = "download the whole dataset"


# --- LeRobot -------------------------------------------------------------------------------------


@dataclass
class _Feature:
    dtype: str = ""
    shape: list[int] = field(default_factory=list)


@dataclass
class _Info:
    """What `meta/info.json` says, as far as it is needed here."""

    codebase_version: str
    features: dict[str, _Feature]
    total_episodes: int
    total_frames: int
    storage_format: str = "parquet"


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is a LeRobot dataset, by its `meta/info.json`."""
    return (folder / _INFO).is_file()


def import_lerobot(folder: Path, columns: Columns = None) -> Episodes:
    """Episodes of a LeRobot dataset folder, version 2 or 3.

    An episode is terminated if `next.done` is true in its last frame, and otherwise truncated
    there. Observations are the numeric features that start with `observation`; images and videos
    are left out with a warning. Actions are taken along.

    Args:
        folder: with `meta` and `data`; videos are not needed.
        columns: which feature is what, as for :func:`tightrope.rollouts.tables.read_frame`.

    Raises:
        InputError: pandas or pyarrow is missing, the dataset is damaged or incomplete, has no
            rewards, or only images for observations.
    """
    require_tables("a LeRobot dataset")
    refuse_links(folder.resolve(), deep=True)
    info, asked = _info(folder / _INFO), parse(columns)
    if "action" in info.features:
        asked.setdefault("action", ("action",))

    def read(chosen: Chosen) -> Get:
        import pyarrow

        names = all_names({**chosen, "index": (_INDEX,)})
        files = sorted((folder / "data").glob("*/*.parquet"))
        if not files:
            raise InputError(f"expected data/*/*.parquet, found none: {_DOWNLOAD}")
        tables = []
        for path in files:
            with reading(str(path.relative_to(folder))):
                tables.append(parquet(path, names))
        table = pyarrow.concat_tables(tables, promote_options="permissive")
        found = len(table[_INDEX].unique()), len(table)
        if found != (info.total_episodes, info.total_frames):
            raise InputError(
                f"expected {info.total_episodes} episodes with {info.total_frames} frames, as "
                f"{_INFO} says, found {found[0]} with {found[1]}: {_DOWNLOAD}"
            )
        return getter(table)

    images = [
        name
        for name, feature in info.features.items()
        if feature.dtype in ("image", "video") or len(feature.shape) >= IMAGE_DEPTH
    ]
    table = Table(
        name=folder.resolve().name,
        kind=f"LeRobot {info.codebase_version}",
        names=tuple(info.features),
        read=read,
        images=images,
        optional=("done",),
    )
    return episodes_of(table, asked)


def _info(path: Path) -> _Info:
    """What `meta/info.json` says; raises InputError if it is damaged or of another version."""
    try:
        info = TypeAdapter(_Info).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        raise InputError(f"{_INFO} is damaged: {one_problem(error)}") from None
    version, storage = info.codebase_version, info.storage_format
    if version.removeprefix("v").partition(".")[0] not in ("2", "3") or storage != "parquet":
        raise InputError(
            "expected .parquet files of LeRobot's version v2.0, v2.1 or v3.0, found "
            f"{storage[:40]!r} of version {version[:40]!r}: convert it with LeRobot's own scripts"
        )
    return info


# --- Minari --------------------------------------------------------------------------------------


def is_minari_id(name: str) -> bool:
    """Whether a name has the form of a Minari id, such as ``robot/walk-v0``."""
    return re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", name) is not None


def import_minari(dataset: str | Path) -> Episodes:
    """Episodes of a Minari dataset, by its id in the local database or by its folder.

    Raises:
        InputError: Minari is missing, there is no such dataset, or it is damaged.
    """
    folder = _folder(dataset)
    minari = needed("minari", "a Minari dataset")
    refuse_links(folder.resolve(), deep=True)
    for path in folder.glob("*.hdf5"):
        with needed("h5py", "a Minari dataset").File(path, "r") as archive:
            require_plain(archive, path)
    source = minari.MinariDataset(folder)
    metadata = source.storage.get_episode_metadata(source.episode_indices)
    episodes = [
        _episode(index, episode, entry.get("seed"))
        for index, (episode, entry) in enumerate(zip(source, metadata, strict=True))
    ]
    environment = getattr(source.spec.env_spec, "id", None)
    if episodes and not (episodes[-1].terminated or episodes[-1].truncated):
        warnings.warn(f"dropped the last episode of {dataset}: it has no end", stacklevel=2)
        episodes = episodes[:-1]
    return join(episodes, log_metadata(str(source.spec.dataset_id), environment))


def _folder(dataset: str | Path) -> Path:
    """The folder with the data of a dataset; raises InputError if there is none."""
    given = Path(dataset)
    if given.is_dir():
        for folder in (given, given / "data"):
            if (folder / "metadata.json").is_file():
                return folder
        raise InputError(
            "expected a LeRobot or Minari dataset or a policy with its training record, found none "
            "of them in the folder"
        )
    needed("minari", "a Minari dataset")
    from minari.storage.datasets_root_dir import get_dataset_path

    folder = Path(get_dataset_path(str(dataset))) / "data"
    if not folder.is_dir():
        raise InputError(
            f"expected a Minari dataset in the local database {str(get_dataset_path())!r}, found "
            f"none: check the id, or download it with: minari download {dataset}"
        )
    return folder


def _episode(index: int, episode: Any, seed: Any) -> Episode:
    observations = _flat_space(episode.observations)
    steps = len(episode.rewards)
    ends = np.asarray(episode.terminations), np.asarray(episode.truncations)
    shapes = any(flags.shape != (steps,) or flags[:-1].any() for flags in ends)
    if shapes or len(observations) not in (steps, steps + 1):
        raise InputError(
            f"expected {steps + 1} observations for {steps} rewards in episode {index}, and "
            f"terminations and truncations that are true in the last step at most, found others"
        )
    return Episode(
        observations=observations[:steps],
        rewards=np.asarray(episode.rewards, dtype=np.float64),
        terminated=bool(ends[0][-1]),
        truncated=bool(ends[1][-1]),
        seed=-1 if seed is None else int(seed),
        actions=None if isinstance(episode.actions, dict) else np.asarray(episode.actions),
        final_observation=observations[steps] if len(observations) > steps else None,
    )


def _flat_space(value: Any) -> NDArray[np.float32]:
    """Observations (steps, features); dictionaries and tuples are laid side by side."""
    if isinstance(value, Mapping | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
        return np.concatenate([_flat_space(part) for part in parts], axis=1)
    array = np.asarray(value, dtype=np.float32)
    return array.reshape(len(array), -1)
