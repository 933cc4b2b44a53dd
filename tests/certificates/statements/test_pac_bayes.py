"""From losses to the bound: (P.1) to (P.3), (R.1) and the corrections (C.1) to (C.3).

The formulas are written out here with mpmath and the paper's T, N and delta; nothing but the
numbers is shared with the code.
"""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from recordings import recording, short
from scipy.stats import norm

from tightrope.certificates import Options, settle
from tightrope.certificates.certify import issue
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.statements.pac_bayes import (
    Drawn,
    Portion,
    bound_chain,
    final_bound,
    measure_chain,
)
from tightrope.posteriors import draw_losses
from tightrope.rollouts import pairs
from tightrope.seeds import Stream, child_seed

EXACT = 1e-12
OUTWARD = 1 + 1e-5  # by which a stated bound is rounded outward
exactly = mpmath.workdps(40)


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
    for _ in range(80):
        middle = (inner + outer) / 2
        inner, outer = (middle, outer) if kl(q, middle) <= budget else (inner, middle)
    return outer


@exactly
def lower(q, budget):
    """The smallest p with kl(q || p) <= budget: kl(q || p) = kl(1-q || 1-p)."""
    return 1 - upper(1 - mpmath.mpf(q), budget)


@exactly
def xi(n):
    """Maurer's constant, which the paper's 2 sqrt(n) is an upper bound of."""
    terms = (mpmath.binomial(n, k) * (mpmath.mpf(k) / n) ** k for k in range(n + 1))
    rests = ((1 - mpmath.mpf(k) / n) ** (n - k) for k in range(n + 1))
    return mpmath.fsum(a * b for a, b in zip(terms, rests, strict=True))


@exactly
def first_bound(mean, divergence, n, draws, portions, delta, delta_prime):
    """(C.1) and (P.1)."""
    q = upper(mean, mpmath.log(portions / mpmath.mpf(delta_prime)) / draws)
    budget = (divergence + mpmath.log(portions * xi(n) / mpmath.mpf(delta))) / n
    return q, upper(q, budget)


@exactly
def bet_bound(mean_bet_loss, bet, divergence, n, draws, portions, delta, delta_prime):
    """(P.3), its Monte Carlo part divided by the range -ln(1 - c) before (C.1)."""
    most = -mpmath.log(1 - mpmath.mpf(bet))
    q = most * upper(mean_bet_loss / most, mpmath.log(portions / mpmath.mpf(delta_prime)) / draws)
    nats = q + (divergence + mpmath.log(portions / mpmath.mpf(delta))) / n
    return q, min((1 - mpmath.exp(-nats)) / bet, 1)


@exactly
def excess_bound(plus, minus, divergence, n, draws, portions, delta, delta_prime, kappa):
    """(C.1), (C.2) and (P.2)."""
    correction = mpmath.log(2 * portions / mpmath.mpf(delta_prime)) / draws
    q_plus = upper(plus, correction)
    q_minus = kappa * lower(minus / mpmath.mpf(kappa), correction)
    psi = (divergence + mpmath.log(2 * portions * xi(n) / mpmath.mpf(delta))) / n
    bound = upper(q_plus, psi) - kappa * lower(q_minus / kappa, psi)
    return q_plus, q_minus, bound


# --- measured ------------------------------------------------------------------------------------

# Three episodes of 2, 1 and 3 rows; two passes.
EPISODE = np.array([0, 0, 1, 2, 2, 2])
RHO_1 = np.array([[0.10, 0.30, 0.20, 0.40, 0.00, 0.50], [0.30, 0.10, 0.60, 0.20, 0.20, 0.50]])
RHO_2 = np.array([[0.30, 0.10, 0.20, 0.15], [0.10, 0.30, 0.00, 0.40]])  # episodes 1 and 2

