"""The contract of a study's table: what is refused, and in which words."""

import io

import pandas as pd
import pytest
from study_tables import study_table, with_bounds, without_tests

from tightrope.errors import InputError
from tightrope.studies.columns import COLUMNS, DTYPES, check


def small(**axes):
    return study_table(environments=("Hopper-v4",), presets=("tight",), repetitions=2, **axes)


def test_a_table_of_a_study_passes_with_and_without_test_errors_rows_and_further_columns():
    table = small()
    check(table)
    check(table[:0])
    check(without_tests(table))
    check(table.assign(remark="mine"))


def test_a_table_read_back_from_csv_passes_if_its_types_are_named():
    table = small()
    stream = io.StringIO(table.to_csv(index=False))
    again = pd.read_csv(stream, dtype=DTYPES, keep_default_na=False, na_values={"test_error": [""]})
    check(again)
    assert again["instance"].tolist() == table["instance"].tolist()  # "0" is no number
    with pytest.raises(InputError, match="'instance' of type str"):
        check(pd.read_csv(io.StringIO(table.to_csv(index=False))))


@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
def test_a_missing_column_is_named(column):
    with pytest.raises(InputError, match=f"'{column}'"):
        check(small().drop(columns=column))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("instance", 3, "'instance' of type str"),
        ("episodes", 99.5, "'episodes' of type int"),
        ("void", 0, "'void' of type bool"),
        ("kl", "12", "'kl' of type float"),
        ("kl", True, "'kl' of type float"),
        ("preset", "loose", "among paper, tight, found 'loose'"),
        ("unit", "steps", "among step, episode"),
        ("sampling", "global", "among local, weights"),
        ("bound", float("nan"), "every row of 'bound'"),
        ("bound", 1.5, r"in \[0, 1\], found 1.5"),
        ("bound", -0.1, r"in \[0, 1\], found -0.1"),
        ("tightness", 0.9, "bound - test_error"),
        ("repetition", 0, "one row per certificate, found two of preset tight"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(column, value, said):
    with pytest.raises(InputError, match=said) as refusal:
        check(small().assign(**{column: value}))
    assert "\n" not in str(refusal.value)


def test_the_ends_of_a_normalised_bound_are_allowed():
    check(with_bounds(small(), 0.0))
    check(with_bounds(small(), 1.0))


def test_every_column_has_one_line_of_meaning():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert all(column.meaning and "\n" not in column.meaning for column in COLUMNS)
