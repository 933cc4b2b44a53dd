"""tightrope check: a certificate, or a table of results, against conditions, for machines."""

import re
from typing import Any

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.deploy.check import Conditions
from tightrope.rollouts.results_table import Reading

__all__ = ["as_flags", "check"]


@command()
def check(source: str, /, *, conditions: Conditions, reading: Reading, json: bool = False) -> int:
    """Say whether a certificate states enough: exit code 0 if all conditions hold, 1 if not.

    Args:
        source: Folder that certify wrote, its certificate.json, a table of results, or counts such
            as 74/80; a table is certified first, and nothing is written.
        json: Print the outcome as JSON on standard output, and nothing else there.
    """
    import json as text

    from tightrope.deploy.check import check as compare
    from tightrope.deploy.check import is_table

    report = compare(source, conditions, **vars(reading))
    if json:
        print(text.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        show(as_flags(report), lines=True)
        if not is_table(source, reading.columns):
            show(f"No number was recomputed: tightrope verify {source} does that.")
    return 0 if report.passed else 1


def as_flags(report: Any) -> str:
    """The text of a report, with the flags of the command for the library's arguments."""
    return re.sub("`([a-z_]+)`", lambda name: f"--{name[1].replace('_', '-')}", str(report))
