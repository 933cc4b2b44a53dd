"""(P.1) and (P.2) against plain implementations at 60 digits."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.bounds import kl_inverse_upper, pac_bayes_kl, split_kl

EXCESS = 1e-9
SPLIT = {"kl": 1.0, "n": 100, "delta": 0.05, "low": -0.5, "high": 1.0, "mu": 0.0}


def inverse(q, budget, limit):
    """The p between q and `limit` at which kl(q || p) reaches the budget, by bisection."""
    inner, outer = q, mp.mpf(limit)
    for _ in range(150):
        p = (inner + outer) / 2
        kl = q * mp.log(q / p) if q > 0 else 0
        kl += (1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0
        inner, outer = (inner, p) if kl > budget else (p, outer)
    return outer


def exact_xi(n):
    """(B.1) as a series of products; test_maurer.py compares it with the sum over k."""
    products, total = mp.mpf(1), mp.mpf(1)
    for i in range(1, n + 1):
        total += products
        products *= 1 - mp.mpf(i) / n
    return total


def exact_pac_bayes_kl(risk, kl, n, delta):
    """(P.1)."""
    risk, kl, delta = map(mp.mpf, (risk, kl, delta))
    return inverse(risk, (kl + mp.log(exact_xi(n) / delta)) / n, limit=1)


def exact_split_kl(plus, minus, kl, n, delta, low, high, mu):
    """(P.2)."""
    plus, minus, kl, delta, low, high, mu = map(mp.mpf, (plus, minus, kl, delta, low, high, mu))
    budget = (kl + mp.log(2 * exact_xi(n) / delta)) / n
    above = (high - mu) * inverse(plus / (high - mu), budget, limit=1) if mu < high else 0
    below = (mu - low) * inverse(minus / (mu - low), budget, limit=0) if mu > low else 0
    return mu + above - below


@pytest.mark.parametrize("n", [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize("kl", [0.0, 0.3, 50.0])
def test_pac_bayes_kl_is_the_exact_value_rounded_up(n, kl, rng):
    """(P.1)."""
    for risk in [0.0, 1e-12, 1.0, *rng.random(3)]:
        delta = float(10 ** rng.uniform(-6, -0.1))
        bound = pac_bayes_kl(risk, kl=kl, n=n, delta=delta)
        assert 0 <= bound - exact_pac_bayes_kl(risk, kl, n, delta) < EXCESS, (risk, delta)


@pytest.mark.parametrize(("low", "high"), [(-0.5, 1.0), (0.0, 1.0), (-0.3, 0.1), (2.0, 5.0)])
@pytest.mark.parametrize("place", [0.0, 1 / 3, 0.7, 1.0])
def test_split_kl_is_the_exact_value_rounded_up(low, high, place, rng):
    """(P.2), mu from one end of the interval to the other."""
    mu = min(low + place * (high - low), high)
    for share_plus, share_minus in [(0, 0), (0, 1), (1, 0), *rng.dirichlet([1, 1, 1], 4)[:, :2]]:
        plus, minus = float(share_plus) * (high - mu), float(share_minus) * (mu - low)
        n, delta = int(rng.integers(1, 3000)), float(10 ** rng.uniform(-6, -0.1))
        case = {"kl": float(rng.exponential(5)), "n": n, "delta": delta}
        case |= {"low": low, "high": high, "mu": mu}
        excess = split_kl(plus, minus, **case) - exact_split_kl(plus, minus, **case)
        assert 0 <= excess < EXCESS * (high - low), (plus, minus, case)


@settings(deadline=None, derandomize=True)
@given(
    share=st.floats(0, 1),
    low=st.floats(-10, 10),
    width=st.floats(0.01, 10),
    kl=st.floats(0, 100),
    n=st.integers(1, 10_000),
    delta=st.floats(1e-6, 0.999),
)
def test_split_at_the_low_end_is_the_rescaled_kl_bound_at_half_delta(
    share, low, width, kl, n, delta
):
    """Section P: with mu = a the second part vanishes. Each side may carry its own excess."""
    high = low + width
    plus = share * (high - low)
    split = split_kl(plus, 0.0, kl=kl, n=n, delta=delta, low=low, high=high, mu=low)
    plain = pac_bayes_kl(share, kl=kl, n=n, delta=delta / 2)
    assert split == pytest.approx(low + (high - low) * plain, abs=2 * EXCESS * (high - low))


def test_infinite_divergence_gives_the_vacuous_bound():
    """1 exactly for (P.1); the top of the interval, rounded up, for (P.2)."""
    assert pac_bayes_kl(0.1, kl=np.inf, n=100, delta=0.05) == 1
    vacuous = split_kl(0.1, 0.2, **SPLIT | {"kl": np.inf})
    assert 0 <= vacuous - 1.0 < 1e-14


def test_the_bound_is_below_that_of_the_paper(rng):
    """xi(n) in place of 2 sqrt(n): never looser, and strictly tighter from n = 2 on."""
    risk = rng.random(20) / 2
    for n in (2, 10, 100, 10**5, 10**8):
        budget = (3.0 + np.log(2 * np.sqrt(n) / 0.05)) / n
        assert (pac_bayes_kl(risk, kl=3.0, n=n, delta=0.05) < kl_inverse_upper(risk, budget)).all()
