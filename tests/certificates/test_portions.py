"""From measurements to the bound: (P.1), (P.2), (P.3), (R.1) and the corrections (C.1), (C.2).

The formulas are written out here with mpmath and the paper's T, N and delta; nothing but the
numbers is shared with the code.
"""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
import torch
from recordings import recording, short_fits

from tightrope.certificates import certify
from tightrope.certificates.ledger import recursive_ledger
from tightrope.certificates.measure import Measured
from tightrope.certificates.portions import Portion, bound_portions, final_bound
from tightrope.posteriors import draw_losses
from tightrope.rollouts import pairs
from tightrope.seeds import Stream, child_seed

EXACT = 1e-12
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
    q = upper(mean, mpmath.log(portions / mpmath.mpf(delta_prime)) / draws)
    budget = (divergence + mpmath.log(portions * xi(n) / mpmath.mpf(delta))) / n
    return q, upper(q, budget)


@exactly
def bet_bound(mean_bet_loss, bet, divergence, n, draws, portions, delta, delta_prime):
    most = -mpmath.log(1 - mpmath.mpf(bet))
    q = most * upper(mean_bet_loss / most, mpmath.log(portions / mpmath.mpf(delta_prime)) / draws)
    nats = q + (divergence + mpmath.log(portions / mpmath.mpf(delta))) / n
    return q, min((1 - mpmath.exp(-nats)) / bet, 1)


@exactly
def excess_bound(plus, minus, divergence, n, draws, portions, delta, delta_prime, kappa):
    correction = mpmath.log(2 * portions / mpmath.mpf(delta_prime)) / draws
    q_plus = upper(plus, correction)
    q_minus = kappa * lower(minus / mpmath.mpf(kappa), correction)
    psi = (divergence + mpmath.log(2 * portions * xi(n) / mpmath.mpf(delta))) / n
    bound = upper(q_plus, psi) - kappa * lower(q_minus / kappa, psi)
    return q_plus, q_minus, bound


def risk(n=60, draws=240, divergence=0.5, mean=0.3, **bet):
    return Measured(n // 6, n, divergence, draws, mean, mean, mean, **bet)


def excess(n=40, draws=160, divergence=0.25, plus=0.09, minus=0.06):
    return Measured(n // 6, n, divergence, draws, 0.2, plus - minus, plus, minus)


CHAIN = [risk(), excess(), excess(n=30, draws=90, divergence=0.125, plus=0.05, minus=0.005)]


def bounded(portions, *, delta, delta_prime, kappa=0.5, candidates=1):
    ledger = recursive_ledger(portions, delta=delta, delta_prime=delta_prime, candidates=candidates)
    return bound_portions(CHAIN[:portions], ledger=ledger, kappa=kappa)


def numbers(portion):
    return (portion.upper_plus, portion.lower_minus, portion.value, portion.bound)


@pytest.mark.parametrize(("delta", "delta_prime"), [(0.025, 0.01), (0.4, 0.3)])
@pytest.mark.parametrize("portions", [1, 2, 3])
@pytest.mark.parametrize("kappa", [0.5, 0.25, 1.0])
@pytest.mark.parametrize("candidates", [1, 4])
def test_the_recursion_is_the_one_of_the_formulas(portions, delta, delta_prime, kappa, candidates):
    """B_1, E_t and B_t of (P.1), (P.2), (R.1); the best of K costs delta/K and delta'/K."""
    found = bounded(
        portions, delta=delta, delta_prime=delta_prime, kappa=kappa, candidates=candidates
    )
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
    measured = [risk(bet=bet, mean_bet_loss=cost), excess()][:portions]
    ledger = recursive_ledger(portions, delta=0.025, delta_prime=0.01)
    found = bound_portions(measured, ledger=ledger, kappa=0.5)
    case = {"portions": portions, "delta": 0.025, "delta_prime": 0.01}
    q, bound = bet_bound(cost, bet, 0.5, n=60, draws=240, **case)
    assert numbers(found[0])[:3] == pytest.approx([float(q), 0.0, float(bound)], abs=EXACT)
    assert found[0].bet == bet
    if portions == 2:
        assert found[1].bound == pytest.approx(found[1].value + found[0].bound / 2, abs=EXACT)


def test_a_bet_and_no_bet_are_different_bounds_of_the_same_losses():
    """Constant loss 0.01, n = 100, KL = 0: (P.1) 0.0915 with xi, (P.3) about 0.046."""
    ledger = recursive_ledger(1, delta=0.025, delta_prime=0.01)
    plain = risk(n=100, draws=10**7, divergence=0.0, mean=0.01)
    bet = risk(
        n=100,
        draws=10**7,
        divergence=0.0,
        mean=0.01,
        bet=0.999,
        mean_bet_loss=-math.log1p(-0.00999),
    )
    (one,), (other,) = (bound_portions([m], ledger=ledger, kappa=0.5) for m in (plain, bet))
    assert one.value == pytest.approx(0.0915, abs=1e-4)
    assert other.value == pytest.approx(0.046, abs=1e-3)


def test_one_portion_in_plain_numbers():
    """delta = delta' = 0.4 and all losses 0: no inversion is needed, kl(0 || p) = -ln(1 - p).

    Two units and 12 draws: q_1 = 1 - exp(-ln(1/0.4)/12); xi(2) = 2.5, so that
    kl(q_1 || B_1) = (0.5 + ln(2.5 / 0.4)) / 2.
    """
    ledger = recursive_ledger(1, delta=0.4, delta_prime=0.4)
    nothing = Measured(2, 2, 0.5, 12, 0.0, 0.0, 0.0)
    (found,) = bound_portions([nothing], ledger=ledger, kappa=0.5)
    assert found.upper_plus == pytest.approx(1 - 0.4 ** (1 / 12), abs=EXACT)
    q, p = found.upper_plus, found.value
    spent = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert spent == pytest.approx((0.5 + math.log(2.5 / 0.4)) / 2, abs=1e-10)


def test_corrections_widen_the_part_that_is_added_and_narrow_the_one_that_is_subtracted():
    for found in bounded(3, delta=0.025, delta_prime=0.01)[1:]:
        assert found.upper_plus > found.mean_plus
        assert found.lower_minus < found.mean_minus
        assert found.value > found.mean_plus - found.mean_minus


def test_more_draws_tighten_the_correction_towards_the_measured_mean():
    values = []
    for draws in (10, 100, 10_000):
        (found,) = bound_portions([risk(draws=draws)], ledger=recursive_ledger(1), kappa=0.5)
        values.append(found.upper_plus)
    assert values[0] > values[1] > values[2] > 0.3


# --- the last step ------------------------------------------------------------------------------


def steps(*bounds):
    return [
        Portion(1, 1, 0.0, 1, 0.1, 0.1, 0.1, kind="excess" if t else "risk", bound=bound)
        for t, bound in enumerate(bounds)
    ]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.4,), (0.4, False)),
        ((0.4, 0.3), (0.3, False)),
        ((1.7, 1.2), (1.0, False)),
        ((0.4, 0.0), (0.0, False)),
        ((0.4, -0.01), (1.0, True)),
        ((0.4, -0.01, 0.2), (1.0, True)),  # a step before the last contradicts itself
        ((0.4, -1e-300), (1.0, True)),
    ],
)
def test_a_recursion_below_zero_is_void_and_says_nothing_never_zero(bounds, expected):
    assert final_bound(steps(*bounds)) == expected


