"""Episodes as one .safetensors file: arrays and a JSON header, nothing that executes.

Layout in docs/formats.md. Files are written whole or not at all, never overwritten, and mapped
into memory on load.
"""

from pathlib import Path

from tightrope.errors import InputError
from tightrope.files import load_tensors, save_tensors
from tightrope.rollouts.episodes import Episodes

__all__ = ["FORMAT", "load", "save"]

FORMAT = "tightrope.episodes/1"
_REQUIRED = ("observations", "rewards", "offsets", "terminated", "truncated", "seeds")
_OPTIONAL = ("actions", "final_observations", "success")
_PROPERTY = "property."  # before the name of a property


def save(episodes: Episodes, path: str | Path) -> None:
    """Write episodes to a new .safetensors file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    arrays = {name: getattr(episodes, name) for name in (*_REQUIRED, *_OPTIONAL)}
    present = {name: array for name, array in arrays.items() if array is not None}
    present |= {f"{_PROPERTY}{name}": values for name, values in episodes.properties.items()}
    save_tensors(Path(path), present, {"format": FORMAT, "subject": episodes.subject})


def load(path: str | Path) -> Episodes:
    """Map the episodes of a file written by :func:`save` into memory.

    Raises:
        InputError: there is no such file, or it is damaged or of another kind.
    """
    path = Path(path)
    arrays, header = load_tensors(path, FORMAT, mapped=True)
    for name in _REQUIRED:
        if name not in arrays:
            raise InputError(f"{str(path)!r} is damaged: expected {name}, found none")
    properties = {
        name.removeprefix(_PROPERTY): arrays.pop(name)
        for name in sorted(arrays)
        if name.startswith(_PROPERTY)
    }
    unknown = sorted(set(arrays) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise InputError(f"{str(path)!r} is damaged: found an unknown array {unknown[0]!r}")
    if not isinstance(header.get("subject"), dict):
        raise InputError(f"{str(path)!r} is damaged: expected a subject, found none")
    try:
        return Episodes(**arrays, properties=properties, subject=header["subject"])
    except InputError as error:
        raise InputError(f"{str(path)!r} is damaged: {error}") from None
