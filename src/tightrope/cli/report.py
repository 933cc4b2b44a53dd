"""tightrope report: the page of a certificate or of a study, or the index of many."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

__all__ = ["Report"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Report:
    """Draw report.html of a certificate or a study, or index.html of a folder of certificates."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify or study wrote, or a folder with certificates' folders in it."""

    def run(self) -> int:
        """Read what is there, and replace its page."""
        if self._study():
            return self._page_of_study()
        if self._many():
            return self._index()
        from tightrope.certificates.folder import load_certificate
        from tightrope.reports import write_page

        write_page(load_certificate(self.folder), self.folder)
        print(f"written: {self.folder / 'report.html'}")
        return 0

    def _study(self) -> bool:
        """A certificate's own document comes first, whatever is beside it."""
        return not (self.folder / "certificate.json").exists() and any(
            (self.folder / name).is_file() for name in ("study.json", "table.csv", "table.parquet")
        )

    def _page_of_study(self) -> int:
        from tightrope.reports import write_study_page

        shown = write_study_page(self.folder)
        print(f"written: {self.folder / 'report.html'} ({len(shown.table):,} certificates)")
        return 0

    def _many(self) -> bool:
        """A folder without a certificate of its own may have some in it."""
        return self.folder.is_dir() and not (self.folder / "certificate.json").exists()

    def _index(self) -> int:
        from tightrope.reports import write_index

        found = write_index(self.folder)
        bad = sum(bool(entry.problem) for entry in found)
        said = f", {bad} of them unreadable" if bad else ""
        print(f"written: {self.folder / 'index.html'} ({len(found)} certificates{said})")
        return 0
