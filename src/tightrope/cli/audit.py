"""tightrope audit: how often certificates fail, measured against the truth."""

from pathlib import Path
from typing import Annotated, Literal

from tightrope.audit.experiment import Audit
from tightrope.cli.certify import source_or_demo
from tightrope.cli.flags import command
from tightrope.cli.text import show

__all__ = ["audit"]


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
    from tightrope.imports import needed

    needed("pandas", "an audit", "studies")
    from tightrope.audit.auditing import run_audit
    from tightrope.studies.runner import executor_for

    subject, env = source_or_demo(subject, env, demo, "a synthetic task or a policy")
    found = run_audit(
        subject,
        env or None,
        options,
        Path(str(out).replace("SUBJECT", "demo" if demo else _stem(subject))),
        executor=executor_for(engine, workers, address),
        progress=True,
    )
    if found.results is not None:
        show(str(found), lines=True)
        show("")
        show(f"Written to {found.results}")
    for name, reason in found.failed.items():
        show(f"failed: {name}: {reason}")
    return 1 if found.failed or len(found.violated) else 0


def _stem(subject: str | Path) -> str:
    return Path(subject).stem.replace(":", "-against-")
