"""A job: a pure function from a specification to a folder that is named by its content.

A job is done when its folder is there. It is filled under another name and renamed, so that it is
whole or absent; a study resumes by running the jobs that are not done. Each is a command as well:

    python -m tightrope.studies.jobs FOLDER < job.json
"""

import hashlib
import importlib
import json
import os
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line, printable
from tightrope.files import (
    make_folder,
    refuse_links,
    rename,
    sync_folder,
    write_folder,
    write_text,
)
from tightrope.system import library_versions

__all__ = ["Job", "JobError", "read_job", "run_job"]

_FORMAT = "tightrope.job/2"
_FILE = "job.json"
Task = Callable[[Mapping[str, Any], Sequence[Path], Path], None]


class JobError(Exception):
    """Why a job could not be done, in one line."""


@dataclass(frozen=True)
class Job:
    """One unit of work.

    Attributes:
        stage: ``train``, ``policy``, ``collect``, ``certify``: the first part of its id.
        task: ``module:name`` of the function that does it; it takes the specification, the folders
            of the jobs that it needs, and the folder to fill.
        spec: JSON-like; with `task` and `needs` it determines the content of the folder.
        needs: ids of the jobs whose folders it reads.
        label: for people.
        resumable: whether the task continues in a folder that a killed attempt left.
    """

    stage: str
    task: str
    spec: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    label: str = field(default="", compare=False)
    resumable: bool = False

    @cached_property
    def id(self) -> str:
        """Stage and digest of what determines the content."""
        content = {"task": self.task, "spec": self.spec, "needs": self.needs}
        text = json.dumps({"format": _FORMAT, **content}, sort_keys=True)
        return f"{self.stage}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"

    @property
    def name(self) -> str:
        """Stage and label, for people."""
        return f"{self.stage} {self.label}"

    def to_json(self) -> dict[str, Any]:
        """What its command reads and its folder records."""
        return {"format": _FORMAT, "id": self.id, **asdict(self)}


def run_job(job: Job, folder: Path, task: Task | None = None) -> None:
    """Do the job, unless it is done, and put its folder into `folder`.

    Args:
        job: what to do.
        folder: with the folders of the jobs that it needs.
        task: what does it, if not the function that it names.

    Raises:
        InputError: an argument of the job is wrong, or the disk is full.
    """
    final = folder / job.id
    if read_job(final) is not None:
        return
    if task is None:
        module, _, name = job.task.partition(":")
        task = getattr(importlib.import_module(module), name)
    if not folder.is_dir():  # writing would make it again
        raise InputError(f"expected the folder of the jobs at {str(folder)!r}, found it gone")
    begun = time.monotonic()

    def fill(path: Path) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            task(job.spec, [folder / need for need in job.needs], path)
        record = {**job.to_json(), "seconds": round(time.monotonic() - begun, 2)}
        record["warnings"] = sorted({one_line(each.message) for each in caught})  # type: ignore
        record["versions"] = library_versions()
        write_text(path / _FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")

    if not job.resumable:
        write_folder(final, fill)
        return
    partial = folder / f".{job.id}.partial"
    make_folder(partial)
    fill(partial)
    sync_folder(partial)
    rename(partial, final)


def read_job(folder: Path) -> dict[str, Any] | None:
    """The record in a finished job's folder; None where there is no folder.

    Raises:
        InputError: it is no job's folder, another job's, or has links in it.
    """
    if not folder.exists() and not folder.is_symlink():
        return None
    refuse_links(folder)
    try:
        content: dict[str, Any] = json.loads((folder / _FILE).read_text())
        found = f"{content['format']} {content['id']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        content, found = {}, f"something else ({one_line(error)})"
    if found != f"{_FORMAT} {folder.name}":
        raise InputError(
            f"expected a finished job ({_FORMAT}) in {str(folder)!r}, found "
            f"{printable(found[:80])}: move it away"
        )
    return content


def main() -> int:
    """Run the job on standard input; the reason of a failure goes to standard output."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what an environment prints must not land in the answer
    sys.path.append(os.getcwd())
    by_hand = not stat.S_ISFIFO(os.fstat(0).st_mode)
    content = json.loads(sys.stdin.read() if by_hand else sys.stdin.readline() or "null")
    if content is None:  # the study was killed before it said what to do
        return 1
    job = Job(**{each.name: content[each.name] for each in fields(Job)})
    if not by_hand:
        threading.Thread(target=_end_with_the_study, daemon=True).start()
    try:
        run_job(job, Path(sys.argv[1]))
    except Exception as error:  # whatever environments, policies and libraries raise
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        os.write(answer, f"{kind}{one_line(error, limit=500)}\n".encode())
        return 1
    return 0


def _end_with_the_study() -> None:
    """End at once when the pipe closes: who resumes the study must not find a training in use."""
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
