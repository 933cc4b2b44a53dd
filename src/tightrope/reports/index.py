"""The index of a folder of certificates: one table, the worst first."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tightrope.certificates.assumptions import STATUSES, Status, overall
from tightrope.certificates.certificate import Record
from tightrope.certificates.folder import DOCUMENT, read_document
from tightrope.certificates.text import percent, rows_of, sentence, subject_names
from tightrope.errors import InputError, one_line
from tightrope.files import write_text
from tightrope.reports.charts import typeset
from tightrope.reports.render import render

__all__ = ["Entry", "certificate_folders", "entries", "index_page", "write_index"]

TEXTUAL = ("policy or log", "environment", "scheme")  # columns that are not numbers

Cell = tuple[str, float | str]  # a value as text, and what it is sorted by


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
    cells: dict[str, Cell] = field(default_factory=dict)
    claim: str = ""
    size: float = float("inf")


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
    found, order = (_entry(folder, each) for each in certificate_folders(folder)), list(STATUSES)
    return sorted(found, key=lambda one: (order.index(one.status.key), -one.size, one.name))


def index_page(folder: Path, found: list[Entry]) -> str:
    """The page as one string."""
    counts = {s: sum(entry.status == s for entry in found) for s in STATUSES.values()}
    longest = sorted(found, key=lambda entry: -len(entry.cells))
    return render(
        "index.html.j2",
        ["table.js", "index.js"],
        title=f"{len(found):,} certificates in {folder.resolve().name}",
        entries=found,
        columns=list(dict.fromkeys(name for entry in longest for name in entry.cells)),
        textual=TEXTUAL,
        counts=[(status, count) for status, count in counts.items() if count],
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
        problems = [one_line(error)]
    if problems:
        return Entry(name, link, STATUSES["unreadable"], problems[0])
    first = record.statements[record.headline]
    status, size = overall(record)[0], first.limit / record.width
    return Entry(name, link, status, "", dict(_cells(record, size)), sentence(first), size)


def _cells(record: Record, size: float) -> Iterator[tuple[str, Cell]]:
    """First who was certified, then what the policy does, then how well it can be predicted."""
    names = (*(name or "unnamed" for name in subject_names(record)), record.scheme)
    yield from ((column, (name, name)) for column, name in zip(TEXTUAL, names, strict=True))
    first = record.statements[record.headline]
    for row in rows_of(record):
        s, cell = row.statement, (typeset(row.certified), row.statement.limit)
        if s.kind == "failure" or (s.target == "undiscounted-return" and s.share is not None):
            yield s.name, cell
        if s is first:
            yield "headline", cell
    yield "% of the range", (f"{100 * size:.3g}", size)
    if first.share is not None:
        yield "holds for", (f"≥ {percent(first.share)}", first.share)
    confidence = first.joint_confidence or first.confidence
    yield "confidence", (percent(confidence), confidence)
    yield "episodes", (f"{record.episodes.validation:,}", record.episodes.validation)
