"""tightrope verify: whether every number of a certificate follows from its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

__all__ = ["Verify"]


@dataclass(frozen=True)
class Verify:
    """Recompute every number of a certificate from the files beside it."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify wrote."""

    def run(self) -> int:
        """Exit code 0 if all agrees, 1 with a list of what does not."""
        from tightrope.certificates.verify import verify

        problems = verify(self.folder)
        for problem in problems:
            print(problem)
        if problems:
            count = f"{len(problems)} disagreement{'s' if len(problems) > 1 else ''}"
            print(f"NOT verified: {count} in {self.folder}")
            return 1
        print(f"verified: every number in {self.folder} follows from its files")
        if (self.folder / "report.html").exists():
            print("report.html was not looked at; tightrope report draws it anew")
        return 0
