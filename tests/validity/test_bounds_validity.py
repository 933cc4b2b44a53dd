"""Do the bounds hold as often as they say? Seeded simulations with a known truth.

A bound that fails with probability at most delta fails in R independent repetitions at most
`binom.ppf(1 - 1e-6, R, delta)` times, except with probability 1e-6. Deliberately wrong bounds are
put through the same counting, to show that it would notice. Short versions run by default, the
long ones with `-m validity`.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betainc, ndtr
from scipy.stats import binom

from tightrope.bounds import (
    bet_loss,
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    effective_draws,
    holdout_kl,
    joint_tolerance,
    mean_from_tolerance,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    planned_bets,
    recursive_bound,
    split_kl,
    tolerance_rank,
    tolerance_share,
)


def sizes(short, long):
    """(repetitions, n, delta): the short settings by default, the long ones on request."""
    long = [pytest.param(*setting, marks=pytest.mark.validity) for setting in long]
    return pytest.mark.parametrize(("repetitions", "n", "delta"), [*short, *long])


def most_failures(repetitions, delta):
    return binom.ppf(1 - 1e-6, repetitions, delta)


@pytest.fixture
def rng():
    return np.random.default_rng(20250106)


# --- One mean: values (repetitions, n) in [0, 1] and the average of their expectations ----------


def constant(mean):
    return lambda n: np.full(n, mean)


def alternating(first, second):
    return lambda n: np.where(np.arange(n) % 2 == 0, first, second)


def drifting(first, last):
    return lambda n: np.linspace(first, last, n)


def bernoulli(means):
    def draw(rng, repetitions, n):
        return (rng.random((repetitions, n)) < means(n)).astype(float), means(n).mean()

    return draw


def beta(means, total):
    def draw(rng, repetitions, n):
        p = means(n)
        return rng.beta(total * p, total * (1 - p), (repetitions, n)), p.mean()

    return draw


def rare_disaster(rng, repetitions, n):
    """1 with probability 0.002, else uniform on [0, 0.01]."""
    disaster = rng.random((repetitions, n)) < 0.002
    return np.where(disaster, 1.0, 0.01 * rng.random((repetitions, n))), 0.002 + 0.998 * 0.005


def catastrophes(slope, unseen=0.1):
    """0.01, but now and then 1: not once among n values with a probability near `unseen`.

    Twice a delta of 0.05 by default, so a bound below the floor (H.6) fails too often here. With
    `slope` 1 the probability of a catastrophe rises from 0 to twice its average.
    """

    def draw(rng, repetitions, n):
        p = (1 - unseen ** (1 / n)) * (1 + slope * np.linspace(-1, 1, n))
        lost = rng.random((repetitions, n)) < p
        return np.where(lost, 1.0, 0.01), 0.01 + 0.99 * p.mean()

    return draw


TRIALS = {f"bernoulli({p})": bernoulli(constant(p)) for p in (0.02, 0.3, 0.5, 0.95)}
SOURCES = TRIALS | {
    "beta(0.3, 3)": beta(constant(0.3 / 3.3), 3.3),
    "beta(5, 2)": beta(constant(5 / 7), 7),
    "rare disaster": rare_disaster,
    "catastrophes": catastrophes(0),
    "catastrophes, ever likelier": catastrophes(1),
    "bernoulli alternating": bernoulli(alternating(0.05, 0.8)),
    "bernoulli increasing": bernoulli(drifting(0.0, 0.6)),
    "bernoulli decreasing": bernoulli(drifting(0.6, 0.0)),
    "beta increasing": beta(drifting(0.1, 0.9), 4),
    "beta decreasing": beta(drifting(0.9, 0.1), 4),
}


def one_bet(bet):
    """(P.3) at KL = 0."""

    def bound(x, delta):
        mean = bet_loss(x, bet).mean(-1)
        return pac_bayes_bet(mean, bet=bet, kl=0, n=x.shape[-1], delta=delta)

    return bound


UPPER = {
    "monte_carlo_upper": lambda x, d: monte_carlo_upper(x.mean(-1), draws=x.shape[-1], delta=d),
    "holdout_kl": lambda x, d: holdout_kl(x.mean(-1), n=x.shape[-1], delta=d),
    "betting_upper": lambda x, d: betting_upper(x, delta=d),
    "betting_upper, all in": lambda x, d: betting_upper(x, delta=d, bets=[1]),
    "pac_bayes_kl": lambda x, d: pac_bayes_kl(x.mean(-1), kl=0, n=x.shape[-1], delta=d),
    "pac_bayes_bet, timid": one_bet(0.2),
    "pac_bayes_bet, bold": one_bet(0.999),
    "clopper_pearson_upper": lambda x, d: clopper_pearson_upper(x.sum(-1), n=x.shape[-1], delta=d),
}
LOWER = {
    "monte_carlo_lower": lambda x, d: monte_carlo_lower(x.mean(-1), draws=x.shape[-1], delta=d),
    "betting_lower": lambda x, d: betting_lower(x, delta=d),
    "clopper_pearson_lower": lambda x, d: clopper_pearson_lower(x.sum(-1), n=x.shape[-1], delta=d),
}
BOUNDS = UPPER | LOWER
CASES = [(b, s) for b in BOUNDS for s in (TRIALS if b.startswith("clopper") else SOURCES)]
WRONG = {  # on fair coins, where about half of all means err on either side
    "mean as upper": (lambda x, d: x.mean(-1), False),
    "mean as lower": (lambda x, d: x.mean(-1), True),
    "upper at 4 delta": (lambda x, d: UPPER["clopper_pearson_upper"](x, min(4 * d, 0.6)), False),
    "lower at 4 delta": (lambda x, d: LOWER["clopper_pearson_lower"](x, min(4 * d, 0.6)), True),
}
short_and_long = sizes(
    [(1000, 30, 0.05), (1000, 30, 0.2)],
    [(4000, n, delta) for n in (5, 100) for delta in (0.01, 0.05, 0.2)],
)


def failures(values, truth, bound, is_lower, delta):
    bounds = bound(values, delta)
    return np.count_nonzero(bounds > truth if is_lower else bounds < truth)


@short_and_long
@pytest.mark.parametrize(("bound", "source"), CASES)
def test_a_bound_on_one_mean_fails_at_most_at_its_rate(bound, source, repetitions, n, delta, rng):
    """(C.1), (C.2), (H.1) to (H.5), and (P.1) and (P.3) at KL = 0."""
    values, truth = SOURCES[source](rng, repetitions, n)
    count = failures(values, truth, BOUNDS[bound], bound in LOWER, delta)
    assert count <= most_failures(repetitions, delta)


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_counting_notices_a_wrong_bound_on_one_mean(wrong, delta, rng):
    values, truth = bernoulli(constant(0.5))(rng, 500, 30)
    assert failures(values, truth, *WRONG[wrong], delta) > most_failures(500, delta)


@pytest.mark.parametrize("bound", ["betting_upper, all in", "pac_bayes_bet, bold"])
def test_the_counting_notices_a_bound_below_the_floor(bound, rng):
    """(H.6): at four times its delta a bold bet does not reckon with catastrophes unseen."""
    values, truth = catastrophes(0)(rng, 2000, 30)
    assert failures(values, truth, UPPER[bound], False, 0.2) > most_failures(2000, 0.05)


# --- Bets planned on free values of the same source ----------------------------------------------


def mirrored(bets):
    """A plan for the lower bound is one for the upper bound on 1 - values."""
    return lambda values, **case: bets(1 - values, **case)


@short_and_long
@pytest.mark.parametrize(
    ("bound", "plan", "is_lower"),
    [
        pytest.param(betting_upper, planned_bets, False, id="upper"),
        pytest.param(betting_lower, mirrored(planned_bets), True, id="lower"),
    ],
)
@pytest.mark.parametrize(
    "source",
    [
        "beta(0.3, 3)",
        "rare disaster",
        "catastrophes",
        "catastrophes, ever likelier",
        "bernoulli alternating",
        "beta increasing",
    ],
)
def test_planned_bets_fail_at_most_at_their_rate(
    bound, plan, is_lower, source, repetitions, n, delta, rng
):
    """(H.2), (H.3): 8 plans, each on 10 values of its own, each for an 8th of the repetitions."""
    count = 0
    for _ in range(8):
        free, _ = SOURCES[source](rng, 1, 10)
        bets, weights = plan(free, n=n, delta=delta)
        values, truth = SOURCES[source](rng, repetitions // 8, n)
        bounds = bound(values, delta=delta, bets=bets, weights=weights)
        count += np.count_nonzero(bounds > truth if is_lower else bounds < truth)
    assert count <= most_failures(repetitions, delta)


# --- Draws with unequal weights and unequal means: (C.3) -----------------------------------------
#
# Each gives draws (repetitions, n), their weights and the weighted mean of their expectations.


def weighted(draw, weights, means):
    def drawn(rng, repetitions, n):
        w = weights(n) / weights(n).sum()
        return draw(rng, means(n), repetitions), w, w @ means(n)

    return drawn


def coins(rng, p, repetitions):
    return (rng.random((repetitions, len(p))) < p).astype(float)


def skewed(rng, p, repetitions):
    return rng.beta(0.5 * p, 0.5 * (1 - p), (repetitions, len(p)))


LENGTHS = alternating(1 / 3, 1 / 40)  # rows of short and of long episodes
WEIGHTED = {
    "coins": weighted(coins, LENGTHS, constant(0.5)),
    "coins, heavier ones likelier": weighted(coins, drifting(1, 5), drifting(0.02, 0.5)),
    "coins, heavier ones rarer": weighted(coins, drifting(5, 1), drifting(0.02, 0.5)),
    "catastrophes where it weighs most": weighted(coins, LENGTHS, alternating(0.08, 0.001)),
    "skewed, alternating": weighted(skewed, drifting(1, 5), alternating(0.02, 0.3)),
}


@short_and_long
@pytest.mark.parametrize("source", WEIGHTED)
def test_weighted_draws_fail_at_most_at_their_rate(source, repetitions, n, delta, rng):
    """(C.3): (C.1) and (C.2) with the number of draws the weights are worth."""
    draws, weights, truth = WEIGHTED[source](rng, repetitions, n)
    case = {"draws": effective_draws(weights), "delta": delta}
    mean = np.minimum(draws @ weights, 1.0)
    above = np.count_nonzero(monte_carlo_upper(mean, **case) < truth)
    below = np.count_nonzero(monte_carlo_lower(mean, **case) > truth)
    assert max(above, below) <= most_failures(repetitions, delta)


def test_the_counting_notices_draws_counted_without_their_weights(rng):
    first_half = weighted(coins, lambda n: np.where(np.arange(n) == 0, n - 1, 1), constant(0.5))
    draws, weights, truth = first_half(rng, 500, 30)
    assert effective_draws(weights) == 2
    wrong = monte_carlo_upper(draws @ weights, draws=30, delta=0.05)
    assert np.count_nonzero(wrong < truth) > most_failures(500, 0.05)


# --- A loss in an interval: split_kl at KL = 0 ---------------------------------------------------

LOW, HIGH = -0.5, 1.0


def three_points(means):
    """-0.5, 0 and 1; two thirds of the time 0, with the expectation `means`."""

    def draw(rng, repetitions, n):
        p_high = (means(n) + 1 / 6) / 1.5  # p_high - (1/3 - p_high)/2 = mean
        u = rng.random((repetitions, n))
        return np.where(u < p_high, HIGH, np.where(u < 1 / 3, LOW, 0.0)), means(n).mean()

    return draw


def rare_loss(rng, repetitions, n):
    """1 with probability 0.01, else uniform on [-0.5, 0]."""
    rare = rng.random((repetitions, n)) < 0.01
    return np.where(rare, HIGH, LOW * rng.random((repetitions, n))), 0.01 - 0.99 * 0.25


LOSSES = {
    "three points": three_points(constant(0.1)),
    "three points, mostly low": three_points(constant(-0.15)),
    "three points, increasing": three_points(drifting(-0.1, 0.3)),
    "three points, decreasing": three_points(drifting(0.3, -0.1)),
    "rare loss": rare_loss,
}


def split_parts(x, mu):
    return np.maximum(0, x - mu).mean(-1), np.maximum(0, mu - x).mean(-1)


def split_bound(plus, minus, *, mu, n, delta):
    return split_kl(plus, minus, kl=0, n=n, delta=delta, low=LOW, high=HIGH, mu=mu)


@short_and_long
@pytest.mark.parametrize("mu", [-0.5, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_split_kl_fails_at_most_at_its_rate(loss, mu, repetitions, n, delta, rng):
    """(P.2)."""
    x, truth = LOSSES[loss](rng, repetitions, n)
    bounds = split_bound(*split_parts(x, mu), mu=mu, n=n, delta=delta)
    count = np.count_nonzero(bounds < truth)
    assert count <= most_failures(repetitions, delta)


def test_the_counting_notices_wrong_uses_of_the_two_parts(rng):
    x, truth = three_points(constant(0.2))(rng, 500, 100)
    plus, minus = split_parts(x, 0.0)
    swapped = split_bound(minus, plus, mu=0.0, n=100, delta=0.05)
    for wrong in (swapped, plus - minus):
        assert np.count_nonzero(wrong < truth) > most_failures(500, 0.05)


# --- Posteriors chosen after seeing the data: (P.1) for all of them at once ----------------------
#
# Each family gives (empirical risk, risk, KL), all of shape (repetitions, posteriors).

SPREAD = 2.0  # of a unit z ~ N(centre, SPREAD^2); the prior is N(0, 1)


def bump_risk(mean, sd, z, spread=0.0):
    """E[1 - exp(-(h - Z)^2 / 2)] for h ~ N(mean, sd^2), Z ~ N(z, spread^2): a Gaussian integral."""
    variance = 1 + sd**2 + spread**2
    return 1 - np.exp(-((mean - z) ** 2) / (2 * variance)) / np.sqrt(variance)


def gaussian_kl(mean, sd, prior_mean=0.0, prior_sd=1.0):
    ratio = sd / prior_sd
    return (ratio**2 + ((mean - prior_mean) / prior_sd) ** 2 - 1) / 2 - np.log(ratio)


def around_the_data(centres):
    """Bump loss on the line; 5 means around the data's x 3 widths."""

    def draw(rng, repetitions, n):
        z = centres(n) + SPREAD * rng.normal(size=(repetitions, n))
        mean = (z.mean(-1)[:, None] + np.linspace(-1, 1, 5)).repeat(3, axis=-1)
        sd = np.tile([0.1, 0.3, 1.0], 5)  # (posteriors,)
        empirical = bump_risk(mean[..., None], sd[:, None], z[:, None]).mean(-1)
        risk = bump_risk(mean[..., None], sd[:, None], centres(n), SPREAD).mean(-1)
        return empirical, risk, gaussian_kl(mean, sd)

    return draw


