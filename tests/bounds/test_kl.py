"""kl and its inverses against 60-digit arithmetic on the exact values of the float64 inputs."""

from importlib import import_module

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.bounds import kl, kl_inverse_lower, kl_inverse_upper
from tightrope.bounds.kl import _BLOCK, _bisected_root

KL_MODULE = import_module("tightrope.bounds.kl")  # the package's attribute `kl` is the function
EXCESS = mp.mpf("1e-9")  # promised for budgets of at least 1e-6

RNG = np.random.default_rng(20250101)
EDGES = [1e-300, 1e-12, 1 - 1e-12, *np.nextafter([0, 1, 0.5, 0.5], [1, 0, 0, 1])]
INNER_Q = np.concatenate([EDGES, RNG.random(12), 10 ** RNG.uniform(-17, 0, 6), [0.25, 0.5]])
TINY_BUDGETS = [1e-300, 1e-20, 1e-17, 1e-16, 2e-16, 1e-15, 1e-14]
BUDGETS = np.concatenate([TINY_BUDGETS, 10.0 ** np.arange(-12, 4), [1e300], RNG.uniform(0, 40, 6)])

INVERSES = {"upper": kl_inverse_upper, "lower": kl_inverse_lower}
FALLBACKS = {
    "upper": lambda q, budget: _bisected_root(q, budget, limit=1.0),
    "lower": lambda q, budget: _bisected_root(q, budget, limit=0.0),
}
LIMITS = {"upper": 1.0, "lower": 0.0}
both_sides = pytest.mark.parametrize("side", ["upper", "lower"])


def exact_kl(q, p):
    """(K.1) at 60 digits, 0 ln 0 = 0; log1p because 1 - 1e-300 needs more than 60 digits."""
    q, p = mp.mpf(q), mp.mpf(p)
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        return mp.inf
    success = q * mp.log(q / p) if q > 0 else mp.mpf(0)
    failure = (1 - q) * (mp.log1p(-q) - mp.log1p(-p)) if q < 1 else mp.mpf(0)
    return success + failure


def grid(q, budgets):
    q, budgets = np.meshgrid(np.asarray(q, float), budgets)
    return q.ravel(), budgets.ravel()


def assert_outside_and_near(side, q, budget, found):
    """Not on the inner side of the root, and less than EXCESS outside it (budgets >= 1e-6)."""
    towards_q = -1 if side == "upper" else 1
    for case in zip(q.tolist(), budget.tolist(), found.tolist(), strict=True):
        q, c, p = map(mp.mpf, case)
        assert towards_q * (q - p) >= 0, case
        assert p == LIMITS[side] or exact_kl(q, p) >= c, case
        nearer = p + towards_q * EXCESS
        if c >= 1e-6 and towards_q * (q - nearer) > 0:
            assert exact_kl(q, nearer) < c, case


def test_kl_agrees_with_sixty_digits(rng):
    """(K.1): the error is a few units of 1 + kl in the last place."""
    q, p = grid([0, *INNER_Q, 1], [*INNER_Q, *rng.random(10)])
    for a, b, found in zip(q.tolist(), p.tolist(), kl(q, p).tolist(), strict=True):
        exact = exact_kl(a, b)
        assert abs(found - exact) <= mp.mpf("2e-15") * (1 + exact), (a, b, found)


def test_kl_at_the_corners():
    assert kl([0, 1, 0, 1], [0, 1, 1, 0]).tolist() == [0, 0, np.inf, np.inf]
    assert kl(0.3, [0, 0.3, 1]).tolist() == [np.inf, 0, np.inf]


@both_sides
def test_inverse_is_never_inside_the_exact_root_and_close_to_it(side):
    """(K.2), (K.5)."""
    q, budget = grid([0, *INNER_Q, 1], [0, *BUDGETS])
    assert_outside_and_near(side, q, budget, INVERSES[side](q, budget))


