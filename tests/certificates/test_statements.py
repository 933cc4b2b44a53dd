"""From losses and divergences to bounds: tiny cases worked by hand, section 4 to 6 of the theory.

The formulas are written out here with mpmath and the paper's T, N and delta; nothing but the
numbers is shared with the code.
"""

import math

import mpmath
import numpy as np
import pytest
import torch
from recordings import recording, short_fits

from tightrope.bounds import betting_upper, monte_carlo_upper
from tightrope.certificates import certify, holdout_ledger, recursive_ledger
from tightrope.certificates.statements import (
    Drawn,
    effective_size,
    holdout_statement,
    recursive_statements,
    unit_means,
    units,
)
from tightrope.posteriors import child_seed, draw_losses
from tightrope.rollouts import pairs

EXACT = 1e-12
exactly = mpmath.workdps(60)

# --- the formulas --------------------------------------------------------------------------------


def kl(q, p):
    terms = [(a, b) for a, b in ((q, p), (1 - q, 1 - p)) if a > 0]
    if any(b <= 0 for _, b in terms):
        return mpmath.inf
    return mpmath.fsum(a * mpmath.log(a / b) for a, b in terms)


@exactly
def upper(q, budget):
    """The largest p with kl(q || p) <= budget, by bisection."""
    q = mpmath.mpf(q)
    inner, outer = q, mpmath.mpf(1)
    for _ in range(150):
        middle = (inner + outer) / 2
        inner, outer = (middle, outer) if kl(q, middle) <= budget else (inner, middle)
    return outer


@exactly
def lower(q, budget):
    """The smallest p with kl(q || p) <= budget: kl(q || p) = kl(1-q || 1-p)."""
    return 1 - upper(1 - mpmath.mpf(q), budget)


