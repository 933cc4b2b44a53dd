"""(P.3) against plain implementations at 60 digits."""

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import bet_loss, pac_bayes_bet, pac_bayes_kl, planned_bet, risk_floor

BETS = [5e-324, 1e-300, 1e-9, 0.1, 0.5, 0.999, 1 - 2**-53]
CASE = {"bet": 0.5, "kl": 1.0, "n": 100, "delta": 0.05}


@pytest.fixture(autouse=True)
def digits(sixty_digits):
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


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("kl", [0.0, 30.0])
def test_the_planned_bet_is_the_best_of_a_plain_search(n, kl, rng):
    """Within 0.2 per cent of the bound that 2,000 bets reach on losses like the free ones."""
    for losses in (rng.beta(0.3, 12, 200), rng.random(100), np.full(5, 0.01), np.zeros(3)):

        def bound(bet, losses=losses):
            return -np.expm1(np.log1p(-bet * losses).mean() - (kl - np.log(0.05)) / n) / bet

        found = bound(planned_bet(losses, n=n, delta=0.05, kl=kl))
        assert found <= 1.002 * min(map(bound, np.geomspace(2**-12, 1 - 2**-10, 2000)))
