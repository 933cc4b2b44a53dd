"""An audit from what is asked to its table; the same call goes on where it stopped."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from tightrope.audit.coverage import Verdict, coverage, warning_counts
from tightrope.audit.experiment import PAIR, TRUTH_EPISODES, Audit
from tightrope.audit.generators import SYNTHETIC, TASKS
from tightrope.audit.repetitions import CHECKS
from tightrope.certificates.settings import settle
from tightrope.errors import InputError, as_lines
from tightrope.files import write_folder
from tightrope.studies.job_plan import child, policy_job
from tightrope.studies.jobs import Job
from tightrope.studies.local_pool import LocalPool
from tightrope.studies.runner import run_missing
from tightrope.studies.scheduler import Executor
from tightrope.studies.study_folder import StudyFolder

__all__ = ["AuditRun", "run_audit"]

_AT_ONCE = 10  # repetitions of a job
_OF_POLICIES = frozenset({"independent steps"})
_BESIDE = {"made": "", "assumption violated": " (outside its assumption)",
           "not made": " (not claimed)"}  # fmt: skip


@dataclass(frozen=True)
class AuditRun:
    """What an audit found.

    Attributes:
        subject: what was certified, in words.
        fits: which fits were used, in words.
        coverage: a row for each statement of each scheme.
        warnings: how often each warning was given.
        failed: names of the jobs that were given up, and why.
        results: folder of the tables; None if not one repetition is done.
    """

    subject: str
    fits: str
    coverage: pd.DataFrame
    warnings: pd.DataFrame
    failed: Mapping[str, str]
    results: Path | None

    @property
    def violated(self) -> pd.DataFrame:
        """Rows of claims that were made and found violated."""
        rows = self.coverage
        return rows[(rows["verdict"] == "violated") & (rows["claim"] == "made")]

    def __str__(self) -> str:
        rows, given = self.coverage, self.warnings
        possible = rows["violated"] + rows["inconclusive"]
        upper = (" to " + possible.astype(str)).where(rows["inconclusive"] > 0, "")
        shown = pd.DataFrame(
            {
                "scheme": rows["scheme"],
                "statement": rows["statement"],
                "nominal": rows["nominal"].map("{:.4f}".format),
                "violated": rows["violated"].astype(str)
                + upper
                + " of "
                + rows["runs"].astype(str),
                "95 % interval": [
                    f"{low:.4f} to {high:.4f}"
                    for low, high in zip(rows["low"], rows["high"], strict=True)
                ],
                "tightness": rows["tightness"].map("{:.4g}".format).replace("nan", ""),
                "verdict": rows["verdict"] + rows["claim"].map(_BESIDE),
            }
        )
        shown = shown.apply(lambda column: column.str.ljust(int(column.str.len().max())))
        lines = [f"Audit of {self.subject}", f"fits: {self.fits}", ""]
        lines.append(shown.to_string(index=False, justify="left"))
        named = given[(given["fired"] > 0) | given["warning"].isin(["dependent steps", "drift"])]
        lines += ["", "Warnings of the certificates"] if len(named) else []
        lines += [
            f"  {each.scheme}: {each.warning} in {each.fired} of {each.runs}"
            for each in named.itertuples()
        ]
        if close := int(rows["inconclusive"][rows["tightness"].notna()].sum()):
            lines += ["", f"{close} statements were inconclusive (they count neither as held nor "
                      "as violated): more `truth_episodes` would tell"]  # fmt: skip
        claimed = rows[rows["claim"] == "made"]
        found = ", ".join(f"{(claimed['verdict'] == v).sum()} {v}" for v in get_args(Verdict))
        lines += ["", f"of {len(claimed)} claims: {found}"]
        lines += [
            f"VIOLATED: {each.scheme}, {each.statement}" for each in self.violated.itertuples()
        ]
        return as_lines(line.rstrip() for line in "\n".join(lines).split("\n"))


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
    executor: Callable[[Path], Executor] = LocalPool,
    progress: bool = False,
) -> AuditRun:
    """Run the repetitions that are not done yet, then count.

    Args:
        subject: name of a synthetic task, two of them as ``A:B`` to audit comparisons, or the file
            or folder of a policy.
        env: id of the environment of a policy; by default the one that it was trained in.
        audit: what is repeated, and how often.
        out: folder of the audit; more repetitions can be added to it.
        executor: makes what runs the jobs from their folder.
        progress: show a table on standard error.

    Raises:
        InputError: the subject or the folder is wrong.
        StudyInterruptedError: by Ctrl-C.
    """
    plan = _plan(subject, env, audit)
    repeats = _repeats(plan, audit)
    folder = StudyFolder(out, "audit")
    if plan.policy is not None:
        folder.require_outside(plan.policy[1])
    jobs = (*plan.before, *repeats)
    with folder.locked({**plan.content, **audit.content()}):
        if plan.policy is not None:
            folder.place(*plan.policy)
        ended = run_missing(jobs, folder, executor, progress=progress)
        paths = [folder.jobs / job.id / CHECKS for job in repeats if job.id in ended.done]
        checks = pd.DataFrame([check for path in paths for check in json.loads(path.read_text())])
        failed = {ended.jobs[key].name: reason for key, reason in ended.failed.items()}
        rows, given = coverage(checks, plan.violates), warning_counts(checks)

        def write(new: Path) -> None:
            for name, table in (("coverage", rows), ("warnings", given), ("checks", checks)):
                table.to_csv(new / f"{name}.csv", index=False, float_format="%.6g")

        if len(checks):
            write_folder(folder.results, write, replace=True)
        results = folder.results if len(checks) else None
        return AuditRun(plan.subject, audit.fits, rows, given, failed, results)


def _plan(subject: str | Path, env: str | None, audit: Audit) -> _Plan:
    names = str(subject).split(PAIR)
    if names[0] not in TASKS:
        return _plan_policy(Path(subject), env, audit)
    if env is not None:
        raise InputError(f"expected no `env` for the synthetic task {str(subject)!r}")
    if len(names) > 2 or not set(names) <= TASKS.keys():
        raise InputError(
            f"expected one or two synthetic tasks among {', '.join(TASKS)}, found {str(subject)!r}"
        )
    tasks = [TASKS[name] for name in names]
    if len(tasks) > 1 and audit.via == "callback":
        raise InputError("expected `via` certify to compare two tasks, found 'callback'")
    for task in tasks:
        for options in audit.requests(task.options):
            settle(options, SYNTHETIC)
    words = " against ".join(f"{n}: {t.words}" for n, t in zip(names, tasks, strict=True))
    content = {"task": str(subject), "file": "", "environment": ""}
    violates = frozenset[str]().union(*(task.violates for task in tasks))
    return _Plan(words, content, violates, None, (), content)


def _plan_policy(path: Path, env: str | None, audit: Audit) -> _Plan:
    from tightrope.rollouts import policy_source

    if not path.exists():
        raise InputError(
            f"expected a synthetic task among {', '.join(TASKS)}, or the file or folder of a "
            f"policy, found {str(path)!r}"
        )
    if audit.via == "callback":
        raise InputError("expected `via` certify for a policy, found 'callback'")
    source = policy_source(path, env)
    copied = policy_job(path, path.name)
    asked = audit.truth_episodes
    truth = Job(
        "truth",
        "tightrope.studies.tasks:collect_rollouts",
        {
            "file": path.name,
            "environment": env or "",
            "episodes": TRUTH_EPISODES["policy"] if asked == "auto" else asked,
            "seed": child(audit.seed, "truth"),
        },
        (copied.id,),
        label=path.name,
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
    jobs = []
    for first in range(0, audit.repetitions, _AT_ONCE):
        last = min(first + _AT_ONCE, audit.repetitions)
        spec = {**plan.spec, "audit": audit.content(), "first": first, "last": last}
        jobs.append(
            Job(
                "repeat",
                "tightrope.audit.repetitions:repeat_job",
                spec,
                tuple(job.id for job in plan.before),
                label=f"{first} to {last - 1}",
            )
        )
    return jobs