def fitted_to_noise(rng, repetitions, n, dimension=20):
    """0-1 loss 1[h.z < 0] on pure noise: every h has risk 1/2, yet the data's mean fits the data.

    Prior N(0, I), posterior N(m, I): E_h[loss] = Phi(-m.z / |z|), KL = |m|^2 / 2.
    """
    z = rng.normal(size=(repetitions, n, dimension))
    direction = z.mean(1) / np.linalg.norm(z.mean(1), axis=-1, keepdims=True)
    margin = np.einsum("rnd,rd->rn", z, direction) / np.linalg.norm(z, axis=-1)
    length = np.array([0.5, 1.0, 2.0, 4.0, 16.0])
    empirical = ndtr(-length[:, None] * margin[:, None]).mean(-1)
    return empirical, np.full_like(empirical, 0.5), np.broadcast_to(length**2 / 2, empirical.shape)


FAMILIES = {
    "around the data": around_the_data(constant(1.0)),
    "around the data, alternating": around_the_data(alternating(-1.0, 2.0)),
    "around the data, increasing": around_the_data(drifting(-1.0, 2.0)),
    "around the data, decreasing": around_the_data(drifting(2.0, -1.0)),
    "fitted to noise": fitted_to_noise,
}


@short_and_long
@pytest.mark.parametrize("family", FAMILIES)
def test_pac_bayes_kl_holds_for_all_posteriors_at_once(family, repetitions, n, delta, rng):
    """(P.1): a repetition counts as a failure if the bound fails for any of the posteriors."""
    empirical, risk, kl = FAMILIES[family](rng, repetitions, n)
    failed = (pac_bayes_kl(empirical, kl=kl, n=n, delta=delta) < risk).any(-1)
    assert np.count_nonzero(failed) <= most_failures(repetitions, delta)


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_counting_notices_a_posterior_that_does_not_pay_its_divergence(delta, rng):
    empirical, risk, _ = fitted_to_noise(rng, 500, 30)
    failed = (pac_bayes_kl(empirical, kl=0.0, n=30, delta=delta) < risk).any(-1)
    assert np.count_nonzero(failed) > most_failures(500, delta)


