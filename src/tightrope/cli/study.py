"""tightrope study: a matrix of certificates, resumable; then its tables, figures and claims."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError

__all__ = ["Study"]

Auto = Literal["auto"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Study:
    """Train, roll out and certify many policies; the same command resumes."""

    spec: Annotated[Positional[Path], tyro.conf.arg(metavar="SPEC")]
    """A study's specification, a TOML file (docs/studies.md)."""
    out: Path = Path("study-NAME")
    """Folder of the study: jobs, results."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster."""
    workers: int | Auto = "auto"
    """Processes of the local engine; auto: one per core."""
    address: Annotated[str, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = ""
    """Of the Ray cluster; by default one is started on this machine."""
    dry_run: bool = False
    """Show the jobs, what is done, and the expected time and disk; run nothing."""
    status: bool = False
    """Show how far the study in the folder is, and what failed; run nothing."""

    def run(self) -> int:
        """Run, or tell."""
        from tightrope.reports import write_study_page
        from tightrope.studies.run import describe, run_study
        from tightrope.studies.spec import load_study

        if self.dry_run and self.status:
            raise InputError("expected `dry_run` or `status`, found both")
        study = load_study(self.spec)
        out = Path(str(self.out).replace("NAME", study.name))
        if self.status and not (out / "study.json").is_file():
            raise InputError(
                f"expected a study in {str(out)!r}, found none: run it without `status`"
            )
        if self.dry_run or self.status:
            slots = (os.cpu_count() or 1) if self.workers == "auto" else self.workers
            print(describe(self.spec, out, slots=slots))
            return 0
        ended = run_study(
            self.spec,
            out,
            engine=self.engine,
            workers=None if self.workers == "auto" else self.workers,
            address=self.address or None,
            progress=True,
        )
        if ended.results is not None:
            print(f"{ended.certificates} certificates; tables, figures and claims: {ended.results}")
            write_study_page(out)
            print(f"page: {out / 'report.html'}")
        if ended.claims is not None:
            overall = ended.claims[(ended.claims.preset == "all") & (ended.claims.unit == "all")]
            for each in overall.itertuples():
                print(f"{each.verdict}: {each.sentence}")
        for label, reason in ended.failed:
            print(f"failed: {label}: {reason}")
        if ended.blocked:
            print(f"{ended.blocked} jobs could not run for that")
        return 1 if ended.failed else 0