# Mean loss of rho_1: all twelve entries add up to 1.5 + 1.9 = 3.4.
#   per episode: (0.2, 0.2, 0.3) in the first pass, (0.2, 0.6, 0.3) in the second, 1.8 in total.
MEAN = {"step": 3.4 / 12, "episode": 1.8 / 6}
# Excess of rho_2 over half of rho_1 on episodes 1 and 2 (rows 2 to 5 of rho_1):
#   first pass   0.30 - 0.10, 0.10 - 0.20, 0.20 - 0.00, 0.15 - 0.25 =  0.2, -0.1,  0.2, -0.1
#   second pass  0.10 - 0.30, 0.30 - 0.10, 0.00 - 0.10, 0.40 - 0.25 = -0.2,  0.2, -0.1, 0.15
#   above 0: 0.2 + 0.2 + 0.2 + 0.15 = 0.75; below 0: 0.1 + 0.1 + 0.2 + 0.1 = 0.5; eight entries.
#   per episode, above: 0.2 and 0.2/3, then 0 and 0.35/3; below: 0 and 0.2/3, then 0.2 and 0.1/3.
PLUS = {"step": 0.75 / 8, "episode": (0.2 + 0.2 / 3 + 0.35 / 3) / 4}
MINUS = {"step": 0.5 / 8, "episode": (0.2 / 3 + 0.2 + 0.1 / 3) / 4}
LOSS_2 = {"step": 1.55 / 8, "episode": (0.3 + 0.15 + 0.1 + 0.7 / 3) / 4}


def measured(*losses, unit, kappa=0.5, bet=None, episode=EPISODE, **options):
    """A chain of posteriors on these losses, each on the last rows of the one before."""
    drawn = [Drawn(x, episode[-x.shape[1] :], 0.5, **options) for x in losses]
    return measure_chain(drawn, unit=unit, kappa=kappa, bet=bet)


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_risk_and_excess_are_those_worked_by_hand(unit):
    first, second = measured(RHO_1, RHO_2, unit=unit)
    assert (first.episodes, first.n, first.kl) == (3, {"step": 6, "episode": 3}[unit], 0.5)
    means = (first.loss, first.mean, first.mean_plus, first.mean_minus)
    assert means == pytest.approx((MEAN[unit],) * 3 + (0.0,), abs=EXACT)
    assert (second.episodes, second.n) == (2, {"step": 4, "episode": 2}[unit])
    means = (second.mean_plus, second.mean_minus, second.mean, second.loss)
    expected = (PLUS[unit], MINUS[unit], PLUS[unit] - MINUS[unit], LOSS_2[unit])
    assert means == pytest.approx(expected, abs=EXACT)
    assert [(m.bet, m.mean_bet_loss) for m in (first, second)] == [(None, 0.0)] * 2


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("bet", [0.01, 0.5, 0.999])
def test_what_losses_cost_a_bet_is_a_mean_over_rows_within_units(bet, unit):
    """(P.3): -ln(1 - c loss) per row and draw, then the mean over rows, units and passes."""
    (found,) = measured(RHO_1, unit=unit, bet=bet)
    values, means = [], []
    for row in RHO_1.tolist():
        groups = [row[:2], row[2:3], row[3:]] if unit == "episode" else [[x] for x in row]
        values += [sum(-math.log(1 - bet * x) for x in g) / len(g) for g in groups]
        means += [sum(g) / len(g) for g in groups]
    assert found.bet == bet
    assert found.mean_bet_loss == pytest.approx(sum(values) / len(values), rel=1e-12)
    # never below what the mean losses of the units would cost: Jensen
    assert found.mean_bet_loss >= -np.log(1 - bet * np.array(means)).mean() - EXACT


@pytest.mark.parametrize("now", [[[0.6, 0.6], [0.0, 0.0]], [[0.6, 0.0], [0.6, 0.0]]])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_the_excess_is_split_for_each_draw_and_row_and_not_after_averaging(unit, now):
    """+0.3 and -0.3 in two passes, or two steps: averaged first, nothing is left to bound."""
    _, found = measured(np.full((2, 2), 0.6), np.array(now), unit=unit, episode=np.array([0, 0]))
    assert (found.mean_plus, found.mean_minus) == pytest.approx((0.15, 0.15), abs=EXACT)
    assert found.mean == pytest.approx(0.0, abs=EXACT)


