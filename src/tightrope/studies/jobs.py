"""A job: a pure function from a specification to a folder that is named by its content.

A job is done when its folder is there. It is filled under another name and renamed, so that it is
whole or absent; a study resumes by running the jobs that are not done.
"""

import hashlib
import importlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line
from tightrope.files import sync_folder, write_folder
from tightrope.system import library_versions

__all__ = ["JOB_FILE", "JOB_FORMAT", "Job", "clear_leftovers", "is_done", "read_job", "run_job"]

JOB_FORMAT = "tightrope.job/1"
JOB_FILE = "job.json"
Function = Callable[[Mapping[str, Any], Sequence[Path], Path], None]


@dataclass(frozen=True)
class Job:
    """One unit of work.

    Attributes:
        stage: ``train``, ``collect``, ``certify``: the first part of its name.
        function: ``module:name`` of what does it: takes the specification, the folders of the jobs
            that it needs, and the folder to fill.
        spec: JSON-like; with `needs` it determines the content of the folder.
        needs: ids of the jobs whose folders it reads.
        label: for people.
        resumes: whether the function goes on in a folder that an earlier try left.
        seconds: expected, on one core.
        size: expected bytes of the folder.
    """

    stage: str
    function: str
    spec: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    label: str = field(default="", compare=False)
    resumes: bool = False
    seconds: float = field(default=1.0, compare=False)
    size: float = field(default=0.0, compare=False)

    @cached_property
    def id(self) -> str:
        """Stage and digest of what determines the content."""
        content = {"function": self.function, "spec": self.spec, "needs": self.needs}
        text = json.dumps({"format": JOB_FORMAT, **content}, sort_keys=True)
        return f"{self.stage}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"

    def to_json(self) -> dict[str, Any]:
        """What its folder says of it."""
        named = {"function": self.function, "spec": self.spec, "needs": list(self.needs)}
        return {"format": JOB_FORMAT, "id": self.id, "stage": self.stage, **named}


def run_job(job: Job, folder: Path, function: Function | None = None) -> None:
    """Do the job, unless it is done, and put its folder into `folder`.

    Args:
        job: what to do.
        folder: with the folders of the jobs that it needs.
        function: what does it, if not the function that it names.

    Raises:
        InputError: an argument of the job is wrong, or the disk is full.
    """
    final = folder / job.id
    if is_done(final):
        return
    if function is None:
        module, _, name = job.function.partition(":")
        function = getattr(importlib.import_module(module), name)
    if not folder.is_dir():  # writing would make it anew
        raise InputError(f"expected the folder of the jobs at {str(folder)!r}, found it gone")
    needs = [folder / need for need in job.needs]
    begun = time.monotonic()

    def fill(path: Path) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            function(job.spec, needs, path)
        record = {**job.to_json(), "seconds": round(time.monotonic() - begun, 2)}
        record["warnings"] = sorted({one_line(each.message) for each in caught})  # type: ignore
        record["versions"] = library_versions()
        (path / JOB_FILE).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")

    if not job.resumes:
        write_folder(final, fill)
        return
    partial = folder / f".{job.id}.partial"
    partial.mkdir(parents=True, exist_ok=True)
    fill(partial)
    sync_folder(partial)
    os.replace(partial, final)


def is_done(folder: Path) -> bool:
    """Whether a job's folder is there, whole.

    Raises:
        InputError: something else has its name.
    """
    if not folder.exists():
        return False
    read_job(folder)
    return True


def read_job(folder: Path) -> dict[str, Any]:
    """What a finished job's folder says of it.

    Raises:
        InputError: it is no job's folder, or another job's.
    """
    try:
        content = json.loads((folder / JOB_FILE).read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"expected a finished job in {str(folder)!r}, found something else ({one_line(error)}):"
            " move it away"
        ) from None
    if not isinstance(content, dict) or content.get("format") != JOB_FORMAT:
        raise InputError(f"expected the format {JOB_FORMAT} in {str(folder / JOB_FILE)!r}")
    if content.get("id") != folder.name:
        raise InputError(
            f"expected the job {folder.name} in {str(folder)!r}, found {content.get('id')}: move "
            "it away"
        )
    return content


def clear_leftovers(folder: Path, pattern: str = ".*") -> None:
    """Remove what killed jobs left half-written; trainings that can be resumed stay."""
    for path in folder.glob(pattern) if folder.is_dir() else ():
        if not path.name.endswith(".partial"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
