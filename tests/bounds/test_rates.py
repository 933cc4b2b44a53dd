"""Two rates: the test against scipy's, intervals against exact sums of probabilities."""

import numpy as np
import pytest
from scipy.stats import beta, binom, boschloo_exact

from tightrope.bounds import rate_difference_lower, rate_sequence, rate_test

SMALL = (7, 9)  # trials of an exhaustive check


def test_74_of_80_against_91_of_120():
    """The case of the issue, and its mirror images."""
    assert rate_test(74, 80, 91, 120) == pytest.approx(0.0020, abs=5e-5)
    assert rate_test(91, 120, 74, 80) == rate_test(74, 80, 91, 120)
    assert rate_test(6, 80, 29, 120) == pytest.approx(rate_test(74, 80, 91, 120), rel=1e-3)


def test_the_test_is_boschloos_and_never_below_it():
    """(D.5): scipy's, whose optimiser looks for the same supremum from below."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, m = (int(size) for size in rng.integers(1, 30, 2))
        x, y = int(rng.integers(0, n + 1)), int(rng.integers(0, m + 1))
        expected = min(boschloo_exact([[x, y], [n - x, m - y]], n=64).pvalue, 1.0)
        assert expected * (1 - 1e-9) <= rate_test(x, n, y, m) <= expected * 1.002, (x, n, y, m)


def outcomes(p, q):
    """(first, second) probabilities of every pair of counts."""
    n, m = SMALL
    return np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(m + 1), m, q))


@pytest.fixture(scope="module")
def table():
    """P-values and lower bounds at 0.1 for every outcome of 7 and 9 trials."""
    n, m = SMALL
    rows, columns = range(n + 1), range(m + 1)
    tests = np.array([[rate_test(x, n, y, m) for y in columns] for x in rows])
    lower = [[rate_difference_lower(x, n, y, m, delta=0.1) for y in columns] for x in rows]
    return tests, np.array(lower)


def test_equal_rates_are_rejected_as_rarely_as_promised_whatever_the_rate(table):
    for p in np.linspace(0.0, 1.0, 201):
        chance = outcomes(p, p)
        for delta in (0.01, 0.05, 0.1, 0.3):
            assert chance[table[0] <= delta].sum() <= delta * (1 + 1e-9)


def test_a_lower_bound_is_above_the_difference_as_rarely_as_promised(table):
    """(D.6), exactly, for every pair of rates on a grid."""
    worst = 0.0
    for p in np.linspace(0.0, 1.0, 41):
        for q in np.linspace(0.0, 1.0, 41):
            worst = max(worst, outcomes(p, q)[table[1] > p - q].sum())
    assert 0.05 < worst <= 0.1 * (1 + 1e-9)


def test_a_lower_bound_above_0_needs_a_rejection_and_is_below_the_difference_found(table):
    n, m = SMALL
    tests, lower = table
    x, y = np.indices(tests.shape)
    decided = lower > 0
    assert decided.any()
    assert (tests[decided] <= 0.2).all()
    assert (lower <= x / n - y / m).all()
    assert (np.diff(lower, axis=0) >= -1e-4).all()  # more events, a higher bound
    assert (np.diff(lower, axis=1) <= 1e-4).all()


@pytest.mark.parametrize(
    ("counts", "beside"),
    [((74, 80, 91, 120), 0.054), ((0, 20, 0, 20), None), ((20, 20, 0, 20), 0.75)],
)
def test_the_interval_is_narrower_than_two_intervals_of_half_the_failure_each(counts, beside):
    x, n, y, m = counts
    delta = 0.0175
    low = rate_difference_lower(x, n, y, m, delta=delta)
    apart = beta.ppf(delta / 2, x, n - x + 1) if x else 0.0
    apart -= beta.ppf(1 - delta / 2, y + 1, m - y) if y < m else 1.0
    assert low >= apart - 1e-4
    if beside is not None:
        assert low == pytest.approx(beside, abs=0.06)


def test_many_trials_take_another_way_that_holds_as_well():
    """More tables than are listed: Fisher's exact test, and two intervals."""
    assert rate_test(900, 1000, 850, 1000) == pytest.approx(
        2 * _fisher(900, 1000, 850, 1000), rel=1e-6
    )
    low = rate_difference_lower(900, 1000, 850, 1000, delta=0.05)
    expected = beta.ppf(0.025, 900, 101) - beta.ppf(0.975, 851, 150)
    assert low == pytest.approx(expected, abs=1e-6)


def _fisher(x, n, y, m):
    from scipy.stats import hypergeom

    return float(hypergeom.sf(x - 1, n + m, x + y, n))


def test_a_sequence_ends_where_the_mixture_has_a_capital_of_1_over_delta():
    """(D.7) against quadrature of the mixture."""
    from scipy.integrate import quad

    for x, n in ((0, 5), (3, 10), (74, 80), (120, 120)):
        for end in rate_sequence(x, n, delta=0.05):
            if not 0 < end < 1:
                continue
            ratio = lambda p: np.exp(  # noqa: E731
                x * np.log(p / end) + (n - x) * np.log((1 - p) / (1 - end))  # noqa: B023
            )
            weight = beta(0.5, 0.5).pdf
            capital = quad(lambda t: ratio(t) * weight(t), 0, 1, points=[x / n], limit=200)[0]  # noqa: B023
            assert capital == pytest.approx(20, rel=1e-3)


def _missed(rate, trials, repetitions, rng):
    """How often any of the intervals along a sequence of trials leaves the rate out."""
    count = 0
    for _ in range(repetitions):
        events = np.cumsum(rng.random(trials) < rate)
        looks = np.unique(np.geomspace(1, trials, 40).astype(int))
        ends = [rate_sequence(int(events[n - 1]), int(n), delta=0.2) for n in looks]
        count += any(not low <= rate <= high for low, high in ends)
    return count


@pytest.mark.parametrize(
    ("repetitions", "trials"), [(25, 100), pytest.param(400, 1000, marks=pytest.mark.validity)]
)
def test_the_intervals_of_a_sequence_hold_at_every_number_at_once(repetitions, trials):
    rng = np.random.default_rng(5)
    for rate in (0.02, 0.4):
        limit = binom.ppf(1 - 1e-6, repetitions, 0.2)
        assert _missed(rate, trials, repetitions, rng) <= limit
