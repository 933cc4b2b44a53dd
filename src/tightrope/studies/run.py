"""A study from its specification to its results; the same call goes on where it stopped."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tightrope.errors import InputError, as_lines
from tightrope.imports import needed
from tightrope.studies.board import Board, duration, live_board, size
from tightrope.studies.engines import Engine, LocalEngine
from tightrope.studies.folder import Folder
from tightrope.studies.graph import build_graph
from tightrope.studies.jobs import Job
from tightrope.studies.schedule import Progress, run_jobs
from tightrope.studies.spec import Study, load_study

if TYPE_CHECKING:
    from tightrope.studies.results import Results

__all__ = [
    "EngineName",
    "Finished",
    "StudyInterruptedError",
    "describe",
    "engine_of",
    "name_of",
    "run_missing",
    "run_study",
]

EngineName = Literal["local", "ray"]


class StudyInterruptedError(InputError):
    """Ctrl-C: the study can be resumed."""

    interrupted = True


@dataclass(frozen=True)
class Finished:
    """What a run of a study came to.

    Attributes:
        failed: label and reason of each job that was given up.
        blocked: jobs that could not run for that.
        results: from all certificates; None if there is not one.
    """

    failed: tuple[tuple[str, str], ...]
    blocked: int
    results: "Results | None"


def run_study(
    spec: Path | Study,
    out: Path,
    *,
    engine: EngineName | Callable[[Path], Engine] = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Finished:
    """Run what is not done yet, then write tables, figures and claims.

    Args:
        spec: file of the specification, or the study itself.
        out: folder of the study.
        engine: this machine's processes, a Ray cluster, or a function from the folder of the jobs
            to an engine.
        workers: processes of the local engine; by default one per core.
        address: of the Ray cluster; by default one is started here.
        progress: show a table on standard error.

    Raises:
        InputError: the specification or the folder is wrong.
        StudyInterruptedError: by Ctrl-C.
    """
    needed("pandas", "a study", "studies")
    from tightrope.studies.certificate_records import read_table
    from tightrope.studies.results import analyse, write_results

    study, beside = _read(spec)
    graph = build_graph(study, beside)
    folder = Folder(out)
    with folder.claim(asdict(study)):
        folder.forget_failures()
        folder.record_plan(graph)
        folder.place(graph, beside / study.trained if study.trained else None)
        took = folder.done(graph.jobs)
        ended = Progress({job.id: job for job in graph.jobs}, done=set(took))
        if len(took) < len(graph.jobs):
            runs = engine_of(engine, folder, workers, address)
            ended = run_missing(graph.jobs, folder, took, runs, shown=progress)
        blocked = len(graph.jobs) - len(ended.done) - len(ended.failed)
        results = None
        if any(job.id in ended.done for job in graph.of("certify")):
            folder.require_there()
            results = analyse(read_table(folder.path))
            write_results(results, folder.results)
        return Finished(
            failed=tuple((name_of(graph.jobs, key), why) for key, why in ended.failed.items()),
            blocked=blocked,
            results=results,
        )


def name_of(jobs: Sequence[Job], key: str) -> str:
    """Stage and label of a job."""
    job = next(job for job in jobs if job.id == key)
    return f"{job.stage} {job.label}"


def describe(spec: Path | Study, out: Path, *, slots: int) -> str:
    """The job graph in words: counts per stage, what is done, expected time and disk."""
    study, beside = _read(spec)
    graph, folder = build_graph(study, beside), Folder(out)
    folder.require_own(asdict(study))
    took = folder.done(graph.jobs)
    failed = {key: each["reason"] for key, each in folder.failed().items() if key not in took}
    progress = Progress({job.id: job for job in graph.jobs}, done=set(took), failed=failed)
    board = Board(graph.jobs, took, slots)
    lines = [f"study {study.name}: {len(graph.jobs)} jobs, {graph.certificates} certificates"]
    lines.append(
        f"{'stage':<9} {'jobs':>6} {'done':>6} {'failed':>6} {'core time':>10} {'disk':>8}"
    )
    for stage, total, done, _, gone in board.rows(progress):
        own = [job for job in board.jobs if job.stage == stage]
        seconds, disk = sum(job.seconds for job in own), sum(job.size for job in own)
        lines.append(
            f"{stage:<9} {total:>6} {done:>6} {gone:>6} {duration(seconds):>10} {size(disk):>8}"
        )
    retried = Progress(progress.jobs, done=progress.done)
    left = duration(board.left(retried))
    cores = "core" if slots == 1 else "cores"
    lines.append(
        f"about {left} left on {slots} {cores}, if they are like ours (benchmarks/scale.md)"
    )
    lines += [f"failed: {name_of(graph.jobs, key)}: {why}" for key, why in failed.items()]
    return as_lines(lines)


def _read(spec: Path | Study) -> tuple[Study, Path]:
    if isinstance(spec, Study):
        return spec, Path()
    return load_study(spec), spec.parent


def engine_of(
    engine: EngineName | Callable[[Path], Engine],
    folder: Folder,
    workers: int | None,
    address: str | None,
) -> Engine:
    """The engine that was asked for.

    Raises:
        InputError: an option is of the other one.
    """
    if callable(engine):
        return engine(folder.jobs)
    if engine == "ray":
        if workers is not None:
            raise InputError("expected `workers` for `engine` local, found `engine` ray beside it")
        from tightrope.studies.engines.cluster import RayEngine

        return RayEngine(folder.jobs, address)
    if address is not None:
        raise InputError("expected `address` for `engine` ray, found `engine` local beside it")
    return LocalEngine(folder.jobs, workers)


def run_missing(
    jobs: Sequence[Job], folder: Folder, took: dict[str, float], engine: Engine, *, shown: bool
) -> Progress:
    """Run the jobs that are not done, and close the engine.

    Raises:
        StudyInterruptedError: by Ctrl-C.
    """

    def failed(job: Job, reason: str) -> None:
        folder.record_failure(job, reason)

    try:
        with live_board(Board(jobs, took, engine.slots), shown=shown) as report:
            return run_jobs(jobs, engine, done=took, report=report, failed=failed)
    except KeyboardInterrupt:
        raise StudyInterruptedError(
            "interrupted; the same command goes on where it stopped"
        ) from None
    finally:
        engine.close()
