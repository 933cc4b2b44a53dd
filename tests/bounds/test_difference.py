"""Means of differences, anytime-valid: section D of docs/theory.md."""

from fractions import Fraction

import numpy as np
import pytest

from tightrope.bounds import difference_lower, difference_upper

BETS = [2.0**-k for k in range(20)]
WEIGHTS = [Fraction(1, (k + 1) * (k + 2)) for k in range(19)] + [Fraction(1, 20)]


def capital(values, d):
    """(D.1) as it is written, in exact arithmetic."""
    total = Fraction(0)
    for bet, weight in zip(BETS, WEIGHTS, strict=True):
        product = weight
        for value in values:
            product *= 1 - Fraction(bet) + Fraction(bet) * (1 + Fraction(value)) / (1 + Fraction(d))
        total += product
    return total


def sample(n, seed=0):
    return np.random.default_rng(seed).choice([-1.0, -0.25, 0.0, 0.5, 1.0], n).tolist()


def test_the_weights_of_the_default_bets_add_up_to_1():
    assert sum(WEIGHTS) == 1


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_the_lower_bound_is_where_the_capital_reaches_1_over_delta(n):
    """(D.1): excluded just below, not excluded a little above."""
    values = sample(n, seed=n)
    bound = float(difference_lower(values, delta=0.05))
    assert bound == -1 or capital(values, bound) >= 20
    assert capital(values, bound + 1e-9) < 20


def test_the_upper_bound_is_the_mirror_image():
    values = np.array(sample(30, seed=3))
    assert difference_upper(values, delta=0.05) == -difference_lower(-values, delta=0.05)
    assert difference_lower(values, delta=0.05) <= values.mean()
    assert difference_upper(values, delta=0.05) >= values.mean()


def test_n_equal_signs_are_decided_when_half_the_capital_doubles_often_enough():
    """With x = 1 throughout and d = 0 the largest bet alone has 2^n / 2, all others less."""
    needed = next(n for n in range(1, 99) if capital([1] * n, 0) >= 200)
    assert difference_lower([1] * (needed - 1), delta=0.005) < 0
    assert difference_lower([1] * needed, delta=0.005) > 0


def test_the_bets_do_not_know_how_many_values_there_will_be():
    """The bound on a beginning is the same, however it goes on: it is asked for n values only."""
    rows = np.stack([sample(12, seed) for seed in (1, 2)])
    each = [difference_lower(row, delta=0.05) for row in rows]
    np.testing.assert_array_equal(difference_lower(rows, delta=0.05), each)
