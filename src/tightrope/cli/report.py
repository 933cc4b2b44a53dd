"""tightrope report: the page of a certificate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Draw report.html of a certificate anew, in its folder."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify wrote."""

    def run(self) -> int:
        """Read the certificate and replace its page."""
        from tightrope.certificates.folder import load_certificate
        from tightrope.reports import write_page

        write_page(load_certificate(self.folder), self.folder)
        print(f"written: {self.folder / 'report.html'}")
        return 0
