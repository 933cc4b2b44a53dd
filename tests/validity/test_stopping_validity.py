"""May one stop when the number looks good? (H.7) by simulation, with the worst stopping rule.

A statistician who looks after every batch and stops as soon as the bound is below the true mean
fails as often as any stopping rule can. Counted as in test_bounds_validity; bounds for a fixed
number of values are put through the same counting, to show that it would notice.
"""

import numpy as np
import pytest
from scipy.stats import binom

from tightrope.bounds import betting_upper, default_bets, holdout_kl, target_bets

DELTA = 0.1
FREE = 40  # values to plan with


def rare(rng, shape):
    """Mostly small, rarely 1; mean 0.05."""
    return np.where(rng.random(shape) < 0.04, 1.0, rng.uniform(0.0, 0.0208333333333, shape)), 0.05


def spread(rng, shape):
    return rng.beta(0.5, 1.5, shape), 0.25


def coin(rng, shape):
    return (rng.random(shape) < 0.5).astype(float), 0.5


def ever_wrong(bound, values, mean, looks):
    """In how many rows the bound is below the mean at some look."""
    wrong = np.zeros(len(values), dtype=bool)
    for n in looks:
        wrong |= np.asarray(bound(values[:, :n])) < mean * (1 - 1e-6)
    return int(wrong.sum())


def sequential(rng, source, n, factor):
    """Bets against a target, planned on free values that are not used again."""
    free, mean = source(rng, FREE)
    bets, weights = target_bets(free, target=min(factor * mean, 0.99), n=n)
    return lambda values: betting_upper(values, delta=DELTA, bets=bets, weights=weights)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.5])
@pytest.mark.parametrize("source", [rare, spread, coin])
@pytest.mark.parametrize(
    ("repetitions", "n", "every"),
    [(200, 80, 8), pytest.param(20_000, 600, 1, marks=pytest.mark.validity)],
)
def test_a_bound_by_bets_fixed_for_all_n_may_be_looked_at_always(
    source, factor, repetitions, n, every
):
    rng = np.random.default_rng(20250316)
    bound = sequential(rng, source, n, factor)
    values, mean = source(rng, (repetitions, n))
    failures = ever_wrong(bound, values, mean, range(every, n + 1, every))
    assert failures <= binom.ppf(1 - 1e-6, repetitions, DELTA)


def test_default_bets_for_the_largest_n_may_be_looked_at_always():
    rng = np.random.default_rng(20250317)
    bets, weights = default_bets(120)
    values, mean = coin(rng, (300, 120))
    failures = ever_wrong(
        lambda x: betting_upper(x, delta=DELTA, bets=bets, weights=weights),
        values, mean, range(5, 121, 5),
    )  # fmt: skip
    assert failures <= binom.ppf(1 - 1e-6, 300, DELTA)


def test_the_counting_notices_a_bound_for_a_fixed_number_of_values():
    """A valid bound at one n, looked at after every value."""
    rng = np.random.default_rng(20250318)
    values, mean = coin(rng, (300, 300))

    def fixed(x):
        return holdout_kl(x.mean(axis=1), n=x.shape[1], delta=DELTA)

    assert ever_wrong(fixed, values, mean, range(1, 301)) > binom.ppf(1 - 1e-6, 300, DELTA)
    assert ever_wrong(fixed, values, mean, [300]) <= binom.ppf(1 - 1e-6, 300, DELTA)


def test_the_counting_notices_values_of_several_means():
    """(H.7) asks for one mean: after values that are small at first, the average is above."""
    rng = np.random.default_rng(20250319)
    early, late = 0.2 * rng.random((300, 60)), 0.9 + 0.1 * rng.random((300, 60))
    values, mean = np.concatenate([early, late], axis=1), (0.1 + 0.95) / 2
    bets, weights = default_bets(120)
    bound = lambda x: betting_upper(x, delta=DELTA, bets=bets, weights=weights)  # noqa: E731
    assert ever_wrong(bound, values, mean, [120]) <= binom.ppf(1 - 1e-6, 300, DELTA)
    assert ever_wrong(bound, values, mean, range(10, 121, 10)) == 300