@pytest.mark.parametrize("rows", [(2, 1, 3), (4, 4, 4), (5,), (7, 3)])
@pytest.mark.parametrize("passes", [1, 3])
def test_draws_are_what_the_weights_of_rows_allow(rows, passes):
    """(C.3): 1 over the largest weight; shared draws are one per pass, whatever the rows."""
    episode = np.repeat(np.arange(len(rows)), rows)
    losses = np.full((passes, sum(rows)), 0.25)
    for unit in ("step", "episode"):
        sizes = [1] * sum(rows) if unit == "step" else rows
        weights = [1 / (passes * len(sizes) * size) for size in sizes for _ in range(passes * size)]
        assert sum(weights) == pytest.approx(1)
        (found,) = measured(losses, unit=unit, episode=episode)
        assert found.draws == round(1 / max(weights))
        chain = measured(losses, losses, unit=unit, episode=episode, shared=True)
        assert [each.draws for each in chain] == [passes, passes]
        assert chain[0].n == len(sizes)


# --- bounded -------------------------------------------------------------------------------------


def risk(n=60, draws=240, divergence=0.5, mean=0.3, **bet):
    return Portion(n // 6, n, divergence, draws, mean, mean, mean, **bet)


def excess(n=40, draws=160, divergence=0.25, plus=0.09, minus=0.06):
    return Portion(n // 6, n, divergence, draws, 0.2, plus - minus, plus, minus)


CHAIN = [risk(), excess(), excess(n=30, draws=90, divergence=0.125, plus=0.05, minus=0.005)]


def numbers(portion):
    return (portion.upper_plus, portion.lower_minus, portion.value, portion.bound)


@pytest.mark.parametrize(("delta", "delta_prime"), [(0.025, 0.01), (0.4, 0.3)])
@pytest.mark.parametrize("portions", [1, 2, 3])
@pytest.mark.parametrize("kappa", [0.5, 0.25, 1.0])
@pytest.mark.parametrize("candidates", [1, 4])
def test_the_recursion_is_the_one_of_the_formulas(portions, delta, delta_prime, kappa, candidates):
    """B_1, E_t and B_t of (P.1), (P.2), (R.1); the best of K costs delta/K and delta'/K."""
    ledger = Ledger.chain(portions, delta=delta, delta_prime=delta_prime, candidates=candidates)
    found = bound_chain(CHAIN[:portions], ledger=ledger, kappa=kappa)
    assert [s.kind for s in found] == ["risk", "excess", "excess"][:portions]
    case = {"portions": portions * candidates, "delta": delta, "delta_prime": delta_prime}
    for t, each in enumerate(CHAIN[:portions]):
        own = {"n": each.n, "draws": each.draws, **case}
        if t == 0:
            q, bound = first_bound(each.mean, each.kl, **own)
            expected = (q, 0.0, bound, bound)
        else:
            parts = excess_bound(each.mean_plus, each.mean_minus, each.kl, kappa=kappa, **own)
            bound = parts[2] + kappa * bound
            expected = (*parts, bound)
        assert numbers(found[t]) == pytest.approx([float(x) for x in expected], abs=EXACT)
        for name in ("episodes", "n", "kl", "draws", "loss", "mean", "mean_plus", "mean_minus"):
            assert getattr(found[t], name) == getattr(each, name)


@pytest.mark.parametrize("bet", [0.05, 0.6, 0.999])
@pytest.mark.parametrize("portions", [1, 2])
def test_a_first_portion_with_a_bet_is_bounded_by_it(bet, portions):
    """(P.3), with the Monte Carlo part divided by its range -ln(1 - c) before (C.1)."""
    cost = -math.log(1 - bet * 0.3)
    chain = [risk(bet=bet, mean_bet_loss=cost), excess()][:portions]
    ledger = Ledger.chain(portions, delta=0.025, delta_prime=0.01)
    found = bound_chain(chain, ledger=ledger, kappa=0.5)
    case = {"portions": portions, "delta": 0.025, "delta_prime": 0.01}
    q, bound = bet_bound(cost, bet, 0.5, n=60, draws=240, **case)
    assert numbers(found[0])[:3] == pytest.approx([float(q), 0.0, float(bound)], abs=EXACT)
    assert found[0].bet == bet
    if portions == 2:
        assert found[1].bound == pytest.approx(found[1].value + found[0].bound / 2, abs=EXACT)


# --- the last step -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.4,), (0.4 * OUTWARD, False)),
        ((0.4, 0.3), (0.3 * OUTWARD, False)),
        ((1.7, 1.2), (1.0, False)),
        ((0.4, 0.0), (0.0, False)),
        ((0.4, -0.01), (1.0, True)),
        ((0.4, -0.01, 0.2), (1.0, True)),  # a step before the last contradicts itself
        ((0.4, -1e-300), (1.0, True)),
    ],
)
def test_a_recursion_below_zero_is_void_and_says_nothing_never_zero(bounds, expected):
    steps = [
        Portion(1, 1, 0.0, 1, 0.1, 0.1, 0.1, kind="excess" if t else "risk", bound=bound)
        for t, bound in enumerate(bounds)
    ]
    assert final_bound(steps) == expected


