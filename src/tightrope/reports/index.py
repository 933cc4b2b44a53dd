"""The index of a folder of certificates: one table, the worst first."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tightrope.certificates.certificate import Record
from tightrope.certificates.folder import DOCUMENT, read_document
from tightrope.certificates.status import STATUSES, UNREADABLE, Status
from tightrope.certificates.text import percent, rows_of, sentence, subject_names
from tightrope.errors import InputError, one_line
from tightrope.files import write_text
from tightrope.reports.cards import overall, typeset
from tightrope.reports.render import render

__all__ = ["Entry", "certificate_folders", "entries", "index_page", "write_index"]

TEXTUAL = ("policy or log", "environment", "scheme")  # columns that are not numbers


@dataclass(frozen=True)
class Cell:
    """A value as text, and what it is sorted by."""

    text: str
    order: float | str


@dataclass(frozen=True)
class Entry:
    """A certificate in the table.

    Attributes:
        name: of its folder, from the folder of the index.
        link: to its page, or to its document where it has none.
        status: the worst that applies.
        problem: why it cannot be read; empty if it can.
        cells: by name of the column.
        claim: the headline, in a sentence.
        size: of the headline's number in the width of the return range, to order by.
    """

    name: str
    link: str
    status: Status
    problem: str = ""
    cells: tuple[tuple[str, Cell], ...] = ()
    claim: str = ""
    size: float = float("inf")

    @property
    def rank(self) -> tuple[int, float, str]:
        """Worst first."""
        return STATUSES.index(self.status), -self.size, self.name


def certificate_folders(folder: Path) -> list[Path]:
    """Folders with a certificate anywhere in `folder`, in order; hidden ones are left out."""
    found = []
    for root, inside, names in os.walk(folder):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        if DOCUMENT in names:
            found.append(Path(root))
            inside.clear()
    return found


def entries(folder: Path) -> list[Entry]:
    """Every certificate in `folder`, the worst first; one that cannot be read is the worst."""
    return sorted(
        (_entry(folder, each) for each in certificate_folders(folder)), key=lambda e: e.rank
    )


def index_page(folder: Path, found: list[Entry]) -> str:
    """The page as one string."""
    counts = [(status, sum(entry.status == status for entry in found)) for status in STATUSES]
    columns = _columns(found)
    return render(
        "index.html.j2",
        ["table.js", "index.js"],
        title=f"{len(found):,} certificates in {folder.resolve().name}",
        entries=found,
        columns=columns,
        textual=TEXTUAL,
        empty=Cell("", ""),
        counts=[(status, count) for status, count in counts if count],
    )


def write_index(folder: Path) -> list[Entry]:
    """Write index.html into the folder; returns what is in it.

    Raises:
        InputError: there is no certificate in the folder, or the page cannot be written.
    """
    found = entries(folder)
    if not found:
        raise InputError(
            f"expected a certificate's folder, or a folder of such folders, found no {DOCUMENT} in "
            f"{str(folder)!r}"
        )
    write_text(folder / "index.html", index_page(folder, found))
    return found


def _entry(folder: Path, place: Path) -> Entry:
    name = place.relative_to(folder).as_posix()
    page = "report.html" if (place / "report.html").is_file() else DOCUMENT
    link = "./" + quote(f"{name}/{page}")  # never a scheme, whatever the folder is called
    try:
        record, problems = read_document(place)
    except InputError as error:
        return Entry(name, link, UNREADABLE, one_line(error))
    if problems:
        return Entry(name, link, UNREADABLE, problems[0])
    first = record.statements[record.headline]
    return Entry(
        name,
        link,
        overall(record)[0],
        cells=tuple(_cells(record)),
        claim=sentence(first),
        size=first.limit / record.width,
    )


def _cells(record: Record) -> Iterator[tuple[str, Cell]]:
    """First who was certified, then what the policy does, then how well it can be predicted."""
    what, where = (name or "unnamed" for name in subject_names(record))
    for name, text in zip(TEXTUAL, (what, where, record.scheme), strict=True):
        yield name, Cell(text, text)
    first = record.statements[record.headline]
    for row in rows_of(record):
        s = record.statements[row.index]
        if s.kind == "failure" or (s.target == "undiscounted-return" and s.share is not None):
            yield s.name, Cell(typeset(row.certified), s.limit)
        if s is first:
            yield "headline", Cell(typeset(row.certified), s.limit)
    size = first.limit / record.width
    yield "% of the range", Cell(f"{100 * size:.3g}", size)
    if first.share is not None:
        yield "holds for", Cell(f"≥ {percent(first.share)}", first.share)
    confidence = first.joint_confidence or first.confidence
    yield "confidence", Cell(percent(confidence), confidence)
    count = record.episodes.validation
    yield "episodes", Cell(f"{count:,}", count)


def _columns(found: list[Entry]) -> list[str]:
    """All columns that some certificate has, in their order."""
    longest: dict[str, None] = {}
    for entry in sorted(found, key=lambda each: -len(each.cells)):
        longest |= dict.fromkeys(name for name, _ in entry.cells)
    return list(longest)
