"""(C.1) and (C.2) against 60-digit arithmetic, (C.3) against exact fractions."""

from fractions import Fraction
from math import floor

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import effective_draws, monte_carlo_lower, monte_carlo_upper

EXCESS = mp.mpf("1e-9")
both = pytest.mark.parametrize("bound", [monte_carlo_upper, monte_carlo_lower])


def exact_kl(q, p):
    success = q * mp.log(q / p) if q > 0 else mp.mpf(0)
    return success + ((1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0)


@both
@pytest.mark.parametrize("draws", [1, 10, 1000, 100_000])
def test_the_bound_is_the_exact_value_rounded_outward(bound, draws, rng):
    """(C.1), (C.2): the result uses up ln(1/delta)/n; 1e-9 nearer to the mean does not."""
    inward = -EXCESS if bound is monte_carlo_upper else EXCESS
    for mean in [0.0, 1.0, 1e-9, *rng.random(5)]:
        delta = float(10 ** rng.uniform(-8, -0.1))
        found = mp.mpf(float(bound(mean, draws=draws, delta=delta)))
        q, budget = mp.mpf(mean), -mp.log(mp.mpf(delta)) / draws
        assert (found - q) * inward <= 0, (mean, delta)
        assert found in (0, 1) or exact_kl(q, found) >= budget, (mean, delta)
        nearer = found + inward
        if (nearer - q) * inward < 0 and 0 < nearer < 1:
            assert exact_kl(q, nearer) < budget, (mean, delta)


# --- Unequal weights (C.3) ------------------------------------------------------------------------


def test_equal_weights_are_worth_the_number_of_draws():
    """As floats, too, whichever way 1/n was rounded."""
    for n in (1, 2, 3, 7, 49, 300, 12_345):
        assert effective_draws(np.full(n, 1 / n)) == n
        assert effective_draws([Fraction(1, n)] * n) == n


def test_unequal_weights_are_worth_the_inverse_of_the_largest():
    assert effective_draws([0.5, 0.25, 0.25]) == 2
    assert effective_draws([Fraction(2, 5), Fraction(3, 10), Fraction(3, 10)]) == 2  # of 2.5
    assert effective_draws([1.0]) == 1
    halves = [0.5, *[0.5 / 29] * 29]
    assert sum(map(Fraction, halves)) < 1  # by rounding, and the rest is worth nothing
    assert effective_draws(halves) == 2


def test_the_number_is_never_above_the_exact_one(rng):
    """In exact arithmetic on the floats given, whatever their sum was rounded to."""
    for size in (2, 10, 500):
        for weights in rng.dirichlet(np.full(size, 3.0), 20):
            total = max(1, sum(map(Fraction, weights.tolist())))
            assert effective_draws(weights) == floor(total / Fraction(float(weights.max())))


def test_episodes_of_unequal_length_are_worth_their_shortest(rng):
    """Section C: passes x episodes x fewest rows, for the mean of episode means."""
    for passes in (1, 4):
        rows = rng.integers(3, 40, 12).tolist()
        weights = [Fraction(1, passes * 12 * r) for r in rows for _ in range(passes * r)]
        assert effective_draws(weights) == passes * 12 * min(rows)
        as_floats = effective_draws(np.array(weights, dtype=float).reshape(passes, -1))
        assert passes * 12 * min(rows) - 1 <= as_floats <= passes * 12 * min(rows)
