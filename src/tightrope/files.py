"""Everything that changes a disk: files and folders, whole or not at all; locks; digests.

Nothing else in the package writes, renames, deletes or locks, but TensorBoard and a training's
log, which is appended to. In folders that are ours no link is followed.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open

from tightrope.errors import InputError, one_line

__all__ = [
    "WriteError",
    "copy",
    "delete",
    "load_tensors",
    "lock",
    "make_folder",
    "refuse_links",
    "refuse_to_overwrite",
    "rename",
    "require_plausible",
    "save_tensors",
    "sha256",
    "sync_folder",
    "tensors_format",
    "write_file",
    "write_folder",
    "write_text",
]

T = TypeVar("T")

_KEY = "tightrope"  # of the header among the metadata of a .safetensors file
_DENSEST = 2000  # deflate packs at most 1,032 bytes into one
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP)  # of file systems without hard links


class WriteError(InputError):
    """A file or folder cannot be written, most often because the disk is full."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot write {str(self.path)!r}: {self.reason}"


def _before(change: str, path: Path) -> None:
    """Called before every change of the disk: where tests kill, and nothing else happens."""


def require_plausible(path: Path, stated: int, densest: int = _DENSEST) -> None:
    """Raise InputError if a file says that it holds far more bytes than could be packed into it.

    Args:
        path: of the file.
        stated: bytes of its contents, as it says.
        densest: how many bytes of such contents one byte of the file may hold.
    """
    size = path.stat().st_size
    if stated > densest * size:
        raise InputError(
            f"{str(path)!r} is damaged or made to fill the memory: it states {stated:,} bytes of "
            f"contents in a file of {size:,}"
        )


