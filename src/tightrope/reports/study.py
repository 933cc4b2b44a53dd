"""The HTML page of a study: its claims beside the paper's, its figures and its conditions."""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pandas as pd

from tightrope.files import write_text
from tightrope.reports.charts import number
from tightrope.reports.render import figure_svg, render
from tightrope.studies.certificate_records import POLICY, RUN
from tightrope.studies.claims import CLAIMS, PAPER, ClaimResult
from tightrope.studies.paper_figures import READINGS
from tightrope.studies.results import Results
from tightrope.studies.summary_statistics import in_order, main_comparison

__all__ = ["study_page", "write_study_page"]

_TONES = {"supported": "good", "contradicted": "bad", "undecided": "warning"}  # else neutral
_PIXELS = 128  # of the page for an inch of a figure
_LISTED = 6  # names that are told one by one
_TITLES = {"scatter": "Bound and test error", "bounds": "Bounds", "tightness": "Tightness",
           "validation-size": "Validation sets", "sampling": "Local reparameterisation",
           "correlation": "Correlation"}  # fmt: skip
_COLUMNS = {"agent": "agent", "environment": "environment", "level": "level", "scheme": "scheme",
            "bound": "bound", "test_error": "test error", "constant_error": "constant",
            "tightness": "bound \N{MINUS SIGN} test", "r": "r", "points": "points",
            "instances": "instances", "mean_return": "return"}  # fmt: skip


def write_study_page(results: Results, folder: Path, **unfinished: Any) -> None:
    """Write report.html into a study's folder, or replace it; arguments are of the page.

    Raises:
        InputError: the page cannot be written.
    """
    write_text(folder / "report.html", study_page(results, folder, **unfinished))


def study_page(
    results: Results,
    folder: Path,
    *,
    failed: Mapping[str, str] = MappingProxyType({}),
    blocked: int = 0,
) -> str:
    """The page as one string: style, script and figures are inside.

    Args:
        results: to show.
        folder: of the study, or of its results.
        failed: names of the jobs that failed, and why.
        blocked: number of jobs that could not run for that.
    """
    name, about = _name(folder)
    found = {key: [each for each in results.claims if each.claim == key] for key in CLAIMS}
    return render(
        "study.html.j2",
        ["table.js"],
        title=f"Study {name}",
        about=about,
        failed=failed,
        blocked=blocked,
        claims=[(CLAIMS[key][0], PAPER[key], judged) for key, judged in found.items()],
        tones=_TONES,
        facts=_facts(results.table),
        groups=[(_TITLES[kind], READINGS[kind], drawn)
                for kind, drawn in _groups(results, folder).items()],
        columns=list(_COLUMNS.values()),
        conditions=list(_conditions(results.conditions)),
        files=[(file, link) for file in ("table.csv", "conditions.csv", "claims.csv",
                                         "instances.csv", "instances.tex", "figures/numbers.csv")
               if (link := _link(folder, file))],
        effect=_effect,
    )  # fmt: skip


def _name(folder: Path) -> tuple[str, str]:
    """What the study is called and is about, where its specification is kept."""
    try:
        document = json.loads((folder / "study.json").read_text("utf-8"))
        return str(document["name"]), str(document.get("about", ""))
    except (OSError, ValueError, KeyError, TypeError):
        return folder.resolve().name, ""


def _facts(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """What was studied, and from how much."""
    yield "certificates", f"{len(table):,} of {len(table.drop_duplicates(POLICY)):,} policies"
    yield "training runs", f"{len(table.drop_duplicates(RUN)):,}"
    for name in ("agent", "environment", "level", "scheme", "preset", "unit"):
        names = in_order(name, table[name])
        shown = ", ".join(names[:_LISTED]) + (" …" if len(names) > _LISTED else "")
        more = f"{len(names)}: " if len(names) > _LISTED else ""
        yield name + ("s" if len(names) > 1 else ""), more + shown
    yield "validation episodes", ", ".join(map(str, sorted(set(table["episodes"]))))
    yield "repetitions", f"up to {int(table['repetition'].max()) + 1}"
    tested = table[table["test_error"].notna() & ~table["void"]]
    above = int((tested["test_error"] > tested["bound"]).sum())
    yield "test error above the bound", f"{above:,} of {len(tested):,}"
    worse = int((tested["test_error"] >= tested["constant_error"]).sum())
    yield "predictor no better than a constant", f"{worse:,} of {len(tested):,}"
    vacuous = int(((table["bound"] >= 1) & ~table["void"]).sum())
    yield "vacuous, void", f"{vacuous:,}, {int(table['void'].sum()):,} of {len(table):,}"
    shares = sorted({f"{100 * share:.4g} %" for share in table["confidence"]})
    yield "confidence of each certificate", ", ".join(shares)


def _effect(claim: ClaimResult) -> str:
    """The effect with its interval, as text of three digits."""
    effect, low, high = map(_three, (claim.effect, claim.low, claim.high))
    return effect if math.isnan(claim.low) else f"{effect} ({low} to {high})"


def _groups(results: Results, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Figures of every kind, each with its width in pixels of the page and its files."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, drawn in results.figures.items():
        image = base64.b64encode(figure_svg(drawn.figure).encode()).decode()
        links = {kind: _link(folder, f"figures/{name}.{kind.lower()}") for kind in ("PDF", "PNG")}
        figure = {
            "about": drawn.about,
            "image": f"data:image/svg+xml;base64,{image}",
            "width": round(_PIXELS * drawn.figure.get_figwidth()),
            "files": [(kind, link) for kind, link in links.items() if link],
        }
        found.setdefault(drawn.kind, []).append(figure)
    return found


def _conditions(table: pd.DataFrame) -> Iterator[tuple[str, list[list[tuple[str, Any]]]]]:
    """For every preset and unit: rows of cells, as text and as what they are sorted by."""
    for (preset, unit), part in main_comparison(table).groupby(["preset", "unit"], sort=True):
        part = part.sort_values(["agent", "environment", "level", "scheme"], key=_places)
        rows = part[list(_COLUMNS)].itertuples(index=False, name=None)
        yield f"Preset {preset}, unit {unit}", [list(map(_cell, _COLUMNS, row)) for row in rows]


def _places(names: "pd.Series[str]") -> "pd.Series[int]":
    order = in_order(str(names.name), names)
    return names.map({name: place for place, name in enumerate(order)})


def _cell(name: str, value: Any) -> tuple[str, Any]:
    """A value as text of three digits, r of two decimals, and what it is sorted by."""
    if not isinstance(value, float):
        return str(value), value
    if math.isnan(value):
        return "", ""
    text = f"{value:.2f}".replace("-", "\N{MINUS SIGN}") if name == "r" else _three(value)
    return text, value


def _three(value: float) -> str:
    return number(float(f"{value:.3g}"))


def _link(folder: Path, name: str) -> str:
    """Where a file of the results is from the page; nothing if it is not there."""
    for path in (f"results/{name}", name):
        if (folder / path).is_file():
            return "./" + quote(path)
    return ""
