"""tightrope study: a matrix of certificates, resumable; then its tables, figures and claims."""

from pathlib import Path
from typing import Annotated, Literal

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError

__all__ = ["study"]


@command()
def study(
    spec: Path,
    /,
    *,
    out: Path = Path("study-NAME"),
    engine: Literal["local", "ray"] = "local",
    workers: int | Literal["auto"] = "auto",
    address: Annotated[str, "HOST:PORT"] = "",
    dry_run: bool = False,
    status: bool = False,
) -> int:
    """Train, roll out and certify many policies; the same command resumes.

    Args:
        spec: A study's specification, a TOML file (docs/studies.md).
        out: Folder of the study: jobs, results.
        engine: Processes on this machine, or a Ray cluster.
        workers: Processes of the local engine; auto: one per core.
        address: Ray cluster to use; by default one is started on this machine.
        dry_run: Show the jobs and how many are done; run nothing.
        status: Show how far the study in the folder is, and what failed; run nothing.
    """
    from tightrope.reports import write_study_page
    from tightrope.studies.config import load_study
    from tightrope.studies.runner import describe, executor_for, run_study

    if dry_run and status:
        raise InputError("expected `dry_run` or `status`, found both")
    study = load_study(spec)
    out = Path(str(out).replace("NAME", study.name))
    if status and not (out / "study.json").is_file():
        raise InputError(f"expected a study in {str(out)!r}, found none: run it without `status`")
    if dry_run or status:
        show(describe(study, out), lines=True)
        return 0
    ended = run_study(study, out, executor=executor_for(engine, workers, address), progress=True)
    if (results := ended.results) is not None:
        write_study_page(results, out, failed=ended.failed, blocked=ended.blocked)
        show(f"{len(results.table):,} certificates; tables and figures: {out / 'results'}")
        show(f"page: {out / 'report.html'}")
        for each in results.claims:
            show(f"{each.verdict} (preset {each.preset}, unit {each.unit}): {each.sentence}")
    for reason in ended.skipped:
        show(f"skipped: {reason}")
    for name, reason in ended.failed.items():
        show(f"failed: {name}: {reason}")
    if ended.blocked:
        show(f"{ended.blocked} jobs could not run because of these")
    return 1 if ended.failed else 0