@exactly
def first_bound(mean, divergence, n, draws, portions, delta, delta_prime):
    q = upper(mean, mpmath.log(portions / mpmath.mpf(delta_prime)) / draws)
    budget = (divergence + mpmath.log(2 * portions * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
    return q, upper(q, budget)


@exactly
def excess_bound(plus, minus, divergence, n, draws, portions, delta, delta_prime, kappa):
    correction = mpmath.log(2 * portions / mpmath.mpf(delta_prime)) / draws
    q_plus = upper(plus, correction)
    q_minus = kappa * lower(minus / mpmath.mpf(kappa), correction)
    psi = (divergence + mpmath.log(4 * portions * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
    bound = upper(q_plus, psi) - kappa * lower(q_minus / kappa, psi)
    return q_plus, q_minus, bound


# --- three episodes of 2, 1 and 3 rows; two passes ------------------------------------------------

EPISODE = np.array([0, 0, 1, 2, 2, 2])
RHO_1 = np.array([[0.10, 0.30, 0.20, 0.40, 0.00, 0.50], [0.30, 0.10, 0.60, 0.20, 0.20, 0.50]])
RHO_2 = np.array([[0.30, 0.10, 0.20, 0.15], [0.10, 0.30, 0.00, 0.40]])  # episodes 1 and 2
RHO_3 = np.array([[0.02, 0.20, 0.10], [0.25, 0.00, 0.30]])  # episode 2
KL = (0.5, 0.25, 0.125)

# Mean loss of rho_1: all twelve entries add up to 1.5 + 1.9 = 3.4.
#   per episode: (0.2, 0.2, 0.3) in the first pass, (0.2, 0.6, 0.3) in the second, 1.8 in total.
MEAN = {"step": 3.4 / 12, "episode": 1.8 / 6}
# Excess of rho_2 over half of rho_1 on episodes 1 and 2 (rows 2 to 5 of rho_1):
#   first pass   0.30 - 0.10, 0.10 - 0.20, 0.20 - 0.00, 0.15 - 0.25 =  0.2, -0.1,  0.2, -0.1
#   second pass  0.10 - 0.30, 0.30 - 0.10, 0.00 - 0.10, 0.40 - 0.25 = -0.2,  0.2, -0.1, 0.15
#   above 0: 0.2 + 0.2 + 0.2 + 0.15 = 0.75; below 0: 0.1 + 0.1 + 0.2 + 0.1 = 0.5; eight entries.
#   per episode, above: 0.2 and 0.2/3, then 0 and 0.35/3; below: 0 and 0.2/3, then 0.2 and 0.1/3.
PLUS_2 = {"step": 0.75 / 8, "episode": (0.2 + 0.2 / 3 + 0.35 / 3) / 4}
MINUS_2 = {"step": 0.5 / 8, "episode": (0.2 / 3 + 0.2 + 0.1 / 3) / 4}
# Excess of rho_3 over half of rho_2 on episode 2 (the last three rows of rho_2):
#   first pass   0.02 - 0.05, 0.20 - 0.10, 0.10 - 0.075 = -0.03, 0.1, 0.025
#   second pass  0.25 - 0.15, 0.00 - 0.00, 0.30 - 0.200 =  0.10, 0.0, 0.1
PLUS_3 = {"step": 0.325 / 6, "episode": (0.125 / 3 + 0.2 / 3) / 2}
MINUS_3 = {"step": 0.03 / 6, "episode": (0.03 / 3) / 2}
N = {"step": (6, 4, 3), "episode": (3, 2, 1)}  # units in S_>=t


def drawn(portions, *, shared=False):
    data = [Drawn(RHO_1, EPISODE, shared), Drawn(RHO_2, EPISODE[2:], shared)]
    return [*data, Drawn(RHO_3, EPISODE[3:], shared)][:portions]


def statements(portions, unit, *, delta, delta_prime, kappa=0.5, shared=False):
    ledger = recursive_ledger(portions, delta=delta, delta_prime=delta_prime)
    return recursive_statements(
        drawn(portions, shared=shared), KL[:portions], unit=unit, ledger=ledger, kappa=kappa
    )


def assert_statement(found, *, n, draws, kl, parts, corrected, value, bound):
    assert (found.n, found.draws, found.kl) == (n, draws, kl)
    assert (found.mean_plus, found.mean_minus) == pytest.approx(parts, abs=EXACT)
    assert found.mean == pytest.approx(parts[0] - parts[1], abs=EXACT)
    numbers = (found.upper_plus, found.lower_minus, found.value, found.bound)
    assert numbers == pytest.approx([float(x) for x in (*corrected, value, bound)], abs=EXACT)


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize(("delta", "delta_prime"), [(0.025, 0.01), (0.4, 0.3)])
@pytest.mark.parametrize("portions", [1, 2, 3])
@pytest.mark.parametrize("shared", [False, True], ids=["local", "weights"])
def test_the_recursion_is_the_one_worked_by_hand(portions, delta, delta_prime, unit, shared):
    """B_1, E_t and B_t of (P.1), (P.2), (R.1) with N_MC = m N_t, or m for shared draws."""
    found = statements(portions, unit, delta=delta, delta_prime=delta_prime, shared=shared)
    assert [s.kind for s in found] == ["risk", "excess", "excess"][:portions]
    assert [s.episodes for s in found] == [3, 2, 1][:portions]
    draws = [2 if shared else 2 * n for n in N[unit]]
    case = {"portions": portions, "delta": delta, "delta_prime": delta_prime}
    q, bound = first_bound(MEAN[unit], KL[0], n=N[unit][0], draws=draws[0], **case)
    assert_statement(
        found[0],
        n=N[unit][0],
        draws=draws[0],
        kl=KL[0],
        parts=(MEAN[unit], 0.0),
        corrected=(q, 0.0),
        value=bound,
        bound=bound,
    )
    parts = [(PLUS_2[unit], MINUS_2[unit]), (PLUS_3[unit], MINUS_3[unit])]
    for t, (plus, minus) in enumerate(parts[: portions - 1], start=1):
        own = {"n": N[unit][t], "draws": draws[t], "kappa": 0.5, **case}
        q_plus, q_minus, excess = excess_bound(plus, minus, KL[t], **own)
        bound = excess + bound / 2
        assert_statement(
            found[t],
            n=N[unit][t],
            draws=draws[t],
            kl=KL[t],
            parts=(plus, minus),
            corrected=(q_plus, q_minus),
            value=excess,
            bound=bound,
        )


def test_one_portion_in_plain_numbers():
    """delta = delta' = 0.4 and all losses 0: no inversion is needed, kl(0 || p) = -ln(1 - p).

    Six rows, two passes: q_1 = 1 - exp(-ln(1/0.4)/12) and B_1 = 1 - exp(-c) with
    kl(q_1 || B_1) = (0.5 + ln(2 sqrt(6) / 0.4)) / 6 = 0.5008930.
    """
    ledger = recursive_ledger(1, delta=0.4, delta_prime=0.4)
    nothing = Drawn(np.zeros((2, 6)), EPISODE)
    (found,) = recursive_statements([nothing], [0.5], unit="step", ledger=ledger, kappa=0.5)
    assert found.upper_plus == pytest.approx(1 - 0.4 ** (1 / 12), abs=EXACT)
    q, p = found.upper_plus, found.value
    spent = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert spent == pytest.approx((0.5 + math.log(2 * math.sqrt(6) / 0.4)) / 6, abs=1e-10)


@pytest.mark.parametrize("kappa", [0.25, 0.8, 1.0])
def test_another_kappa_enters_the_excess_its_range_and_the_recursion(kappa):
    found = statements(2, "step", delta=0.4, delta_prime=0.3, kappa=kappa)
    excess = [a - kappa * b for a, b in zip(RHO_2.ravel(), RHO_1[:, 2:].ravel(), strict=True)]
    plus = sum(max(x, 0) for x in excess) / 8
    minus = sum(max(-x, 0) for x in excess) / 8
    case = {"portions": 2, "delta": 0.4, "delta_prime": 0.3}
    _, value = first_bound(MEAN["step"], KL[0], n=6, draws=12, **case)
    _, _, bound = excess_bound(plus, minus, KL[1], n=4, draws=8, kappa=kappa, **case)
    assert found[1].value == pytest.approx(float(bound), abs=EXACT)
    assert found[1].bound == pytest.approx(float(bound + kappa * value), abs=EXACT)


# --- what must not be confused ------------------------------------------------------------------


def test_the_excess_is_split_for_each_draw_and_row_and_not_after_averaging():
    """Excesses of +0.3 and -0.3 in two passes: averaged first, nothing would be left to bound."""
    episode = np.array([0, 0])
    before = Drawn(np.full((2, 2), 0.6), episode)
    now = Drawn(np.array([[0.6, 0.6], [0.0, 0.0]]), episode)  # 0.6 - 0.3 and 0.0 - 0.3
    ledger = recursive_ledger(2)
    for unit in ("step", "episode"):
        found = recursive_statements(
            [before, now], [0.0, 0.0], unit=unit, ledger=ledger, kappa=0.5
        )[1]
        assert (found.mean_plus, found.mean_minus) == pytest.approx((0.15, 0.15), abs=EXACT)
        assert found.mean == pytest.approx(0.0, abs=EXACT)


def test_the_excess_of_an_episode_is_split_before_its_steps_are_averaged():
    """Excesses of +0.3 and -0.3 on two steps of one episode, in every pass."""
    episode = np.array([0, 0])
    before = Drawn(np.full((3, 2), 0.6), episode)
    now = Drawn(np.array([[0.6, 0.0]] * 3), episode)
    found = recursive_statements(
        [before, now], [0.0, 0.0], unit="episode", ledger=recursive_ledger(2), kappa=0.5
    )[1]
    assert (found.mean_plus, found.mean_minus) == pytest.approx((0.15, 0.15), abs=EXACT)


def test_corrections_widen_the_part_that_is_added_and_narrow_the_one_that_is_subtracted():
    for unit in ("step", "episode"):
        for shared in (False, True):
            for found in statements(3, unit, delta=0.025, delta_prime=0.01, shared=shared)[1:]:
                assert found.upper_plus > found.mean_plus
                assert found.lower_minus < found.mean_minus
                assert found.value > found.mean_plus - found.mean_minus


def test_more_draws_tighten_the_correction_towards_the_measured_mean():
    episode = np.arange(10)
    values = []
    for passes in (1, 10, 1000):
        data = Drawn(np.full((passes, 10), 0.2), episode)
        (found,) = recursive_statements(
            [data], [1.0], unit="step", ledger=recursive_ledger(1), kappa=0.5
        )
        assert (found.draws, found.n) == (10 * passes, 10)
        values.append(found.value)
    assert values[0] > values[1] > values[2] > 0.2


def test_shared_draws_are_never_counted_as_rows():
    loose = statements(1, "step", delta=0.4, delta_prime=0.3, shared=True)[0]
    tight = statements(1, "step", delta=0.4, delta_prime=0.3, shared=False)[0]
    assert (loose.draws, tight.draws) == (2, 12)
    assert (loose.n, tight.n) == (6, 6)
    assert loose.value > tight.value


def test_units_are_rows_or_the_means_of_whole_episodes():
    values = np.array([[1.0, 3.0, 5.0, 2.0, 4.0, 9.0]])
    assert units(values, EPISODE, "step").tolist() == values.tolist()
    assert units(values, EPISODE, "episode").tolist() == [[2.0, 5.0, 5.0]]
    assert units(values, EPISODE + 7, "episode").tolist() == [[2.0, 5.0, 5.0]]
    uneven = values - [0, 0, 3, 0, 0, 0]  # (2 + 2 + 5) / 3 for episodes, 21 / 6 for steps
    assert unit_means(uneven / 10, EPISODE, "episode") == pytest.approx(0.3)
    assert unit_means(uneven / 10, EPISODE, "step") == pytest.approx(0.35)


# --- hold-out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_holdout_with_fresh_draws_is_the_betting_bound_at_the_sum_of_both_deltas(unit):
    """One statement covers data and draws: it gets delta + delta'."""
    ledger = holdout_ledger(delta=0.025, delta_prime=0.01)
    found = holdout_statement(Drawn(RHO_1, EPISODE), unit=unit, ledger=ledger)
    # Means over the two passes: rows 0.2, 0.2, 0.4, 0.3, 0.1, 0.5; episodes 0.2, 0.4, 0.3.
    values = {"step": [0.2, 0.2, 0.4, 0.3, 0.1, 0.5], "episode": [0.2, 0.4, 0.3]}[unit]
    expected = float(betting_upper(values, delta=0.035))
    assert found.value == pytest.approx(expected, abs=EXACT)
    assert found.bound == found.value
    assert found.mean == pytest.approx(sum(values) / len(values), abs=EXACT)
    assert (found.kind, found.kl, found.n) == ("holdout", 0.0, len(values))
    assert (found.episodes, found.draws) == (3, 2 * len(values))


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_holdout_with_shared_draws_pays_for_them_with_delta_prime(unit):
    ledger = holdout_ledger(delta=0.3, delta_prime=0.2, shared_draws=True)
    found = holdout_statement(Drawn(RHO_1, EPISODE, shared=True), unit=unit, ledger=ledger)
    values = {"step": [0.2, 0.2, 0.4, 0.3, 0.1, 0.5], "episode": [0.2, 0.4, 0.3]}[unit]
    risk = float(betting_upper(values, delta=0.3))
    expected = float(monte_carlo_upper(risk, draws=2, delta=0.2))
    assert found.value == pytest.approx(expected, abs=EXACT)
    assert found.draws == 2


def test_a_holdout_of_one_unit_without_loss_by_hand():
    """(H.3) for one value 0 with the bets 1 and 1/2: (1/m + 1/2 + 1/(2m)) / 2 = 1/delta."""
    ledger = holdout_ledger(delta=0.3, delta_prime=0.2)
    found = holdout_statement(Drawn(np.zeros((4, 1)), np.zeros(1, int)), unit="step", ledger=ledger)
    assert found.value == pytest.approx(1 - 0.75 / (1 / 0.5 - 0.25), abs=1e-12)


# --- the same, from the files' end: which rows, which posterior, which divergence -----------------


@pytest.fixture(scope="module")
def episodes():
    rng = np.random.default_rng(8)
    return recording(14, rng.integers(2, 7, 14), features=3, seed=4, noise=0.5)


def issue(episodes, scheme, unit, **options):
    with short_fits():
        return certify(
            episodes,
            scheme=scheme,
            unit=unit,
            pilot_episodes=3,
            test_episodes=2,
            thin=1,
            gamma=0.5,
            mc_passes=3,
            delta=0.2,
            delta_prime=0.1,
            seed=6,
            **options,
        )


def divergence(posterior, prior):
    total = 0.0
    for index in range(len(prior.means)):
        normals = [
            torch.distributions.Normal(
                g.means[index].double(), (g.log_variances[index].double() / 2).exp()
            )
            for g in (posterior, prior)
        ]
        total += float(torch.distributions.kl_divergence(*normals).sum())
    return total


def losses_from(certificate, episodes, first, t, posterior):
    """Losses of a posterior on validation episodes `first` and later, drawn with seed (2, t)."""
    data = pairs(episodes.span(3 + first, 12), gamma=0.5, thin=1)
    scaling = certificate.chain.scaling
    targets = np.clip((data.returns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    inputs = torch.from_numpy((data.observations - scaling.mean) / scaling.deviation)
    seed = child_seed(6, 2, t)
    losses = draw_losses(posterior, inputs, targets, passes=3, seed=seed)
    return losses, data.episode


def averages(losses, episode, unit):
    """Plain loops: the mean over passes and units."""
    values = []
    for row in losses.tolist():
        if unit == "step":
            values += row
            continue
        for own in sorted(set(episode.tolist())):
            mine = [x for x, e in zip(row, episode.tolist(), strict=True) if e == own]
            values.append(sum(mine) / len(mine))
    return math.fsum(values) / len(values), len(values)


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_recursive_certificate_evaluates_each_posterior_on_its_own_portion_and_later(
    episodes, unit
):
    """rec-3 on 9 episodes: portions of 2, 2 and 5, against the formulas above."""
    certificate = issue(episodes, "rec-3", unit)
    starts, case = (0, 2, 4), {"portions": 3, "delta": 0.2, "delta_prime": 0.1}
    for own, found in ((unit, certificate.portions), (OTHER[unit], certificate.other_portions)):
        bound, before = None, None
        for t, start in enumerate(starts):
            posterior, prior = certificate.chain.gaussians[t + 1], certificate.chain.gaussians[t]
            losses, episode = losses_from(certificate, episodes, start, t, posterior)
            n = losses.shape[1] if own == "step" else 9 - start
            kl_t = divergence(posterior, prior)
            assert found[t].kl == pytest.approx(kl_t, rel=1e-9)
            if t == 0:
                mean, draws = averages(losses, episode, own)
                _, bound = first_bound(mean, kl_t, n=n, draws=draws, **case)
            else:
                excess = losses - 0.5 * before[:, -losses.shape[1] :]
                plus, draws = averages(np.maximum(excess, 0), episode, own)
                minus, _ = averages(np.maximum(-excess, 0), episode, own)
                numbers = {"n": n, "draws": draws, "kappa": 0.5, **case}
                bound = excess_bound(plus, minus, kl_t, **numbers)[2] + bound / 2
            assert (found[t].n, found[t].draws, found[t].episodes) == (n, draws, 9 - start)
            assert found[t].bound == pytest.approx(float(bound), abs=1e-10)
            before = losses
    assert certificate.bound == min(certificate.portions[-1].bound, 1.0)
    assert certificate.other_bound == min(certificate.other_portions[-1].bound, 1.0)
    assert certificate.n == certificate.portions[0].n
    lengths = episodes.lengths[3:12].tolist()
    assert [fit.rows for fit in certificate.fits] == [
        sum(lengths[:2]),
        sum(lengths[:4]),
        sum(lengths),
    ]


OTHER = {"step": "episode", "episode": "step"}


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_an_informed_certificate_is_the_plain_bound_on_the_second_half(episodes, unit):
    """nonrec-inf: the prior from episodes 0 to 4, (P.1) with T = 1 on episodes 5 to 8."""
    certificate = issue(episodes, "nonrec-inf", unit)
    assert len(certificate.chain.gaussians) == 3
    prior, posterior = certificate.chain.gaussians[1:]
    losses, episode = losses_from(certificate, episodes, 5, 0, posterior)
    for own, found in ((unit, certificate.portions), (OTHER[unit], certificate.other_portions)):
        n = losses.shape[1] if own == "step" else 4
        mean, draws = averages(losses, episode, own)
        case = {"portions": 1, "delta": 0.2, "delta_prime": 0.1}
        _, bound = first_bound(mean, divergence(posterior, prior), n=n, draws=draws, **case)
        assert len(found) == 1
        assert (found[0].n, found[0].episodes) == (n, 4)
        assert found[0].bound == pytest.approx(float(bound), abs=1e-10)
    lengths = episodes.lengths[3:12].tolist()
    assert certificate.n == certificate.portions[0].n
    assert [fit.rows for fit in certificate.fits] == [sum(lengths[:5]), sum(lengths[5:])]


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_holdout_certificate_is_the_betting_bound_on_the_second_half(episodes, unit):
    certificate = issue(episodes, "holdout", unit)
    assert len(certificate.chain.gaussians) == 2
    losses, episode = losses_from(certificate, episodes, 5, 0, certificate.chain.gaussians[1])
    for own, found in ((unit, certificate.portions), (OTHER[unit], certificate.other_portions)):
        rows = losses.mean(axis=0).tolist()
        if own == "episode":
            groups = [[x for x, e in zip(rows, episode, strict=True) if e == k] for k in range(4)]
            rows = [sum(group) / len(group) for group in groups]
        assert found[0].bound == pytest.approx(float(betting_upper(rows, delta=0.3)), abs=1e-10)
        assert (found[0].n, found[0].kl) == (len(rows), 0.0)
    assert [fit.rows for fit in certificate.fits] == [sum(episodes.lengths[3:8].tolist())]


def test_no_recursion_is_the_plain_bound_on_everything(episodes):
    certificate = issue(episodes, "nonrec-noninf", "step", kappa=0.7)
    prior, posterior = certificate.chain.gaussians
    losses, episode = losses_from(certificate, episodes, 0, 0, posterior)
    mean, draws = averages(losses, episode, "step")
    case = {"portions": 1, "delta": 0.2, "delta_prime": 0.1}
    n = losses.shape[1]
    _, bound = first_bound(mean, divergence(posterior, prior), n=n, draws=draws, **case)
    assert certificate.portions[0].bound == pytest.approx(float(bound), abs=1e-10)
    assert certificate.n == n == sum(episodes.lengths[3:12].tolist())


def test_weight_sampling_counts_passes_as_draws_in_a_certificate(episodes):
    certificate = issue(episodes, "rec-2", "step", sampling="weights")
    for statement in (*certificate.portions, *certificate.other_portions):
        assert statement.draws == 3
    held_out = issue(episodes, "holdout", "episode", sampling="weights")
    assert [s.draws for s in (*held_out.portions, *held_out.other_portions)] == [3, 3]
    statements = [entry[0] for entry in held_out.ledger]
    assert statements == ["hold-out: risk", "hold-out: draws"]


# --- the effective sample size --------------------------------------------------------------------


def plain_effective_size(losses, episode):
    """N over the design effect: variance of the mean over clusters, over that of single rows."""
    loss = [float(np.mean(column)) for column in losses.T]
    n, keys = len(loss), sorted(set(episode.tolist()))
    mean = sum(loss) / n
    single = sum((x - mean) ** 2 for x in loss) / n / n
    totals = [sum(x - mean for x, e in zip(loss, episode, strict=True) if e == key) for key in keys]
    clustered = len(keys) / (len(keys) - 1) * sum(total**2 for total in totals) / n**2
    return min(max(n * single / clustered, 1.0), n)


def test_the_effective_size_is_n_over_the_design_effect_of_episodes():
    rng = np.random.default_rng(2)
    for trial in range(5):
        lengths = rng.integers(1, 9, 12)
        episode = np.repeat(np.arange(12), lengths)
        losses = rng.random((3, len(episode))) * (1 + trial * rng.random(12)[episode])
        found = effective_size(losses / 6, episode)
        assert found == pytest.approx(plain_effective_size(losses / 6, episode), rel=1e-9)


def test_independent_rows_are_worth_about_all_of_them_and_repeated_ones_one_per_episode():
    rng = np.random.default_rng(3)
    episode = np.repeat(np.arange(400), 10)
    independent = rng.random((1, 4000))
    assert effective_size(independent, episode) > 0.8 * 4000
    constant = rng.random(400)[episode][None]
    assert effective_size(constant, episode) == pytest.approx(400, rel=0.01)
    mixed = 0.5 * independent + 0.5 * constant  # correlation 1/2: design effect 1 + 9/2
    assert effective_size(mixed, episode) == pytest.approx(4000 / 5.5, rel=0.2)


def test_the_effective_size_of_odd_data_is_between_one_and_n():
    assert effective_size(np.full((2, 6), 0.3), EPISODE) == 3.0  # no variance: one per episode
    assert effective_size(np.random.default_rng(0).random((2, 6)), np.zeros(6, int)) == 1.0
    balanced = np.array([[0.0, 1.0, 0.0, 1.0]])  # episode totals do not vary at all
    assert effective_size(balanced, np.array([0, 0, 1, 1])) == 4.0
