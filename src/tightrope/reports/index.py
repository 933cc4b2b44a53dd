"""The index of a folder of certificates: one table, the worst first."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tightrope.certificates.document import document_digest, fields_of, read_document
from tightrope.certificates.statements import Statement
from tightrope.certificates.words import outward, percent, sentence
from tightrope.errors import InputError, one_line
from tightrope.reports.charts import number
from tightrope.reports.render import render, write_text
from tightrope.reports.stamps import STAMPS, UNREADABLE, Stamp, stamps_of

__all__ = ["Entry", "certificate_folders", "entries", "index_page", "write_index"]

DOCUMENT = "certificate.json"


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
        stamp: the worst that applies.
        problem: why it cannot be read; empty if it can.
        cells: by name of the column.
        promise: the headline, in a sentence.
        size: of the headline's number in the width of the return range, to order by.
    """

    name: str
    link: str
    stamp: Stamp
    problem: str = ""
    cells: tuple[tuple[str, Cell], ...] = ()
    promise: str = ""
    size: float = float("inf")

    @property
    def rank(self) -> tuple[int, float, str]:
        """Worst first."""
        return STAMPS.index(self.stamp), -self.size, self.name


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
    counts = [(stamp, sum(entry.stamp == stamp for entry in found)) for stamp in STAMPS]
    return render(
        "index.html.j2",
        ["table.js", "index.js"],
        title=f"{len(found):,} certificates in {folder.resolve().name}",
        entries=found,
        columns=_columns(found),
        empty=Cell("", ""),
        counts=[(stamp, count) for stamp, count in counts if count],
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
        document = read_document((place / DOCUMENT).read_text(), name)
        if document_digest(document) != document["digests"].get("certificate"):
            raise InputError("changed since it was written: its digest does not match")
    except (OSError, UnicodeDecodeError, InputError) as error:
        return Entry(name, link, UNREADABLE, one_line(error))
    return _readable(name, link, document)


def _readable(name: str, link: str, document: dict[str, Any]) -> Entry:
    fields = fields_of(document)
    statements: tuple[Statement, ...] = fields["statements"]
    first = statements[fields["headline"]]
    width = fields["return_range"].high - fields["return_range"].low
    value = first.value_raw if first.rms_raw is None else first.rms_raw
    flags = {key: document[key] for key in ("void", "vacuous", "failed_fit")}
    stamp = stamps_of(first, drifting=fields["checks"].drifting, **flags)[0]
    return Entry(
        name,
        link,
        stamp,
        cells=tuple(_cells(fields, document, first, value / width)),
        promise=sentence(first),
        size=value / width,
    )


def _cells(
    fields: dict[str, Any], document: dict[str, Any], first: Statement, size: float
) -> Iterator[tuple[str, Cell]]:
    subject = fields["subject"]
    policy = subject.get("policy", {}).get("name") or subject.get("log") or "unnamed"
    environment = subject.get("environment", {}).get("id", "unnamed")
    sign = {"at-most": "≤", "at-least": "≥"}
    yield "policy or log", Cell(str(policy), str(policy))
    yield "environment", Cell(str(environment), str(environment))
    yield "scheme", Cell(document["scheme"], document["scheme"])
    value = first.value_raw if first.rms_raw is None else first.rms_raw
    yield "headline", Cell(f"{sign[first.direction]} {_shown(first)}", value)
    yield "% of the range", Cell(f"{100 * size:.3g}", size)
    if first.share is not None:
        yield "holds for", Cell(f"≥ {percent(first.share)}", first.share)
    sure = first.joint_confidence if document["scheme"] == "auto" else first.confidence
    yield "confidence", Cell(percent(sure), sure)
    error = document["test_error"]
    if error is not None:
        width = fields["return_range"].high - fields["return_range"].low
        rms = error**0.5 * width
        yield "RMS in test", Cell(number(rms), rms)
    for kind, name in (("return", "return"), ("failure", "failure")):
        for s in [s for s in fields["statements"] if s.kind == kind][-1:]:
            yield name, Cell(f"{sign[s.direction]} {_shown(s)}", s.value_raw)
    count = fields["episodes"].validation
    yield "episodes", Cell(f"{count:,}", count)


def _shown(s: Statement) -> str:
    return outward(s).replace("-", "\N{MINUS SIGN}")


def _columns(found: list[Entry]) -> list[str]:
    """All columns that some certificate has, in their order."""
    longest: dict[str, None] = {}
    for entry in sorted(found, key=lambda each: -len(each.cells)):
        longest |= dict.fromkeys(name for name, _ in entry.cells)
    return list(longest)
