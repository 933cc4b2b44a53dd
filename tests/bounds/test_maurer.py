"""(B.1): the constant of the PAC-Bayes-kl theorem against 60-digit arithmetic."""

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import xi


def binomial_sum(n):
    """(B.1) as Maurer writes it: E exp(n kl(K/n || p)) for K ~ Bin(n, p), whatever p."""
    return mp.fsum(
        mp.binomial(n, k) * (mp.mpf(k) / n) ** k * (1 - mp.mpf(k) / n) ** (n - k)
        for k in range(n + 1)
    )


def product_series(n):
    """1 + Ramanujan's Q: 1 + 1 + (1 - 1/n) + (1 - 1/n)(1 - 2/n) + ..., cut off below 1e-50."""
    total, product, i = mp.mpf(1), mp.mpf(1), 0
    while product > mp.mpf("1e-50"):
        total, i = total + product, i + 1
        product *= mp.mpf(n - i) / n
    return total


@pytest.mark.parametrize("n", [*range(1, 31), 63, 100, 257, 500])
def test_xi_is_the_binomial_sum_rounded_up(n):
    """(B.1)."""
    exact = binomial_sum(n)
    assert 0 <= xi(n) - exact < 1e-13 * exact
    assert abs(product_series(n) - exact) < mp.mpf("1e-45")


@pytest.mark.parametrize("n", [1000, 65_536, 999_999, 10**6])
def test_xi_is_rounded_up_where_the_series_is_long(n):
    exact = product_series(n)
    assert 0 <= xi(n) - exact < 1e-11 * exact


@pytest.mark.parametrize("n", [10**6 + 1, 10**7, pytest.param(10**8, marks=pytest.mark.validity)])
def test_beyond_a_million_the_closed_form_is_above_by_less_than_two(n):
    assert 0 <= xi(n) - product_series(n) < 2


def test_xi_is_never_above_the_constant_of_the_paper():
    """xi(n) <= 2 sqrt(n) from n = 1 (with equality) on; Maurer's proof starts at n = 8."""
    n = np.concatenate([np.arange(1, 3000), 10 ** np.arange(4, 16)])
    assert (xi(n) <= 2 * np.sqrt(n)).all()
    assert (xi(n) >= np.sqrt(n)).all()
    assert (np.diff(xi(n)) > 0).all()
    assert xi(1) == 2
