"""Flat D4RL-style arrays: .npz and .hdf5 files, or a mapping in memory."""

import math
import warnings
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible, write_file
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
    "whole_episodes",
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
    if missing := [key for key in NAMES if key not in found]:
        raise InputError(
            f"expected the arrays {', '.join(NAMES)}, found no {missing[0]} in {where}"
        )
    arrays = {key: numbers(array, key, where) for key, array in found.items()}
    rewards = arrays["rewards"].astype(np.float64).reshape(-1)
    steps = len(rewards)
    for key, array in arrays.items():
        if len(array) != steps:
            raise InputError(f"expected {steps} rows of {key}, found {len(array)} in {where}")
    if steps == 0:
        raise InputError(f"expected at least one step, found an empty log in {where}")
    terminals, timeouts = (flags(arrays[key], key, where) for key in ("terminals", "timeouts"))
    last = np.flatnonzero(terminals | timeouts)
    following = arrays.get("next_observations")
    return whole_episodes(
        last,
        terminals[last],
        timeouts[last],
        observations=_flat(arrays["observations"]),
        rewards=rewards,
        actions=arrays.get("actions"),
        final_observations=None if following is None else _flat(following[last]),
        where=where,
        metadata=log_metadata(name),
    )


def _flat(array: NDArray[Any]) -> NDArray[np.float32]:
    """Features of each row as one row of float32."""
    return array.astype(np.float32, copy=False).reshape(len(array), -1)


def whole_episodes(
    last: NDArray[np.intp],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    *,
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
    where: str,
    metadata: Mapping[str, Any],
    actions: NDArray[Any] | None = None,
    final_observations: NDArray[np.float32] | None = None,
    success: NDArray[np.bool_] | None = None,
) -> Episodes:
    """Episodes that end in the rows `last`; rows after these are dropped with a warning.

    Raises:
        InputError: there is no such row, or :class:`Episodes` refuses the arrays.
    """
    if len(last) == 0:
        raise InputError(f"expected at least one episode with an end, found none in {where}")
    offsets = np.append(0, last + 1).astype(np.int64)
    end = int(offsets[-1])
    if end < len(rewards):
        warnings.warn(
            f"dropped the last {len(rewards) - end} steps of {metadata['log']}: they have no end",
            stacklevel=4,
        )
    return Episodes(
        observations=observations[:end],
        rewards=rewards[:end],
        offsets=offsets,
        terminated=terminated,
        truncated=truncated,
        seeds=np.full(len(last), -1, np.int64),
        actions=None if actions is None else actions[:end],
        final_observations=final_observations,
        success=None if success is None else np.logical_or.reduceat(success[:end], offsets[:-1]),
        subject=metadata,
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
        write_file(path, lambda temporary: np.savez_compressed(temporary, **arrays))
    elif path.suffix in (".hdf5", ".h5"):
        write_file(path, hdf5)
    else:
        raise InputError(f"expected a name ending in .npz or .hdf5, found {str(path)!r}")


def log_metadata(log: str, environment: str | None = None) -> dict[str, Any]:
    """The metadata of episodes from a log: its name, and its environment if that is known."""
    found: dict[str, Any] = {"log": log, "versions": library_versions()}
    return found if environment is None else {**found, "environment": {"id": environment}}


def numbers(values: Any, name: str, where: str) -> NDArray[Any]:
    """(rows, ...) values that are all numbers; raises InputError for anything else."""
    try:
        array = _without_objects(values)
    except ValueError as error:  # lists of different lengths
        raise InputError(
            f"expected numbers in {name}, as many in each row, found {one_line(error)} in {where}"
        ) from None
    if array.dtype.kind in "biuf" and array.ndim:
        return array
    found = f"{array.dtype} of shape {array.shape}"
    for row, value in enumerate(array.tolist() if array.ndim == 1 else ()):
        if not _is_number(value):
            found = f"{str(value)[:40]!r} in row {row}"
            break
    raise InputError(f"expected numbers in {name}, found {found} of {where}")


def _without_objects(values: Any) -> NDArray[Any]:
    """An array of what stands in lists, of what pandas lets be missing, and of decimals."""
    array = np.asarray(values)
    if array.dtype != object:
        return array
    nested = (list, tuple, np.ndarray)
    return np.array(
        [
            _without_objects(v)
            if isinstance(v, nested)
            else float(v)
            if isinstance(v, Decimal)
            else v
            for v in array.tolist()
        ]
    )


def _is_number(value: Any) -> bool:
    try:
        return float(value) == float(value)
    except (TypeError, ValueError):
        return False


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
