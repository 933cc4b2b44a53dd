"""What is measured before any bound: means, counts and draws, by hand and by plain loops."""

import math

import numpy as np
import pytest

from tightrope.bounds import effective_draws
from tightrope.certificates.measure import (
    Drawn,
    effective_size,
    measure_excess,
    measure_risk,
    unit_mean,
    unit_values,
)

EXACT = 1e-12
# Three episodes of 2, 1 and 3 rows; two passes.
EPISODE = np.array([0, 0, 1, 2, 2, 2])
RHO_1 = np.array([[0.10, 0.30, 0.20, 0.40, 0.00, 0.50], [0.30, 0.10, 0.60, 0.20, 0.20, 0.50]])
RHO_2 = np.array([[0.30, 0.10, 0.20, 0.15], [0.10, 0.30, 0.00, 0.40]])  # episodes 1 and 2

# Mean loss of rho_1: all twelve entries add up to 1.5 + 1.9 = 3.4.
#   per episode: (0.2, 0.2, 0.3) in the first pass, (0.2, 0.6, 0.3) in the second, 1.8 in total.
MEAN = {"step": 3.4 / 12, "episode": 1.8 / 6}
# Excess of rho_2 over half of rho_1 on episodes 1 and 2 (rows 2 to 5 of rho_1):
#   first pass   0.30 - 0.10, 0.10 - 0.20, 0.20 - 0.00, 0.15 - 0.25 =  0.2, -0.1,  0.2, -0.1
#   second pass  0.10 - 0.30, 0.30 - 0.10, 0.00 - 0.10, 0.40 - 0.25 = -0.2,  0.2, -0.1, 0.15
#   above 0: 0.2 + 0.2 + 0.2 + 0.15 = 0.75; below 0: 0.1 + 0.1 + 0.2 + 0.1 = 0.5; eight entries.
#   per episode, above: 0.2 and 0.2/3, then 0 and 0.35/3; below: 0 and 0.2/3, then 0.2 and 0.1/3.
PLUS = {"step": 0.75 / 8, "episode": (0.2 + 0.2 / 3 + 0.35 / 3) / 4}
MINUS = {"step": 0.5 / 8, "episode": (0.2 / 3 + 0.2 + 0.1 / 3) / 4}
LOSS_2 = {"step": 1.55 / 8, "episode": (0.3 + 0.15 + 0.1 + 0.7 / 3) / 4}


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_the_risk_is_the_mean_worked_by_hand(unit):
    found = measure_risk(Drawn(RHO_1, EPISODE), kl=0.5, unit=unit)
    assert (found.episodes, found.n, found.kl) == (3, {"step": 6, "episode": 3}[unit], 0.5)
    means = (found.loss, found.mean, found.mean_plus, found.mean_minus)
    assert means == pytest.approx((MEAN[unit],) * 3 + (0.0,), abs=EXACT)
    assert (found.bet, found.mean_bet_loss) == (None, 0.0)


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_the_excess_is_the_one_worked_by_hand_on_the_rows_of_both(unit):
    before, now = Drawn(RHO_1, EPISODE), Drawn(RHO_2, EPISODE[2:])
    found = measure_excess(now, before, kl=0.25, unit=unit, kappa=0.5)
    assert (found.episodes, found.n, found.kl) == (2, {"step": 4, "episode": 2}[unit], 0.25)
    assert (found.mean_plus, found.mean_minus) == pytest.approx(
        (PLUS[unit], MINUS[unit]), abs=EXACT
    )
    assert found.mean == pytest.approx(PLUS[unit] - MINUS[unit], abs=EXACT)
    assert found.loss == pytest.approx(LOSS_2[unit], abs=EXACT)
    assert found.bet is None


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("bet", [0.01, 0.5, 0.999])
def test_what_losses_cost_a_bet_is_a_mean_over_rows_within_units(bet, unit):
    """(P.3): -ln(1 - c loss) per row and draw, then the mean over rows, units and passes."""
    found = measure_risk(Drawn(RHO_1, EPISODE), kl=0.0, unit=unit, bet=bet)
    values = []
    for row in RHO_1.tolist():
        costs = [-math.log(1 - bet * loss) for loss in row]
        groups = [costs[:2], costs[2:3], costs[3:]] if unit == "episode" else [[c] for c in costs]
        values += [sum(group) / len(group) for group in groups]
    assert found.bet == bet
    assert found.mean_bet_loss == pytest.approx(sum(values) / len(values), rel=1e-12)
    # never below what the mean losses of the units would cost: Jensen
    mean = np.asarray(unit_values(RHO_1, EPISODE, unit))
    assert found.mean_bet_loss >= -np.log(1 - bet * mean).mean() - EXACT


# --- draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [(2, 1, 3), (4, 4, 4), (5,), (7, 3)])
@pytest.mark.parametrize("passes", [1, 3])
def test_draws_are_what_the_weights_of_rows_allow(rows, passes):
    """(C.3): 1 over the largest weight; passes x episodes x fewest rows for unit episode."""
    episode = np.repeat(np.arange(len(rows)), rows)
    losses = np.full((passes, sum(rows)), 0.25)
    draws = {
        unit: measure_risk(Drawn(losses, episode), kl=0.0, unit=unit).draws
        for unit in ("step", "episode")
    }
    assert draws["step"] == passes * sum(rows)
    assert draws["episode"] == passes * len(rows) * min(rows)
    weights = [1 / (passes * len(rows) * count) for count in rows for _ in range(passes * count)]
    assert draws["episode"] - 1 <= effective_draws(weights) <= draws["episode"]


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_shared_draws_are_never_counted_as_rows(unit):
    shared = Drawn(RHO_1, EPISODE, shared=True)
    assert measure_risk(shared, kl=0.0, unit=unit).draws == 2
    after = Drawn(RHO_2, EPISODE[2:], shared=True)
    assert measure_excess(after, shared, kl=0.0, unit=unit, kappa=0.5).draws == 2
    assert measure_risk(shared, kl=0.0, unit="step").n == 6


