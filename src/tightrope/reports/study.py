"""The HTML page of a study: what its data say of each claim, its figures, and its certificates."""

import base64
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from tightrope.files import write_text
from tightrope.reports.charts import Table, number
from tightrope.reports.judgements import claims_shown, legend, scale
from tightrope.reports.render import as_json, render
from tightrope.reports.rows import Certificates
from tightrope.studies.findings import Findings, Picture, load_findings
from tightrope.studies.study_status import duration
from tightrope.studies.wording import one_line

__all__ = ["study_page", "write_study_page"]

_SMALL = 120_000  # bytes of a drawing up to which it is preferred to a picture in dots
_COLOURS = 128  # of such a picture: few hues, and the edges of letters
_ROWS = 60  # of the numbers behind a figure that the page has itself
_LISTED = 6  # names that are told one by one


@dataclass(frozen=True)
class Drawn:
    """A figure on the page."""

    name: str
    about: str
    agent: int
    preset: int
    unit: int
    image: str
    width: int  # of the drawing at its own size, in pixels
    says: str
    numbers: Table
    rest: int  # rows of numbers that are left to the file
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Group:
    """A kind of figure, with one for each agent, preset and unit."""

    key: str
    title: str
    reading: str
    figures: tuple[Drawn, ...]
    missing: str


def write_study_page(folder: Path) -> Findings:
    """Write report.html into the folder of a study, or draw it anew; returns what it shows.

    Raises:
        InputError: there is no study, or not one certificate of it, or the page cannot be written.
    """
    findings = load_findings(folder)
    write_text(folder / "report.html", study_page(findings))
    return findings


def study_page(findings: Findings) -> str:
    """The page as one string: style, script, figures and data are inside."""
    f, rows = findings, Certificates(findings.table, findings.folder)
    chart = rows.scatter()
    data = {"charts": {} if chart is None else {chart.key: chart.data()}, **rows.data()}
    head, conditions = rows.conditions(f.metrics)
    claims = claims_shown(f.claims)
    return render(
        "study.html.j2",
        ["chart.js", "table.js", "study.js"],
        title=f"Study {f.name}",
        about=f.about,
        state=_state(f),
        failed=f.failed,
        policies=len(f.table.drop_duplicates(["agent", "environment", "instance", "level"])),
        certificates=len(f.table),
        verdicts=Counter(claim.overall.verdict for claim in claims),
        claims=claims,
        legend=legend(),
        reach=number(scale(f.claims)),
        facts=_facts(f, rows),
        filters=[(name, rows.title(name), values) for name, values in rows.filters.items()],
        chart=chart,
        groups=_groups(f, rows),
        head=head,
        conditions=conditions,
        conditions_left=len(f.metrics) - len(conditions),
        columns=rows.columns,
        rows=list(zip(rows.static_rows(), rows.links, strict=False)),
        linked=any(rows.links),
        table_file=_file(f, "table.csv"),
        metrics_file=_file(f, "metrics.csv"),
        versions=list(f.versions.items()),
        data=as_json(data),
        number=number,
    )


def _state(f: Findings) -> tuple[str, str, str]:
    """Tone, word and sentence on how far the study is."""
    done = sum(f.done.values())
    if not f.document:
        return "certified", "Results", "Drawn from the tables of a study that are kept here."
    if f.planned is None:
        return (
            "steps",
            "As far as it is",
            f"{done:,} jobs are done; how many were asked for was not kept.",
        )
    total = sum(f.planned.jobs.values())
    here = f"{len(f.table):,} of {f.planned.certificates:,} certificates"
    if done >= total:
        return "certified", "Complete", f"All {total:,} jobs are done."
    failed = f", {len(f.failed):,} failed" if f.failed else ""
    return (
        "steps",
        "Unfinished",
        f"{done:,} of {total:,} jobs are done{failed}: everything below is from {here}. The same "
        "command goes on where it stopped.",
    )