# --- The same for (P.3): each family gives (mean bet loss, risk, KL) for a bet -------------------


def best_of(source, predictors=20):
    """Predictors that are all alike, and a posterior on each of them: the best one was lucky."""

    def draw(rng, repetitions, n, bet):
        losses, risk = source(rng, repetitions * predictors, n)
        mean = bet_loss(losses, bet).mean(-1).reshape(repetitions, predictors)
        return mean, risk, np.log(predictors)

    return draw


def bets_on_noise(rng, repetitions, n, bet):
    """A 0-1 loss costs -ln(1 - bet) or nothing."""
    empirical, risk, kl = fitted_to_noise(rng, repetitions, n)
    return empirical * bet_loss(1.0, bet), risk, kl


BET_FAMILIES = {
    "fitted to noise": bets_on_noise,
    "best of 20, skewed": best_of(SOURCES["beta(0.3, 3)"]),
    "best of 20, catastrophes": best_of(catastrophes(0)),
    "best of 20, catastrophes ever likelier": best_of(catastrophes(1)),
    "best of 20, beta increasing": best_of(SOURCES["beta increasing"]),
}


@short_and_long
@pytest.mark.parametrize("bet", [0.2, 0.9, 0.999])
@pytest.mark.parametrize("family", BET_FAMILIES)
def test_pac_bayes_bet_holds_for_all_posteriors_at_once(family, bet, repetitions, n, delta, rng):
    """(P.3): a repetition counts as a failure if the bound fails for any of the posteriors."""
    mean, risk, kl = BET_FAMILIES[family](rng, repetitions, n, bet)
    failed = (pac_bayes_bet(mean, bet=bet, kl=kl, n=n, delta=delta) < risk).any(-1)
    assert np.count_nonzero(failed) <= most_failures(repetitions, delta)


