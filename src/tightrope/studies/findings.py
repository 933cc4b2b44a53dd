"""What the folder of a study holds, read for a page: how far it is, its table, claims and figures.

Results are taken as they were written if they are those of the finished jobs. Where jobs have
finished since, or something is missing, the same is made anew in a temporary folder: reading
changes nothing.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tightrope.errors import InputError, one_line
from tightrope.imports import needed
from tightrope.studies.analysis import write_analysis
from tightrope.studies.columns import CERTIFICATE, DTYPES
from tightrope.studies.figures.write import LeftOut, Shown, shown_figures
from tightrope.studies.jobs import read_job
from tightrope.studies.slices import ordered
from tightrope.studies.study_folder import StudyFolder
from tightrope.studies.table import read_rows

__all__ = ["Findings", "Picture", "Plan", "load_findings"]

_TABLES = ("table.parquet", "table.csv")
_JOB = re.compile(r"([a-z]+)-[0-9a-f]{20}")
_TEXT = {"claims.csv": ("claim", "sentence", "preset", "unit", "statistic", "verdict", "words"),
         "metrics.csv": ("agent", "environment", "level", "scheme", "preset", "unit", "sampling",
                         "note")}  # fmt: skip
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class Picture:
    """A figure as it was drawn.

    Attributes:
        shown: what it shows; `shown.name` is the name of its files.
        svg: as bytes.
        png: as bytes.
        numbers: behind it.
    """

    shown: Shown
    svg: bytes
    png: bytes
    numbers: pd.DataFrame


@dataclass(frozen=True)
class Findings:
    """A study, as far as it is.

    Attributes:
        folder: it is in.
        name: of the study.
        about: a sentence, or nothing.
        document: everything that was asked for; empty where only results are left.
        done: finished jobs of each stage.
        planned: jobs of each stage, and certificates; None if that was not written down.
        failed: stage, label and reason of each job that was given up when it last ran.
        seconds: that the finished jobs took, on one core.
        versions: of the libraries behind the certificates.
        table: a row per certificate, in order.
        claims: as :func:`tightrope.studies.claims.claims` gives them.
        metrics: as :func:`tightrope.studies.metrics.metrics` gives them.
        pictures: every figure that there is data for.
        left_out: those that there is none for.
        results: folder that these results were read from; None if they were made anew.
    """

    folder: Path
    name: str
    about: str
    document: dict[str, Any]
    done: dict[str, int]
    planned: "Plan | None"
    failed: tuple[tuple[str, str], ...]
    seconds: float
    versions: dict[str, str]
    table: pd.DataFrame
    claims: pd.DataFrame
    metrics: pd.DataFrame
    pictures: tuple[Picture, ...]
    left_out: tuple[LeftOut, ...]
    results: Path | None


@dataclass(frozen=True)
class Plan:
    """How much was asked for: jobs of each stage, and certificates."""

    jobs: dict[str, int]
    certificates: int


def load_findings(path: Path) -> Findings:
    """Read a study's folder, or a folder of results alone.

    Raises:
        InputError: it is neither, is damaged, or has not one certificate yet.
    """
    needed("pandas", "a study", "studies")
    needed("pyarrow", "a study", "studies")
    folder = StudyFolder(path)
    alone = not folder.document.is_file()
    results = path if alone else folder.results
    document = {} if alone else _document(folder)
    records = list(_finished(folder))
    done = Counter(record["stage"] for _, record in records)
    certified = [place for place, record in records if record["stage"] == "certify"]
    kept = _kept_table(results)
    if certified:
        table = ordered(_rows(certified, path))
    elif kept is not None:
        table = kept
    else:
        table = pd.DataFrame()
    if not len(table):
        raise InputError(
            f"expected a study with certificates in {str(path)!r}, found none"
            + ("" if alone else f" yet ({done.total()} jobs are done)")
            + ": run `tightrope study` to its end"
        )
    read = _read(results, table) if kept is not None and _same(kept, table) else None
    current = read is not None
    if read is None:
        with tempfile.TemporaryDirectory() as temporary:
            write_analysis(table, Path(temporary))
            read = _read(Path(temporary), table)
    if read is None:
        raise InputError(f"cannot read the results of the study in {str(path)!r}")
    claims, metrics, pictures, left_out = read
    return Findings(
        folder=path,
        name=str(document.get("name", path.resolve().name)),
        about=str(document.get("about", "")),
        document=document,
        done=dict(done),
        planned=None,
        failed=tuple(_failed(folder)),
        seconds=sum(float(record.get("seconds", 0.0)) for _, record in records),
        versions=_versions([record for _, record in records if record["stage"] == "certify"]),
        table=table,
        claims=claims,
        metrics=metrics,
        pictures=pictures,
        left_out=left_out,
        results=results if current else None,
    )


def _document(folder: StudyFolder) -> dict[str, Any]:
    try:
        found = json.loads(folder.document.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{str(folder.document)!r} is damaged: {one_line(error)}") from None
    wanted = "tightrope.study/2"
    if not isinstance(found, dict) or found.get("format") != wanted:
        raise InputError(
            f"expected the format {wanted} in {str(folder.document)!r}, found another: this is not"
            " the folder of a study"
        )
    return found


def _finished(folder: StudyFolder) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folder and record of each finished job, in order; what has another name is not a job."""
    if folder.jobs.is_dir():
        for place in sorted(folder.jobs.iterdir()):
            if _JOB.fullmatch(place.name):
                yield place, read_job(place) or {}


