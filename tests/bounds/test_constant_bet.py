"""(P.3) against plain implementations at 60 digits."""

import re

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import bet_loss, pac_bayes_bet, pac_bayes_kl, planned_bet, risk_floor

BETS = [5e-324, 1e-300, 1e-9, 0.1, 0.5, 0.999, 1 - 2**-53]
CASE = {"bet": 0.5, "kl": 1.0, "n": 100, "delta": 0.05}


@pytest.fixture
def rng():
    return np.random.default_rng(20250107)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(700):  # 1 - 1e-300 needs them
        yield


def exact_bet_loss(loss, bet):
    return -mp.log(1 - mp.mpf(float(bet)) * mp.mpf(float(loss)))


def exact_pac_bayes_bet(mean, bet, kl, n, delta):
    """(P.3)."""
    mean, bet, kl, delta = (mp.mpf(float(x)) for x in (mean, bet, kl, delta))
    return min((1 - mp.exp(-(mean + (kl - mp.log(delta)) / n))) / bet, mp.mpf(1))


def test_bet_loss_is_the_exact_value_rounded_up(rng):
    """Even where 1 - bet * loss is a rounding error."""
    near_one = 1 - 10 ** rng.uniform(-15, -1, 12)  # where rounding the product matters most
    losses = [0.0, 5e-324, 1e-300, 1e-17, 0.5, 1 - 2**-53, 1.0, *rng.random(5), *near_one]
    for bet in [*BETS, *near_one.tolist()]:
        for loss in losses:
            exact, found = exact_bet_loss(loss, bet), mp.mpf(float(bet_loss(loss, bet)))
            assert exact <= found, (loss, bet)
            slope = mp.mpf(bet) / (1 - mp.mpf(bet) * mp.mpf(loss))  # of one ulp of the product
            assert found - exact <= 4e-15 * exact + 3e-16 * slope + 1e-322, (loss, bet)


def test_bet_loss_of_no_loss_is_nothing():
    assert bet_loss(0.0, 0.7) == 0
    assert bet_loss(1.0, 0.5) == pytest.approx(np.log(2), rel=1e-14)


def test_rows_cost_at_least_what_their_episode_costs(rng):
    """Section P: the mean over rows of the bet loss is not below the bet loss of the mean."""
    rows = rng.beta(0.3, 3, (200, 25))
    for bet in (0.1, 0.9, 0.999):
        assert (bet_loss(rows, bet).mean(-1) >= bet_loss(rows.mean(-1), bet) - 1e-15).all()


@pytest.mark.parametrize("n", [1, 7, 100, 10_000])
@pytest.mark.parametrize("kl", [0.0, 0.3, 50.0])
@pytest.mark.parametrize("bet", [1e-9, 0.1, 0.5, 0.999, 1 - 2**-53])
def test_pac_bayes_bet_is_the_exact_value_rounded_up(n, kl, bet, rng):
    """(P.3)."""
    for share in [0.0, 1e-12, 1.0, *rng.random(3)]:
        mean, delta = share * -np.log1p(-bet), float(10 ** rng.uniform(-6, -0.1))
        bound = mp.mpf(float(pac_bayes_bet(mean, bet=bet, kl=kl, n=n, delta=delta)))
        excess = bound - exact_pac_bayes_bet(mean, bet, kl, n, delta)
        assert 0 <= excess < 1e-12, (share, delta)


def test_closed_form_at_loss_zero():
    """(1 - delta^(1/n) e^(-KL/n)) / c."""
    expected = (1 - 0.05 ** (1 / 100) * np.exp(-1 / 100)) / 0.5
    assert pac_bayes_bet(0.0, **CASE) == pytest.approx(expected, rel=1e-12)


def test_a_bold_bet_on_small_losses_is_near_the_floor():
    """Loss 0.01, n = 100, delta 0.025, KL 0: the floor is 0.0459, (P.1) prints more than 0.09."""
    bound = pac_bayes_bet(bet_loss(0.01, 0.999), bet=0.999, kl=0, n=100, delta=0.025)
    assert risk_floor(0.01, n=100, delta=0.025) <= bound <= 0.0460
    assert pac_bayes_kl(0.01, kl=0, n=100, delta=0.025) > 0.09