@both_sides
def test_the_bisection_fallback_keeps_the_same_promise(side):
    """(K.2), (K.5), section K.3."""
    q, budget = grid(INNER_Q, BUDGETS)
    assert_outside_and_near(side, q, budget, FALLBACKS[side](q, budget))


@both_sides
@pytest.mark.parametrize("share", [0.9, np.nan])
def test_a_wrong_fast_root_is_caught_and_found_again(side, share, monkeypatch):
    """Section K.3: a root on the inner side, or none at all, must not reach the caller."""
    root = KL_MODULE._halley_root
    wrong = lambda q, *rest: q + share * (root(q, *rest) - q)  # noqa: E731
    monkeypatch.setattr(KL_MODULE, "_halley_root", wrong)
    q, budget = grid(INNER_Q, BUDGETS)
    assert_outside_and_near(side, q, budget, INVERSES[side](q, budget))


def test_closed_forms_at_the_edges_hold_within_two_units_in_the_last_place(rng):
    """1 - exp(-c) at q = 0 and exp(-c) at q = 1, rounded outward."""
    budgets = np.concatenate([BUDGETS, 10 ** rng.uniform(-12, 2.5, 300)])
    upper, lower = kl_inverse_upper(0.0, budgets), kl_inverse_lower(1.0, budgets)
    for c, up, low in zip(budgets.tolist(), upper.tolist(), lower.tolist(), strict=True):
        above, below = -mp.expm1(-mp.mpf(c)), mp.exp(-mp.mpf(c))
        assert up == 1 or 0 <= up - above <= 2 * mp.mpf(np.spacing(up)), c
        assert 0 <= below - low <= 2 * mp.mpf(np.spacing(low)), c


@both_sides
def test_extreme_budgets_give_q_and_the_limit_exactly(side):
    q = np.array([0, *INNER_Q, 1])
    assert (INVERSES[side](q, 0.0) == q).all()
    assert (INVERSES[side](q, np.inf) == LIMITS[side]).all()


def test_the_far_edge_is_its_own_inverse():
    assert (kl_inverse_upper(1.0, BUDGETS) == 1).all()
    assert (kl_inverse_lower(0.0, BUDGETS) == 0).all()


@both_sides
def test_blocks_do_not_mix_elements(side, rng):
    """More than two blocks of edges and inner values equal the elements one by one."""
    size = 2 * _BLOCK + 3
    q = rng.choice([0.0, 1.0, *rng.random(50)], size)
    budget = rng.choice([0.0, np.inf, *rng.uniform(0.01, 2, 50)], size)
    found = INVERSES[side](q, budget)
    sample = [0, 1, _BLOCK - 1, _BLOCK, 2 * _BLOCK - 1, 2 * _BLOCK, size - 1]
    for i in [*sample, *rng.integers(size, size=200).tolist()]:
        assert found[i] == pytest.approx(float(INVERSES[side](q[i], budget[i])), rel=1e-12), i


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, np.inf), st.floats(1e-6, np.inf))
def test_inverses_rise_with_the_mean_and_move_outward_with_the_budget(q, other, budget, more):
    """They are at most 1e-9 out of order; and each uses up its budget, or is at its end."""
    (q, other), (budget, more), slack = sorted([q, other]), sorted([budget, more]), 1e-9
    low, high = kl_inverse_lower(q, budget), kl_inverse_upper(q, budget)
    assert 0 <= low <= q <= high <= 1
    assert low <= kl_inverse_lower(other, budget) + slack
    assert high <= kl_inverse_upper(other, budget) + slack
    assert low >= kl_inverse_lower(q, more) - slack
    assert high <= kl_inverse_upper(q, more) + slack
    rounding = 1e-14 * (1 + budget) if budget < np.inf else 0
    assert high == 1 or kl(q, high) >= budget - rounding
    assert low == 0 or kl(q, low) >= budget - rounding
