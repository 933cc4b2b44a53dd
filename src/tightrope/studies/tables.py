r"""Tables of a study: train error, test error and bound of every policy instance.

Numbers are means over the repetitions of the main slice. LaTeX needs the packages ``booktabs`` and
``graphicx`` and no other; names are escaped.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tightrope.files import replace_atomically
from tightrope.studies.slices import in_order, main, ordered
from tightrope.studies.wording import NONE, one_line

__all__ = ["instance_numbers", "tables_latex", "tables_markdown", "write_tables"]

_TABLE = ["preset", "unit", "agent", "environment"]  # one table each
_ROW = ["level", "instance"]
_VALUES = {"train_error": "train", "test_error": "test", "bound": "bound"}

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def instance_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """One row per preset, unit, agent, environment, level, instance and scheme.

    A test error is the mean over those repetitions that have one; void certificates count as the
    bound of 1 that they are.

    Raises:
        InputError: it is no table of a study.
    """
    groups = main(ordered(table)).groupby([*_TABLE, *_ROW, "scheme"])
    means = groups[list(_VALUES)].mean()
    return means.assign(repetitions=groups.size(), void=groups["void"].sum()).reset_index()


def tables_markdown(numbers: pd.DataFrame) -> str:
    """A Markdown table per preset, unit, agent and environment.

    Args:
        numbers: as :func:`instance_numbers` gives them.
    """
    blocks = []
    for title, schemes, rows in _tables(numbers):
        words = ", ".join(_markdown(part) for part in title)
        head = ["level", "instance"]
        head += [f"{_markdown(scheme)} {name}" for scheme in schemes for name in _VALUES.values()]
        lines = [_line(head), "|---|---|" + "---:|" * (len(head) - 2)]
        lines += [
            _line([_markdown(level), _markdown(instance), *(_number(value) for value in values)])
            for level, instance, values in rows
        ]
        blocks.append(f"### {words}\n\n" + "\n".join(lines))
    return "\n\n".join([_HEADING, *blocks]) + "\n"


_HEADING = """\
## Train error, test error and bound per instance

Means over the repetitions, normalised: 1 is the squared width of the return range."""


def tables_latex(numbers: pd.DataFrame) -> str:
    """A LaTeX table per preset, unit, agent and environment, to be included in a document.

    Args:
        numbers: as :func:`instance_numbers` gives them.
    """
    return "% Needs \\usepackage{booktabs,graphicx}\n" + "\n".join(
        _latex_table(title, schemes, list(rows)) for title, schemes, rows in _tables(numbers)
    )


def write_tables(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Write instances.csv, instances.md and instances.tex; files of these names are replaced.

    Raises:
        InputError: it is no table of a study, or the folder cannot be written to.
    """
    numbers = instance_numbers(table)
    texts = {
        "instances.csv": numbers.to_csv(index=False, lineterminator="\n"),
        "instances.md": tables_markdown(numbers),
        "instances.tex": tables_latex(numbers),
    }
    for name, text in texts.items():
        replace_atomically(folder / name, lambda path, text=text: _write(path, text))  # type: ignore[misc]
    return [folder / name for name in texts]


Row = tuple[str, str, list[float]]


def _tables(numbers: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], list[str], Iterator[Row]]]:
    """(preset, unit, agent, environment), schemes, and rows with the values of every scheme."""
    for key, part in numbers.groupby(_TABLE, sort=True):
        schemes = in_order("scheme", part["scheme"])
        yield tuple(str(name) for name in key), schemes, _rows(part, schemes)


def _rows(part: pd.DataFrame, schemes: list[str]) -> Iterator[Row]:
    values = part.set_index([*_ROW, "scheme"])[list(_VALUES)]
    for level in in_order("level", part["level"]):
        for instance in in_order("instance", part["instance"][part["level"] == level]):
            keys = [(level, instance, scheme) for scheme in schemes]
            # (schemes, 3), missing where there is no certificate
            yield level, instance, values.reindex(keys).to_numpy(dtype=float).ravel().tolist()


def _latex_table(title: tuple[str, ...], schemes: list[str], rows: list[Row]) -> str:
    preset, unit, agent, environment = (_latex(part) for part in title)
    width = len(_VALUES)
    over = [f"\\multicolumn{{{width}}}{{c}}{{{_latex(scheme)}}}" for scheme in schemes]
    rules = [
        f"\\cmidrule(lr){{{3 + width * place}-{2 + width * (place + 1)}}}"
        for place in range(len(schemes))
    ]
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{Normalised train error, test error and bound for {agent} on {environment}"
        f" (preset {preset}, unit {unit}; means over repetitions)}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{ll{'r' * width * len(schemes)}}}",
        "\\toprule",
        " & ".join(["", "", *over]) + r" \\",
        "".join(rules),
        " & ".join(["level", "instance", *list(_VALUES.values()) * len(schemes)]) + r" \\",
    ]
    before = None
    for level, instance, values in rows:
        if level != before:
            lines.append("\\midrule")
        shown = "" if level == before else _latex(level)
        cells = [shown, _latex(instance), *(_latex_number(value) for value in values)]
        lines.append(" & ".join(cells) + r" \\")
        before = level
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}}", "\\end{table}", ""])


def _number(value: float) -> str:
    """Three digits; these are means that describe, not promises that must be rounded up."""
    return NONE if pd.isna(value) else f"{value:#.3g}"


def _latex_number(value: float) -> str:
    digits, _, power = _number(value).partition("e")
    if digits == NONE:
        return "--"
    return f"${digits}\\times10^{{{int(power)}}}$" if power else f"${digits}$"


def _latex(name: str) -> str:
    text = "".join(_LATEX.get(letter, letter) for letter in one_line(name))
    return text.replace("--", "-{}-{}")  # two hyphens, not a dash


def _markdown(name: str) -> str:
    """A name that Markdown shows as it is: no markup, no cell of its own, no HTML."""
    safe = one_line(name).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in "\\`*_[]|~$" else letter for letter in safe)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
