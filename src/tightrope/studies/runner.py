"""A study from its specification to its results; the same call resumes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tightrope.errors import InputError, as_lines
from tightrope.imports import needed
from tightrope.studies.config import Study
from tightrope.studies.job_plan import plan_jobs
from tightrope.studies.jobs import Job
from tightrope.studies.local_pool import LocalPool
from tightrope.studies.scheduler import Executor, Progress, run_jobs
from tightrope.studies.study_folder import StudyFolder
from tightrope.studies.study_status import live_status, status_lines

if TYPE_CHECKING:
    from tightrope.studies.results import Results

__all__ = [
    "EngineName",
    "StudyInterruptedError",
    "StudyRun",
    "describe",
    "executor_for",
    "run_missing",
    "run_study",
]

EngineName = Literal["local", "ray"]


class StudyInterruptedError(InputError):
    """Ctrl-C: the study can be resumed."""

    interrupted = True


@dataclass(frozen=True)
class StudyRun:
    """What a run of a study came to.

    Attributes:
        failed: names of the jobs that were given up, and why.
        blocked: jobs that could not run because of these.
        skipped: why policies that the study names were left out.
        results: from all certificates; None if there is not one.
    """

    failed: dict[str, str]
    blocked: int
    skipped: tuple[str, ...]
    results: "Results | None"


def run_study(
    study: Study,
    out: Path,
    *,
    executor: Callable[[Path], Executor] = LocalPool,
    progress: bool = False,
) -> StudyRun:
    """Run what is not done yet, then write tables, figures and claims.

    Args:
        study: what is asked.
        out: folder of the study.
        executor: makes what runs the jobs from their folder: processes of this machine, one per
            core, or what :func:`executor_for` names.
        progress: show on standard error how far it is.

    Raises:
        InputError: the study or the folder is wrong.
        StudyInterruptedError: by Ctrl-C.
    """
    needed("pandas", "a study", "studies")
    from tightrope.studies.certificate_records import read_table
    from tightrope.studies.results import analyse, write_results

    plan, folder = plan_jobs(study), StudyFolder(out)
    with folder.locked(study.content()):
        for job in plan.of("policy"):
            folder.place(job, plan.sources[job.id])
        ended = run_missing(plan.jobs, folder, executor, progress=progress)
        results = None
        if any(job.id in ended.done for job in plan.of("certify")):
            folder.require_there()
            results = analyse(read_table(folder.path))
            write_results(results, folder.results)
        return StudyRun(
            failed={ended.jobs[key].name: reason for key, reason in ended.failed.items()},
            blocked=ended.blocked,
            skipped=plan.skipped,
            results=results,
        )


def describe(study: Study, out: Path) -> str:
    """The jobs of a study in words: how many of each stage, how many are done, what failed."""
    plan, folder = plan_jobs(study), StudyFolder(out)
    folder.require_own(study.content())
    failed = folder.failed()
    lines = [f"study {study.name}: {len(plan.jobs)} jobs, {plan.certificates} certificates"]
    lines += status_lines(plan.jobs, folder.done(plan.jobs), failed)
    lines += [f"skipped: {why}" for why in plan.skipped]
    lines += [f"failed: {name}: {why}" for name, why in failed.items()]
    return as_lines(lines)


def run_missing(
    jobs: Sequence[Job],
    folder: StudyFolder,
    executor: Callable[[Path], Executor],
    *,
    progress: bool = False,
) -> Progress:
    """Run the jobs that are not done, and keep why some failed.

    Raises:
        InputError: the executor cannot run.
        StudyInterruptedError: by Ctrl-C.
    """
    done = folder.done(jobs)
    if len(done) == len(jobs):
        folder.record_failures({})
        return Progress({job.id: job for job in jobs}, done=set(done))
    pool = executor(folder.jobs)
    show = live_status(shown=progress)

    def report(state: Progress) -> None:
        reasons = {state.jobs[key].name: reason for key, reason in state.failed.items()}
        if reasons != folder.failed():
            folder.record_failures(reasons)
        show(state)

    try:
        return run_jobs(jobs, pool, done=done, on_change=report)
    except KeyboardInterrupt:
        raise StudyInterruptedError("interrupted; the same command resumes") from None
    finally:
        pool.shutdown()


def executor_for(
    engine: EngineName, workers: int | Literal["auto"] = "auto", address: str = ""
) -> Callable[[Path], Executor]:
    """What makes the executor of a command's engine.

    Args:
        engine: processes of this machine, or a Ray cluster.
        workers: processes of the local engine; auto: one per core.
        address: of the Ray cluster; by default one is started on this machine.

    Raises:
        InputError: an option is of the other engine.
    """
    if engine == "local":
        if address:
            raise InputError("expected `address` for `engine` ray, found `engine` local beside it")
        return partial(LocalPool, workers=None if workers == "auto" else workers)
    if workers != "auto":
        raise InputError("expected `workers` for `engine` local, found `engine` ray beside it")
    from tightrope.studies.ray_pool import RayPool

    return partial(RayPool, address=address or None)