# --- what must not be confused ------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_the_excess_is_split_for_each_draw_and_row_and_not_after_averaging(unit):
    """Excesses of +0.3 and -0.3 in two passes: averaged first, nothing would be left to bound."""
    episode = np.array([0, 0])
    before = Drawn(np.full((2, 2), 0.6), episode)
    now = Drawn(np.array([[0.6, 0.6], [0.0, 0.0]]), episode)  # 0.6 - 0.3 and 0.0 - 0.3
    found = measure_excess(now, before, kl=0.0, unit=unit, kappa=0.5)
    assert (found.mean_plus, found.mean_minus) == pytest.approx((0.15, 0.15), abs=EXACT)
    assert found.mean == pytest.approx(0.0, abs=EXACT)


def test_the_excess_of_an_episode_is_split_before_its_steps_are_averaged():
    """Excesses of +0.3 and -0.3 on two steps of one episode, in every pass."""
    episode = np.array([0, 0])
    before = Drawn(np.full((3, 2), 0.6), episode)
    now = Drawn(np.array([[0.6, 0.0]] * 3), episode)
    found = measure_excess(now, before, kl=0.0, unit="episode", kappa=0.5)
    assert (found.mean_plus, found.mean_minus) == pytest.approx((0.15, 0.15), abs=EXACT)


@pytest.mark.parametrize("kappa", [0.25, 0.8, 1.0])
def test_another_kappa_enters_the_excess(kappa):
    before, now = Drawn(RHO_1, EPISODE), Drawn(RHO_2, EPISODE[2:])
    found = measure_excess(now, before, kl=0.0, unit="step", kappa=kappa)
    excess = [a - kappa * b for a, b in zip(RHO_2.ravel(), RHO_1[:, 2:].ravel(), strict=True)]
    assert found.mean_plus == pytest.approx(sum(max(x, 0) for x in excess) / 8, abs=EXACT)
    assert found.mean_minus == pytest.approx(sum(max(-x, 0) for x in excess) / 8, abs=EXACT)


def test_units_are_rows_or_the_means_of_whole_episodes():
    values = np.array([[1.0, 3.0, 5.0, 2.0, 4.0, 9.0]])
    assert unit_values(values, EPISODE, "step").tolist() == values.tolist()
    assert unit_values(values, EPISODE, "episode").tolist() == [[2.0, 5.0, 5.0]]
    assert unit_values(values[0], EPISODE + 7, "episode").tolist() == [2.0, 5.0, 5.0]
    uneven = values - [0, 0, 3, 0, 0, 0]  # (2 + 2 + 5) / 3 for episodes, 21 / 6 for steps
    assert unit_mean(uneven / 10, EPISODE, "episode") == pytest.approx(0.3)
    assert unit_mean(uneven / 10, EPISODE, "step") == pytest.approx(0.35)


# --- the effective sample size ------------------------------------------------------------------


def plain_effective_size(loss, episode):
    """N over the design effect: variance of the mean over clusters, over that of single rows."""
    n, keys = len(loss), sorted(set(episode.tolist()))
    mean = sum(loss) / n
    single = sum((x - mean) ** 2 for x in loss) / n / n
    totals = [sum(x - mean for x, e in zip(loss, episode, strict=True) if e == key) for key in keys]
    clustered = len(keys) / (len(keys) - 1) * sum(total**2 for total in totals) / n**2
    return min(max(n * single / clustered, 1.0), n)


def test_the_effective_size_is_n_over_the_design_effect_of_episodes():
    rng = np.random.default_rng(2)
    for trial in range(5):
        episode = np.repeat(np.arange(12), rng.integers(1, 9, 12))
        loss = rng.random(len(episode)) * (1 + trial * rng.random(12)[episode]) / 6
        found = effective_size(loss, episode)
        assert found == pytest.approx(plain_effective_size(loss, episode), rel=1e-9)


def test_independent_rows_are_worth_about_all_of_them_and_repeated_ones_one_per_episode():
    rng = np.random.default_rng(3)
    episode = np.repeat(np.arange(400), 10)
    independent = rng.random(4000)
    assert effective_size(independent, episode) > 0.8 * 4000
    constant = rng.random(400)[episode]
    assert effective_size(constant, episode) == pytest.approx(400, rel=0.01)
    mixed = 0.5 * independent + 0.5 * constant  # correlation 1/2: design effect 1 + 9/2
    assert effective_size(mixed, episode) == pytest.approx(4000 / 5.5, rel=0.2)


def test_the_effective_size_of_odd_data_is_between_one_and_n():
    assert effective_size(np.full(6, 0.3), EPISODE) == 3.0  # no variance: one per episode
    assert effective_size(np.random.default_rng(0).random(6), np.zeros(6, int)) == 1.0
    balanced = np.array([0.0, 1.0, 0.0, 1.0])  # episode totals do not vary at all
    assert effective_size(balanced, np.array([0, 0, 1, 1])) == 4.0
