"""Every bound with failure probabilities down to 1e-12 and two values, against 60-digit arithmetic.

No NaN, nothing on the wrong side of the empirical value or of the exact bound, and never tighter
for a smaller failure probability.
"""

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import (
    bet_loss,
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    difference_lower,
    difference_upper,
    episodes_needed,
    holdout_kl,
    joint_tolerance,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    risk_floor,
    split_kl,
    tolerance_rank,
    tolerance_share,
    xi,
)

DELTAS = [0.5, 1e-1, 1e-3, 1e-6, 1e-9, 1e-12]
SIZES = [1, 2, 3, 100, 1_000_000]
MEANS = [0.0, 1e-300, 1e-12, 0.03, 0.5, 1 - 1e-12, 1.0]
BET = 0.9


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def exact_kl(q, p):
    """kl(q || p), with infinity where a sure event is denied."""
    q, p = mp.mpf(float(q)), mp.mpf(float(p))
    total = mp.mpf(0)
    for a, b in ((q, p), (1 - q, 1 - p)):
        if a > 0:
            total += mp.inf if b <= 0 else a * mp.log(a / b)
    return total


# A bound as a function of an empirical value, with the budget in nats that kl must reach there.
UPPER = {
    "hold-out": (
        lambda mean, n, delta: holdout_kl(mean, n=n, delta=delta),
        lambda n, delta: mp.log(1 / mp.mpf(delta)) / n,
    ),
    "Monte Carlo": (
        lambda mean, n, delta: monte_carlo_upper(mean, draws=n, delta=delta),
        lambda n, delta: mp.log(1 / mp.mpf(delta)) / n,
    ),
    "PAC-Bayes": (
        lambda mean, n, delta: pac_bayes_kl(mean, kl=0.25, n=n, delta=delta),
        lambda n, delta: (mp.mpf("0.25") + mp.log(mp.mpf(float(xi(n))) / mp.mpf(delta))) / n,
    ),
}


@pytest.mark.parametrize("name", UPPER)
@pytest.mark.parametrize("n", SIZES)
def test_upper_bounds_are_outward_finite_and_monotone_in_delta(name, n):
    """At the bound the exact kl reaches the exact budget, or the bound is 1."""
    bound, budget = UPPER[name]
    for mean in MEANS:
        found = [float(bound(mean, n, delta)) for delta in DELTAS]
        assert np.isfinite(found).all()
        assert (np.diff(found) >= 0).all(), mean
        for delta, value in zip(DELTAS, found, strict=True):
            assert mean <= value <= 1
            # xi itself is rounded upward, by a relative 1e-9 at the most
            slack = mp.mpf("1e-9") / n if name == "PAC-Bayes" else 0
            assert value == 1 or exact_kl(mean, value) >= budget(n, delta) - slack, (mean, delta)


@pytest.mark.parametrize("n", SIZES)
def test_the_lower_monte_carlo_bound_is_outward_and_monotone_in_delta(n):
    for mean in MEANS:
        found = [float(monte_carlo_lower(mean, draws=n, delta=delta)) for delta in DELTAS]
        assert (np.diff(found) <= 0).all()
        for delta, value in zip(DELTAS, found, strict=True):
            assert 0 <= value <= mean
            assert value == 0 or exact_kl(mean, value) >= mp.log(1 / mp.mpf(delta)) / n


@pytest.mark.parametrize("n", SIZES)
def test_the_split_bound_is_no_less_than_the_mean_and_monotone_in_delta(n):
    for plus, minus in ((0.0, 0.5), (1e-12, 0.2), (0.3, 0.1), (1.0, 0.0)):
        given = {"kl": 0.25, "n": n, "low": -0.5, "high": 1.0, "mu": 0.0}
        found = [float(split_kl(plus, minus, delta=delta, **given)) for delta in DELTAS]
        assert (np.diff(found) >= 0).all()
        assert plus - minus <= min(found)
        assert max(found) <= 1 + 1e-12  # rounded outward


@pytest.mark.parametrize("n", SIZES)
def test_the_constant_bet_is_outward_finite_and_monotone_in_delta(n):
    """(P.3) solved for the risk, in exact arithmetic."""
    for loss in MEANS:
        mean = float(bet_loss(loss, BET))
        found = [float(pac_bayes_bet(mean, bet=BET, kl=0.25, n=n, delta=d)) for d in DELTAS]
        assert (np.diff(found) >= 0).all()
        for delta, value in zip(DELTAS, found, strict=True):
            budget = mp.mpf(mean) + (mp.mpf("0.25") + mp.log(1 / mp.mpf(delta))) / n
            exact = (1 - mp.exp(-budget)) / mp.mpf(BET)
            assert min(exact, 1) <= value <= 1
            assert loss <= value


