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


def each_delta(bound, *values, sign=1, slack=0.0, **given):
    """(delta, bound) pairs: finite, and looser (times `sign`, larger) for a smaller delta."""
    found = [float(bound(*values, delta=delta, **given)) for delta in DELTAS]
    assert np.isfinite(found).all()
    assert (sign * np.diff(found) >= -slack).all(), found
    return list(zip(DELTAS, found, strict=True))


def exact_kl(q, p):
    """kl(q || p), with infinity where a sure event is denied."""
    q, p = mp.mpf(float(q)), mp.mpf(float(p))
    total = mp.mpf(0)
    for a, b in ((q, p), (1 - q, 1 - p)):
        if a > 0:
            total += mp.inf if b <= 0 else a * mp.log(a / b)
    return total


@pytest.mark.parametrize("n", SIZES)
def test_bounds_by_the_inverse_kl_reach_the_exact_budget_or_the_end(n):
    for mean in MEANS:
        for delta, value in each_delta(holdout_kl, mean, n=n):
            assert mean <= value <= 1
            assert value == 1 or exact_kl(mean, value) >= mp.log(1 / mp.mpf(delta)) / n
            assert value == float(monte_carlo_upper(mean, draws=n, delta=delta))
        for delta, value in each_delta(pac_bayes_kl, mean, kl=0.25, n=n):
            nats = mp.mpf("0.25") + mp.log(mp.mpf(float(xi(n))) / mp.mpf(delta))
            nats -= mp.mpf("1e-9")  # xi itself is rounded upward, by a relative 1e-9 at the most
            assert mean <= value <= 1
            assert value == 1 or exact_kl(mean, value) >= nats / n
        for delta, value in each_delta(monte_carlo_lower, mean, draws=n, sign=-1):
            assert 0 <= value <= mean
            assert value == 0 or exact_kl(mean, value) >= mp.log(1 / mp.mpf(delta)) / n


@pytest.mark.parametrize("n", SIZES)
def test_the_split_bound_and_the_constant_bet_are_outward(n):
    """(P.3) solved for the risk, in exact arithmetic."""
    for plus, minus in ((0.0, 0.5), (1e-12, 0.2), (0.3, 0.1), (1.0, 0.0)):
        given = {"kl": 0.25, "n": n, "low": -0.5, "high": 1.0, "mu": 0.0}
        found = each_delta(split_kl, plus, minus, **given)
        assert plus - minus <= found[0][1]
        assert found[-1][1] <= 1 + 1e-12  # rounded outward
    for loss in MEANS:
        mean = float(bet_loss(loss, BET))
        for delta, value in each_delta(pac_bayes_bet, mean, bet=BET, kl=0.25, n=n):
            budget = mp.mpf(mean) + (mp.mpf("0.25") + mp.log(1 / mp.mpf(delta))) / n
            exact = (1 - mp.exp(-budget)) / mp.mpf(BET)
            assert min(exact, 1) <= value <= 1
            assert loss <= value


def tail(n, k, p):
    """P(Bin(n, p) <= k)."""
    p = mp.mpf(float(p))
    return mp.fsum(mp.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_binomial_bounds_and_shares_leave_no_more_than_delta_in_the_tail(n):
    """For a share: fewer than r of n scores lie below the quantile promised."""
    for k in sorted({0, 1, n // 2, n}):
        for delta, high in each_delta(clopper_pearson_upper, k, n=n):
            assert k / n <= high
            assert high == 1 or tail(n, k, high) <= delta
        for delta, low in each_delta(clopper_pearson_lower, k, n=n, sign=-1):
            assert low <= k / n
            assert low == 0 or 1 - tail(n, k - 1, low) <= delta
    for rank in sorted({1, (n + 1) // 2, n}):
        for delta, share in each_delta(tolerance_share, rank, n=n, sign=-1):
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
def test_bets_are_outward_with_two_values(values):
    """At its own bound the exact capital of the default portfolio has reached 1/delta."""
    count = 1 + max(1, (len(values) - 1).bit_length())
    bets = [mp.mpf(2) ** -k for k in range(count)]
    weights = [*(mp.mpf(2) ** -(k + 1) for k in range(count - 1)), mp.mpf(2) ** -(count - 1)]

    def capital(data, mean):
        return mp.fsum(
            w * mp.fprod(1 - c + c * mp.mpf(x) / mean for x in data)
            for c, w in zip(bets, weights, strict=True)
        )

    for delta, low in each_delta(betting_lower, values, sign=-1):
        assert 0 <= low <= np.mean(values)
        assert low == 0 or capital(values, mp.mpf(low)) >= 1 / mp.mpf(delta)
    for delta, high in each_delta(betting_upper, values):
        assert np.mean(values) <= high <= 1
        others = [1 - mp.mpf(x) for x in values]
        assert high == 1 or capital(others, 1 - mp.mpf(high)) >= 1 / mp.mpf(delta)


@pytest.mark.parametrize("values", [[-1.0, -1.0], [1.0, 1.0], [0.0, 1e-300], [-0.2, 0.9]])
def test_differences_are_outward_with_two_values(values):
    assert all(
        -1 <= low <= np.mean(values) for _, low in each_delta(difference_lower, values, sign=-1)
    )
    assert all(np.mean(values) <= high <= 1 for _, high in each_delta(difference_upper, values))


def test_the_floor_of_any_valid_bound_is_below_ours():
    for n in (2, 100):
        for mean in MEANS:
            floor = each_delta(risk_floor, mean, n=n, slack=1e-12)
            for delta, value in floor:
                assert value <= holdout_kl(mean, n=n, delta=delta) + 1e-9
