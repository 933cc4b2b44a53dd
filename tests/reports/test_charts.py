"""Charts draw the numbers that they are given, where their axes say."""

import re

import numpy as np
import pytest

from tightrope.reports.charts import Axis, Chart, Series, number, short, spread


def chart(*series, **more):
    return Chart("key", "says", Axis("x", 0.0, 10.0), Axis("y", 0.0, 4.0), series, **more)


def series(shape, x, y, lower=None, name="s"):
    return Series(name, "role", shape, np.array(x), np.array(y), lower)


PATHS = {
    "through its points, upward and to the right": (
        "line", [0, 5, 10], [0, 1, 4], "M0 1000L500 750L1000 0"
    ),
    "the value until the next point": (
        "steps", [0, 5, 10], [0, 1, 4], "M0 1000L500 1000L500 750L1000 750L1000 0"
    ),
    "along one edge and back along the other": (
        "area", [0, 10], [4, 4], "M0 0L1000 0L1000 750L0 1000Z"
    ),
    "a dot": ("dots", [5], [2], "M500 500h.1"),
    "a target": ("targets", [5], [2], "M500 500h.1"),
    "across": ("rule", [0], [3], "M0 250H1000"),
    "bars from 0": ("bars", [2, 4], [1, 2], "M100 1000V750h200V1000ZM300 1000V500h200V1000Z"),
    "outside stays on the edge": ("line", [-5, 20], [9, -9], "M0 0L1000 1000"),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "x", "y", "path"), PATHS.values(), ids=PATHS)
def test_a_path_goes_where_its_points_are(shape, x, y, path):
    lower = np.array([0, 1]) if shape == "area" else None
    ((_, drawn),) = chart(series(shape, x, y, lower)).paths
    assert drawn == path


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


def test_the_table_has_the_numbers_along_a_common_x_and_otherwise_point_by_point():
    one, x = series("line", [0, 5], [0.5, 1]), np.array([1])
    both = (one, Series("t", "role", "line", one.x, np.array([2, 3])))
    assert chart(*both).table == [["x", "s", "t"], ["0", "0.5", "2"], ["5", "1", "3"]]
    apart = (one, Series("t", "role", "dots", x, x))
    points = [["", "x", "y"], ["s", "0", "0.5"], ["s", "5", "1"], ["t", "1", "1"]]
    assert chart(*apart, nearest="point").table == points


def test_a_spread_keeps_both_ends_and_the_order():
    values = np.random.default_rng(0).normal(size=1000)
    kept = spread(values, 7)
    assert len(kept) == 7
    assert (np.diff(kept) > 0).all()
    assert {int(values.argmin()), int(values.argmax())} <= set(kept.tolist())
    np.testing.assert_array_equal(spread(values[:5], 7), np.arange(5))


def test_numbers_have_four_digits_and_no_more():
    values = {1234.56: "1,235", 0.0123456: "0.01235", 0.0: "0", 12345678.0: "12,350,000",
              -2.5: "\N{MINUS SIGN}2.5"}  # fmt: skip
    assert {value: number(value) for value in values} == values
    assert re.fullmatch(r"1\.23e-07", short(1.2345e-7))
