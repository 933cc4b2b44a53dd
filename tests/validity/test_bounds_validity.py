"""Do the bounds hold as often as they say? Seeded simulations with a known truth.

A bound that fails with probability at most delta fails in R independent repetitions at most
`binom.ppf(1 - 1e-6, R, delta)` times, except with probability 1e-6. Deliberately wrong bounds are
put through the same counting, to show that it would notice. Short versions run by default, the
long ones with `-m validity`.

A guarantee is a function from (rng, repetitions, n, delta) to whether it failed in each repetition.
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
    default_bets,
    difference_lower,
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
    target_bets,
    tolerance_rank,
    tolerance_share,
)

GUARANTEES = {}

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


def of_one_mean(bound, source, sign=1):
    """(C.1), (C.2), (H.1) to (H.5), and (P.1) and (P.3) at KL = 0; sign -1 for a lower bound."""

    def failed(rng, repetitions, n, delta):
        values, truth = source(rng, repetitions, n)
        return sign * bound(values, delta) < sign * truth

    return failed


GUARANTEES |= {
    f"{name}, {source}": of_one_mean(bound, SOURCES[source], 1 if name in UPPER else -1)
    for name, bound in (UPPER | LOWER).items()
    for source in (TRIALS if name.startswith("clopper") else SOURCES)
}


def of_planned_bets(source, sign):
    """(H.2), (H.3): 8 plans, each on 10 free values of its own, for an 8th of the repetitions."""

    def failed(rng, repetitions, n, delta):
        found = []
        for _ in range(8):
            free, _ = source(rng, 1, 10)  # a plan for the lower bound is one for 1 - values
            bets, weights = planned_bets(free if sign > 0 else 1 - free, n=n, delta=delta)
            bound = betting_upper if sign > 0 else betting_lower
            values, truth = source(rng, repetitions // 8, n)
            stated = bound(values, delta=delta, bets=bets, weights=weights)
            found.append(sign * stated < sign * truth)
        return np.concatenate(found)

    return failed


GUARANTEES |= {
    f"planned bets, {source}, {sign}": of_planned_bets(SOURCES[source], sign)
    for source in ("beta(0.3, 3)", "rare disaster", "catastrophes", "catastrophes, ever likelier")
    for sign in (1, -1)
}


def looks_at(n):
    """Up to 25 numbers of values, ever further apart, the first and the last among them."""
    return np.unique(np.geomspace(1, n, 25).round().astype(int))


def at_any_time(bound, source, looks_at=looks_at):
    """(H.7), (D.1) with the worst stopping rule: a bound that is wrong at any of many looks."""

    def failed(rng, repetitions, n, delta):
        (values, mean), stated = source(rng, repetitions, n), bound(rng, source, n, delta)
        looks = (stated(values[:, :look]) < mean * (1 - 1e-6) for look in looks_at(n))
        return np.any(list(looks), axis=0)

    return failed


def aimed(factor):
    """Bets against a target, planned on free values that are not used again."""

    def bound(rng, source, n, delta):
        free, mean = source(rng, 1, 40)
        bets, weights = target_bets(free, target=min(factor * mean, 0.99), n=n)
        return lambda values: betting_upper(values, delta=delta, bets=bets, weights=weights)

    return bound


def default(rng, source, n, delta):
    bets, weights = default_bets(n)
    return lambda values: betting_upper(values, delta=delta, bets=bets, weights=weights)


def fixed_n(rng, source, n, delta):
    return lambda values: holdout_kl(values.mean(-1), n=values.shape[-1], delta=delta)


ALIKE = {name: SOURCES[name] for name in ("rare disaster", "beta(0.3, 3)", "bernoulli(0.5)")}
GUARANTEES |= {
    f"stopping, {name}, {factor}": at_any_time(aimed(factor), source)
    for name, source in ALIKE.items()
    for factor in (0.7, 1.0, 1.5)
}
GUARANTEES["stopping, default bets"] = at_any_time(default, SOURCES["bernoulli(0.5)"])


def stopped_difference(rng, repetitions, n, delta):
    """(D.1): signs of mean 0."""
    signs = rng.choice([-1.0, 1.0], (repetitions, n))
    looks = [difference_lower(signs[:, :look], delta=delta) > 0 for look in looks_at(n)]
    return np.any(looks, axis=0)


GUARANTEES["stopping, differences"] = stopped_difference

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


def of_weighted_draws(source, bound, sign, draws=None):
    """(C.3): (C.1) and (C.2) with the number of draws the weights are worth."""

    def failed(rng, repetitions, n, delta):
        drawn, weights, truth = source(rng, repetitions, n)
        worth = {"draws": draws or effective_draws(weights), "delta": delta}
        return sign * bound(np.minimum(drawn @ weights, 1.0), **worth) < sign * truth

    return failed


GUARANTEES |= {
    f"weighted draws, {name}, {sign}": of_weighted_draws(source, bound, sign)
    for name, source in WEIGHTED.items()
    for bound, sign in ((monte_carlo_upper, 1), (monte_carlo_lower, -1))
}

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


def of_split_kl(loss, mu, wrong=None):
    """(P.2)."""

    def failed(rng, repetitions, n, delta):
        x, truth = loss(rng, repetitions, n)
        plus, minus = split_parts(x, mu)
        if wrong == "swapped":
            plus, minus = minus, plus
        elif wrong == "mean":
            return plus - minus < truth
        case = {"kl": 0, "n": n, "delta": delta, "low": LOW, "high": HIGH, "mu": mu}
        return split_kl(plus, minus, **case) < truth

    return failed


GUARANTEES |= {
    f"split_kl, {name}, {mu}": of_split_kl(loss, mu)
    for name, loss in LOSSES.items()
    for mu in (-0.5, 0.0, 0.3, 1.0)
}

# --- Posteriors chosen after seeing the data: a failure is one of any of them --------------------
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


def of_posteriors(family, price=1.0):
    """(P.1) for all posteriors at once; the divergence is charged at its price."""

    def failed(rng, repetitions, n, delta):
        empirical, risk, kl = family(rng, repetitions, n)
        return (pac_bayes_kl(empirical, kl=price * kl, n=n, delta=delta) < risk).any(-1)

    return failed


GUARANTEES |= {f"pac_bayes_kl, {name}": of_posteriors(each) for name, each in FAMILIES.items()}


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


def of_bets(family, bet, price=1.0):
    """(P.3) for all posteriors at once; each family gives (mean bet loss, risk, KL)."""

    def failed(rng, repetitions, n, delta):
        mean, risk, kl = family(rng, repetitions, n, bet)
        return (pac_bayes_bet(mean, bet=bet, kl=price * kl, n=n, delta=delta) < risk).any(-1)

    return failed


GUARANTEES |= {
    f"pac_bayes_bet, {name}, {bet}": of_bets(family, bet)
    for name, family in BET_FAMILIES.items()
    for bet in (0.2, 0.9, 0.999)
}

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
    return (recursive_bound(first, excesses, kappa=KAPPA) < risks).any(0)


GUARANTEES["recursion"] = lambda rng, repetitions, n, delta: failed_recursions(
    rng, repetitions, max(n, 12), delta / 2, delta / 2, pac_bayes_kl, excess_kl
)

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


def of_tolerances(kind, rank=None):
    """(T.1): all joint statements, or that at one rank."""
    draw, distribution = SCORES[kind]

    def failed(rng, repetitions, n, delta):
        scores = draw(rng, (repetitions, n))
        if rank is None:
            statements = joint_tolerance(WANTED, n=n, delta=delta)
            return failed_statements(scores, distribution, statements).any(-1)
        share = tolerance_share(rank(n), n=n, delta=delta)
        return distribution(np.sort(scores)[:, rank(n) - 1]) < share * (1 - 1e-12)

    return failed


def of_means_from_tolerances(kind):
    """(T.4): it fails not merely as rarely as a tolerance, but in no other repetition."""
    draw, distribution = SCORES[kind]

    def failed(rng, repetitions, n, delta):
        statements = joint_tolerance(WANTED, n=n, delta=delta)
        scores = draw(rng, (repetitions, n))
        found = mean_from_tolerance(scores, tolerances=statements) < MEANS[kind]
        assert not (found & ~failed_statements(scores, distribution, statements).any(-1)).any()
        return found

    return failed


RANKS = {"smallest": lambda n: 1, "median": lambda n: (n + 1) // 2, "largest": lambda n: n}
GUARANTEES |= {f"joint tolerances, {kind}": of_tolerances(kind) for kind in SCORES}
GUARANTEES |= {
    f"tolerance, {kind}, {name}": of_tolerances(kind, rank)
    for kind in SCORES
    for name, rank in RANKS.items()
}
GUARANTEES |= {f"mean from tolerances, {kind}": of_means_from_tolerances(kind) for kind in MEANS}

# --- Counting ------------------------------------------------------------------------------------


def most_failures(repetitions, delta):
    return binom.ppf(1 - 1e-6, repetitions, delta)


@pytest.mark.parametrize(
    ("repetitions", "n", "delta"),
    [
        *((1000, 30, 0.05), (1000, 30, 0.2)),
        *(
            pytest.param(4000, n, delta, marks=pytest.mark.validity)
            for n in (5, 100)
            for delta in (0.01, 0.05, 0.2)
        ),
    ],
)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_guarantee_fails_at_most_at_its_rate(guarantee, repetitions, n, delta):
    failed = GUARANTEES[guarantee](np.random.default_rng(20250106), repetitions, n, delta)
    assert failed.shape == (repetitions,)
    assert np.count_nonzero(failed) <= most_failures(repetitions, delta)


def one_by_one(rng, repetitions, n, delta):
    """Three ranks at delta each: one of them fails more often than that."""
    ordered = np.sort(rng.random((repetitions, n)), axis=-1)
    ranks = tolerance_rank([0.3, 0.5, 0.8], n=n, delta=delta)
    return (ordered[:, ranks - 1] < [0.3, 0.5, 0.8]).any(-1)


def recursion(first, excess):
    """From parts that are hardly more than the means of the draws."""
    return lambda rng, repetitions, n, delta: failed_recursions(
        rng, repetitions, n, delta, 1.99 * T, first, excess
    )


def early_and_late(rng, repetitions, n):
    """Values of several means, small at first: (H.7) asks for one."""
    half = (repetitions, n // 2)
    values = np.concatenate([0.2 * rng.random(half), 0.9 + 0.1 * rng.random(half)], axis=1)
    return values, (0.1 + 0.95) / 2


def at_four(bound):
    return lambda x, delta: bound(x, min(4 * delta, 0.6))


def always(n):
    return range(1, n + 1)


COIN = bernoulli(constant(0.5))
ONE_HEAVY = weighted(coins, lambda n: np.where(np.arange(n) == 0, n - 1, 1), constant(0.5))
WRONG = {  # what is wrong, the size of a sample, and the delta that it does not keep
    "mean as upper": (of_one_mean(lambda x, d: x.mean(-1), COIN), 30, 0.2),
    "mean as lower": (of_one_mean(lambda x, d: x.mean(-1), COIN, -1), 30, 0.2),
    "upper at 4 delta": (of_one_mean(at_four(UPPER["clopper_pearson_upper"]), COIN), 30, 0.05),
    "lower at 4 delta": (of_one_mean(at_four(LOWER["clopper_pearson_lower"]), COIN, -1), 30, 0.05),
    # (H.6): a bold bet at four times its delta does not reckon with catastrophes unseen
    "below the floor": (of_one_mean(at_four(one_bet(0.999)), catastrophes(0)), 30, 0.05),
    "a bound for a fixed n, looked at always": (at_any_time(fixed_n, COIN, always), 300, 0.1),
    "values of several means": (at_any_time(default, early_and_late), 120, 0.1),
    "draws without weights": (of_weighted_draws(ONE_HEAVY, monte_carlo_upper, 1, 30), 30, 0.05),
    "parts swapped": (of_split_kl(three_points(constant(0.2)), 0.0, "swapped"), 100, 0.05),
    "parts not bounded": (of_split_kl(three_points(constant(0.2)), 0.0, "mean"), 100, 0.05),
    "a posterior for free": (of_posteriors(fitted_to_noise, 0.0), 30, 0.2),
    "a bet for free": (of_bets(bets_on_noise, 0.9, 0.0), 30, 0.05),
    "the best for free": (of_bets(best_of(catastrophes(0, unseen=0.01)), 0.9, 0.0), 30, 0.05),
    "recursion of parts swapped": (
        recursion(pac_bayes_kl, lambda p, m, **case: excess_kl(m, p, **case)), 100, 0.2,
    ),
    "recursion not bounded": (
        recursion(lambda q, **_: q, lambda p, m, **_: MU + p - m), 100, 0.2,
    ),
    "statements that hold one by one": (one_by_one, 100, 0.05),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_the_counting_notices_what_is_wrong(wrong):
    guarantee, n, delta = WRONG[wrong]
    failed = guarantee(np.random.default_rng(20250106), 1000, n, delta)
    assert np.count_nonzero(failed) > most_failures(1000, delta)