def _facts(f: Findings, rows: Certificates) -> list[tuple[str, str]]:
    """What was studied, and from how much."""
    t = f.table
    found = [(f"{rows.title(name).capitalize()}{'' if len(values) == 1 else 's'}", _names(values))
             for name, values in rows.names.items()
             if name not in ("instance", "episodes")]  # fmt: skip
    found.append(("Validation episodes", _names(rows.names["episodes"])))
    runs = len(t.drop_duplicates(["agent", "environment", "instance"]))
    found.append(("Training runs", f"{runs:,}, instances {_names(rows.names['instance'])}"))
    found.append(("Repetitions", f"up to {int(t['repetition'].max()) + 1}"))
    if "test_episodes" in f.document:
        found.append(("Test episodes", f"{f.document['test_episodes']} of each policy"))
    tested = t[t["test_error"].notna() & ~t["void"]]
    above = int((tested["test_error"] > tested["bound"]).sum())
    vacuous, void = int(((t["bound"] >= 1) & ~t["void"]).sum()), int(t["void"].sum())
    found += [
        ("Test error above the bound", f"{above:,} of {len(tested):,} certificates"),
        ("Vacuous bounds, and void ones", f"{vacuous:,} and {void:,} of {len(t):,}"),
        ("Confidence of each certificate", _range(100 * t["confidence"], " %")),
    ]
    if f.done:
        jobs = ", ".join(f"{count:,} {stage}" for stage, count in sorted(f.done.items()))
        found.append(("Jobs done", f"{jobs}; {duration(f.seconds)} of one core"))
    if "seed" in f.document:
        found.append(("Seed", str(f.document["seed"])))
    return found


def _names(values: list[str]) -> str:
    if len(values) <= _LISTED:
        return ", ".join(values)
    return f"{len(values):,}: {', '.join(values[: _LISTED - 1])} …"


def _range(values: "pd.Series[float]", unit: str) -> str:
    low, high = (f"{float(value):.4g}" for value in (values.min(), values.max()))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _groups(f: Findings, rows: Certificates) -> list[Group]:
    """Every kind of figure in the order of the study, and those that it has no data for."""
    kinds: dict[str, tuple[Any, list[Drawn]]] = {}
    for picture in f.pictures:
        chart = picture.shown.chart
        kinds.setdefault(chart.name, (chart, []))[1].append(_drawn(f, rows, picture))
    missing: dict[str, list[str]] = {}
    for each in f.left_out:
        missing.setdefault(each.reason, []).append(each.figure)
    groups = [
        Group(name, chart.title, chart.reading, tuple(drawn), "")
        for name, (chart, drawn) in kinds.items()
    ]
    for reason, figures in missing.items():
        groups.append(
            Group("", "", "", (), f"Not drawn, for there is {reason}: {_names(figures)}.")
        )
    return groups


def _drawn(f: Findings, rows: Certificates, picture: Picture) -> Drawn:
    shown = picture.shown
    kind, content = "svg+xml", picture.svg
    if len(content) > _SMALL:
        kind, content = "png", _fewer_colours(picture.png)
    about = f"{one_line(shown.agent)}, preset {shown.preset}, unit {shown.unit}"
    numbers = picture.numbers.drop(columns=["preset", "unit", "agent"])
    kept = [] if f.results is None else [
        (ending.upper(), _link(f, f"figures/{shown.name}.{ending}"))
        for ending in ("svg", "pdf", "png", "csv")
    ]  # fmt: skip
    return Drawn(
        name=shown.name,
        about=about,
        agent=rows.code("agent", shown.agent),
        preset=rows.code("preset", shown.preset),
        unit=rows.code("unit", shown.unit),
        image=f"data:image/{kind};base64,{base64.b64encode(content).decode()}",
        width=_width(picture.svg),
        says=f"{shown.chart.title}: {about}. {len(numbers):,} rows of numbers are beside it.",
        numbers=Table(
            tuple(name.replace("_", " ") for name in numbers.columns),
            tuple(
                tuple(_cell(value) for value in row)
                for row in numbers.head(_ROWS).itertuples(index=False, name=None)
            ),
        ),
        rest=max(len(numbers) - _ROWS, 0),
        files=tuple((name, link) for name, link in kept if link),
    )


def _fewer_colours(png: bytes) -> bytes:
    """The same picture in about a third of the bytes."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(stream, format="PNG")
    return min(stream.getvalue(), png, key=len)


def _width(svg: bytes) -> int:
    """Of a drawing by matplotlib, in pixels of a page."""
    head = svg[:2000].decode("utf-8", "replace")
    _, _, after = head.partition('width="')
    points, _, _ = after.partition("pt")
    return round(float(points) * 96 / 72)


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _file(f: Findings, name: str) -> str:
    """Link to a file of the results, if it is there."""
    return "" if f.results is None else _link(f, name)


def _link(f: Findings, name: str) -> str:
    assert f.results is not None
    path = f.results / name
    return "./" + quote(path.relative_to(f.folder).as_posix()) if path.is_file() else ""
