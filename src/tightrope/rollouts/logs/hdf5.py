"""HDF5 files of strangers: what is read is in the file, and not more than it can hold."""

import math
from pathlib import Path
from typing import Any

from tightrope.errors import InputError
from tightrope.files import require_plausible
from tightrope.imports import needed

__all__ = ["require_plain"]


def require_plain(archive: Any, path: Path) -> None:
    """Refuse an open file that leads out of itself, or that states more than could be in it.

    A data set may be a link to another file, or have its numbers in others; and one that was never
    written has any size and reads as zeros.

    Raises:
        InputError: it does either.
    """
    h5py = needed("h5py", "an .hdf5 log")
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
