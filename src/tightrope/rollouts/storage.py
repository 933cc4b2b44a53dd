"""Episodes as one .safetensors file: arrays and a JSON header, nothing that executes.

Layout in docs/formats.md. Files are written whole or not at all, never overwritten, and mapped
into memory on load.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.files import write_atomically
from tightrope.rollouts.episodes import Episodes

__all__ = ["FORMAT", "load", "save"]

FORMAT = "tightrope.episodes/1"
_REQUIRED = {
    "observations": "F32",
    "rewards": "F64",
    "offsets": "I64",
    "terminated": "BOOL",
    "truncated": "BOOL",
    "seeds": "I64",
}
_OPTIONAL = ("actions", "final_observations", "success")
_DTYPES = {
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "BOOL": "?",
}


def save(episodes: Episodes, path: str | Path) -> None:
    """Write episodes to a new .safetensors file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(getattr(episodes, name)) for name in _REQUIRED}
    for name in _OPTIONAL:
        if getattr(episodes, name) is not None:
            arrays[name] = np.ascontiguousarray(getattr(episodes, name))
    # One key, so that equal episodes give equal bytes.
    header = {
        "tightrope": json.dumps({"format": FORMAT, "subject": episodes.subject}, sort_keys=True)
    }
    write_atomically(Path(path), lambda temporary: save_file(arrays, temporary, metadata=header))


def load(path: str | Path) -> Episodes:
    """Map the episodes of a file written by :func:`save` into memory.

    Raises:
        InputError: there is no such file, or it is damaged or of another kind.
    """
    path = Path(path)
    try:
        header, start = _header(path)
        about = json.loads(header.pop("__metadata__", {}).get("tightrope", "{}"))
        if about.get("format") != FORMAT:
            raise InputError(
                f"expected the format {FORMAT}, found {about.get('format')!r} in {str(path)!r}"
            )
        unknown = sorted(set(header) - {*_REQUIRED, *_OPTIONAL})
        if unknown or not isinstance(about.get("subject"), dict):
            raise InputError(
                f"{str(path)!r} is damaged: found {unknown[0] if unknown else 'no subject'!r} in it"
            )
        for name, dtype in _REQUIRED.items():
            found = header.get(name, {}).get("dtype")
            if found != dtype:
                raise InputError(f"expected {name} as {dtype}, found {found} in {str(path)!r}")
        arrays = {
            name: _mapped(path, start, header[name])
            for name in (*_REQUIRED, *_OPTIONAL)
            if name in header
        }
        return Episodes(**arrays, subject=about["subject"])
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except Exception as error:  # a damaged header can fail in any of these steps
        line = " ".join(str(error).split())
        raise InputError(f"{str(path)!r} is damaged or no episodes file: {line}") from None


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, checked by safetensors against the size of the file, and where data start."""
    from safetensors import safe_open

    if not path.is_file():
        raise InputError(
            f"expected an episodes file, found nothing at {str(path)!r}: check the path"
        )
    with safe_open(path, framework="np"):
        pass
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        return json.loads(stream.read(size)), 8 + size


def _mapped(path: Path, start: int, entry: dict[str, Any]) -> np.ndarray:
    offset = start + entry["data_offsets"][0]
    return np.memmap(path, _DTYPES[entry["dtype"]], "r", offset, tuple(entry["shape"]))
