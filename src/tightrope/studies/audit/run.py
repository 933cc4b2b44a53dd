"""An audit from what is asked to its table; the same call goes on where it stopped."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightrope.certificates.settings import settle
from tightrope.errors import InputError
from tightrope.files import write_folder
from tightrope.studies.audit.generators import SYNTHETIC, TASKS
from tightrope.studies.audit.spec import TRUTH_EPISODES, Audit
from tightrope.studies.audit.tally import Flag, Row, flags, tally
from tightrope.studies.audit.work import RECORDS
from tightrope.studies.costs import collect_cost
from tightrope.studies.engines import Engine
from tightrope.studies.folder import Folder
from tightrope.studies.graph import child, policy_job
from tightrope.studies.jobs import Job
from tightrope.studies.run import EngineName, engine_of, name_of, run_missing
from tightrope.studies.schedule import Progress

__all__ = ["Audited", "run_audit"]

_AT_ONCE = 10  # repetitions of a job
_CERTIFICATE = 0.5  # seconds beside the fit, for estimates
_UPDATE = 4e-3  # seconds of an update at 256 hidden units
_OF_POLICIES = frozenset({"independent steps"})


@dataclass(frozen=True)
class Audited:
    """What an audit found.

    Attributes:
        subject: what was certified, in words.
        fits: which fits were used, in words.
        rows: one for each statement of each scheme.
        flags: how often each warning was given.
        failed: label and reason of each job that was given up.
        results: folder of the tables; None if not one repetition is done.
    """

    subject: str
    fits: str
    rows: tuple[Row, ...]
    flags: tuple[Flag, ...]
    failed: tuple[tuple[str, str], ...]
    results: Path | None

    @property
    def held(self) -> bool:
        """Whether no claim was found violated that was made."""
        return not any(row.failed for row in self.rows)


@dataclass(frozen=True)
class _Plan:
    """What there is to do.

    Attributes:
        subject: what is certified, in words.
        content: what determines it, for the folder.
        violates: assumptions that do not hold of it.
        policy: the job that copies a policy, and its path; None for a synthetic task.
        before: jobs that repetitions need.
        spec: of the jobs of repetitions.
    """

    subject: str
    content: Mapping[str, Any]
    violates: frozenset[str]
    policy: tuple[Job, Path] | None
    before: tuple[Job, ...]
    spec: Mapping[str, Any]


def run_audit(
    subject: str | Path,
    env: str | None,
    audit: Audit,
    out: Path,
    *,
    engine: EngineName | Callable[[Path], Engine] = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Audited:
    """Run the repetitions that are not done yet, then count.

    Args:
        subject: name of a synthetic task, or the file or folder of a policy.
        env: id of the environment of a policy; by default the one that it was trained in.
        audit: what is repeated, and how often.
        out: folder of the audit; more repetitions can be added to it.
        engine: this machine's processes, a Ray cluster, or a function from the folder of the jobs
            to an engine.
        workers: processes of the local engine; by default one per core.
        address: of the Ray cluster; by default one is started here.
        progress: show a table on standard error.

    Raises:
        InputError: the subject or the folder is wrong.
        StudyInterruptedError: by Ctrl-C.
    """
    plan = _plan(subject, env, audit)
    repeats = _repeats(plan, audit)
    folder = Folder(out, "audit")
    if plan.policy is not None:
        folder.require_outside(plan.policy[1])
    jobs = (*plan.before, *repeats)
    with folder.claim({**plan.content, **audit.content()}):
        folder.forget_failures()
        if plan.policy is not None:
            folder.copy(*plan.policy)
        took = folder.done(jobs)
        ended = Progress({job.id: job for job in jobs}, done=set(took))
        if len(took) < len(jobs):
            runs = engine_of(engine, folder, workers, address)
            ended = run_missing(jobs, folder, took, runs, shown=progress)
        records = [
            record
            for job in repeats
            if job.id in ended.done
            for record in json.loads((folder.jobs / job.id / RECORDS).read_text())
        ]
        rows, fired = tuple(tally(records, plan.violates)), tuple(flags(records))
        if records:
            write_folder(
                folder.results, lambda new: _write(new, rows, fired, records), replace=True
            )
        return Audited(
            subject=plan.subject,
            fits=audit.fits,
            rows=rows,
            flags=fired,
            failed=tuple((name_of(jobs, key), why) for key, why in ended.failed.items()),
            results=folder.results if records else None,
        )


def _plan(subject: str | Path, env: str | None, audit: Audit) -> _Plan:
    name = str(subject)
    if name in TASKS:
        if env is not None:
            raise InputError(f"expected no `env` for the synthetic task {name!r}")
        task = TASKS[name]
        for options in audit.requests(task.options):
            settle(options, SYNTHETIC)
        content = {"task": name, "file": "", "environment": ""}
        return _Plan(f"{name}: {task.words}", content, task.violates, None, (), content)
    return _plan_policy(Path(subject), env, audit)


def _plan_policy(path: Path, env: str | None, audit: Audit) -> _Plan:
    from tightrope.rollouts import policy_source

    if not path.exists():
        raise InputError(
            f"expected a synthetic task among {', '.join(TASKS)}, or the file or folder of a "
            f"policy, found {str(path)!r}"
        )
    source = policy_source(path, env)
    copied = policy_job(path, path.name)
    asked = audit.truth_episodes
    count = TRUTH_EPISODES["policy"] if asked == "auto" else asked
    seconds, size = collect_cost(source.environment.id, count)
    truth = Job(
        "truth",
        "tightrope.studies.work:collect_job",
        {
            "file": path.name,
            "environment": env or "",
            "episodes": count,
            "seed": child(audit.seed, "truth"),
        },
        (copied.id,),
        label=path.name,
        seconds=seconds,
        size=size,
    )
    spec = {"task": "", "file": path.name, "environment": env or ""}
    return _Plan(
        subject=f"{path.name} in {source.environment.id}",
        content={**spec, "digest": copied.spec["digest"]},
        violates=_OF_POLICIES,
        policy=(copied, path),
        before=(copied, truth),
        spec=spec,
    )


def _repeats(plan: _Plan, audit: Audit) -> list[Job]:
    updates = 2000 if audit.updates == "auto" else audit.updates
    once = len(audit.schemes) * (_CERTIFICATE + updates * _UPDATE)
    jobs = []
    for first in range(0, audit.repetitions, _AT_ONCE):
        last = min(first + _AT_ONCE, audit.repetitions)
        spec = {**plan.spec, "audit": audit.content(), "first": first, "last": last}
        jobs.append(
            Job(
                "repeat",
                "tightrope.studies.audit.work:repeat_job",
                json.loads(json.dumps(spec)),
                tuple(job.id for job in plan.before),
                label=f"{first} to {last - 1}",
                seconds=(last - first) * once,
                size=(last - first) * len(audit.schemes) * 4000.0,
            )
        )
    return jobs


def _write(
    folder: Path, rows: Sequence[Row], fired: Sequence[Flag], records: Sequence[Mapping[str, Any]]
) -> None:
    _table(folder / "audit.csv", map(asdict, rows))
    _table(folder / "warnings.csv", map(asdict, fired))
    _table(
        folder / "statements.csv",
        (
            {"repetition": each["repetition"], "scheme": each["scheme"], **one}
            for each in records
            for one in each["statements"]
        ),
    )


def _table(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    every = [
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in line.items()} for line in lines
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(every[0]))
        writer.writeheader()
        writer.writerows(every)
