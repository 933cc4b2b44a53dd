"""(C.1) and (C.2) against 60-digit arithmetic."""

import re

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import monte_carlo_lower, monte_carlo_upper

EXCESS = mp.mpf("1e-9")
both = pytest.mark.parametrize("bound", [monte_carlo_upper, monte_carlo_lower])


@pytest.fixture
def rng():
    return np.random.default_rng(20250103)


def exact_kl(q, p):
    success = q * mp.log(q / p) if q > 0 else mp.mpf(0)
    return success + ((1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0)


@both
@pytest.mark.parametrize("draws", [1, 10, 1000, 100_000])
def test_the_bound_is_the_exact_value_rounded_outward(bound, draws, rng):
    """(C.1), (C.2): the result uses up ln(1/delta)/n; 1e-9 nearer to the mean does not."""
    inward = -EXCESS if bound is monte_carlo_upper else EXCESS
    with mp.workdps(60):
        for mean in [0.0, 1.0, 1e-9, *rng.random(5)]:
            delta = float(10 ** rng.uniform(-8, -0.1))
            found = mp.mpf(float(bound(mean, draws=draws, delta=delta)))
            q, budget = mp.mpf(mean), -mp.log(mp.mpf(delta)) / draws
            assert (found - q) * inward <= 0, (mean, delta)
            assert found in (0, 1) or exact_kl(q, found) >= budget, (mean, delta)
            nearer = found + inward
            if (nearer - q) * inward < 0 and 0 < nearer < 1:
                assert exact_kl(q, nearer) < budget, (mean, delta)


def test_closed_forms_where_every_draw_agrees():
    """1 - delta^(1/n) above a mean of 0, delta^(1/n) below a mean of 1."""
    root = 0.01 ** (1 / 500)
    assert monte_carlo_upper(0.0, draws=500, delta=0.01) == pytest.approx(1 - root, rel=1e-12)
    assert monte_carlo_lower(1.0, draws=500, delta=0.01) == pytest.approx(root, rel=1e-12)
    assert monte_carlo_upper(1.0, draws=500, delta=0.01) == 1
    assert monte_carlo_lower(0.0, draws=500, delta=0.01) == 0


def test_one_side_mirrors_the_other(rng):
    mean = rng.integers(0, 1025, 50) / 1024  # 1 - mean has no rounding error
    lower = monte_carlo_lower(mean, draws=64, delta=0.05)
    assert lower == pytest.approx(1 - monte_carlo_upper(1 - mean, draws=64, delta=0.05), abs=2e-9)


@both
def test_more_draws_and_less_confidence_tighten(bound):
    by_draws = np.abs(bound(0.3, draws=[1, 10, 100, 1000], delta=0.05) - 0.3)
    by_delta = np.abs(bound(0.3, draws=100, delta=[0.001, 0.01, 0.1, 0.9]) - 0.3)
    assert (np.diff(by_draws) < 0).all()
    assert (np.diff(by_delta) < 0).all()


@both
def test_arrays_give_the_same_as_a_loop(bound, rng):
    mean, draws = rng.random((3, 1)), np.array([5, 50])
    table = bound(mean, draws=draws, delta=0.05)
    assert table.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        one = bound(mean[i, 0], draws=int(draws[j]), delta=0.05)
        assert isinstance(one, np.float64)
        assert table[i, j] == pytest.approx(one, rel=1e-12)


@both
@pytest.mark.parametrize(
    ("argument", "value", "allowed", "found"),
    [
        ("mean", 1.5, "in [0, 1]", "1.5"),
        ("mean", [0.5, np.nan], "in [0, 1]", "nan at index 1"),
        ("mean", "0.5", "real numbers", "'0.5'"),
        ("draws", 0, "a whole number of at least 1", "0.0"),
        ("draws", 2.5, "a whole number of at least 1", "2.5"),
        ("draws", np.nan, "a whole number of at least 1", "nan"),
        ("delta", 0, "in (0, 1)", "0.0"),
        ("delta", 1, "in (0, 1)", "1.0"),
        ("delta", np.nan, "in (0, 1)", "nan"),
    ],
)
def test_errors_give_the_name_the_allowed_set_and_the_value(bound, argument, value, allowed, found):
    case = {"mean": 0.5, "draws": 10, "delta": 0.05} | {argument: value}
    with pytest.raises(ValueError, match=re.escape(f"{argument} must be {allowed}, found {found}")):
        bound(**case)
