"""(H.1), (H.4), (H.5) and (H.6) against 60-digit arithmetic; for betting see test_betting.py."""

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import (
    bet_loss,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    holdout_kl,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    risk_floor,
)

EXCESS = mp.mpf("1e-9")


def tail_up_to(k, n, p):
    """P(Bin(n, p) <= k), summed downward from k until the terms no longer matter."""
    term = mp.exp(mp.log(mp.binomial(n, k)) + k * mp.log(p) + (n - k) * mp.log1p(-p))
    total = mp.mpf(0)
    for j in range(k, -1, -1):
        total += term
        if j < n * p and term < total * mp.mpf("1e-45"):
            break
        term *= j * (1 - p) / ((n - j + 1) * p)
    return total


def assert_binomial_bounds_are_outward_and_near(k, n, delta):
    """(H.4), (H.5): at the bound the tail is at most delta; 1e-9 nearer to k/n it is not."""
    upper = mp.mpf(float(clopper_pearson_upper(k, n=n, delta=delta)))
    lower = mp.mpf(float(clopper_pearson_lower(k, n=n, delta=delta)))
    delta = mp.mpf(delta)
    for failures, bound in ((k, upper), (n - k, 1 - lower)):  # the lower bound mirrors the upper
        assert bound == 1 or tail_up_to(failures, n, bound) <= delta
        assert failures == n or tail_up_to(failures, n, bound - EXCESS) > delta


def test_holdout_kl_spends_the_chernoff_budget(rng):
    """(H.1) is (C.1) over the data."""
    risk, n = rng.random(20), rng.integers(1, 1000, 20)
    assert (holdout_kl(risk, n=n, delta=0.05) == monte_carlo_upper(risk, draws=n, delta=0.05)).all()
    # Clean sheet: 1 - delta^(1/n) = 1 - 0.05^(1/100) = 0.029513...
    assert holdout_kl(0.0, n=100, delta=0.05) == pytest.approx(1 - 0.05**0.01, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 50, 10_000, 10**9])
def test_the_floor_is_the_exact_value_rounded_down(n, rng):
    """(H.6)."""
    for mean in [0.0, 1e-300, 1e-12, 1.0, *rng.random(4)]:
        for delta in (1e-300, 1e-6, 0.025, 0.9, 1 - 2**-53):
            exact = 1 - (1 - mp.mpf(mean)) * mp.mpf(delta) ** (mp.mpf(1) / n)
            assert 0 <= exact - mp.mpf(float(risk_floor(mean, n=n, delta=delta))) < 1e-13 * exact


def test_no_bound_is_below_the_floor_and_an_all_in_bet_is_on_it(rng):
    """(H.6): sharp, since (H.3) with the single bet 1 prints it."""
    for mean, n in [(0.0, 5), (0.01, 50), (0.3, 30), (0.9, 200)]:
        values, floor = np.full(n, mean), risk_floor(mean, n=n, delta=0.025)
        assert betting_upper(values, delta=0.025, bets=[1]) == pytest.approx(floor, rel=1e-9)
        for bound in (
            holdout_kl(mean, n=n, delta=0.025),
            betting_upper(values, delta=0.025),
            pac_bayes_kl(mean, kl=0, n=n, delta=0.025),
            pac_bayes_bet(bet_loss(mean, 0.999), bet=0.999, kl=0, n=n, delta=0.025),
        ):
            assert bound >= floor


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 10_000])
def test_clopper_pearson_is_the_exact_binomial_bound_rounded_outward(n):
    for k in sorted({0, min(1, n), n // 10, n // 3, n - 1, n}):
        for delta in (1e-9, 0.025, 0.2, 0.7):
            assert_binomial_bounds_are_outward_and_near(k, n, delta)


@pytest.mark.parametrize(
    ("k", "n", "delta"),
    [
        (3, 76_788, 0.62163729367918),
        (999, 12_316, 2.0646620505219424e-23),
        (3, 8_141_191, 0.01573474047899002),
    ],
)
def test_clopper_pearson_is_rounded_outward_for_many_trials_and_tiny_delta(k, n, delta):
    assert_binomial_bounds_are_outward_and_near(k, n, delta)
