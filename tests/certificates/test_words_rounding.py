"""What is printed bounds what was computed: upper bounds are rounded up, lower ones down."""

import pytest

from tightrope.certificates.companions import Companion
from tightrope.certificates.words import outward, percent, up


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (8.86918, "8.87"),
        (0.0301869, "0.03019"),
        (77.9, "77.9"),
        (1.0, "1"),
        (0.0, "0"),
        (123456, "1.235e+05"),
    ],
)
def test_upper_bounds_are_rounded_up(value, printed):
    assert up(value) == printed
    assert float(printed) >= value


@pytest.mark.parametrize(
    ("confidence", "printed"), [(0.965, "96.5%"), (0.9996, "99.9%"), (0.9, "90.0%")]
)
def test_confidences_are_rounded_down(confidence, printed):
    assert percent(confidence) == printed


@pytest.mark.parametrize(
    ("side", "bound", "printed"),
    [
        ("at least", 241.4999, "241.4"),
        ("at least", -3.00001, "-3.001"),
        ("at most", 0.20011, "0.2002"),
    ],
)
def test_companions_are_rounded_to_their_safe_side(side, bound, printed):
    assert outward(Companion("x", side, bound, 0.975, 100, bound)) == printed
