"""The folder of a study or audit: whose it is, which of its jobs are done, and what failed."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tightrope.errors import InputError, one_line
from tightrope.files import lock, make_folder, refuse_links, write_text
from tightrope.studies.jobs import Job, clear_leftovers, read_job, run_job
from tightrope.studies.tasks import copied

__all__ = ["StudyFolder"]


class StudyFolder:
    """Where a study, or an audit, keeps its jobs, failures and results."""

    def __init__(self, path: Path, kind: Literal["study", "audit"] = "study") -> None:
        self.path, self.kind = path, kind
        self.document = path / f"{kind}.json"
        self.jobs, self.failures = path / "jobs", path / "failures.json"
        self.results = path / "results"

    @contextlib.contextmanager
    def locked(self, asked: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process; begin it, or check that it was begun with the same.

        Args:
            asked: the study or audit by its fields.

        Raises:
            InputError: it holds something else or another study, is in use, has links in it, or is
                read-only.
        """
        self.require_own(asked)
        busy = f"another process is running the {self.kind} in {str(self.path)!r}: wait"
        with lock(self.path, busy):
            if not self.document.exists():
                write_text(self.document, _text(self._document(asked)))
            make_folder(self.jobs)
            refuse_links(self.jobs)
            clear_leftovers(self.jobs)
            for kept in (self.document, self.results, self.failures):
                clear_leftovers(self.path, f".{kept.name}.*")
            yield

    def require_own(self, asked: Mapping[str, Any]) -> None:
        """Refuse a folder that belongs to something else.

        Raises:
            InputError: it does.
        """
        path = self.document
        if not path.is_file():
            if self.path.exists() and not self.path.is_dir():
                raise InputError(f"expected a folder, found a file at {str(self.path)!r}")
            ours = (".lock", f".{path.name}.")  # of a process that was killed when it began
            if self.path.is_dir() and any(not e.name.startswith(ours) for e in self.path.iterdir()):
                raise InputError(
                    f"expected a new folder or that of {self._a}, found {str(self.path)!r} with "
                    "other content: choose another `out`"
                )
            return
        refuse_links(self.path)
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{str(path)!r} is damaged: {one_line(error)}") from None
        wanted = json.loads(_text(self._document(asked)))
        if found == wanted:
            return
        changed = "format"
        if isinstance(found, dict) and found.get("format") == wanted["format"]:
            changed = next(key for key in {**wanted, **found} if wanted.get(key) != found.get(key))
        raise InputError(
            f"expected the {self.kind} that {str(self.path)!r} was begun with, found another "
            f"`{changed}`: give the same, or another `out`"
        )

    @property
    def _a(self) -> str:
        return "an audit" if self.kind == "audit" else "a study"

    def _document(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"format": f"tightrope.{self.kind}/2", **asked}

    def done(self, jobs: Sequence[Job]) -> dict[str, float]:
        """Finished jobs, by id, and the seconds that each took.

        Raises:
            InputError: something else has the name of a job's folder.
        """
        records = {job.id: read_job(self.jobs / job.id) for job in jobs}
        return {key: float(each["seconds"]) for key, each in records.items() if each is not None}

    def place(self, job: Job, source: Path) -> None:
        """Copy policies to where jobs are.

        Raises:
            InputError: they cannot be written, have links in them, or would be copied into
                themselves.
        """
        self.require_outside(source)
        refuse_links(source.resolve(), deep=True)  # a copy would hold what they lead to
        run_job(job, self.jobs, partial(copied, source))

    def require_outside(self, source: Path) -> None:
        """Refuse to copy a policy into itself.

        Raises:
            InputError: the folder is inside of the policy's.
        """
        if self.path.resolve().is_relative_to(source.resolve()):
            raise InputError(
                f"expected a folder outside the policy {str(source)!r}, found {str(self.path)!r}"
            )

    def require_there(self) -> None:
        """Refuse to write where nobody would recognise it.

        Raises:
            InputError: someone else has moved the folder away.
        """
        if not self.document.is_file():
            raise InputError(
                f"expected the {self.kind} that was begun in {str(self.path)!r}, found it gone: "
                "put it back and give the same command, or start again"
            )

    def record_failures(self, reasons: Mapping[str, str]) -> None:
        """Keep why jobs were given up, by their names; those of earlier runs are forgotten."""
        self.require_there()
        write_text(self.failures, _text(reasons))

    def failed(self) -> dict[str, str]:
        """What was given up when the study last ran, and why.

        Raises:
            InputError: the file is damaged.
        """
        try:
            return dict(json.loads(self.failures.read_text()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{str(self.failures)!r} is damaged: {one_line(error)}") from None


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
