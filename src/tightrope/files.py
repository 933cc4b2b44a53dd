"""Writing files whole or not at all, and telling them apart by their digests."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tightrope.errors import InputError

__all__ = ["refuse_to_overwrite", "replace_atomically", "sha256", "write_atomically"]


def refuse_to_overwrite(path: Path) -> None:
    """Raise InputError if something already has the name `path`, or nothing could be put there."""
    if path.exists() or path.is_symlink():
        raise InputError(f"expected a new name, found {str(path)!r} already there: choose another")
    parent = next(p for p in path.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: {str(parent)!r} is no folder to write into")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it that name in one step.

    Raises:
        InputError: `path` exists (also if it appeared while writing) or cannot be written.
    """
    refuse_to_overwrite(path)
    with _filled(path, write) as temporary:
        try:
            os.link(temporary, path)  # unlike rename, fails if the name was taken meanwhile
        except FileExistsError:
            refuse_to_overwrite(path)
            raise
        except PermissionError:  # a file system without hard links
            refuse_to_overwrite(path)
            temporary.rename(path)


def replace_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """As :func:`write_atomically`, but what had the name before stands until the new one does.

    Raises:
        InputError: `path` cannot be written; the old file is still there.
    """
    with _filled(path, write) as temporary:
        temporary.replace(path)


@contextlib.contextmanager
def _filled(path: Path, write: Callable[[Path], None]) -> Iterator[Path]:
    """A complete temporary file beside `path`; removed at the end if it still has its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        yield temporary
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def sha256(*paths: Path) -> str:
    """Hexadecimal SHA-256 of the contents of the files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
