"""tightrope report: the page of a certificate or of a study, or the index of many."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.certificates import Certificate
    from tightrope.reports.filmstrip import Strip

__all__ = ["Report"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Report:
    """Draw report.html of a certificate or a study, or index.html of a folder of certificates."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify or study wrote, or a folder with certificates' folders in it."""
    filmstrip: bool = False
    """Add pictures of the best and the worst predicted test episode of a policy that was rolled out
    here; MuJoCo draws them off screen, with libosmesa6 or EGL."""

    def run(self) -> int:
        """Read what is there, and replace its page."""
        if self._study():
            if self.filmstrip:
                raise InputError("expected `filmstrip` for one certificate, found a study")
            return self._page_of_study()
        if self._many():
            if self.filmstrip:
                raise InputError("expected `filmstrip` for one certificate, found many")
            return self._index()
        from tightrope.certificates.folder import load_certificate
        from tightrope.reports import write_page

        certificate = load_certificate(self.folder)
        strips = self._strips(certificate) if self.filmstrip else ()
        write_page(certificate, self.folder, strips=strips)
        print(f"written: {self.folder / 'report.html'}")
        return 0

    def _strips(self, certificate: "Certificate") -> "tuple[Strip, ...]":
        from tightrope.reports.filmstrip import filmstrips

        try:
            return filmstrips(certificate)
        except InputError as error:
            warnings.warn(f"no filmstrip: {error}", stacklevel=2)
            return ()

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