def _failed(folder: StudyFolder) -> Iterator[tuple[str, str]]:
    yield from sorted(folder.failed().items())


def _versions(records: list[dict[str, Any]]) -> dict[str, str]:
    """Of every library, all that jobs were run with."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in dict(record.get("versions", {})).items():
            found.setdefault(str(name), set()).add(str(version))
    return {name: " and ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _rows(certified: list[Path], root: Path) -> pd.DataFrame:
    try:
        return read_rows(certified, root)
    except _UNREADABLE as error:
        raise InputError(
            f"expected the rows of finished jobs in {str(certified[0].parent)!r}, found something "
            f"else ({one_line(error)})"
        ) from None


def _kept_table(results: Path) -> pd.DataFrame | None:
    """The table that was written, if it can be read."""
    path = next((results / name for name in _TABLES if (results / name).is_file()), None)
    if path is None:
        return None
    try:
        if path.suffix == ".parquet":
            return ordered(pd.read_parquet(path))
        numbers = {name: [""] for name, kind in DTYPES.items() if kind == "float64"}
        return ordered(pd.read_csv(path, dtype=DTYPES, keep_default_na=False, na_values=numbers))
    except _UNREADABLE as error:
        if (results.parent / "study.json").is_file():
            return None  # the jobs have it all
        raise InputError(f"expected a study's table in {str(path)!r}: {one_line(error)}") from None


def _same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    columns = [*CERTIFICATE, "bound", "certificate"]
    return one[columns].equals(other[columns])


Read = tuple[pd.DataFrame, pd.DataFrame, tuple[Picture, ...], tuple[LeftOut, ...]]


def _read(results: Path, table: pd.DataFrame) -> Read | None:
    """What an analysis wrote, or None if something of it is missing or damaged."""
    try:
        claims, metrics = (_csv(results / name) for name in ("claims.csv", "metrics.csv"))
        pictures, left_out = [], []
        for shown in shown_figures(table):
            if not len(shown.rows):
                left_out.append(LeftOut(shown.name, shown.chart.lacking))
                continue
            svg, png, csv = (
                results / "figures" / f"{shown.name}.{kind}" for kind in ("svg", "png", "csv")
            )
            numbers = pd.read_csv(csv, dtype={"instance": "str"}, keep_default_na=False)
            pictures.append(Picture(shown, svg.read_bytes(), png.read_bytes(), numbers))
    except _UNREADABLE:
        return None
    return claims, metrics, tuple(pictures), tuple(left_out)


def _csv(path: Path) -> pd.DataFrame:
    text = _TEXT[path.name]
    names = pd.read_csv(path, nrows=0).columns
    missing = {name: [""] for name in names if name not in text}
    kinds = dict.fromkeys(text, "str")
    found = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=missing)
    return found[[*text, *(name for name in names if name not in text)]]
