"""(H.2) and (H.3) against 60-digit arithmetic, and what the planned bets are worth."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import betting_lower, betting_upper, planned_bets, risk_floor

EXCESS = mp.mpf("1e-9")


def halving(n):
    """The default portfolio: bets 1, 1/2, ...; weights 1/2, 1/4, ..., the last one twice."""
    count = 1 + max(1, (n - 1).bit_length())
    bets = [mp.mpf(2) ** -k for k in range(count)]
    weights = [mp.mpf(2) ** -(k + 1) for k in range(count)]
    return bets, [*weights[:-1], 2 * weights[-1]]


def capital(values, mean, bets, weights):
    """(H.2): the capital of a portfolio against `mean`."""
    return mp.fsum(
        w * mp.fprod(1 - c + c * x / mean for x in values)
        for c, w in zip(bets, weights, strict=True)
    )


def assert_outward_and_near(values, delta, portfolio, **given):
    """A bound's own mean is excluded (capital 1/delta or more); 1e-9 nearer to the data is not."""
    lower = mp.mpf(float(betting_lower(values, delta=delta, **given)))
    upper = mp.mpf(float(betting_upper(values, delta=delta, **given)))
    exact, needed = [mp.mpf(float(x)) for x in values], 1 / mp.mpf(delta)
    for x, bound in ((exact, lower), ([1 - x for x in exact], 1 - upper)):
        assert bound == 0 or capital(x, bound, *portfolio) >= needed
        nearer = bound + EXCESS
        assert nearer >= mp.fsum(x) / len(x) or capital(x, nearer, *portfolio) < needed


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 40])
@pytest.mark.parametrize("delta", [1e-6, 0.05, 0.6])
def test_betting_bounds_are_the_exact_values_rounded_outward(n, delta, rng):
    """(H.2), (H.3) with the default bets and with given ones."""
    bets, weights = [0.9, Fraction(1, 3), 0.01, 1.0], [0.6, Fraction(1, 5), 0.1, 0.05]
    given = [mp.mpf(float(c)) for c in bets], [mp.mpf(float(w)) for w in weights]
    for values in (
        rng.random(n),
        rng.integers(0, 2, n),
        rng.beta(0.2, 2, n),
        1 - 10 ** rng.uniform(-17, 0, n),
        np.full(n, 0.3),
        np.zeros(n),
        np.ones(n),
    ):
        assert_outward_and_near(values, delta, halving(n))
        assert_outward_and_near(values, delta, given, bets=bets, weights=weights)


def test_half_of_the_default_capital_is_all_in():
    """Constant loss x: no worse than the floor (H.6) at delta/2, whatever n."""
    for n in (1, 7, 50, 5000):
        bound = betting_upper(np.full(n, 0.01), delta=0.025)
        assert bound <= risk_floor(0.01, n=n, delta=0.025 / 2) + 1e-9


def test_a_weight_is_worth_its_share_of_delta():
    """One bet at weight w and delta is that bet at weight 1 and delta w."""
    values = np.linspace(0, 0.4, 30)
    half = betting_upper(values, delta=0.1, bets=[0.7], weights=[0.5])
    assert half == pytest.approx(betting_upper(values, delta=0.05, bets=[0.7]), rel=1e-12)


def test_weights_that_rounding_pushed_above_one_are_taken_back():
    """A thousand bets of 1 are one bet of 1: the bound on a single 0 is 1 - delta, not below."""
    weight = 0.001 * (1 + 3000 * 2.0**-52)
    assert 1 < 1000 * Fraction(weight) < 1 + Fraction(1, 10**12)
    assert betting_upper([0.0], delta=0.5, bets=[1] * 1000, weights=[weight] * 1000) >= 0.5


def test_betting_gives_one_bound_for_each_row(rng):
    values, delta = rng.random((2, 3, 12)), np.array([0.01, 0.1, 0.3])
    for bound in (betting_lower, betting_upper):
        table = bound(values, delta=delta)
        assert table.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            one = bound(values[i, j], delta=delta[j])
            assert isinstance(one, np.float64)
            assert table[i, j] == pytest.approx(one, rel=1e-12)
        assert bound(values[0, 0], delta=delta).shape == (3,)


# --- Planned bets ---------------------------------------------------------------------------------