def test_a_recursion_over_portions_that_differ_comes_out_negative_and_void():
    """The excess of 3000 units says -0.4, the first bound 0.35: B_2 < 0."""
    chain = [risk(n=3000, draws=30_000), excess(n=3000, draws=30_000, plus=0.0, minus=0.4)]
    found = bound_chain(chain, ledger=Ledger.chain(2), kappa=0.5)
    assert found[1].bound < 0
    assert final_bound(found) == (1.0, True)


# --- whole certificates: which rows, which posterior, which divergence ---------------------------

OTHER = {"step": "episode", "episode": "step"}
CASE = {"delta": 0.2, "delta_prime": 0.1}


@pytest.fixture(scope="module")
def episodes():
    lengths = np.random.default_rng(8).integers(2, 7, 14)
    return recording(14, lengths, features=3, seed=4, noise=0.5)


def certificate(episodes, scheme, unit, preset="tight", **options):
    """Three pilot, nine validation and two test episodes."""
    given = {"pilot_episodes": 3, "test_episodes": 2, "thin": 1, "gamma": 0.5, "mc_passes": 3}
    asked = Options(**{"scheme": scheme, "unit": unit, "seed": 6, **given, **CASE, **options})
    return issue(episodes, settle(asked, episodes, preset=short(preset)), options=asked)


def divergence(posterior, prior):
    """KL of all weights as cross-entropy minus entropy, in float64."""
    total = 0.0
    for layer in range(len(prior.means)):
        mean, variance, mean_0, variance_0 = (
            np.asarray(v, float).ravel()
            for v in (
                posterior.means[layer],
                np.exp(posterior.log_variances[layer].astype(float)),
                prior.means[layer],
                np.exp(prior.log_variances[layer].astype(float)),
            )
        )
        entropy = norm(mean, np.sqrt(variance)).entropy()
        cross = 0.5 * np.log(2 * np.pi * variance_0)
        cross = cross + (variance + (mean - mean_0) ** 2) / (2 * variance_0)
        total += float((cross - entropy).sum())
    return total