def refuse_to_overwrite(path: Path) -> None:
    """Raise InputError if something already has the name `path`, or nothing could be put there."""
    if path.exists() or path.is_symlink():
        raise InputError(f"expected a new name, found {str(path)!r} already there: choose another")
    parent = next(p for p in path.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise WriteError(path, f"{str(parent)!r} is no folder to write into")


def write_file(path: Path, write: Callable[[Path], object], *, replace: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then give it that name in one step.

    Args:
        path: of the file; folders above it are made.
        write: writes into the file that it is given.
        replace: whether a file of that name may be there; it stands until the new one is whole.

    Raises:
        InputError: `path` exists (unless `replace`) or cannot be written; nothing is left behind.
    """
    if not replace:
        refuse_to_overwrite(path)
    with _naming(path):
        _before("write", path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            _to_disk(temporary)
            os.chmod(temporary, 0o644)
            if replace:
                _before("replace", path)
                temporary.replace(path)  # of a link: the link itself
            else:
                _take_name(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, new: bool = False) -> None:
    """Write a text file as :func:`write_file` does; replace the old one unless it must be `new`."""
    write_file(path, lambda temporary: temporary.write_text(text, "utf-8"), replace=not new)


def write_folder(path: Path, fill: Callable[[Path], T], *, replace: bool = False) -> T:
    """Let `fill` fill a temporary folder beside `path`, then give it that name in one step.

    Args:
        path: of the new folder.
        fill: writes into the folder that it is given; what it returns is returned.
        replace: whether a folder of that name may be there; it stands until the new one is whole.

    Raises:
        InputError: `path` exists (unless `replace`) or cannot be written; nothing is left behind.
    """
    if not replace:
        refuse_to_overwrite(path)
    elif path.is_symlink():
        raise InputError(f"expected a folder to replace, found the link {str(path)!r}: remove it")
    with _naming(path):
        make_folder(path.parent)
        with tempfile.TemporaryDirectory(
            dir=path.parent, prefix=f".{path.name}.", ignore_cleanup_errors=True
        ) as holder:
            new, old = Path(holder, "new"), Path(holder, "old")
            new.mkdir()
            result = fill(new)
            sync_folder(new)
            new.chmod(0o755)
            try:
                if replace and path.exists():
                    _before("move the old folder away", path)
                    path.rename(old)
                _take_name(new, path)
            except BaseException:
                if old.exists() and not path.exists():
                    old.rename(path)
                raise
    return result


def _take_name(temporary: Path, path: Path) -> None:
    """Rename a file or folder unless something has the name."""
    _before("take the name", path)
    try:
        if temporary.is_dir():
            temporary.rename(path)  # fails unless the name is free, or of an empty folder
            return
        try:
            os.link(temporary, path)  # fails unless the name is free
            temporary.unlink()
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            temporary.rename(path)
    except OSError:
        refuse_to_overwrite(path)
        raise


def make_folder(path: Path) -> None:
    """Make a folder and those above it, if they are not there.

    Raises:
        InputError: it cannot be made.
    """
    with _naming(path):
        _before("make a folder", path)
        path.mkdir(parents=True, exist_ok=True)


def rename(source: Path, target: Path) -> None:
    """Give a file or folder of ours another name, which must be free.

    Raises:
        InputError: it is taken, or cannot be had.
    """
    with _naming(target):
        _take_name(source, target)


def delete(path: Path) -> None:
    """Delete a file or folder of ours, if it is there; of a link, the link itself."""
    with _naming(path):
        _before("delete", path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a folder with all that is in it.

    Raises:
        InputError: `target` cannot be written.
    """
    with _naming(target):
        _before("copy", target)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def refuse_links(folder: Path, *, deep: bool = False) -> None:
    """Raise InputError if a folder, or something right in it, is a link to elsewhere.

    Args:
        folder: one of ours; if there is none, there is nothing to refuse.
        deep: whether to look into the folders in it as well.
    """
    there = folder.rglob("*") if deep else folder.iterdir() if folder.is_dir() else ()
    for path in (folder, *there):
        if path.is_symlink():
            raise InputError(
                f"expected no links in {str(folder)!r}, found {str(path)!r}: remove it"
            )


@contextlib.contextmanager
def lock(folder: Path, busy: str) -> Iterator[None]:
    """Hold a folder for this process, by a lock on the file .lock in it.

    Args:
        folder: is made if it is not there; no link may be in it.
        busy: what is said if another process holds it.

    Raises:
        InputError: another process holds it, it has links in it, or cannot be written.
    """
    make_folder(folder)
    refuse_links(folder)
    with _naming(folder):
        # Neither truncated nor followed, if it became a link meanwhile.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        held = os.open(folder / ".lock", flags, 0o644)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(busy) from None
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong while writing, as one line about `path` instead of a temporary name."""
    try:
        yield
    except WriteError as error:
        raise WriteError(path, error.reason) from None
    except (OSError, SafetensorError) as error:
        # h5py tells a story in place of the system's words; safetensors hides the number in text.
        told = re.search(r"os error (\d+)", str(error))
        number = getattr(error, "errno", None) or (told and int(told[1]))
        raise WriteError(path, os.strerror(number) if number else one_line(error)) from None


def sync_folder(folder: Path) -> None:
    """Have every file in the folder written to the disk itself."""
    for entry in folder.rglob("*"):
        if entry.is_file():
            _to_disk(entry)


def _to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def save_tensors(path: Path, arrays: Mapping[str, ArrayLike], header: Mapping[str, Any]) -> None:
    """Write arrays and a header to a new .safetensors file; equal contents give equal bytes.

    Args:
        path: of the new file.
        arrays: of numbers, by name.
        header: JSON-like, with the file's kind and version as "format".

    Raises:
        InputError: the file exists or cannot be written.
    """
    from safetensors.numpy import save_file

    # One key of sorted JSON: safetensors writes several in no fixed order.
    metadata = {_KEY: json.dumps(header, sort_keys=True)}
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_file(path, lambda temporary: save_file(contiguous, temporary, metadata=metadata))


def load_tensors(path: Path, format: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:  # noqa: A002
    """Arrays and header of a file written by :func:`save_tensors`.

    Args:
        path: of the file.
        format: that the header must name.

    Raises:
        InputError: there is no such file, or it is damaged or of another format.
    """
    if not path.is_file():
        raise InputError(
            f"expected the format {format}, found nothing at {str(path)!r}: check the path"
        )
    try:
        with safe_open(path, framework="np") as archive:  # checks the entries against the size
            header = json.loads((archive.metadata() or {}).get(_KEY, "{}"))
            found = header.get("format")
            names = archive.keys() if found == format else ()
            arrays = {name: archive.get_tensor(name) for name in names}
            if any(array.dtype.kind not in "biuf" for array in arrays.values()):
                raise TypeError("expected numbers of NumPy's own types")
    except Exception as error:  # a damaged file can fail in any of these steps
        raise InputError(
            f"{str(path)!r} is damaged or no file of tightrope: {one_line(error)}"
        ) from None
    if found != format:
        other = "none" if found is None else repr(str(found)[:80])
        raise InputError(f"expected the format {format}, found {other} in {str(path)!r}")
    return arrays, header


def tensors_format(path: Path) -> str | None:
    """The format that the header of a .safetensors file names; None if it names none."""
    try:
        with safe_open(path, framework="np") as archive:
            return str(json.loads(archive.metadata()[_KEY])["format"])
    except Exception:  # whatever the file is, it is not one of ours
        return None


def sha256(*paths: Path) -> str:
    """Hexadecimal SHA-256 of the contents of the files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()
