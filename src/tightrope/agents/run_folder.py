"""The folder of a run: claimed by one process, and only for the run it was begun with."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tightrope.agents.specification import RUN_FORMAT, Run
from tightrope.errors import InputError
from tightrope.files import delete, lock, write_text

__all__ = ["claim"]


@contextlib.contextmanager
def claim(folder: Path, run: Run) -> Iterator[None]:
    """Hold `folder` for this process; begin it with the run, or check that it is the same one.

    Raises:
        InputError: the folder holds something else, another run, or is in use.
    """
    path, wanted = folder / "run.json", json.loads(json.dumps(run.to_json()))
    if not path.is_file() and _occupied(folder):
        raise InputError(
            f"expected a new folder or that of a run, found {str(folder)!r} with other content: "
            "choose another `out`"
        )
    with lock(folder, f"another process is training in {str(folder)!r}: wait"):
        if path.is_file():
            _require_same(path, wanted)
        else:
            write_text(path, json.dumps(wanted, indent=2) + "\n")
        names = ("run.json", "log.csv", "checkpoint.pt", "finished", *run.levels)
        for left in (path for name in names for path in folder.glob(f".{name}.*")):
            # of a process that was killed while writing
            delete(left)
        yield


def _occupied(folder: Path) -> bool:
    if not folder.is_dir():
        return folder.exists()
    ours = (".lock", ".run.json.")
    return any(not entry.name.startswith(ours) for entry in folder.iterdir())


def _require_same(path: Path, wanted: dict[str, Any]) -> None:
    try:
        found = json.loads(path.read_text())
    except ValueError:
        raise InputError(f"{str(path)!r} is damaged: choose another `out`") from None
    if not isinstance(found, dict) or found.get("format") != RUN_FORMAT:
        raise InputError(f"expected the format {RUN_FORMAT} in {str(path)!r}: choose another `out`")
    for name in dict.fromkeys([*wanted, *found]):
        ours, theirs = wanted.get(name), found.get(name)
        if ours == theirs:
            continue
        if isinstance(ours, dict) and isinstance(theirs, dict):
            keys = [
                key for key in dict.fromkeys([*ours, *theirs]) if ours.get(key) != theirs.get(key)
            ]
            name, ours, theirs = f"{name}: {keys[0]}", ours.get(keys[0]), theirs.get(keys[0])
        raise InputError(
            f"expected the run that {str(path.parent)!r} was begun with ({name} {theirs}), found "
            f"{ours}: give the same options and versions, or another `out`"
        )
