"""Minari datasets, by their id in the local database or by their folder."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import refuse_links
from tightrope.imports import needed
from tightrope.rollouts.arrays import log_metadata, require_plain
from tightrope.rollouts.episodes import Episode, Episodes, join

__all__ = ["import_minari", "is_minari_id"]


def is_minari_id(name: str) -> bool:
    """Whether a name has the form of a Minari id, such as ``robot/walk-v0``."""
    return re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", name) is not None


def import_minari(dataset: str | Path) -> Episodes:
    """Episodes of a Minari dataset, by its id in the local database or by its folder.

    Raises:
        InputError: Minari is missing, there is no such dataset, or it is damaged.
    """
    folder = _folder(dataset)
    minari = _minari()
    refuse_links(folder.resolve(), deep=True)
    try:
        for path in folder.glob("*.hdf5"):
            with needed("h5py", "a Minari dataset").File(path, "r") as archive:
                require_plain(archive, path)
        source = minari.MinariDataset(folder)
        metadata = source.storage.get_episode_metadata(source.episode_indices)
        episodes = [
            _from_minari(index, episode, entry.get("seed"))
            for index, (episode, entry) in enumerate(zip(source, metadata, strict=True))
        ]
        name = str(source.spec.dataset_id)
        environment = getattr(source.spec.env_spec, "id", None)
    except InputError:
        raise
    except Exception as error:  # Minari lets the exceptions of its storage through
        raise InputError(
            f"cannot read the Minari dataset {str(dataset)!r}: {one_line(error)}"
        ) from None
    if episodes and not (episodes[-1].terminated or episodes[-1].truncated):
        warnings.warn(f"dropped the last episode of {dataset}: it has no end", stacklevel=2)
        episodes = episodes[:-1]
    return join(episodes, log_metadata(name, environment))


def _folder(dataset: str | Path) -> Path:
    """The folder with the data of a dataset; raises InputError if there is none."""
    given = Path(dataset)
    if given.is_dir():
        for folder in (given, given / "data"):
            if (folder / "metadata.json").is_file():
                return folder
        raise InputError(
            "expected a LeRobot or Minari dataset or a policy with its training record, found none "
            f"of them in the folder {str(dataset)!r}"
        )
    if not is_minari_id(str(dataset)):
        raise InputError(
            f"expected the id or folder of a Minari dataset, found nothing at {str(dataset)!r}"
        )
    _minari()
    from minari.storage.datasets_root_dir import get_dataset_path

    folder = Path(get_dataset_path(str(dataset))) / "data"
    if not folder.is_dir():
        raise InputError(
            f"expected a Minari dataset, found no {str(dataset)!r} in the local database "
            f"{str(get_dataset_path())!r}: check the id, or download it with: minari download "
            f"{dataset}"
        )
    return folder


def _from_minari(index: int, episode: Any, seed: Any) -> Episode:
    observations = _flat_space(episode.observations)
    steps = len(episode.rewards)
    if len(observations) not in (steps, steps + 1):
        raise InputError(
            f"expected {steps + 1} observations for {steps} rewards in episode {index}, "
            f"found {len(observations)}"
        )
    ends = np.asarray(episode.terminations), np.asarray(episode.truncations)
    if any(flags.shape != (steps,) or flags[:-1].any() for flags in ends):
        raise InputError(
            f"expected {steps} terminations and truncations in episode {index}, true in the last "
            "step at most, found others"
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


def _minari() -> Any:
    return needed("minari", "a Minari dataset")
