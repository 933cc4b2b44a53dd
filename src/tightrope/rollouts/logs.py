"""Logs of others as episodes, and back: Minari datasets, D4RL-style .npz and .hdf5.

Rules in docs/formats.md. Nothing here needs the environment the log was recorded in.
"""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError
from tightrope.files import write_atomically
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.versions import library_versions

__all__ = ["export_arrays", "export_minari", "import_arrays", "import_minari", "require_hdf5"]

_NAMES = ("observations", "rewards", "terminals", "timeouts")


def import_arrays(path: str | Path) -> Episodes:
    """Episodes from flat D4RL-style arrays in an .npz or .hdf5 file.

    Needs `observations`, `rewards`, `terminals` and `timeouts`; takes `actions` and
    `next_observations` along. Every episode but the last must end with a terminal or a timeout; a
    trailing incomplete episode is dropped with a warning.

    Raises:
        InputError: the file is damaged, a name is missing, or lengths disagree.
    """
    path = Path(path)
    arrays = _read_arrays(path)
    missing = [name for name in _NAMES if name not in arrays]
    if missing:
        raise InputError(
            f"expected the arrays {', '.join(_NAMES)}, found no {missing[0]} in {path}"
        )
    arrays = {name: _numbers(array, name, path) for name, array in arrays.items()}
    rewards = arrays["rewards"].astype(np.float64).reshape(-1)
    steps = len(rewards)
    if steps == 0:
        raise InputError(f"expected at least one step, found an empty log in {path}")
    for name, array in arrays.items():
        if len(array) != steps:
            raise InputError(f"expected {steps} rows of {name}, found {len(array)} in {path}")
    observations = _flat(arrays["observations"])
    terminals, timeouts = (_flags(arrays[name], name, path) for name in ("terminals", "timeouts"))
    ends = np.flatnonzero(terminals | timeouts) + 1
    if len(ends) == 0:
        raise InputError(f"expected at least one terminal or timeout, found none in {path}")
    if ends[-1] < steps:
        warnings.warn(
            f"dropped the last {steps - ends[-1]} steps of {path.name}: they have no end",
            stacklevel=2,
        )
    actions, following = arrays.get("actions"), arrays.get("next_observations")
    following = None if following is None else _flat(following)
    if following is not None and following.shape != observations.shape:
        raise InputError(
            f"expected next_observations of shape {observations.shape}, found {following.shape} in "
            f"{path}"
        )
    starts = np.concatenate([[0], ends[:-1]])
    episodes = [
        Episode(
            observations=observations[start:end],
            rewards=rewards[start:end],
            terminated=bool(terminals[end - 1]),
            truncated=bool(timeouts[end - 1]),
            actions=None if actions is None else np.asarray(actions[start:end]),
            final_observation=None if following is None else following[end - 1],
        )
        for start, end in zip(starts, ends, strict=True)
    ]
    return join(episodes, _subject(path.name))


def export_arrays(episodes: Episodes, path: str | Path) -> None:
    """Write flat D4RL-style arrays to a new .npz or .hdf5 file.

    Raises:
        InputError: the file exists, cannot be written, or has another suffix.
    """
    path = Path(path)
    last = episodes.offsets[1:] - 1
    terminals, timeouts = np.zeros((2, len(episodes.rewards)), dtype=np.bool_)
    terminals[last], timeouts[last] = episodes.terminated, episodes.truncated
    arrays: dict[str, Any] = {
        "observations": episodes.observations,
        "rewards": episodes.rewards,
        "terminals": terminals,
        "timeouts": timeouts,
    }
    if episodes.actions is not None:
        arrays["actions"] = episodes.actions
    if episodes.final_observations is not None:
        following = np.concatenate([episodes.observations[1:], episodes.observations[:1]])
        following[last] = episodes.final_observations
        arrays["next_observations"] = following
    if path.suffix == ".npz":
        write_atomically(path, lambda temporary: np.savez_compressed(temporary, **arrays))
    elif path.suffix in (".hdf5", ".h5"):
        write_atomically(path, lambda temporary: _write_hdf5(temporary, arrays))
    else:
        raise InputError(f"expected a name ending in .npz or .hdf5, found {str(path)!r}")


def import_minari(dataset: str | Path) -> Episodes:
    """Episodes of a Minari dataset, by its id in the local database or by its folder.

    Raises:
        InputError: Minari is missing, there is no such dataset, or it is damaged.
    """
    minari = _minari()
    folder = Path(dataset)
    try:
        if folder.is_dir():
            source = minari.MinariDataset(
                folder if (folder / "metadata.json").exists() else folder / "data"
            )
        else:
            source = minari.load_dataset(str(dataset))
        seeds = [
            entry.get("seed")
            for entry in source.storage.get_episode_metadata(source.episode_indices)
        ]
        recorded = zip(source, seeds, strict=True)
        episodes = [_from_minari(index, *pair) for index, pair in enumerate(recorded)]
    except InputError:
        raise
    except Exception as error:  # Minari lets the exceptions of its storage through
        line = " ".join(str(error).split())[:160]
        raise InputError(f"cannot read the Minari dataset {str(dataset)!r}: {line}") from None
    if episodes and not (episodes[-1].terminated or episodes[-1].truncated):
        warnings.warn(f"dropped the last episode of {dataset}: it has no end", stacklevel=2)
        episodes = episodes[:-1]
    name = str(source.spec.dataset_id)
    environment = getattr(source.spec.env_spec, "id", None)
    return join(episodes, _subject(name, environment))


