"""Commands on many certificates: study and audit."""

from pathlib import Path
from typing import Annotated, Literal

from tightrope.audit.experiment import Audit
from tightrope.cli.certificates import source_or_demo
from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError

__all__ = ["audit", "study"]


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


@command("env demo out schemes repetitions unit episodes delta truth_episodes seed workers")
def audit(
    subject: str = "",
    /,
    *,
    env: Annotated[str, "ID"] = "",
    demo: bool = False,
    options: Audit,
    out: Path = Path("audit-SUBJECT"),
    engine: Literal["local", "ray"] = "local",
    workers: int | Literal["auto"] = "auto",
    address: Annotated[str, "HOST:PORT"] = "",
) -> int:
    """Certify fresh episodes many times and compare every statement with the truth; resumes.

    Args:
        subject: A synthetic task (independent, correlated, catastrophes, clipping, survivorship,
            time-limit, drifting; results/audit); two of them, as A:B, to audit comparisons; or the
            file or folder of a policy, which is rolled out.
        env: Environment of a policy; by default the one that it was trained in, if train wrote it.
        demo: Audit certificates of the policy that ships with the package.
        out: Folder of the audit: jobs, results. The same command resumes; a larger number of
            repetitions adds to it.
        engine: Processes on this machine, or a Ray cluster.
        workers: Processes of the local engine; auto: one per core.
        address: Ray cluster to use; by default one is started on this machine.
    """
    from tightrope.audit.auditing import run_audit
    from tightrope.studies.runner import executor_for

    subject, env = source_or_demo(subject, env, demo, "a synthetic task or a policy")
    stem = "demo" if demo else Path(subject).stem.replace(":", "-against-")
    found = run_audit(
        subject,
        env or None,
        options,
        Path(str(out).replace("SUBJECT", stem)),
        executor=executor_for(engine, workers, address),
        progress=True,
    )
    if found.results is not None:
        show(f"{found}\n", lines=True)
        show(f"Written to {found.results}")
    for name, reason in found.failed.items():
        show(f"failed: {name}: {reason}")
    return 1 if found.failed or len(found.violated) else 0
