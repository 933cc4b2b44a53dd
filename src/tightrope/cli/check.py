"""tightrope check: a certificate against conditions, for machines."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from tightrope.deploy.check import Conditions

__all__ = ["Check"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Check:
    """Say whether a certificate states enough: exit code 0 if all conditions hold, 1 if not."""

    certificate: Annotated[Positional[Path], tyro.conf.arg(metavar="CERT")]
    """Folder that certify wrote, or its certificate.json."""
    conditions: Conditions = field(default_factory=Conditions)
    """What must be stated; at least one of the first six."""
    json: bool = False
    """Print the outcome as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """A line for each condition."""
        import json

        from tightrope.deploy.check import check

        report = check(self.certificate, self.conditions)
        if self.json:
            print(json.dumps(report.to_json(), indent=1, allow_nan=False))
        else:
            print(re.sub("`([a-z_]+)`", lambda name: f"--{name[1].replace('_', '-')}", str(report)))
            print(f"No number was recomputed: tightrope verify {self.certificate} does that.")
        return 0 if report.passed else 1