@pytest.mark.parametrize("family", [bets_on_noise, best_of(catastrophes(0, unseen=0.01))])
def test_the_counting_notices_a_bet_that_does_not_pay_its_divergence(family, rng):
    mean, risk, _ = family(rng, 500, 30, 0.9)
    failed = (pac_bayes_bet(mean, bet=0.9, kl=0.0, n=30, delta=0.05) < risk).any(-1)
    assert np.count_nonzero(failed) > most_failures(500, 0.05)


# --- The recursion (R.1) over three portions of the bump family ----------------------------------

CENTRE, KAPPA, MU, T = 1.0, 0.5, 0.05, 3
DRAWS = 4  # of (h, h') for each unit, where the expectations are estimated


def drawn(rng, z, now, before, delta_prime):
    """The two empirical parts, bounded from draws of (h, h') with (C.1) and (C.2)."""
    h, h_before = (m + s * rng.normal(size=(*z.shape, DRAWS)) for m, s in (now, before))
    x = bump_risk(h, 0.0, z[..., None]) - KAPPA * bump_risk(h_before, 0.0, z[..., None])
    plus, minus = split_parts(x.reshape(len(z), -1), MU)
    case = {"draws": z.shape[1] * DRAWS, "delta": delta_prime / (2 * T)}
    above, below = 1 - MU, MU + KAPPA
    plus = above * monte_carlo_upper(plus / above, **case)
    return plus, below * monte_carlo_lower(minus / below, **case)