def single_bet_bounds(values, n, delta, bets):
    """Section H: share c against m is bet b = c/(1 - m(1 - c)) of (P.3), solved for m."""
    with np.errstate(divide="ignore"):  # the bet 1 against a loss of 1
        logs = np.array([np.log1p(-b * values).mean() for b in bets])
    return (1 - np.exp(logs) * delta ** (1 / n)) / bets


def best_in_hindsight(values, delta):
    """The smallest bound of a single bet chosen on the values themselves: no valid bound."""
    bets = np.append(np.geomspace(2**-14, 1 - 2**-10, 2000), 1.0)
    return single_bet_bounds(values, len(values), delta, bets).min()


def test_one_share_of_the_capital_is_one_bet_of_p3():
    """Section H: c and b = c/(1 - m(1 - c)) give the same bound m."""
    values = np.linspace(0, 1, 30) ** 4
    for c in (0.01, 0.3, 0.9, 0.999):
        m = betting_upper(values, delta=0.05, bets=[c])
        b = c / (1 - m * (1 - c))
        assert single_bet_bounds(values, 30, 0.05, np.array([b])) == pytest.approx(m, rel=1e-9)


def test_with_few_small_losses_the_planned_bets_are_near_the_floor():
    """n = 50, loss 0.01, delta 0.025: floor 0.0804; equal weights on the halving bets: 0.114."""
    values = np.full(50, 0.01)
    bets, weights = planned_bets(np.full(10, 0.01), n=50, delta=0.025)
    planned = betting_upper(values, delta=0.025, bets=bets, weights=weights)
    assert risk_floor(0.01, n=50, delta=0.025) == pytest.approx(0.0804, abs=5e-5)
    assert planned <= 0.084
    equal = [2.0**-k for k in range(7)]
    assert betting_upper(values, delta=0.025, bets=equal) == pytest.approx(0.114, abs=5e-4)


@pytest.mark.parametrize("n", [50, 500, 10_000])
@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng, n: rng.beta(0.3, 12, n), id="skewed"),
        pytest.param(lambda rng, n: rng.beta(2, 2, n), id="symmetric"),
        pytest.param(
            lambda rng, n: np.where(rng.random(n) < 0.01, 1, rng.beta(1, 200, n)), id="catastrophes"
        ),
    ],
)
def test_planned_bets_come_near_the_best_constant_bet_in_hindsight(draw, n, rng):
    """For 300 free values of the same kind: within 5 per cent at any n, within 2 at 10,000."""
    free, values = draw(rng, 300), draw(rng, n)
    bets, weights = planned_bets(free, n=n, delta=0.025)
    planned = betting_upper(values, delta=0.025, bets=bets, weights=weights)
    best = best_in_hindsight(values, 0.025)
    assert best <= planned * (1 + 1e-5)
    assert planned <= best * (1.02 if n == 10_000 else 1.05)


def test_the_planned_bet_is_the_best_on_a_sample_like_the_free_values(rng):
    """Within 0.2 per cent of the bound that a much finer search reaches."""
    for free in (np.full(20, 0.01), rng.beta(0.3, 12, 200), rng.random(200), np.array([0.0, 1.0])):
        bets, _ = planned_bets(free, n=len(free), delta=0.025, planned_share=0.5)
        found = betting_upper(free, delta=0.0125, bets=bets[:1])
        assert found <= best_in_hindsight(free, 0.0125) * 1.002


def test_a_wrong_plan_costs_little():
    """Planned for losses near 0, met by losses near 1/2: still near the default portfolio."""
    values = np.tile([0.3, 0.7], 100)
    bets, weights = planned_bets(np.full(10, 0.001), n=200, delta=0.025)
    planned = betting_upper(values, delta=0.025, bets=bets, weights=weights)
    assert planned <= betting_upper(values, delta=0.025 / 10) + 1e-9


@pytest.mark.parametrize("values", [[1.0], [0.0], [1.0, 0.0], [[0.5], [1.0]]])
def test_a_plan_is_a_portfolio_whatever_the_free_values(values):
    for n in (1, 2, 10**6):
        bets, weights = planned_bets(values, n=n, delta=0.025)
        assert bets.shape == weights.shape
        assert ((bets > 0) & (bets <= 1)).all()
        assert (weights > 0).all()
        assert sum(map(Fraction, weights)) <= 1 + Fraction(1, 2**50)
        betting_upper([0.5], delta=0.1, bets=bets, weights=weights)
