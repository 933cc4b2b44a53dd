"""tightrope audit: how often certificates fail, measured against the truth."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.audit.experiment import Audit as Repeated
from tightrope.cli.subject import subject_of

__all__ = ["Audit"]

Auto = Literal["auto"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Audit:
    """Certify fresh episodes many times and compare every statement with the truth; resumes."""

    subject: Annotated[Positional[str], tyro.conf.arg(metavar="SUBJECT", help_behavior_hint="")] = (
        ""
    )
    """A synthetic task (independent, correlated, catastrophes, clipping, survivorship,
    time-limit, drifting; results/audit), or the file or folder of a policy, which is rolled out."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment of a policy; by default the one that it was trained in, if train wrote
    it."""
    demo: bool = False
    """Audit certificates of the policy that ships with the package."""
    audit: Repeated = field(default_factory=Repeated)
    """What is repeated, and how often."""
    out: Path = Path("audit-SUBJECT")
    """Folder of the audit: jobs, results. The same command resumes; a larger number of repetitions
    adds to it."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster."""
    workers: int | Auto = "auto"
    """Processes of the local engine; auto: one per core."""
    address: Annotated[str, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = ""
    """Of the Ray cluster; by default one is started on this machine."""

    def run(self) -> int:
        """Repeat, count, print."""
        from tightrope.imports import needed

        needed("pandas", "an audit", "studies")
        from tightrope.audit.auditing import run_audit

        subject, env = subject_of(
            self.subject, self.env, demo=self.demo, expected="a synthetic task or a policy"
        )
        found = run_audit(
            subject,
            env or None,
            self.audit,
            Path(
                str(self.out).replace(
                    "SUBJECT", "demo" if self.demo else Path(subject).stem.replace(":", "-against-")
                )
            ),
            engine=self.engine,
            workers=None if self.workers == "auto" else self.workers,
            address=self.address or None,
            progress=True,
        )
        if found.results is not None:
            print(found)
            print(f"\nWritten to {found.results}")
        for label, reason in found.failed:
            print(f"failed: {label}: {reason}")
        return 1 if found.failed or len(found.violated) else 0