def test_a_recursion_over_portions_that_differ_comes_out_negative_and_void():
    """The excess of 3000 units says -0.4, the first bound 0.35: B_2 < 0."""
    measured = [risk(n=3000, draws=30_000), excess(n=3000, draws=30_000, plus=0.0, minus=0.4)]
    found = bound_portions(measured, ledger=recursive_ledger(2), kappa=0.5)
    assert found[1].bound < 0
    assert final_bound(found) == (1.0, True)


# --- the same, from the files' end: which rows, which posterior, which divergence -----------------

OTHER = {"step": "episode", "episode": "step"}
CASE = {"delta": 0.2, "delta_prime": 0.1}


@pytest.fixture(scope="module")
def episodes():
    lengths = np.random.default_rng(8).integers(2, 7, 14)
    return recording(14, lengths, features=3, seed=4, noise=0.5)


def issue(episodes, scheme, unit, **options):
    with short_fits():
        return certify(
            episodes,
            scheme=scheme,
            unit=unit,
            thin=1,
            gamma=0.5,
            mc_passes=3,
            seed=6,
            **{"pilot_episodes": 3, "test_episodes": 2, **CASE, **options},
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
    """Losses of a posterior on validation episodes `first` and later, drawn for statement t."""
    data = pairs(episodes.span(3 + first, 12), gamma=0.5, thin=1)
    scaling = certificate.chain.scaling
    assert scaling.clock is None
    targets = np.clip((data.returns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    inputs = torch.from_numpy((data.observations - scaling.mean) / scaling.deviation)
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
    certificate = issue(episodes, "rec-3", unit, preset=preset)
    starts = (0, 2, 4)
    for own, found in ((unit, certificate.portions), (OTHER[unit], certificate.other_portions)):
        # (P.3) with free data to plan a bet for the unit that was asked for; (P.1) otherwise
        bet = found[0].bet
        assert (bet is None) is (preset == "paper" or own != unit)
        bound, before = None, None
        for t, start in enumerate(starts):
            posterior, prior = certificate.chain.gaussians[t + 1], certificate.chain.gaussians[t]
            losses, episode = losses_from(certificate, episodes, start, t, posterior)
            kl_t = divergence(posterior, prior)
            assert found[t].kl == pytest.approx(kl_t, rel=1e-9)
            if t == 0:
                n, draws, bound = first_portion(losses, episode, own, kl_t, bet, 3)
            else:
                difference = losses - 0.5 * before[:, -losses.shape[1] :]
                plus, n, draws = averages(np.maximum(difference, 0), episode, own)
                minus = averages(np.maximum(-difference, 0), episode, own)[0]
                case = {"n": n, "draws": draws, "kappa": 0.5, "portions": 3, **CASE}
                bound = excess_bound(plus, minus, kl_t, **case)[2] + bound / 2
                assert found[t].bet is None
            assert (found[t].n, found[t].draws, found[t].episodes) == (n, draws, 9 - start)
            assert found[t].bound == pytest.approx(float(bound), abs=1e-10)
            before = losses
    assert certificate.bound == min(certificate.portions[-1].bound, 1.0)
    assert certificate.n == certificate.portions[0].n
    risks = {s.unit: s.value for s in certificate.statements if s.kind == "mean-risk"}
    assert risks[unit] == certificate.bound
    assert risks[OTHER[unit]] == min(certificate.other_portions[-1].bound, 1.0)
    lengths = episodes.lengths[3:12].tolist()
    rows = [fit.rows for fit in certificate.fits if fit.kind == "posterior"]
    assert rows == [sum(lengths[:2]), sum(lengths[:4]), sum(lengths)]


@pytest.mark.parametrize("preset", ["paper", "tight"])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_an_informed_certificate_is_the_plain_bound_on_the_second_half(episodes, unit, preset):
    """nonrec-inf: the prior from episodes 0 to 4, (P.1) or (P.3) with T = 1 on episodes 5 to 8."""
    certificate = issue(episodes, "nonrec-inf", unit, preset=preset)
    prior, posterior = certificate.chain.gaussians[-2:]
    losses, episode = losses_from(
        certificate, episodes, 5, len(certificate.chain.gaussians) - 2, posterior
    )
    for own, found in ((unit, certificate.portions), (OTHER[unit], certificate.other_portions)):
        assert len(found) == 1
        assert (found[0].bet is None) is (preset == "paper" or own != unit)
        kl_1 = divergence(posterior, prior)
        n, draws, bound = first_portion(losses, episode, own, kl_1, found[0].bet, 1)
        assert (found[0].n, found[0].draws, found[0].episodes) == (n, draws, 4)
        assert found[0].bound == pytest.approx(float(bound), abs=1e-10)
    lengths = episodes.lengths.tolist()
    first = [sum(lengths[3:8])] if preset == "paper" else [sum(lengths[:8])]  # the pilot as well
    assert [fit.rows for fit in certificate.fits] == [*first, sum(lengths[8:12])]


def test_no_recursion_is_the_plain_bound_on_everything(episodes):
    certificate = issue(episodes, "nonrec-noninf", "step", kappa=0.7, preset="paper")
    prior, posterior = certificate.chain.gaussians
    losses, episode = losses_from(certificate, episodes, 0, 0, posterior)
    n, _, bound = first_portion(losses, episode, "step", divergence(posterior, prior), None, 1)
    assert certificate.portions[0].bound == pytest.approx(float(bound), abs=1e-10)
    assert certificate.n == n == sum(episodes.lengths[3:12].tolist())


def test_without_free_data_there_is_nothing_to_plan_a_bet_on(episodes):
    """Preset tight, but no pilot and no portion that is only fitted to: (P.1)."""
    options = {"pilot_episodes": 0, "return_range": (-9.0, 9.0)}
    assert issue(episodes, "nonrec-noninf", "step", **options).portions[0].bet is None
    assert issue(episodes, "nonrec-inf", "step", **options).portions[0].bet is not None


def test_weight_sampling_counts_passes_as_draws_in_a_certificate(episodes):
    certificate = issue(episodes, "rec-2", "step", sampling="weights")
    for statement in (*certificate.portions, *certificate.other_portions):
        assert statement.draws == 3


@pytest.mark.parametrize("candidates", [3])
def test_the_best_of_several_recursions_pays_in_every_portion(episodes, candidates):
    alone = issue(episodes, "rec-2", "step")
    chosen = issue(episodes, "rec-2", "step", candidates=candidates)
    assert chosen.confidence == alone.confidence
    for one, other in zip(alone.portions, chosen.portions, strict=True):
        assert other.value > one.value
    for one, other in zip(alone.ledger, chosen.ledger, strict=True):
        assert one.failure == pytest.approx(candidates * other.failure, rel=1e-12)


@pytest.mark.parametrize("unit", ["step", "episode"])
def test_a_void_certificate_has_the_bound_one_and_says_so(episodes, unit, monkeypatch):
    """A last step below zero, as from a log that drifts, on its way through the whole room."""

    def drifted(measured, **arguments):
        *before, last = bound_portions(measured, **arguments)
        return (*before, dataclasses.replace(last, bound=-0.1))

    monkeypatch.setattr("tightrope.certificates.assess.bound_portions", drifted)
    void = issue(episodes, "rec-2", unit)
    assert (void.bound, void.void, void.vacuous) == (1.0, True, True)
    assert void.bound_raw == void.width**2
    for statement in void.statements[:2]:
        assert (statement.value, statement.value_raw) == (1.0, void.width**2)
        assert "void" in statement.note
    said = str(void).splitlines()
    assert any(line.startswith("VOID:") for line in said[:4])
    assert not any(line.startswith("VACUOUS") for line in said)
    assert sum("void: a step of the recursion is negative" in line for line in said) == 2