def test_infinite_divergence_and_certain_loss_give_the_vacuous_bound():
    assert pac_bayes_bet(0.1, **CASE | {"kl": np.inf}) == 1
    assert pac_bayes_bet(bet_loss(1.0, 0.5), **CASE) == 1


def test_a_mean_that_rounding_pushed_to_the_end_is_accepted():
    full = bet_loss(np.ones(1000), 0.3)
    assert pac_bayes_bet(full.mean(), **CASE | {"bet": 0.3}) == 1


def test_arrays_give_the_same_as_a_loop(rng):
    losses, bets = rng.random((4, 1)), np.array([0.1, 0.5, 0.9])
    table = pac_bayes_bet(bet_loss(losses, bets), bet=bets, kl=0.5, n=50, delta=0.05)
    plans = planned_bet(losses, n=np.array([10, 100, 1000]), delta=0.05)
    assert table.shape == (4, 3)
    assert plans.shape == (3,)
    for i, j in np.ndindex(4, 3):
        one = bet_loss(losses[i, 0], bets[j])
        assert isinstance(one, np.float64)
        one = pac_bayes_bet(one, bet=bets[j], kl=0.5, n=50, delta=0.05)
        assert table[i, j] == pytest.approx(one, rel=1e-12)
        assert plans[j] == planned_bet(losses, n=10 ** (j + 1), delta=0.05)


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("kl", [0.0, 30.0])
def test_the_planned_bet_is_the_best_of_a_plain_search(n, kl, rng):
    """Within 0.2 per cent of the bound that 2,000 bets reach on losses like the free ones."""
    for losses in (rng.beta(0.3, 12, 200), rng.random(100), np.full(5, 0.01), np.zeros(3)):

        def bound(bet, losses=losses):
            return -np.expm1(np.log1p(-bet * losses).mean() - (kl - np.log(0.05)) / n) / bet

        found = bound(planned_bet(losses, n=n, delta=0.05, kl=kl))
        assert found <= 1.002 * min(map(bound, np.geomspace(2**-12, 1 - 2**-10, 2000)))


@pytest.mark.parametrize(
    ("function", "argument", "value", "allowed", "found"),
    [
        (bet_loss, "loss", 1.5, "in [0, 1]", "1.5"),
        (bet_loss, "loss", [0.0, np.nan], "in [0, 1]", "nan at index 1"),
        (bet_loss, "bet", 1.0, "in (0, 1)", "1.0"),
        (bet_loss, "bet", 0.0, "in (0, 1)", "0.0"),
        (pac_bayes_bet, "mean_bet_loss", 0.7, "in [0, -ln(1 - bet)]", "0.7"),
        (pac_bayes_bet, "mean_bet_loss", -0.1, "in [0, -ln(1 - bet)]", "-0.1"),
        (pac_bayes_bet, "mean_bet_loss", np.nan, "in [0, -ln(1 - bet)]", "nan"),
        (pac_bayes_bet, "bet", 1.0, "in (0, 1)", "1.0"),
        (pac_bayes_bet, "kl", -1.0, "in [0, inf]", "-1.0"),
        (pac_bayes_bet, "n", 0, "a whole number of at least 1", "0.0"),
        (pac_bayes_bet, "delta", 1.0, "in (0, 1)", "1.0"),
        (planned_bet, "losses", 1.5, "in [0, 1]", "1.5"),
        (planned_bet, "losses", [], "at least one value", "[]"),
        (planned_bet, "n", 0, "a whole number of at least 1", "0.0"),
        (planned_bet, "delta", 0.0, "in (0, 1)", "0.0"),
    ],
)
def test_errors_give_the_name_the_allowed_set_and_the_value(
    function, argument, value, allowed, found
):
    cases = {
        bet_loss: {"loss": 0.5, "bet": 0.5},
        pac_bayes_bet: {"mean_bet_loss": 0.1} | CASE,
        planned_bet: {"losses": [0.1], "n": 10, "delta": 0.05},
    }
    pattern = f"^{argument} must (be|have) {re.escape(allowed)}, found {re.escape(found)}$"
    with pytest.raises(ValueError, match=pattern):
        function(**cases[function] | {argument: value})
