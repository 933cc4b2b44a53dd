"""Lower limits of returns: returns from plain loops, limits from scipy and (H.2)."""

import math

import numpy as np
import pytest
from constructed import (
    OUTWARD,
    certificate,
    evidence,
    made_up,
    plain_returns,
    recorded,
    stated,
)
from scipy.stats import beta

from tightrope.bounds import betting_lower
from tightrope.certificates.statements.base import Task
from tightrope.certificates.statements.returns import ExpectedReturn, Return

DELTA = 0.05
TASK = Task(episodes=1, delta=DELTA, thin=1, high=6.0)


def totals(rewards, gamma):
    return [plain_returns(own, gamma)[0] for own in rewards]


def smallest_rank(share, n, delta):
    """(T.1) by trying: the smallest r with BetaInv(delta; r, n - r + 1) >= share; n if none."""
    for rank in range(1, n + 1):
        if beta.ppf(delta, rank, n - rank + 1) >= share:
            return rank
    return n


@pytest.mark.parametrize("count", [3, 20, 60, 150])
@pytest.mark.parametrize(("gamma", "words"), [(0.9, "discounted"), (1.0, "undiscounted")])
def test_what_most_episodes_return_is_an_order_statistic(count, gamma, words):
    """At 90 % where n suffices, and the smallest at its own share where not."""
    rewards, _ = made_up(episodes=count)
    (found,) = stated(Return(gamma), evidence(rewards, gamma=gamma, low=-3.0, high=37.0))
    returns = sorted(totals(rewards, gamma))
    rank = smallest_rank(0.9, count, DELTA)  # from the top: the largest is for rank 1
    limit = returns[count - rank] - OUTWARD * abs(returns[count - rank])
    assert found.limit == found.value_raw == pytest.approx(limit, rel=1e-12)
    assert found.value == pytest.approx((limit + 3) / 40)
    exact = beta.ppf(DELTA, rank, count - rank + 1)
    assert found.share == (0.9 if exact >= 0.9 else pytest.approx(exact, rel=1e-8))
    assert found.share <= exact * (1 + 1e-12)
    assert found.estimate == pytest.approx(np.quantile(returns, 1 - found.share))
    assert (found.name, found.quantity, found.target) == (
        f"{words} return", f"{words} return", f"{words}-return"
    )  # fmt: skip
    assert (found.kind, found.direction, found.n) == ("return", "at-least", count)
    assert found.rms_raw is None
    assert found.confidence == pytest.approx(1 - DELTA)


def test_a_hundred_and_fifty_episodes_state_returns_at_ninety_per_cent():
    """Whatever the returns: the 6th smallest, at a share of the default failure probability."""
    for gamma, delta in ((1.0, 0.035 * 3 / 20), (0.99, 0.035 * 3 / 40)):
        (limit,) = Return(gamma).limits(np.arange(150.0), delta=delta, chosen={})
        assert (limit.share, limit.value) == (0.9, 5.0)
        assert limit.note.startswith("the 6th smallest of 150 episodes; mean of all 74.5")


def test_failing_episodes_show_in_the_statement_whatever_the_fitting_set_saw():
    """The fitting set never falls; 27 of 100 later episodes fall at once. No floor hides them."""
    rewards = [
        np.full(2 if index >= 40 and index % 100 < 27 else 20, 1.0 + 0.001 * index)
        for index in range(140)
    ]
    falls = [len(own) == 2 for own in rewards]
    found = certificate(recorded(rewards, gamma=0.9, terminated=falls), gamma=0.9, fit_episodes=40)
    assert not any(s.name.startswith("expected") for s in found.statements)
    for name, gamma in (("undiscounted return", 1.0), ("discounted return", 0.9)):
        statement = found.statement(name)
        assert statement.limit < 1.2 * (1 + gamma)  # two steps, then down
        assert statement.share == 0.9
    assert found.statement("early termination").note == "27 of 100 episodes"


# --- expected returns ---------------------------------------------------------------------------


def lower_mean(returns, floor, top):
    """(H.2) after clipping from above, which can only lower the mean."""
    scaled = [(min(g, top) - floor) / (top - floor) for g in returns]
    return floor + (top - floor) * float(betting_lower(scaled, delta=DELTA))


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_a_floor_gives_an_expected_return_a_lower_bound(gamma):
    rewards, _ = made_up(seed=3)
    family, seen = ExpectedReturn(gamma, -40.0), evidence(rewards, gamma=gamma)
    fit = evidence(rewards[1:5], gamma=gamma)
    chosen = family.choose(fit, TASK)
    highest = max(totals(rewards[1:5], gamma))
    assert chosen == {"top": pytest.approx(highest + 0.1 * abs(highest))}
    (found,) = stated(family, seen, chosen)
    returns = totals(rewards, gamma)
    assert max(returns) > chosen["top"]  # so that clipping matters
    expected = lower_mean(returns, -40.0, chosen["top"])
    assert found.limit == pytest.approx(expected - OUTWARD * abs(expected), rel=1e-9)
    clipped = np.minimum(returns, chosen["top"])
    assert found.estimate == pytest.approx(math.fsum(clipped) / len(returns), rel=1e-12)
    assert found.limit < found.estimate
    assert (found.share, found.direction, found.n) == (None, "at-least", len(rewards))
    assert found.quantity == f"expected {'un' if gamma == 1 else ''}discounted return"
    assert "you stated that no return is below -40" in found.note


def test_without_a_fitting_set_the_range_is_the_top_and_a_high_floor_is_below_it():
    assert ExpectedReturn(0.9, -40.0).choose(None, TASK) == {"top": 6.0}
    assert ExpectedReturn(0.9, 8.0).choose(None, TASK)["top"] > 8.0
