"""The folder of a study or audit: whose it is, which of its jobs are done, and what failed."""

import contextlib
import dataclasses
import fcntl
import json
import math
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tightrope.agents.hyperparameters import AGENTS, settings
from tightrope.errors import InputError, one_line
from tightrope.files import WriteError, replace_atomically
from tightrope.studies.graph import Graph
from tightrope.studies.jobs import Job, clear_leftovers, is_done, read_job, run_job
from tightrope.studies.work import plain_settings

__all__ = ["PLAN_FILE", "Folder"]

PLAN_FILE = "plan.json"
_KEPT = ("policy.json", "policy.safetensors", "policy.zip")


class Folder:
    """Where a study, or an audit, keeps its jobs, failures and results."""

    def __init__(self, path: Path, kind: Literal["study", "audit"] = "study") -> None:
        self.path, self.kind = path, kind
        self.document = path / f"{kind}.json"
        self.jobs, self.failures = path / "jobs", path / "failures"
        self.results = path / "results"

    @contextlib.contextmanager
    def claim(self, asked: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process; begin it, or check that it was begun with the same.

        Args:
            asked: the study or audit by its fields.

        Raises:
            InputError: it holds something else or another study, is in use, or is read-only.
        """
        self.require_own(asked)
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another process is running the {self.kind} in {str(self.path)!r}: wait"
                    + (", or look with `status`" if self.kind == "study" else "")
                ) from None
            if not self.document.exists():
                _write_json(self.document, self._document(asked))
            with self._writing():
                self.jobs.mkdir(exist_ok=True)
                clear_leftovers(self.jobs)
                for name in (self.document.name, self.results.name):
                    clear_leftovers(self.path, f".{name}.*")
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteError(self.path, one_line(error)) from None

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
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{str(path)!r} is damaged: {one_line(error)}") from None
        wanted = self._document(asked)
        if found == wanted:
            return
        changed = "format"
        if isinstance(found, dict) and found.get("format") == wanted["format"]:
            changed = next(key for key in {**wanted, **found} if wanted.get(key) != found.get(key))
        remedy = "give the same, or another `out`"
        if self.kind == "study":
            remedy = (
                "give the same specification, or another `out` (finished trainings can be taken "
                "over with the key 'trained')"
            )
        raise InputError(
            f"expected the {self.kind} that {str(self.path)!r} was begun with, found another "
            f"`{changed}`: {remedy}"
        )

    @property
    def _a(self) -> str:
        return "an audit" if self.kind == "audit" else "a study"

    def _document(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"format": f"tightrope.{self.kind}/1", **_jsonable(dict(asked))}

    def done(self, jobs: Sequence[Job]) -> dict[str, float]:
        """Finished jobs, by id, and the seconds that each took.

        Raises:
            InputError: something else has the name of a job's folder.
        """
        return {
            job.id: float(read_job(self.jobs / job.id).get("seconds", 0.0))
            for job in jobs
            if is_done(self.jobs / job.id)
        }

    def place(self, graph: Graph, trained: Path | None) -> None:
        """Put policies of one's own and trainings that were run before where jobs are.

        Raises:
            InputError: `trained` is no folder, or something cannot be written.
        """
        for job in graph.of("policy"):
            self.copy(job, graph.sources[job.id])
        if trained is None:
            return
        if not trained.is_dir():
            raise InputError(f"expected a folder of trainings at {str(trained)!r}, found none")
        runs = {
            _key(run): path.parent for path in trained.glob("*/run.json") if (run := _run(path))
        }
        for job in graph.of("train"):
            found = runs.get(_key(job.spec))
            if found is not None:
                run_job(job, self.jobs, partial(_adopt, found))

    def copy(self, job: Job, source: Path) -> None:
        """Put a policy of one's own where jobs are.

        Raises:
            InputError: it cannot be written, or would be copied into itself.
        """
        self.require_outside(source)
        run_job(job, self.jobs, partial(_copy, source))

    def require_outside(self, source: Path) -> None:
        """Refuse to copy a policy into itself.

        Raises:
            InputError: the folder is inside of the policy's.
        """
        if self.path.resolve().is_relative_to(source.resolve()):
            raise InputError(
                f"expected a folder outside the policy {str(source)!r}, found {str(self.path)!r}"
            )

    def record_plan(self, graph: Graph) -> None:
        """Keep how many jobs and certificates were asked for."""
        jobs = dict(Counter(job.stage for job in graph.jobs))
        _write_json(self.path / PLAN_FILE, {"jobs": jobs, "certificates": graph.certificates})

    def require_there(self) -> None:
        """Refuse to write where nobody would recognise it.

        Raises:
            InputError: someone else has moved the folder away.
        """
        if not self.document.is_file():
            raise InputError(
                f"expected the {self.kind} that was begun in {str(self.path)!r}, found it gone: "
                "put it back and give the same command, or start anew"
            )

    def record_failure(self, job: Job, reason: str) -> None:
        """Keep why a job was given up."""
        self.require_there()
        with self._writing():
            self.failures.mkdir(exist_ok=True)
        _write_json(self.failures / f"{job.id}.json", {"label": job.label, "reason": reason})

    def failed(self) -> dict[str, dict[str, str]]:
        """What was given up when the study last ran."""
        return {path.stem: json.loads(path.read_text()) for path in self.failures.glob("*.json")}

    def forget_failures(self) -> None:
        """They are tried again."""
        shutil.rmtree(self.failures, ignore_errors=True)


def _jsonable(content: Any) -> Any:
    """As JSON gives it back; it has no infinity and no tuples."""
    if isinstance(content, dict):
        return {key: _jsonable(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_jsonable(each) for each in content]
    return "inf" if content == math.inf else content


def _write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text)

    replace_atomically(path, write)


def _copy(source: Path, spec: Any, needs: Any, out: Path) -> None:
    target = out / source.name
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def _run(path: Path) -> dict[str, Any] | None:
    """A run as the specification of a training, if it is finished at all levels and as of today."""
    try:
        run = json.loads(path.read_text())
        levels = run["levels"]
        if not all((path.parent / name / "policy.json").is_file() for name in levels):
            return None
        known = {field.name for field in dataclasses.fields(AGENTS[run["agent"]])}
        if other := known ^ set(run["settings"]):  # what was their default may be another today
            listed = ", ".join(sorted(other))
            text = (
                f"{path.parent.name} of the kept trainings has other settings ({listed}): not taken"
            )
            warnings.warn(text, stacklevel=2)
            return None
        return {
            "agent": run["agent"],
            "environment": run["environment"]["id"],
            "levels": list(levels.values()),
            "seed": run["seed"],
            "settings": settings(run["agent"], plain_settings(run["settings"])).to_json(),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"expected a training's run.json, found {str(path)!r}") from None


def _key(spec: Any) -> str:
    return json.dumps(dict(spec), sort_keys=True)


def _adopt(run: Path, spec: Any, needs: Any, out: Path) -> None:
    """What a training leaves, without what only a resumed one needs."""
    for name in ("run.json", "log.csv"):
        if (run / name).is_file():
            shutil.copy(run / name, out / name)
    for level in json.loads((run / "run.json").read_text())["levels"]:
        (out / level).mkdir()
        for name in _KEPT:
            if (run / level / name).is_file():
                shutil.copy(run / level / name, out / level / name)