def losses_from(certificate, episodes, first, t, posterior):
    """Losses of a posterior on validation episodes `first` and later, drawn for statement t."""
    data = pairs(episodes.span(3 + first, 12), gamma=0.5, thin=1)
    scaling = certificate.predictor.scaling
    assert scaling.clock is None
    targets = np.clip((data.returns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    inputs = ((data.observations - scaling.mean) / scaling.deviation).astype(np.float32)
    seed = child_seed(6, Stream.DRAWS, t)
    return draw_losses(posterior, inputs, targets, passes=3, seed=seed), data.episode


def averages(losses, episode, unit):
    """Plain loops: the mean over passes and units, the units, and the draws that they are worth."""
    values, episodes = [], sorted(set(episode.tolist()))
    rows = [(episode == own).sum() for own in episodes]
    for row in losses.tolist():
        if unit == "step":
            values += row
            continue
        for own in episodes:
            mine = [x for x, e in zip(row, episode.tolist(), strict=True) if e == own]
            values.append(sum(mine) / len(mine))
    n = len(values) // len(losses)
    draws = len(values) * (1 if unit == "step" else int(min(rows)))
    return math.fsum(values) / len(values), n, draws


def first_portion(losses, episode, unit, kl_1, bet, portions):
    """(P.3) with a bet and (P.1) without, on losses."""
    mean, n, draws = averages(losses, episode, unit)
    own = {"n": n, "draws": draws, "portions": portions, **CASE}
    if bet is None:
        return n, draws, first_bound(mean, kl_1, **own)[1]
    cost = averages(-np.log1p(-bet * losses), episode, unit)[0]
    return n, draws, bet_bound(cost, bet, kl_1, **own)[1]


@pytest.mark.parametrize("preset", ["paper", "tight"])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_recursive_certificate_evaluates_each_posterior_on_its_own_portion_and_later(
    episodes, unit, preset
):
    """rec-3 on 9 episodes: portions of 2, 2 and 5, against the formulas above."""
    found = certificate(episodes, "rec-3", unit, preset)
    starts = (0, 2, 4)
    for own, chain in ((unit, found.portions), (OTHER[unit], found.other_portions)):
        # (P.3) with a fitting set to plan a bet on, for the unit asked for; (P.1) otherwise
        bet = chain[0].bet
        assert (bet is None) is (preset == "paper" or own != unit)
        bound, before = None, None
        for t, start in enumerate(starts):
            posterior, prior = found.posteriors[t + 1], found.posteriors[t]
            losses, episode = losses_from(found, episodes, start, t, posterior)
            kl_t = divergence(posterior, prior)
            assert chain[t].kl == pytest.approx(kl_t, rel=1e-6)
            kl_t = chain[t].kl
            if t == 0:
                n, draws, bound = first_portion(losses, episode, own, kl_t, bet, 3)
            else:
                difference = losses - 0.5 * before[:, -losses.shape[1] :]
                plus, n, draws = averages(np.maximum(difference, 0), episode, own)
                minus = averages(np.maximum(-difference, 0), episode, own)[0]
                case = {"n": n, "draws": draws, "kappa": 0.5, "portions": 3, **CASE}
                bound = excess_bound(plus, minus, kl_t, **case)[2] + bound / 2
                assert chain[t].bet is None
            assert (chain[t].n, chain[t].draws, chain[t].episodes) == (n, draws, 9 - start)
            assert chain[t].bound == pytest.approx(float(bound), abs=1e-10)
            before = losses
    assert found.bound == pytest.approx(min(found.portions[-1].bound * OUTWARD, 1.0), rel=1e-12)
    assert found.n == found.portions[0].n
    risks = {s.unit: s for s in found.statements if s.kind == "mean-risk"}
    assert risks[unit].value == found.bound
    other = min(found.other_portions[-1].bound * OUTWARD, 1.0)
    assert risks[OTHER[unit]].value == pytest.approx(other, rel=1e-12)
    assert "drawn from the posterior" in risks[unit].quantity
    assert "clipped to [" in risks[unit].quantity
    lengths = episodes.lengths[3:12].tolist()
    rows = [fit.rows for fit in found.fits if fit.kind == "posterior"]
    assert rows == [sum(lengths[:2]), sum(lengths[:4]), sum(lengths)]


@pytest.mark.parametrize("preset", ["paper", "tight"])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_an_informed_certificate_is_the_plain_bound_on_the_second_half(episodes, unit, preset):
    """nonrec-inf: the prior from episodes 0 to 4, (P.1) or (P.3) with T = 1 on episodes 5 to 8."""
    found = certificate(episodes, "nonrec-inf", unit, preset)
    last = len(found.posteriors) - 2
    losses, episode = losses_from(found, episodes, 5, last, found.posteriors[-1])
    for own, chain in ((unit, found.portions), (OTHER[unit], found.other_portions)):
        assert len(chain) == 1
        assert (chain[0].bet is None) is (preset == "paper" or own != unit)
        assert chain[0].kl == pytest.approx(divergence(*found.posteriors[:-3:-1]), rel=1e-6)
        n, draws, bound = first_portion(losses, episode, own, chain[0].kl, chain[0].bet, 1)
        assert (chain[0].n, chain[0].draws, chain[0].episodes) == (n, draws, 4)
        assert chain[0].bound == pytest.approx(float(bound), abs=1e-10)
    lengths = episodes.lengths.tolist()
    first = [sum(lengths[3:8])] if preset == "paper" else [sum(lengths[:8])]  # the pilot as well
    assert [fit.rows for fit in found.fits] == [*first, sum(lengths[8:12])]


def test_no_recursion_is_the_plain_bound_on_everything(episodes):
    found = certificate(episodes, "nonrec-noninf", "step", "paper", kappa=0.7)
    losses, episode = losses_from(found, episodes, 0, 0, found.posteriors[-1])
    n, _, bound = first_portion(losses, episode, "step", found.portions[0].kl, None, 1)
    assert found.portions[0].bound == pytest.approx(float(bound), abs=1e-10)
    assert found.n == n == sum(episodes.lengths[3:12].tolist())
    shared = certificate(episodes, "rec-2", "step", sampling="weights")
    assert {s.draws for s in (*shared.portions, *shared.other_portions)} == {3}


def test_the_confidence_of_a_pac_bayes_certificate_is_that_of_the_union(episodes):
    """Each unit spends delta + delta', what stands beside the bound a delta each."""
    found = certificate(episodes, "rec-2", "step", fail_below=0.0)
    assert found.pac_bayes
    assert {s.kind for s in found.statements} == {"mean-risk", "return", "failure"}
    step, episode, *beside = found.statements
    assert [step.confidence, episode.confidence] == pytest.approx([0.7, 0.7])
    assert {round(s.confidence, 12) for s in beside} == {0.8}
    joint = 1 - 0.3 - 0.2 * len(beside)
    assert len(beside) == 4
    assert step.joint_confidence is None
    assert episode.joint_confidence == pytest.approx(max(joint, 0.0))
    assert found.joint_confidence == pytest.approx(max(joint, 0.0))
    # what needs no predictor counts all validation episodes
    assert {s.n for s in beside} == {9}
    best = certificate(episodes, "rec-2", "step", candidates=3)
    assert best.confidence == found.confidence
    for one, other in zip(found.portions, best.portions, strict=True):
        assert other.value > one.value
    for entry in best.ledger:
        (alone,) = [e.failure for e in found.ledger if e.statement == entry.statement]
        assert alone == pytest.approx(3 * entry.failure, rel=1e-12)


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_void_certificate_has_the_bound_one_and_says_so(episodes, unit, monkeypatch):
    """A last step below zero, as from a log that drifts, on its way through the whole room."""

    def drifted(measured, **arguments):
        *before, last = bound_chain(measured, **arguments)
        return (*before, replace(last, bound=-0.1))

    monkeypatch.setattr("tightrope.certificates.recompute.bound_chain", drifted)
    void = certificate(episodes, "rec-2", unit)
    assert (void.bound, void.void, void.vacuous) == (1.0, True, True)
    assert void.bound_raw == void.width**2
    for statement in void.statements[:2]:
        assert (statement.value, statement.value_raw) == (1.0, void.width**2)
        assert (statement.void, statement.vacuous) == (True, True)
        assert "a step of the recursion is negative" in statement.note
    assert void.statuses[0].key == "void"