def tail(n, k, p):
    """P(Bin(n, p) <= k)."""
    p = mp.mpf(float(p))
    return mp.fsum(mp.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_binomial_bounds_leave_no_more_than_delta_in_the_tail(n):
    for k in sorted({0, 1, n // 2, n}):
        upper = [float(clopper_pearson_upper(k, n=n, delta=delta)) for delta in DELTAS]
        lower = [float(clopper_pearson_lower(k, n=n, delta=delta)) for delta in DELTAS]
        assert (np.diff(upper) >= 0).all()
        assert (np.diff(lower) <= 0).all()
        for delta, low, high in zip(DELTAS, lower, upper, strict=True):
            assert low <= k / n <= high
            assert high == 1 or tail(n, k, high) <= delta
            assert low == 0 or 1 - tail(n, k - 1, low) <= delta


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_tolerance_shares_are_no_more_than_exact_and_ranks_hold(n):
    """With probability delta at most, fewer than r of n scores lie below the quantile promised."""
    for rank in sorted({1, (n + 1) // 2, n}):
        shares = [float(tolerance_share(rank, n=n, delta=delta)) for delta in DELTAS]
        assert (np.diff(shares) <= 0).all()
        for delta, share in zip(DELTAS, shares, strict=True):
            assert 0 <= share < 1
            assert 1 - tail(n, rank - 1, share) <= delta
    for delta in DELTAS:
        needed = int(episodes_needed(0.9, delta=delta))
        assert mp.mpf(0.9) ** needed <= delta < mp.mpf(0.9) ** (needed - 1)
        assert tolerance_rank(0.9, n=needed, delta=delta) == needed
        assert tolerance_share(needed, n=needed, delta=delta) >= 0.9


def test_joint_tolerances_hold_at_the_smallest_delta():
    for delta in (1e-3, 1e-12):
        found = joint_tolerance([0.5, 0.8], n=400, delta=delta)
        assert all(0 < each.share < 1 and 1 <= each.rank <= 400 for each in found)
        # The union bound over exact tails is no smaller than the joint failure.
        alone = [1 - tail(400, each.rank - 1, each.share) for each in found]
        assert max(alone) <= delta


@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0, 1.0], [1e-300, 0.4], [0.2, 0.9], [0.3]])
def test_bets_are_outward_and_monotone_in_delta_with_two_values(values):
    """At its own bound the exact capital of the default portfolio has reached 1/delta."""
    count = 1 + max(1, (len(values) - 1).bit_length())
    bets = [mp.mpf(2) ** -k for k in range(count)]
    weights = [*(mp.mpf(2) ** -(k + 1) for k in range(count - 1)), mp.mpf(2) ** -(count - 1)]

    def capital(data, mean):
        return mp.fsum(
            w * mp.fprod(1 - c + c * mp.mpf(x) / mean for x in data)
            for c, w in zip(bets, weights, strict=True)
        )

    lower = [float(betting_lower(values, delta=delta)) for delta in DELTAS]
    upper = [float(betting_upper(values, delta=delta)) for delta in DELTAS]
    assert (np.diff(lower) <= 0).all()
    assert (np.diff(upper) >= 0).all()
    for delta, low, high in zip(DELTAS, lower, upper, strict=True):
        assert 0 <= low <= np.mean(values) <= high <= 1
        if low > 0:
            assert capital(values, mp.mpf(low)) >= 1 / mp.mpf(delta)
        if high < 1:
            assert capital([1 - mp.mpf(x) for x in values], 1 - mp.mpf(high)) >= 1 / mp.mpf(delta)


@pytest.mark.parametrize("values", [[-1.0, -1.0], [1.0, 1.0], [0.0, 1e-300], [-0.2, 0.9]])
def test_differences_are_outward_and_monotone_in_delta_with_two_values(values):
    lower = [float(difference_lower(values, delta=delta)) for delta in DELTAS]
    upper = [float(difference_upper(values, delta=delta)) for delta in DELTAS]
    assert (np.diff(lower) <= 0).all()
    assert (np.diff(upper) >= 0).all()
    for low, high in zip(lower, upper, strict=True):
        assert -1 <= low <= np.mean(values) <= high <= 1


def test_the_floor_of_any_valid_bound_is_below_ours_and_monotone_in_delta():
    for n in (2, 100):
        for mean in MEANS:
            floor = [float(risk_floor(mean, n=n, delta=delta)) for delta in DELTAS]
            ours = [float(holdout_kl(mean, n=n, delta=delta)) for delta in DELTAS]
            assert np.isfinite(floor).all()
            assert (np.diff(floor) >= -1e-12).all()
            assert all(a <= b + 1e-9 for a, b in zip(floor, ours, strict=True))
