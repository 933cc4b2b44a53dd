"""Folders of a run, a study or an audit: begun with a document, held by one process at a time."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line, printable
from tightrope.files import delete, lock, refuse_links, write_text

__all__ = ["OwnedFolder"]


@dataclass(frozen=True)
class OwnedFolder:
    """A folder that goes on only with what it was begun with.

    Attributes:
        path: of the folder.
        kind: what it holds: ``run``, ``study``, ``audit``; also the name of its document.
        version: of the document's format.
    """

    path: Path
    kind: str
    version: int

    @property
    def document(self) -> Path:
        """Says what the folder was begun with."""
        return self.path / f"{self.kind}.json"

    @contextlib.contextmanager
    def held(self, content: Mapping[str, Any], *names: str) -> Iterator[None]:
        """Hold the folder for this process; begin it, or check that it was begun with the same.

        Args:
            content: JSON-like, of the document.
            names: of files and folders in it, whose halves a killed process may have left.

        Raises:
            InputError: it holds something else, is in use, has links in it, or is read-only.
        """
        self.require_own(content)
        with lock(self.path, f"another process is using the {self.kind} in {self}: wait"):
            self.require_own(content)  # nobody began it meanwhile
            if not self.document.exists():
                write_text(self.document, json.dumps(self._whole(content), indent=2) + "\n")
            for name in (self.document.name, *names):
                for left in list(self.path.glob(f".{name}.*")):
                    delete(left)
            yield

    def require_own(self, content: Mapping[str, Any]) -> None:
        """Refuse a folder that belongs to something else.

        Raises:
            InputError: it does.
        """
        if not self.document.is_file():
            if self._is_foreign():
                raise InputError(
                    f"expected a new folder or one with {self.document.name}, found {self} with "
                    "other content: choose another `out`"
                )
            return
        refuse_links(self.path)
        try:
            found = json.loads(self.document.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(
                f"{str(self.document)!r} is damaged ({one_line(error)}): choose another `out`"
            ) from None
        wanted = json.loads(json.dumps(self._whole(content)))
        if found != wanted:
            name, theirs, ours = _difference(found, wanted)
            raise InputError(
                f"expected the {self.kind} that {self} was begun with ({name} {theirs}), found "
                f"{ours}: give the same options and versions, or another `out`"
            )

    def require_there(self) -> None:
        """Refuse to write where nobody would recognise it.

        Raises:
            InputError: someone else has moved the folder away.
        """
        if not self.document.is_file():
            raise InputError(
                f"expected the {self.kind} that was begun in {self}, found it gone: put it back "
                "and give the same command, or start again"
            )

    def _whole(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return {"format": f"tightrope.{self.kind}/{self.version}", **content}

    def _is_foreign(self) -> bool:
        if not self.path.is_dir():
            return self.path.exists()
        ours = (".lock", f".{self.document.name}.")  # of a process that was killed when it began
        return any(not entry.name.startswith(ours) for entry in self.path.iterdir())

    def __str__(self) -> str:
        return repr(str(self.path))


def _difference(found: Any, wanted: Any) -> tuple[str, str, str]:
    """The first key whose values differ, and the two values."""
    name = "content"
    while isinstance(found, dict) and isinstance(wanted, dict):
        key = next((k for k in {**wanted, **found} if wanted.get(k) != found.get(k)), "a key")
        name = key if name == "content" else f"{name}: {key}"
        found, wanted = found.get(key), wanted.get(key)
    return name, *(printable(str(value))[:80] for value in (found, wanted))  # type: ignore
