"""Tables of a study: the numbers of a plain loop, in Markdown and LaTeX that survive any name."""

import re

import numpy as np
import pandas as pd
import pytest
from study_tables import study_table, with_bounds, without_tests

from tightrope.errors import InputError
from tightrope.studies.tables import (
    instance_numbers,
    tables_latex,
    tables_markdown,
    write_tables,
)

SMALL = {"environments": ("Hopper-v4",), "presets": ("tight",), "schemes": ("rec-6", "rec-2")}


def cells(text):
    """Rows of numbers in a Markdown table: (level, instance, values)."""
    lines = [line for line in text.splitlines() if re.match(r"\| (starter|interm|expert)", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_numbers_are_means_over_repetitions_of_the_main_slice():
    table = study_table(**SMALL, sampling=("local", "weights"), episodes=(25, 100))
    numbers = instance_numbers(table)
    assert len(numbers) == 3 * 3 * 2  # levels, instances, schemes
    for row in numbers.to_dict("records"):
        same = [
            each
            for each in table.to_dict("records")
            if (each["sampling"], each["episodes"]) == ("local", 100)
            and all(each[name] == row[name] for name in ("level", "instance", "scheme"))
        ]
        assert row["repetitions"] == len(same) == 5
        for name in ("train_error", "test_error", "bound"):
            assert row[name] == pytest.approx(np.mean([each[name] for each in same]))


def test_every_agent_environment_preset_and_unit_has_a_table():
    table = study_table(agents=("redq", "sac"), units=("step", "episode"), repetitions=1)
    numbers = instance_numbers(table)
    titles = [line for line in tables_markdown(numbers).splitlines() if line.startswith("### ")]
    assert len(titles) == len(set(titles)) == 2 * 2 * 2 * 2
    assert tables_latex(numbers).count("\\begin{table}") == 16


def test_markdown_has_the_numbers_in_the_order_of_levels_instances_and_schemes():
    numbers = instance_numbers(study_table(**SMALL, instances=("10", "9")))
    text = tables_markdown(numbers)
    assert "| rec-2 train | rec-2 test | rec-2 bound | rec-6 train |" in text
    rows = cells(text)
    assert [row[:2] for row in rows[:3]] == [
        ["starter", "9"],
        ["starter", "10"],
        ["intermediate", "9"],
    ]
    value = numbers[
        (numbers["level"] == "starter")
        & (numbers["instance"] == "9")
        & (numbers["scheme"] == "rec-2")
    ].iloc[0]
    assert [float(cell) for cell in rows[0][2:5]] == pytest.approx(
        [value["train_error"], value["test_error"], value["bound"]], rel=5e-3
    )


def test_latex_has_the_same_numbers_as_markdown_and_as_many_cells_as_columns():
    numbers = instance_numbers(study_table(**SMALL))
    text = tables_latex(numbers)
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert {line.count("&") for line in lines[1:]} == {2 + 3 * 2 - 1}
    assert lines[0].count("\\multicolumn{3}{c}") == 2
    assert "\\cmidrule(lr){3-5}\\cmidrule(lr){6-8}" in text
    assert "{llrrrrrr}" in text
    shown = [re.findall(r"\$([0-9.]+)\$", line) for line in lines[2:]]
    assert shown == [row[2:] for row in cells(tables_markdown(numbers))]
    for name in ("table", "tabular"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") == 1
    assert text.count("{") == text.count("}")
    assert [text.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 3, 1]


def test_missing_numbers_are_dashes():
    table = study_table(**SMALL)
    table = table[(table["level"] != "starter") | (table["scheme"] != "rec-2")]
    numbers = instance_numbers(without_tests(table))
    row = cells(tables_markdown(numbers))[0]
    assert row[2:5] == ["\u2013"] * 3  # no certificate
    assert row[6] == "\u2013"  # no test error
    assert float(row[7]) > 0
    assert "-- & -- & --" in tables_latex(numbers)


def test_small_numbers_are_powers_of_ten_in_latex():
    table = with_bounds(study_table(**SMALL), 0.0000123)
    assert r"$1.23\times10^{-5}$" in tables_latex(instance_numbers(table))


HOSTILE = "<script>a_b%&#{}$~^\\|*`[x](y),--\n"


def test_hostile_names_are_escaped():
    axes = {**SMALL, "environments": (HOSTILE,), "agents": ("a|b",), "levels": ("x_1",)}
    numbers = instance_numbers(study_table(**axes, instances=("a&b",)))
    markdown, latex = tables_markdown(numbers), tables_latex(numbers)
    assert "<script>" not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {9}
    escaped = (
        r"\textless{}script\textgreater{}a\_b\%\&\#\{\}\$\textasciitilde{}\textasciicircum{}"
        r"\textbackslash{}\textbar{}*`[x](y),-{}-{} "
    )
    assert escaped in latex
    assert r"a\&b & $" in latex
    body = latex.replace("% Needs", "", 1).replace("{%\n", "{\n")
    assert not re.search(r"(?<!\\)[%#~]", body)
    assert latex.count(r"\textbar{}b") == 1


def test_tables_are_written_in_three_formats_and_replaced(tmp_path):
    table = study_table(**SMALL)
    (tmp_path / "instances.md").write_text("old")
    files = write_tables(table, tmp_path)
    assert [path.name for path in files] == ["instances.csv", "instances.md", "instances.tex"]
    numbers = instance_numbers(table)
    again = pd.read_csv(files[0], dtype={"instance": str})
    pd.testing.assert_frame_equal(again, numbers, check_dtype=False)
    assert files[1].read_text("utf-8") == tables_markdown(numbers)
    assert files[2].read_text("utf-8") == tables_latex(numbers)


def test_an_empty_table_gives_headings_only():
    numbers = instance_numbers(study_table(**SMALL)[:0])
    assert "|" not in tables_markdown(numbers)
    assert "\\begin" not in tables_latex(numbers)


def test_a_table_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="columns of a study"):
        write_tables(pd.DataFrame({"bound": [0.1]}), tmp_path / "tables")
    assert not (tmp_path / "tables").exists()
