"""Properties of the inverses that hold for every input, searched with hypothesis."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.bounds import kl, kl_inverse_lower, kl_inverse_upper

# For budgets of at least 1e-6 a result lies at most 1e-9 outside the exact root and never inside
# it. Two results can therefore be out of order by at most 1e-9 where the exact roots are in order.
EXCESS = 1e-9

means = st.floats(0, 1)
exact_complements = st.integers(0, 2**53).map(lambda k: k / 2**53)  # 1 - q has no rounding error
any_budget = st.floats(0, np.inf)
budgets = st.one_of(
    st.floats(1e-6, 50), st.floats(-6, 2.7).map(lambda e: max(10.0**e, 1e-6)), st.just(np.inf)
)
searched = settings(deadline=None, derandomize=True, max_examples=300)


@searched
@given(means, means, budgets)
def test_inverses_increase_in_the_mean(q, other, budget):
    q, other = sorted([q, other])
    assert kl_inverse_upper(q, budget) <= kl_inverse_upper(other, budget) + EXCESS
    assert kl_inverse_lower(q, budget) <= kl_inverse_lower(other, budget) + EXCESS


@searched
@given(means, budgets, budgets)
def test_inverses_move_outward_with_the_budget(q, budget, other):
    budget, other = sorted([budget, other])
    assert kl_inverse_upper(q, budget) <= kl_inverse_upper(q, other) + EXCESS
    assert kl_inverse_lower(q, budget) >= kl_inverse_lower(q, other) - EXCESS


@searched
@given(means, any_budget)
def test_the_inverses_enclose_the_mean_and_stay_in_the_unit_interval(q, budget):
    assert 0 <= kl_inverse_lower(q, budget) <= q <= kl_inverse_upper(q, budget) <= 1


@searched
@given(exact_complements, budgets)
def test_the_lower_inverse_mirrors_the_upper_one(q, budget):
    """kl(q || p) = kl(1-q || 1-p); both results may carry their own excess."""
    mirrored = 1 - kl_inverse_upper(1 - q, budget)
    assert abs(kl_inverse_lower(q, budget) - mirrored) <= 2 * EXCESS


@searched
@given(means, any_budget)
def test_the_result_uses_up_the_budget(q, budget):
    """Unless the result is at the end of the interval; `kl` itself is rounded to nearest."""
    upper, lower = kl_inverse_upper(q, budget), kl_inverse_lower(q, budget)
    rounding = 1e-14 * (1 + budget) if budget < np.inf else 0
    assert upper == 1 or kl(q, upper) >= budget - rounding
    assert lower == 0 or kl(q, lower) >= budget - rounding
