"""The tables of results/audit/README.md, from the files beside it.

``python docs/tools/audit.py`` writes them into the page, between its two marks.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "audit" / "README.md"
RESULTS = ROOT / "results" / "audit"
BEGIN, END = "<!-- tables: docs/tools/audit.py -->", "<!-- end of tables -->"
PROCESSES = (
    *("independent", "correlated", "catastrophes", "clipping", "survivorship", "time-limit"),
    *("drifting", "hopper"),
)
# Title, runs (columns) and schemes of each group of tables.
GROUPS = (
    ("Everything at once: scheme `auto`", PROCESSES, ("auto",)),
    ("One bound: scheme `holdout`", PROCESSES, ("holdout",)),
    (
        "The paper's schemes",
        ("independent-pac-bayes", "correlated-pac-bayes"),
        ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6"),
    ),
    ("Stopping early", ("independent-until", "correlated-until"), ("sequential",)),
)
MARKS = {"kept": "kept", "broken": "**broken**", "too few runs": "–"}


def tables() -> str:
    """All of them."""
    parts = []
    for title, runs, schemes in GROUPS:
        there = [run for run in runs if (RESULTS / f"{run}.csv").is_file()]
        if not there:
            continue
        parts += [f"#### {title}", "", *_verdicts(there, schemes), ""]
        parts += [*_warnings(there, schemes), ""]
    return "\n".join(parts)


def _verdicts(runs: Sequence[str], schemes: Sequence[str]) -> Iterable[str]:
    found = {run: _rows(run, schemes) for run in runs}
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    names.sort(key=lambda name: (schemes.index(name[0]), name[1].startswith("all ")))
    repetitions = [next(iter(found[run].values()))["runs"] for run in runs]
    titles = [f"{run} ({count})" for run, count in zip(runs, repetitions, strict=True)]
    yield from _head(["statement", "promise", *titles])
    for name in names:
        here = [found[run].get(name) for run in runs]
        promises = sorted({f"{float(row['promise']):.3g}" for row in here if row})
        label = name[1] if len(schemes) == 1 else f"{name[0]}: {name[1]}"
        yield _line([label, " / ".join(promises), *map(_cell, here)])


def _cell(row: dict[str, str] | None) -> str:
    if row is None:
        return ""
    broken, unclear = int(row["broken"]), int(row["unclear"])
    share = str(broken) if not unclear else f"{broken} to {broken + unclear}"
    tight = f"; {float(row['tightness']):.2g}" if row["tightness"] else ""
    outside = "*" if row["assumption"] == "broken" else ""
    return f"{share} {MARKS[row['verdict']]}{outside}{tight}"


def _warnings(runs: Sequence[str], schemes: Sequence[str]) -> Iterable[str]:
    yield from _head(["warning", *runs])
    found = {
        run: {(row["scheme"], row["warning"]): row for row in _read(f"{run}-warnings")}
        for run in runs
    }
    for scheme in schemes:
        for warning in ("dependent steps", "drift"):
            here = [found[run].get((scheme, warning)) for run in runs]
            label = warning if len(schemes) == 1 else f"{scheme}: {warning}"
            yield _line([label, *(row["fired"] if row else "" for row in here)])


def _rows(run: str, schemes: Sequence[str]) -> dict[tuple[str, str], dict[str, str]]:
    """By scheme and statement; the largest share that is stated has another name in each run."""
    rows = [row for row in _read(run) if row["scheme"] in schemes]
    if len(schemes) > 1:  # they differ in nothing else
        rows = [row for row in rows if row["statement"].startswith("mean risk")]
    return {(row["scheme"], _name(row["statement"])): row for row in rows}


def _name(statement: str) -> str:
    kind, _, share = statement.partition(", ")
    if not share.endswith("%") or (kind == "tolerance" and share in ("80.0 %", "90.0 %")):
        return statement
    return f"{kind}, largest share" if kind == "tolerance" else kind


def _read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _head(titles: Sequence[str]) -> Iterable[str]:
    return _line(titles), _line(["---"] * len(titles))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page with the tables of now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
