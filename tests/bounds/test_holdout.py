"""Section H against 60-digit arithmetic: (H.1) to (H.5)."""

import re

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import (
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    holdout_kl,
    monte_carlo_upper,
)

EXCESS = mp.mpf("1e-9")


@pytest.fixture
def rng():
    return np.random.default_rng(20250105)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def capital(values, mean):
    """(H.2): the average capital of the halving bets against `mean`."""
    bets = [mp.mpf(2) ** -k for k in range(1 + max(1, (len(values) - 1).bit_length()))]
    return mp.fsum(mp.fprod(1 - c + c * x / mean for x in values) for c in bets) / len(bets)


def assert_betting_bounds_are_outward_and_near(values, delta):
    """A bound's own mean is excluded (capital 1/delta or more); 1e-9 nearer to the data is not."""
    lower = mp.mpf(float(betting_lower(values, delta=delta)))
    upper = mp.mpf(float(betting_upper(values, delta=delta)))
    exact, needed = [mp.mpf(float(x)) for x in values], 1 / mp.mpf(delta)
    for x, bound in ((exact, lower), ([1 - x for x in exact], 1 - upper)):
        assert bound == 0 or capital(x, bound) >= needed
        nearer = bound + EXCESS
        assert nearer >= mp.fsum(x) / len(x) or capital(x, nearer) < needed


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


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 40])
@pytest.mark.parametrize("delta", [1e-6, 0.05, 0.6])
def test_betting_bounds_are_the_exact_values_rounded_outward(n, delta, rng):
    """(H.2), (H.3)."""
    for values in (
        rng.random(n),
        rng.integers(0, 2, n),
        rng.beta(0.2, 2, n),
        1 - 10 ** rng.uniform(-17, 0, n),
        np.full(n, 0.3),
        np.zeros(n),
        np.ones(n),
    ):
        assert_betting_bounds_are_outward_and_near(values, delta)


def test_betting_on_constant_values_by_hand():
    """n = 1, x = 1, bets 1 and 1/2: (1/m + 1/2 + 1/(2m))/2 = 10 at m = 3/39 = 1/13."""
    assert betting_lower([1.0], delta=0.1) == pytest.approx(1 / 13, rel=1e-9)
    assert betting_upper([0.0], delta=0.1) == pytest.approx(12 / 13, rel=1e-9)


def test_betting_at_the_ends_of_the_interval():
    assert betting_lower(np.zeros(50), delta=0.05) == 0
    assert betting_upper(np.ones(50), delta=0.05) == 1


def test_betting_sides_mirror_each_other_and_enclose_the_mean(rng):
    values = rng.integers(0, 257, (30, 20)) / 256  # 1 - x has no rounding error
    lower, upper = betting_lower(values, delta=0.05), betting_upper(values, delta=0.05)
    assert lower == pytest.approx(1 - betting_upper(1 - values, delta=0.05), abs=1e-9)
    assert (lower <= values.mean(axis=-1)).all()
    assert (values.mean(axis=-1) <= upper).all()


@pytest.mark.parametrize("bound", [betting_lower, betting_upper])
def test_betting_gives_one_bound_for_each_row(bound, rng):
    values, delta = rng.random((2, 3, 12)), np.array([0.01, 0.1, 0.3])
    table = bound(values, delta=delta)
    assert table.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        one = bound(values[i, j], delta=delta[j])
        assert isinstance(one, np.float64)
        assert table[i, j] == pytest.approx(one, rel=1e-12)
    assert bound(values[0, 0], delta=delta).shape == (3,)


def test_betting_is_tighter_than_kl_where_the_variance_is_low(rng):
    values = rng.uniform(0.45, 0.55, 200)
    kl_bound = holdout_kl(values.mean(), n=200, delta=0.05)
    assert betting_upper(values, delta=0.05) - 0.5 < (kl_bound - 0.5) / 3


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


def test_clopper_pearson_closed_forms():
    """No success: 1 - delta^(1/n). All successes: delta^(1/n) below, 1 above."""
    root = 0.05 ** (1 / 100)
    assert clopper_pearson_upper([0, 100], n=100, delta=0.05) == pytest.approx([1 - root, 1])
    assert clopper_pearson_lower([0, 100], n=100, delta=0.05) == pytest.approx([0, root])
    assert clopper_pearson_lower(0, n=100, delta=0.05) == 0
    assert clopper_pearson_upper(100, n=100, delta=0.05) == 1
    assert isinstance(clopper_pearson_upper(3, n=10, delta=0.05), np.float64)


WHOLE, UNIT, OPEN = "a whole number of at least 1", "in [0, 1]", "in (0, 1)"
SHARE = "whole numbers in [0, n]"
KL = ([holdout_kl], {"empirical_risk": 0.1, "n": 10, "delta": 0.05})
BETS = ([betting_lower, betting_upper], {"values": [0.1, 0.2], "delta": 0.05})
TRIALS = ([clopper_pearson_lower, clopper_pearson_upper], {"successes": 3, "n": 10, "delta": 0.05})


@pytest.mark.parametrize(
    ("family", "argument", "value", "allowed", "found"),
    [
        (KL, "empirical_risk", np.nan, UNIT, "nan"),
        (KL, "n", 0, WHOLE, "0.0"),
        (KL, "delta", 1.0, OPEN, "1.0"),
        (BETS, "values", [0.5, 1.5], UNIT, "1.5 at index 1"),
        (BETS, "values", [[0.1, np.nan]], UNIT, "nan at index (0, 1)"),
        (BETS, "delta", 0.0, OPEN, "0.0"),
        (TRIALS, "successes", 11, SHARE, "11.0"),
        (TRIALS, "successes", -1, SHARE, "-1.0"),
        (TRIALS, "successes", 2.5, SHARE, "2.5"),
        (TRIALS, "successes", np.nan, SHARE, "nan"),
        (TRIALS, "n", 10.5, WHOLE, "10.5"),
        (TRIALS, "delta", np.nan, OPEN, "nan"),
    ],
)
def test_errors_give_the_name_the_allowed_set_and_the_value(
    family, argument, value, allowed, found
):
    functions, arguments = family
    message = re.escape(f"{argument} must be {allowed}, found {found}")
    for function in functions:
        with pytest.raises(ValueError, match=f"^{message}$"):
            function(**arguments | {argument: value})


@pytest.mark.parametrize("values", [[], 0.5, [[], []]])
@pytest.mark.parametrize("bound", [betting_lower, betting_upper])
def test_betting_refuses_rows_without_values(bound, values):
    message = re.escape(f"values must have at least one value in its last axis, found {values!r}")
    with pytest.raises(ValueError, match=message):
        bound(values, delta=0.05)