def excess_kl(plus, minus, **case):
    return split_kl(plus, minus, low=-KAPPA, high=1.0, mu=MU, **case)


def failed_recursions(rng, repetitions, n, delta, delta_prime, first_bound, excess_bound):
    """Repetitions in which some B_t lies below the risk of the t-th posterior."""
    z = CENTRE + SPREAD * rng.normal(size=(repetitions, n))
    ends = [0, n // 4, n // 2, n]  # the t-th posterior saw z[:, : ends[t]]
    fits = [(z[:, :end].mean(-1)[:, None, None], 1 / np.sqrt(1 + end)) for end in ends[1:]]
    fits = [(np.zeros((repetitions, 1, 1)), 1.0), *fits]  # the prior N(0, 1) saw nothing
    divergence = [gaussian_kl(*now, *before)[:, 0, 0] for before, now in pairwise(fits)]
    empirical = bump_risk(*fits[1], z[..., None]).mean((1, 2))
    first = first_bound(empirical, kl=divergence[0], n=n, delta=delta / T)
    excesses = []
    for t in range(2, T + 1):
        rest = z[:, ends[t - 1] :]
        plus, minus = drawn(rng, rest, fits[t], fits[t - 1], delta_prime)
        case = {"kl": divergence[t - 1], "n": rest.shape[1], "delta": delta / T}
        excesses.append(excess_bound(plus, minus, **case))
    risks = np.stack([bump_risk(*fit, CENTRE, SPREAD)[:, 0, 0] for fit in fits[1:]])
    return np.count_nonzero((recursive_bound(first, excesses, kappa=KAPPA) < risks).any(0))


@sizes(
    [(1000, 48, 0.05), (1000, 48, 0.2)],
    [(4000, n, delta) for n in (12, 100) for delta in (0.01, 0.05, 0.2)],
)
def test_the_recursive_bound_fails_at_most_at_its_rate(repetitions, n, delta, rng):
    """(R.1) with delta/T for each portion, and as much again where delta' is spent on draws."""
    count = failed_recursions(rng, repetitions, n, delta, delta, pac_bayes_kl, excess_kl)
    assert count <= most_failures(repetitions, 2 * delta)


@pytest.mark.parametrize(
    ("first_bound", "excess_bound"),
    [
        pytest.param(pac_bayes_kl, lambda p, m, **case: excess_kl(m, p, **case), id="swapped"),
        pytest.param(lambda q, **_: q, lambda p, m, **_: MU + p - m, id="empirical"),
    ],
)
def test_the_counting_notices_a_wrong_recursion(first_bound, excess_bound, rng):
    """From parts that are hardly more than the means of the draws."""
    count = failed_recursions(rng, 500, 100, 0.2, 1.99 * T, first_bound, excess_bound)
    assert count > most_failures(500, 0.2)


# --- Shares of new episodes: (T.1) and (T.4) ------------------------------------------------------
#
# Each kind of score is a way to draw it and its distribution function.


def two_kinds(rng, shape):
    return rng.normal(size=shape) + np.where(rng.random(shape) < 0.1, 5.0, 0.0)


def score_with_catastrophes(rng, shape):
    """1 with probability 0.03, else beta(0.5, 8) on [0, 0.2]."""
    return np.where(rng.random(shape) < 0.03, 1.0, 0.2 * rng.beta(0.5, 8, shape))


SCORES = {
    "uniform": (lambda rng, shape: rng.random(shape), lambda s: s),
    "lognormal": (lambda rng, shape: rng.lognormal(size=shape), lambda s: ndtr(np.log(s))),
    "two kinds of episodes": (two_kinds, lambda s: 0.9 * ndtr(s) + 0.1 * ndtr(s - 5)),
    "ties": (lambda rng, shape: rng.integers(1, 6, shape) / 5, lambda s: s),
    "catastrophes": (
        score_with_catastrophes,
        lambda s: np.where(s < 1, 0.97 * betainc(0.5, 8, np.minimum(s / 0.2, 1)), 1.0),
    ),
}
MEANS = {"uniform": 0.5, "ties": 0.6, "catastrophes": 0.03 + 0.97 * 0.2 * 0.5 / 8.5}
WANTED = [0.5, 0.8, 0.9, 0.95]


def failed_statements(scores, distribution, statements):
    """Whether less than the share of new episodes scores at most the observed score."""
    ordered = np.sort(scores, axis=-1)
    covered = [distribution(ordered[:, t.rank - 1]) < t.share * (1 - 1e-12) for t in statements]
    return np.stack(covered, axis=-1)


@short_and_long
@pytest.mark.parametrize("kind", SCORES)
def test_joint_tolerances_fail_at_most_at_their_rate(kind, repetitions, n, delta, rng):
    """(T.1): a repetition fails if any of the statements does."""
    draw, distribution = SCORES[kind]
    statements = joint_tolerance(WANTED, n=n, delta=delta)
    failed = failed_statements(draw(rng, (repetitions, n)), distribution, statements)
    assert np.count_nonzero(failed.any(-1)) <= most_failures(repetitions, delta)


@short_and_long
@pytest.mark.parametrize("kind", SCORES)
def test_each_tolerance_fails_at_most_at_its_rate(kind, repetitions, n, delta, rng):
    """(T.1), rank by rank."""
    draw, distribution = SCORES[kind]
    ordered = np.sort(draw(rng, (repetitions, n)), axis=-1)
    for rank in {1, (n + 1) // 2, n - 1, n}:
        share = tolerance_share(rank, n=n, delta=delta)
        count = np.count_nonzero(distribution(ordered[:, rank - 1]) < share * (1 - 1e-12))
        assert count <= most_failures(repetitions, delta), rank


@short_and_long
@pytest.mark.parametrize("kind", MEANS)
def test_a_mean_from_tolerances_fails_only_where_a_tolerance_does(kind, repetitions, n, delta, rng):
    """(T.4): not merely as rarely, but in no other repetition."""
    draw, distribution = SCORES[kind]
    statements = joint_tolerance(WANTED, n=n, delta=delta)
    scores = draw(rng, (repetitions, n))
    failed = mean_from_tolerance(scores, tolerances=statements) < MEANS[kind]
    assert not (failed & ~failed_statements(scores, distribution, statements).any(-1)).any()
    assert np.count_nonzero(failed) <= most_failures(repetitions, delta)


def test_the_counting_notices_statements_that_hold_one_by_one_only(rng):
    """Three ranks at delta each: one of them fails more often than that."""
    ordered = np.sort(rng.random((4000, 100)), axis=-1)
    ranks = tolerance_rank([0.3, 0.5, 0.8], n=100, delta=0.05)
    failed = (ordered[:, ranks - 1] < [0.3, 0.5, 0.8]).any(-1)
    assert np.count_nonzero(failed) > most_failures(4000, 0.05)
