"""The folder of a study or audit: which of its jobs are done, and what failed."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line
from tightrope.files import delete, make_folder, refuse_links, write_text
from tightrope.owned_folder import OwnedFolder
from tightrope.studies.jobs import Job, read_job, run_job
from tightrope.studies.tasks import copied

__all__ = ["StudyFolder"]


@dataclass(frozen=True)
class StudyFolder(OwnedFolder):
    """Where a study, or an audit, keeps its jobs, failures and results."""

    kind: str = "study"
    version: int = 2

    @property
    def jobs(self) -> Path:
        """Of the folders of jobs."""
        return self.path / "jobs"

    @property
    def results(self) -> Path:
        """Of tables and figures."""
        return self.path / "results"

    @property
    def failures(self) -> Path:
        """Why jobs were given up, by their names."""
        return self.path / "failures.json"

    @contextlib.contextmanager
    def locked(self, content: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process; what killed jobs left half-written is removed.

        Args:
            content: of its document: the study or audit by its fields.

        Raises:
            InputError: it holds something else, is in use, has links in it, or is read-only.
        """
        with self.held(content, self.results.name, self.failures.name):
            make_folder(self.jobs)
            refuse_links(self.jobs)
            for path in list(self.jobs.glob(".*")):
                if not path.name.endswith(".partial"):  # of a training, which can be resumed
                    delete(path)
            yield

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
            raise InputError(f"expected a folder outside the policy {str(source)!r}, found {self}")

    def record_failures(self, reasons: Mapping[str, str]) -> None:
        """Keep why jobs were given up, by their names; those of earlier runs are forgotten."""
        self.require_there()
        write_text(self.failures, json.dumps(reasons, indent=2) + "\n")

    def failed(self) -> dict[str, str]:
        """What was given up when the study last ran, and why.

        Raises:
            InputError: the file is damaged.
        """
        try:
            return dict(json.loads(self.failures.read_text())) if self.failures.exists() else {}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{str(self.failures)!r} is damaged: {one_line(error)}") from None
