"""A study from its specification to its results; the same call resumes it."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
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

if TYPE_CHECKING:
    from tightrope.studies.results import Results

__all__ = [
    "StudyInterruptedError",
    "StudyRun",
    "describe",
    "executor_for",
    "run_missing",
    "run_study",
]


_BETWEEN = 10.0  # seconds between two lines where nobody watches


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
        for job, source in plan.sources:
            folder.place(job, source)
        ended = run_missing(plan.jobs, folder, executor, progress=progress)
        results = None
        if any(job.id in ended.done for job in plan.of("certify")):
            folder.require_there()
            results = analyse(read_table(folder.path))
            write_results(results, folder.results)
        return StudyRun(ended.reasons, ended.blocked, plan.skipped, results)


def describe(study: Study, out: Path) -> str:
    """The jobs of a study in words: how many of each stage, how many are done, what failed."""
    plan, folder = plan_jobs(study), StudyFolder(out)
    folder.require_own(study.content())
    failed, seconds = folder.failed(), folder.done(plan.jobs)
    lines = [f"study {study.name}: {len(plan.jobs)} jobs, {plan.certificates} certificates"]
    lines.append(f"{'stage':<9} {'jobs':>6} {'done':>6} {'failed':>6} {'core time':>16}")
    for stage in dict.fromkeys(job.stage for job in plan.jobs):
        own = plan.of(stage)
        done = [seconds[job.id] for job in own if job.id in seconds]
        gone = sum(job.name in failed and job.id not in seconds for job in own)
        took = str(timedelta(seconds=round(sum(done))))
        lines.append(f"{stage:<9} {len(own):>6} {len(done):>6} {gone:>6} {took:>16}")
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
        return Progress({job.id: job for job in jobs}, set(done))
    pool = executor(folder.jobs)
    show = _live_status() if progress else lambda state: None

    def report(state: Progress) -> None:
        if state.reasons != folder.failed():
            folder.record_failures(state.reasons)
        show(state)

    try:
        return run_jobs(jobs, pool, done=done, on_change=report)
    except KeyboardInterrupt:
        raise StudyInterruptedError("interrupted; the same command resumes") from None
    finally:
        pool.shutdown()


def _live_status() -> Callable[[Progress], None]:
    """The function that shows progress: one line that is replaced, or one now and then."""
    from rich.console import Console

    console, last = Console(stderr=True), -math.inf

    def show(progress: Progress) -> None:
        nonlocal last
        ended, watched = not progress.blocked, console.is_terminal
        if not watched and not ended and time.monotonic() - last < _BETWEEN:
            return
        last, counts = time.monotonic(), []
        for stage in dict.fromkeys(job.stage for job in progress.jobs.values()):
            own = {key for key, job in progress.jobs.items() if job.stage == stage}
            failed = len(own & progress.failed.keys())
            counts.append(f"{stage} {len(own & progress.done)}/{len(own)}")
            counts[-1] += f" ({failed} failed)" if failed else ""
        end = "\r" if watched and not ended else "\n"
        console.print(", ".join(counts), end=end, highlight=False, soft_wrap=True)

    return show


def executor_for(
    engine: Literal["local", "ray"], workers: int | Literal["auto"] = "auto", address: str = ""
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
