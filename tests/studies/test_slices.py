"""Which rows of a table may stand side by side."""

import pandas as pd
from study_tables import study_table

from tightrope.studies.slices import in_order, main, ordered, validation_sizes


def test_the_main_slice_is_local_with_the_largest_set_of_the_agent_in_the_environment():
    many = study_table(environments=("A",), sampling=("local", "weights"), episodes=(25, 100))
    few = study_table(environments=("B",), episodes=(40,))
    weights = study_table(environments=("B",), sampling=("weights",), episodes=(80,))
    shown = main(pd.concat([many, few, weights], ignore_index=True))
    pairs = set(zip(shown["environment"], shown["sampling"], shown["episodes"], strict=True))
    assert pairs == {("A", "local", 100), ("B", "local", 40)}
    assert len(shown) == len(many) / 4 + len(few)


def test_only_environments_with_several_sizes_tell_of_validation_sizes():
    many = study_table(environments=("A",), sampling=("local", "weights"), episodes=(25, 100))
    few = study_table(environments=("B",), episodes=(40,))
    shown = validation_sizes(pd.concat([many, few], ignore_index=True))
    assert set(shown["environment"]) == {"A"}
    assert set(shown["sampling"]) == {"local"}


def test_the_order_of_rows_is_forgotten():
    table = study_table(repetitions=2)
    shuffled = table.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(ordered(shuffled), ordered(table))


def test_names_come_in_the_order_of_expertise_and_depth():
    levels = ["mine", "expert", "starter", "intermediate"]
    assert in_order("level", levels) == ["starter", "intermediate", "expert", "mine"]
    schemes = ["auto", "holdout", "10,20,70", "rec-10", "rec-6", "rec-2", "nonrec-noninf"]
    expected = ["nonrec-noninf", "rec-2", "rec-6", "rec-10", "holdout", "auto", "10,20,70"]
    assert in_order("scheme", schemes) == expected
    assert in_order("environment", ["b", "a", "b"]) == ["a", "b"]