def export_minari(episodes: Episodes, dataset_id: str) -> None:
    """Write a new Minari dataset of that id into the local database.

    Raises:
        InputError: Minari is missing, the id exists or is malformed, or the episodes lack
            actions or final observations, which Minari needs.
    """
    minari = _minari()
    from minari.data_collector import EpisodeBuffer

    if episodes.actions is None or episodes.final_observations is None:
        raise InputError("expected episodes with actions and final observations for Minari")
    if re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", dataset_id) is None:
        raise InputError(f"expected an id such as robot/walk-v0, found {dataset_id!r}")
    if dataset_id in minari.list_local_datasets():
        raise InputError(f"expected a new dataset id, found {dataset_id!r} already there")
    buffers = []
    for index, episode in enumerate(episodes):
        flags = np.zeros((2, len(episode.rewards)), dtype=np.bool_)
        flags[:, -1] = episode.terminated, episode.truncated
        states = [*episode.observations, episode.final_observation]
        buffers.append(
            EpisodeBuffer(
                id=index,
                seed=episode.seed if episode.seed >= 0 else None,
                observations=np.stack(states),
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=flags[0],
                truncations=flags[1],
            )
        )
    policy = episodes.subject.get("policy", {}).get("name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari warns of every optional field left out
            minari.create_dataset_from_buffers(
                dataset_id,
                buffers,
                observation_space=_box(episodes.observations),
                action_space=_box(episodes.actions),
                algorithm_name=policy,
            )
    except Exception as error:
        raise InputError(f"cannot write the Minari dataset {dataset_id!r}: {error}") from None


def _from_minari(index: int, episode: Any, seed: Any) -> Episode:
    observations = _flat_space(episode.observations)
    steps = len(episode.rewards)
    if len(observations) not in (steps, steps + 1):
        raise InputError(
            f"expected {steps + 1} observations for {steps} rewards in episode {index}, "
            f"found {len(observations)}"
        )
    terminations, truncations = np.asarray(episode.terminations), np.asarray(episode.truncations)
    for name, flags in (("terminations", terminations), ("truncations", truncations)):
        if flags.shape != (steps,) or flags[:-1].any():
            raise InputError(
                f"expected {steps} {name} in episode {index}, only the last of them true, found "
                f"{flags.sum()} true of {len(flags)}"
            )
    return Episode(
        observations=observations[:steps],
        rewards=np.asarray(episode.rewards, dtype=np.float64),
        terminated=bool(terminations[-1]),
        truncated=bool(truncations[-1]),
        seed=-1 if seed is None else int(seed),
        actions=None if isinstance(episode.actions, dict) else np.asarray(episode.actions),
        final_observation=observations[steps] if len(observations) > steps else None,
    )


def _flat_space(value: Any) -> NDArray[np.float32]:
    """Observations (steps, features); dictionaries and tuples are laid side by side."""
    if isinstance(value, Mapping):
        return np.concatenate([_flat_space(part) for part in value.values()], axis=1)
    if isinstance(value, tuple):
        return np.concatenate([_flat_space(part) for part in value], axis=1)
    array = np.asarray(value, dtype=np.float32)
    return array.reshape(len(array), -1)


def _numbers(value: Any, name: str, path: Path) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        found = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"expected an array of numbers in {name}, found {found} in {path}")
    return array


def _flat(array: NDArray[Any]) -> NDArray[np.float32]:
    return array.astype(np.float32, copy=False).reshape(len(array), -1)


def _flags(array: Any, name: str, path: Path) -> NDArray[np.bool_]:
    values = np.asarray(array)
    if values.size != len(values) or not np.isin(values, (0, 1)).all():
        raise InputError(f"expected only true and false in {name}, one per step, in {path}")
    values = values.reshape(-1)
    return values.astype(np.bool_)


def _read_arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"expected a log, found nothing at {str(path)!r}: check the path")
    wanted = (*_NAMES, "actions", "next_observations")
    try:
        if path.suffix == ".npz":
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                return {name: archive[name] for name in wanted if name in archive}
        with _h5py().File(path, "r") as archive:
            return {name: archive[name][()] for name in wanted if name in archive}
    except InputError:
        raise
    except Exception as error:  # both libraries raise many kinds for a damaged file
        line = " ".join(str(error).split())[:160]
        raise InputError(f"{str(path)!r} is damaged or no log of arrays: {line}") from None


def require_hdf5() -> None:
    """Raise InputError unless .hdf5 files can be read and written here."""
    _h5py()


def _write_hdf5(path: Path, arrays: Mapping[str, Any]) -> None:
    with _h5py().File(path, "w") as archive:
        for name, array in arrays.items():
            archive.create_dataset(name, data=array)


def _box(array: NDArray[Any]) -> Any:
    import gymnasium as gym

    low, high = (-np.inf, np.inf) if array.dtype.kind == "f" else (array.min(), array.max())
    return gym.spaces.Box(low, high, array.shape[1:], dtype=array.dtype.type)


def _subject(name: str, environment: str | None = None) -> dict[str, Any]:
    subject: dict[str, Any] = {"log": name, "versions": library_versions()}
    if environment is not None:
        subject["environment"] = {"id": environment}
    return subject


def _h5py() -> Any:
    return _needed("h5py", "an .hdf5 log")


def _minari() -> Any:
    return _needed("minari", "a Minari dataset")


def _needed(module: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{what} needs the extra 'minari': pip install \"tightrope[minari]\""
        ) from None
