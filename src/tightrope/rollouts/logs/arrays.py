"""Flat D4RL-style arrays: .npz and .hdf5 files, or a mapping in memory."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible, write_atomically
from tightrope.imports import needed
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.logs.hdf5 import require_plain
from tightrope.rollouts.logs.shared import subject_of

__all__ = ["NAMES", "export_arrays", "flags", "import_arrays", "numbers", "require_hdf5"]

NAMES = ("observations", "rewards", "terminals", "timeouts")
_OPTIONAL = ("actions", "next_observations")


def import_arrays(source: str | Path | Mapping[str, Any], *, name: str | None = None) -> Episodes:
    """Episodes from flat D4RL-style arrays in an .npz or .hdf5 file, or in a mapping.

    Needs `observations`, `rewards`, `terminals` and `timeouts`; takes `actions` and
    `next_observations` along. Every episode but the last must end with a terminal or a timeout; a
    trailing incomplete episode is dropped with a warning.

    Args:
        source: the file, or arrays by these names.
        name: of the log, for messages and the subject; by default the file's, or "arrays".

    Raises:
        InputError: the file is damaged, a name is missing, or lengths disagree.
    """
    if isinstance(source, Mapping):
        where = name or "arrays"
        found = {key: source[key] for key in (*NAMES, *_OPTIONAL) if key in source}
    else:
        where = str(source)
        found = _read(Path(source))
    missing = [key for key in NAMES if key not in found]
    if missing:
        raise InputError(
            f"expected the arrays {', '.join(NAMES)}, found no {missing[0]} in {where}"
        )
    arrays = {key: numbers(array, key, where) for key, array in found.items()}
    return _cut(arrays, where, name or Path(where).name)


def _cut(arrays: dict[str, NDArray[Any]], where: str, name: str) -> Episodes:
    """The episodes of arrays that are numbers."""
    rewards = arrays["rewards"].astype(np.float64).reshape(-1)
    steps = len(rewards)
    if steps == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
    for key, array in arrays.items():
        if len(array) != steps:
            raise InputError(f"expected {steps} rows of {key}, found {len(array)} in {where}")
    observations = _flat(arrays["observations"])
    terminals, timeouts = (flags(arrays[key], key, where) for key in ("terminals", "timeouts"))
    ends = np.flatnonzero(terminals | timeouts) + 1
    if len(ends) == 0:
        raise InputError(f"expected at least one terminal or timeout, found none in {where}")
    if ends[-1] < steps:
        warnings.warn(
            f"dropped the last {steps - ends[-1]} steps of {name}: they have no end", stacklevel=3
        )
    actions, following = arrays.get("actions"), arrays.get("next_observations")
    following = None if following is None else _flat(following)
    if following is not None and following.shape != observations.shape:
        raise InputError(
            f"expected next_observations of shape {observations.shape}, found {following.shape} in "
            f"{where}"
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
    return join(episodes, subject_of(name))


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


def require_hdf5() -> None:
    """Raise InputError unless .hdf5 files can be read and written here."""
    _h5py()


def numbers(value: Any, name: str, where: str) -> NDArray[Any]:
    """An array of numbers with at least one dimension; raises InputError for anything else."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise InputError(
            f"expected an array of numbers in {name}, found {one_line(error)} in {where}"
        ) from None
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        found = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"expected an array of numbers in {name}, found {found} in {where}")
    return array


def flags(values: NDArray[Any], name: str, where: str) -> NDArray[np.bool_]:
    """(steps,) one flag per step; raises InputError for anything but 0 and 1."""
    if values.size != len(values) or not np.isin(values, (0, 1)).all():
        raise InputError(f"expected only true and false in {name}, one per step, in {where}")
    return values.reshape(-1).astype(np.bool_)


def _flat(array: NDArray[Any]) -> NDArray[np.float32]:
    return array.astype(np.float32, copy=False).reshape(len(array), -1)  # (steps, features)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"expected a log, found nothing at {str(path)!r}: check the path")
    wanted = (*NAMES, *_OPTIONAL)
    try:
        if path.suffix == ".npz":
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                require_plausible(path, sum(entry.file_size for entry in archive.zip.infolist()))
                return {name: archive[name] for name in wanted if name in archive}
        with _h5py().File(path, "r") as archive:
            require_plain(archive, path)
            return {name: archive[name][()] for name in wanted if name in archive}
    except InputError:
        raise
    except Exception as error:  # both libraries raise many kinds for a damaged file
        raise InputError(
            f"{str(path)!r} is damaged or no log of arrays: {one_line(error)}"
        ) from None


def _write_hdf5(path: Path, arrays: Mapping[str, Any]) -> None:
    with _h5py().File(path, "w") as archive:
        for name, array in arrays.items():
            archive.create_dataset(name, data=array)


def _h5py() -> Any:
    return needed("h5py", "an .hdf5 log")
