"""An audit from what is asked to its tables; the same call goes on where it stopped."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tightrope.audit.experiment import Audit
from tightrope.audit.generators import ALIKE_EPISODES, TASKS
from tightrope.audit.ground_truth import ALL, WARNINGS
from tightrope.audit.repetitions import CHECKS
from tightrope.bounds import clopper_pearson_lower, clopper_pearson_upper
from tightrope.errors import InputError, as_lines
from tightrope.files import write_folder
from tightrope.rollouts import policy_source
from tightrope.studies.job_plan import child, policy_job
from tightrope.studies.jobs import Job
from tightrope.studies.local_pool import LocalPool
from tightrope.studies.runner import run_missing
from tightrope.studies.scheduler import Executor
from tightrope.studies.study_folder import StudyFolder

__all__ = ["AuditRun", "coverage", "run_audit", "warning_counts"]

_AT_ONCE = 10  # repetitions of a job
_NEW = 2_000  # episodes that tell the truth of a policy, by default
_OUTSIDE = 0.025  # failure probability of each limit of an interval
_KEY = ["scheme", "statement"]
_MEANS = ("value", "exact", "tightness")
_CHECKS = (*("repetition", *_KEY, "claimed", "assumes", "nominal", "truth", *_MEANS, *WARNINGS),)
_AGGREGATED = {
    **dict.fromkeys(("claimed", "assumes"), "first"),
    "nominal": "max",
    **dict.fromkeys(("runs", "violated", "inconclusive"), "sum"),
    **dict.fromkeys(_MEANS, "mean"),
}


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
        return self.coverage.query("verdict == 'violated' and claim == 'made'")

    def __str__(self) -> str:
        shown = self.coverage.set_index(_KEY).drop(columns=["value", "exact"])
        fired = self.warnings.query("fired > 0 or warning in ['dependent steps', 'drift']")
        claims = self.coverage.query("claim == 'made'")["verdict"].value_counts()
        lines = [f"Audit of {self.subject}", f"fits: {self.fits}", ""]
        lines += shown.to_string(float_format="{:.4g}".format, na_rep="").splitlines()
        if len(fired):
            lines += ["", *fired.drop(columns=["low", "high"]).to_string(index=False).splitlines()]
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in claims.items())
        lines += ["", f"of {claims.sum()} claims: {verdicts}"]
        lines += [
            f"VIOLATED: {each.scheme}, {each.statement}" for each in self.violated.itertuples()
        ]
        return as_lines(lines)


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
    if audit.via == "callback" and subject not in TASKS:
        raise InputError(f"expected one synthetic task with `via` callback, found {str(subject)!r}")
    is_task = str(subject).partition(":")[0] in TASKS
    plan = (_plan if is_task else _plan_policy)(str(subject), env, audit)
    repeats = [
        Job(
            "repeat",
            "tightrope.audit.repetitions:repeat_job",
            {**plan.content, "audit": audit.content(), "first": first, "last": last},
            tuple(job.id for job in plan.needs),
            label=f"{first} to {last - 1}",
        )
        for first in range(0, audit.repetitions, _AT_ONCE)
        for last in [min(first + _AT_ONCE, audit.repetitions)]
    ]
    folder = StudyFolder(out, "audit")
    if plan.needs:
        folder.require_outside(Path(subject))
    with folder.locked({**plan.content, **audit.content()}):
        if plan.needs:
            folder.place(plan.needs[0], Path(subject))
        ended = run_missing((*plan.needs, *repeats), folder, executor, progress=progress)
        done = [folder.jobs / job.id / CHECKS for job in repeats if job.id in ended.done]
        rows = [check for path in done for check in json.loads(path.read_text())]
        checks = pd.DataFrame(rows, columns=list(_CHECKS))
        tables = {"coverage": coverage(checks, plan.violates), "warnings": warning_counts(checks)}

        def write(new: Path) -> None:
            for name, table in {**tables, "checks": checks}.items():
                table.to_csv(new / f"{name}.csv", index=False, float_format="%.6g")

        if done:
            write_folder(folder.results, write, replace=True)
        failed = {ended.jobs[key].name: reason for key, reason in ended.failed.items()}
        results = folder.results if done else None
        return AuditRun(plan.subject, audit.fits, **tables, failed=failed, results=results)


@dataclass(frozen=True)
class _Plan:
    """What there is to do.

    Attributes:
        subject: what is certified, in words.
        content: what determines it.
        violates: assumptions that do not hold of it.
        needs: the jobs that copy a policy, and collect its true episodes; none of a synthetic task.
    """

    subject: str
    content: Mapping[str, str]
    violates: Collection[str]
    needs: tuple[Job, ...] = ()


def _plan(subject: str, env: str | None, audit: Audit) -> _Plan:
    names = subject.split(":")
    if env is not None:
        raise InputError(f"expected no `env` for the synthetic task {subject!r}")
    if len(names) > 2 or not set(names) <= TASKS.keys():
        raise InputError(
            f"expected one or two synthetic tasks among {', '.join(TASKS)}, found {subject!r}"
        )
    tasks = [TASKS[name] for name in names]
    words = " against ".join(f"{n}: {t.words}" for n, t in zip(names, tasks, strict=True))
    content = {"task": subject, "file": "", "environment": "", "digest": ""}
    return _Plan(words, content, frozenset().union(*(task.violates for task in tasks)))


def _plan_policy(subject: str, env: str | None, audit: Audit) -> _Plan:
    path = Path(subject)
    if not path.exists():
        raise InputError(
            f"expected a synthetic task among {', '.join(TASKS)}, or the file or folder of a "
            f"policy, found {subject!r}"
        )
    source = policy_source(path, env)
    copied = policy_job(path, path.name)
    policy = {"file": path.name, "environment": env or ""}
    episodes = _NEW if audit.truth_episodes == "auto" else audit.truth_episodes
    truth = Job(
        "truth",
        "tightrope.studies.tasks:collect_rollouts",
        {**policy, "episodes": episodes, "seed": child(audit.seed, "truth")},
        (copied.id,),
        label=path.name,
    )
    return _Plan(
        f"{path.name} in {source.environment.id}",
        {"task": "", **policy, "digest": copied.spec["digest"]},
        {"independent steps"},
        (copied, truth),
    )


def coverage(checks: pd.DataFrame, violates: Collection[str]) -> pd.DataFrame:
    """A row for each statement of each scheme, over all repetitions.

    Columns: `claim` is made; *assumption violated*, if the subject violates what the statement
    needs; or *not made*, of its words taken literally. `violated` are repetitions in which it was
    surely violated, `inconclusive` those too close to call; `low` and `high` are exact limits of
    the failure probability, the upper one with both. What is inconclusive never speaks for us, nor
    against us. `value` and `exact` are means on the normalised scale, and `tightness` is the mean
    distance, positive on the safe side; of a comparison, the width of the interval.

    Args:
        checks: one row per repetition and statement.
        violates: assumptions that do not hold of the subject.
    """
    # Nothing is claimed of all at once where the confidence is 0.
    made = checks[(checks["statement"] != ALL) | (checks["nominal"] < 1)]
    found = {name: made["truth"] == name for name in ("violated", "inconclusive")}
    rows = made.assign(**found, runs=1).groupby(_KEY, sort=False).agg(_AGGREGATED)
    possible = rows["violated"] + rows["inconclusive"]
    rows = rows.assign(**_limits(rows["violated"], possible, rows["runs"]))
    outside = rows["assumes"].isin(violates) | (ALIKE_EPISODES in violates)
    claims = {"not made": ~rows["claimed"].astype(bool), "assumption violated": outside}
    verdicts = {"violated": rows["low"] > rows["nominal"], "held": rows["high"] <= rows["nominal"]}
    rows["claim"] = np.select([*claims.values()], [*claims], "made")
    rows["verdict"] = np.select([*verdicts.values()], [*verdicts], "too few runs")
    return rows.drop(columns=["claimed", "assumes"]).reset_index()


def warning_counts(checks: pd.DataFrame) -> pd.DataFrame:
    """How often certificates of each scheme carried each warning."""
    given = checks.melt("scheme", [*WARNINGS], "warning", "fired").dropna()
    groups = given.assign(runs=1).groupby(["scheme", "warning"], sort=False)
    rows = groups[["runs", "fired"]].sum()
    return rows.assign(**_limits(rows["fired"], rows["fired"], rows["runs"])).reset_index()


def _limits(low: pd.Series, high: pd.Series, runs: pd.Series) -> dict[str, Any]:
    """Exact (Clopper-Pearson) 95 % limits of a probability, from counts of at least and at most."""
    return {
        "low": clopper_pearson_lower(low.to_numpy(int), n=runs.to_numpy(int), delta=_OUTSIDE),
        "high": clopper_pearson_upper(high.to_numpy(int), n=runs.to_numpy(int), delta=_OUTSIDE),
    }
