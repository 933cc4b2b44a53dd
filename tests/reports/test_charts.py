"""Charts draw the numbers that they are given, where their axes say."""

import re

import numpy as np
import pytest

from tightrope.reports.charts import Axis, Chart, Series, number, short, spread


def chart(*series, x=None, y=None):
    axes = x or Axis("x", 0.0, 10.0), y or Axis("y", 0.0, 4.0)
    return Chart("key", "says", *axes, series)


def path(shape, x, y, lower=None, **axes):
    drawn = chart(Series("s", "role", shape, np.array(x), np.array(y), lower), **axes)
    ((_, d),) = drawn.paths
    return d


def test_a_line_goes_through_its_points_upward_and_to_the_right():
    assert path("line", [0, 5, 10], [0, 1, 4]) == "M0 1000L500 750L1000 0"


def test_steps_keep_their_value_until_the_next_point():
    assert path("steps", [0, 5, 10], [0, 1, 4]) == "M0 1000L500 1000L500 750L1000 750L1000 0"


def test_an_area_goes_along_one_edge_and_back_along_the_other():
    d = path("area", [0, 10], [4, 4], lower=np.array([0, 1]))
    assert d == "M0 0L1000 0L1000 750L0 1000Z"


def test_dots_rules_and_bars_stand_at_their_values():
    assert path("dots", [5], [2]) == path("targets", [5], [2]) == "M500 500h.1"
    assert path("rule", [0], [3]) == "M0 250H1000"
    assert path("bars", [2, 4], [1, 2]) == "M100 1000V750h200V1000ZM300 1000V500h200V1000Z"


def test_what_lies_outside_stays_on_the_edge():
    assert path("line", [-5, 20], [9, -9]) == "M0 0L1000 1000"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (-0.3, 0.35, ["-0.2", "0", "0.2"]),
        (0.0, 2.4e6, ["0", "500,000", "1,000,000", "1,500,000", "2,000,000"]),
        (1e-9, 5e-9, ["1e-09", "2e-09", "3e-09", "4e-09", "5e-09"]),
    ],
)
def test_ticks_are_round_inside_and_in_place(low, high, expected):
    ticks = Axis("a", low, high).ticks
    assert [text for _, text in ticks] == [t.replace("-0.", "\N{MINUS SIGN}0.") for t in expected]
    for place, text in ticks:
        value = float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))
        assert place == pytest.approx(100 * (value - low) / (high - low), abs=1e-6)


@pytest.mark.parametrize("values", [[3.0], [0.0], [-7.0, -7.0], [1e9, 1e9 + 1]])
def test_an_axis_around_values_that_hardly_differ_has_room_and_ticks(values):
    axis = Axis.around("a", values)
    assert axis.low < min(values) <= max(values) < axis.high
    assert len(axis.ticks) >= 2


def test_a_spread_keeps_both_ends_and_the_order():
    values = np.random.default_rng(0).normal(size=1000)
    kept = spread(values, 7)
    assert len(kept) == 7
    assert (np.diff(kept) > 0).all()
    assert {int(values.argmin()), int(values.argmax())} <= set(kept.tolist())
    ranks = np.sort(np.argsort(np.argsort(values))[kept])
    assert np.abs(np.diff(ranks) - 166.5).max() <= 1
    np.testing.assert_array_equal(spread(values[:5], 7), np.arange(5))


def test_numbers_have_four_digits_and_no_more():
    assert [number(v) for v in (1234.56, 0.0123456, 0.0, 12345678.0)] == [
        *("1,235", "0.01235", "0", "12,350,000")
    ]
    assert number(-2.5) == "\N{MINUS SIGN}2.5"
    assert re.fullmatch(r"1\.23e-07", short(1.2345e-7))
