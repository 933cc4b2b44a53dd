"""(R.1) worked by hand and in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from tightrope.bounds import recursive_bound

ROUNDING = 1e-14  # the numbers below are exact in binary; the result is rounded up a little


def assert_rounded_up(found, expected):
    assert found.shape == np.shape(expected)
    assert (found >= expected).all()
    assert found == pytest.approx(np.asarray(expected), abs=ROUNDING)


def test_one_portion_is_the_first_bound():
    assert recursive_bound(0.75, []).tolist() == [0.75]
    assert recursive_bound(0.75, [], kappa=[]).tolist() == [0.75]


def test_three_portions_by_hand():
    # B_2 = 0.5 as above; B_3 = -0.0625 + 0.5 * 0.5 = 0.1875
    assert_rounded_up(recursive_bound(0.75, [0.125, -0.0625]), [0.75, 0.5, 0.1875])


def test_each_step_has_its_own_kappa():
    # B_2 = 0.125 + 0.25 * 0.75 = 0.3125; B_3 = -0.0625 + 1 * 0.3125 = 0.25
    found = recursive_bound(0.75, [0.125, -0.0625], kappa=[0.25, 1.0])
    assert_rounded_up(found, [0.75, 0.3125, 0.25])


def test_kappa_zero_forgets_and_kappa_one_adds_up():
    assert_rounded_up(recursive_bound(0.75, [0.5, 0.25], kappa=0), [0.75, 0.5, 0.25])
    assert_rounded_up(recursive_bound(0.75, [0.5, 0.25], kappa=1), [0.75, 1.25, 1.5])


def test_arrays_are_worked_column_by_column():
    # First column as in test_three_portions_by_hand but E_3 = 0.25: 0.25 + 0.25 = 0.5.
    # Second column: B_2 = 0.25 + 0.5 * 0.5 = 0.5; B_3 = 0.25 + 0.25 = 0.5.
    found = recursive_bound([0.75, 0.5], [[0.125, 0.25], 0.25])
    assert_rounded_up(found, [[0.75, 0.5], [0.5, 0.5], [0.5, 0.5]])
    # A scalar first bound broadcasts: B_2 = (0, 0.25) + 0.5 * 0.5.
    assert_rounded_up(recursive_bound(0.5, [[0.0, 0.25]]), [[0.5, 0.5], [0.25, 0.5]])


def test_rounding_never_falls_below_the_exact_fraction():
    """Six portions of random floats, with cancellation, against exact rational arithmetic."""
    rng = np.random.default_rng(20250104)
    for _ in range(300):
        first = float(10 ** rng.uniform(-6, 2))
        kappas = rng.random(5).tolist()
        excesses = (rng.normal(size=5) * 10 ** rng.uniform(-6, 2)).tolist()
        found = recursive_bound(first, excesses, kappa=kappas).tolist()
        exact, size = Fraction(first), abs(first)
        for bound, excess, kappa in zip(found[1:], excesses, kappas, strict=True):
            exact = Fraction(excess) + Fraction(kappa) * exact
            size += abs(excess)
            assert 0 <= Fraction(bound) - exact <= Fraction(ROUNDING * size)
