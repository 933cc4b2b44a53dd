"""tightrope check: a certificate against conditions, for machines."""

import re
from pathlib import Path

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.deploy.check import Conditions

__all__ = ["check"]


@command()
def check(certificate: Path, /, *, conditions: Conditions, json: bool = False) -> int:
    """Say whether a certificate states enough: exit code 0 if all conditions hold, 1 if not.

    Args:
        certificate: Folder that certify wrote, or its certificate.json.
        json: Print the outcome as JSON on standard output, and nothing else there.
    """
    import json as text

    from tightrope.deploy.check import check as compare

    report = compare(certificate, conditions)
    if json:
        print(text.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        show(
            re.sub("`([a-z_]+)`", lambda name: f"--{name[1].replace('_', '-')}", str(report)),
            lines=True,
        )
        show(f"No number was recomputed: tightrope verify {certificate} does that.")
    return 0 if report.passed else 1
