"""The tables of results/audit/README.md, from the two files beside it.

``python docs/tools/audit.py`` writes them into the page, between its two marks.
"""

from pathlib import Path
from typing import Any

import pandas as pd

RESULTS = Path(__file__).parents[2] / "results" / "audit"
PAGE = RESULTS / "README.md"
BEGIN, END = "<!-- tables: docs/tools/audit.py -->", "<!-- end of tables -->"
MARKS = {"held": "held", "violated": "**violated**", "too few runs": "–"}
STOPPED = ("sequential", "compare")
LITERALLY = ": all steps, unclipped"


def tables() -> str:
    """A table of verdicts and one of warnings for each group of schemes."""
    rows = pd.read_csv(RESULTS / "coverage.csv")
    given = pd.read_csv(RESULTS / "warnings.csv").query("warning in ['dependent steps', 'drift']")
    fixed = ("auto", "holdout")
    paper = tuple(name for name in rows["scheme"].unique() if name not in (*fixed, *STOPPED))
    means = rows[~rows["scheme"].isin(paper) | rows["statement"].str.startswith("mean over")]
    groups = {
        "Everything at once: scheme `auto`": ("auto",),
        "One bound: scheme `holdout`": ("holdout",),
        "The paper's schemes": paper,
        "Stopping early": ("sequential",),
        "Comparisons": ("compare",),
    }
    parts = []
    for title, schemes in groups.items():
        here, warned = (t[t["scheme"].isin(schemes)].copy() for t in (means, given))
        if here.empty:
            continue
        here["name"] = [_name(statement) for statement in here["statement"]]
        order = {name: place for place, name in enumerate(dict.fromkeys(here["name"]))}
        last = here["name"].str.contains(LITERALLY, regex=False)
        here = here.iloc[(last * len(order) + here["name"].map(order)).argsort(kind="stable")]
        here["cell"] = [_cell(row) for row in here.itertuples()]
        here["task"] = here["task"] + " (" + here["runs"].astype(str) + ")"
        head = ["name"] if len(schemes) == 1 else ["scheme", "name"]
        parts += [f"#### {title}", "", _table(here, head, "cell")]
        if len(warned):
            parts.append(_table(warned, [*head[:-1], "warning"], "fired"))
    return "\n".join(parts)


def _name(statement: str) -> str:
    """The largest share that is stated depends on the number of episodes."""
    statement, literal, _ = statement.partition(LITERALLY)
    kind, _, share = statement.partition(", ")
    if kind == "tolerance" and share and share not in ("80.0 %", "90.0 %", "95.0 %"):
        statement = "tolerance, largest share"
    elif kind != "tolerance":
        statement = kind
    return f"{statement}{literal}"


def _cell(row: Any) -> str:
    upper = f" to {row.violated + row.inconclusive}" if row.inconclusive else ""
    beside = {"made": "", "assumption violated": "*", "not made": "†"}[row.claim]
    tight = "" if pd.isna(row.tightness) else f"; {row.tightness:.2g}"
    return f"{row.violated}{upper} of {row.nominal:.3g} {MARKS[row.verdict]}{beside}{tight}"


def _table(rows: pd.DataFrame, index: list[str], values: str) -> str:
    """A line for each key and a column for each task, in the order in which they occur."""
    tasks = list(dict.fromkeys(rows["task"]))
    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows.to_dict("records"):
        cells.setdefault(tuple(row[name] for name in index), {})[row["task"]] = row[values]
    lines = [[*index, *tasks], ["---"] * (len(index) + len(tasks))]
    lines += [[*key, *(found.get(task, "") for task in tasks)] for key, found in cells.items()]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def page() -> str:
    """The page with the tables of now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
