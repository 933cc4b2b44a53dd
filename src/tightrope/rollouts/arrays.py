"""Flat D4RL-style arrays: .npz and .hdf5 files, or a mapping in memory."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible, write_atomically
from tightrope.imports import needed
from tightrope.rollouts.episodes import Episodes
from tightrope.system import library_versions

__all__ = [
    "NAMES",
    "export_arrays",
    "flags",
    "import_arrays",
    "log_metadata",
    "numbers",
    "require_plain",
]

NAMES = ("observations", "rewards", "terminals", "timeouts")
_OPTIONAL = ("actions", "next_observations")


def import_arrays(source: str | Path | Mapping[str, Any]) -> Episodes:
    """Episodes from flat D4RL-style arrays in an .npz or .hdf5 file, or in a mapping.

    Needs `observations`, `rewards`, `terminals` and `timeouts`; takes `actions` and
    `next_observations` along. Every episode but the last must end with a terminal or a timeout; a
    trailing incomplete episode is dropped with a warning.

    Raises:
        InputError: the file is damaged, a name is missing, or lengths disagree.
    """
    if isinstance(source, Mapping):
        where = name = "arrays"
        found = {key: source[key] for key in (*NAMES, *_OPTIONAL) if key in source}
    else:
        where, name = str(source), Path(source).name
        found = _read(Path(source))
    missing = [key for key in NAMES if key not in found]
    if missing:
        raise InputError(
            f"expected the arrays {', '.join(NAMES)}, found no {missing[0]} in {where}"
        )
    arrays = {key: numbers(array, key, where) for key, array in found.items()}
    rewards = arrays["rewards"].astype(np.float64).reshape(-1)
    steps = len(rewards)
    if steps == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
    for key, array in arrays.items():
        if len(array) != steps:
            raise InputError(f"expected {steps} rows of {key}, found {len(array)} in {where}")
        if "observations" in key:  # (steps, features)
            arrays[key] = array.astype(np.float32, copy=False).reshape(steps, -1)
    observations, following = arrays["observations"], arrays.get("next_observations")
    if following is not None and following.shape != observations.shape:
        raise InputError(
            f"expected next_observations of shape {observations.shape}, found {following.shape} in "
            f"{where}"
        )
    terminals, timeouts = (flags(arrays[key], key, where) for key in ("terminals", "timeouts"))
    last = np.flatnonzero(terminals | timeouts)
    if len(last) == 0:
        raise InputError(f"expected at least one terminal or timeout, found none in {where}")
    end = last[-1] + 1
    if end < steps:
        warnings.warn(
            f"dropped the last {steps - end} steps of {name}: they have no end", stacklevel=2
        )
    actions = arrays.get("actions")
    return Episodes(
        observations=observations[:end],
        rewards=rewards[:end],
        offsets=np.concatenate([[0], last + 1]).astype(np.int64),
        terminated=terminals[last],
        truncated=timeouts[last],
        seeds=np.full(len(last), -1, np.int64),
        actions=None if actions is None else actions[:end],
        final_observations=None if following is None else following[last],
        subject=log_metadata(name),
    )


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

    def hdf5(temporary: Path) -> None:
        with _h5py().File(temporary, "w") as archive:
            for name, array in arrays.items():
                archive.create_dataset(name, data=array)

    if path.suffix == ".npz":
        write_atomically(path, lambda temporary: np.savez_compressed(temporary, **arrays))
    elif path.suffix in (".hdf5", ".h5"):
        write_atomically(path, hdf5)
    else:
        raise InputError(f"expected a name ending in .npz or .hdf5, found {str(path)!r}")


def log_metadata(log: str, environment: str | None = None) -> dict[str, Any]:
    """The metadata of episodes from a log: its name, and its environment if that is known."""
    found: dict[str, Any] = {"log": log, "versions": library_versions()}
    return found if environment is None else {**found, "environment": {"id": environment}}


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


# --- files of strangers --------------------------------------------------------------------------


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


def require_plain(archive: Any, path: Path) -> None:
    """Refuse an open HDF5 file that leads out of itself, or states more than could be in it.

    A data set may be a link to another file, or have its numbers in others; and one that was never
    written has any size and reads as zeros.

    Raises:
        InputError: it does either.
    """
    h5py = _h5py()
    links: list[tuple[str, Any]] = []
    archive.visititems_links(lambda name, link: links.append((name, link)))
    stated = 0
    for name, link in links:
        outside = isinstance(link, h5py.ExternalLink)
        entry = archive[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(entry, h5py.Dataset):
            outside = entry.is_virtual or bool(entry.external)
            stated += math.prod(entry.shape or ()) * entry.dtype.itemsize
        if outside:
            raise InputError(
                f"expected all data in {str(path)!r} itself, found {name!r} in another file: copy "
                "it into one file"
            )
    require_plausible(path, stated)


def _h5py() -> Any:
    return needed("h5py", "an .hdf5 log")
