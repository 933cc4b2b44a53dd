"""(F.1) by hand; (F.2) and its gradients against the bounds it promises to be."""

import math

import numpy as np
import pytest
import torch

from tightrope.bounds import pac_bayes_kl, split_kl
from tightrope.posteriors import OBJECTIVES, Stage
from tightrope.posteriors.objectives import inverse_kl, mcallester

RISK, EXCESS = Stage(n=50, delta=0.025, kappa=0.0), Stage(n=50, delta=0.025, kappa=0.5)


def batch(seed, members=3, rows=8, high=0.4):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.random((members, rows)) * high)


def exact(values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_papers_objective_is_called_mcallester_and_ours_is_the_bound_itself():
    assert {"mcallester": mcallester, "inverse-kl": inverse_kl} == OBJECTIVES


def test_mcallester_by_hand():
    # mean of (0.1, 0.2, 0.6) is 0.3; sqrt((4 + ln(2 sqrt(50) / 0.025)) / 100) with
    # 2 * 7.0710678 / 0.025 = 565.685425, ln = 6.33803814; sqrt(0.1033803814) = 0.3215281969
    losses, kl = exact([[0.1, 0.2, 0.6]]), exact([4.0])
    assert float(mcallester(losses, None, kl, RISK)) == pytest.approx(0.6215281969, abs=1e-10)
    # excess: 0.3 - 0.5 * mean(0.2, 0.4, 0.6) = 0.1, and a range of 1.5
    reference = exact([[0.2, 0.4, 0.6]])
    found = float(mcallester(losses, reference, kl, EXCESS))
    assert found == pytest.approx(0.1 + 1.5 * 0.3215281969, abs=1e-9)


def test_mcallester_at_delta_over_t_is_the_papers_formula():
    """range * sqrt((KL + ln(2 T sqrt(N_t) / delta)) / (2 N_t)) with T = 6."""
    losses, kl = batch(1), exact([1.0, 2.0, 30.0])
    found = mcallester(losses, None, kl, Stage(n=400, delta=0.025 / 6, kappa=0.0))
    for member in range(3):
        inside = (float(kl[member]) + math.log(2 * 6 * math.sqrt(400) / 0.025)) / (2 * 400)
        expected = float(losses[member].mean()) + math.sqrt(inside)
        assert float(found[member]) == pytest.approx(expected, abs=1e-12)


def parts(losses, reference, kappa):
    """Mean positive and negative parts of the excess, by plain loops."""
    plus = minus = 0.0
    for loss, other in zip(losses.tolist(), reference.tolist(), strict=True):
        excess = loss - kappa * other
        plus += max(excess, 0.0) / len(losses)
        minus += max(-excess, 0.0) / len(losses)
    return plus, minus


def bound(losses, reference, kl, stage):
    """What (F.2) stands for, through tightrope.bounds, for one member."""
    case = {"kl": kl, "n": stage.n, "delta": stage.delta}
    if reference is None:
        return float(pac_bayes_kl(float(losses.mean()), **case))
    plus, minus = parts(losses, reference, stage.kappa)
    return float(split_kl(plus, minus, **case, low=-stage.kappa, high=1.0, mu=0.0))


CASES = {
    "risk": (RISK, False),
    "excess": (EXCESS, True),
    "excess with another kappa": (Stage(n=300, delta=0.3, kappa=0.9), True),
}


@pytest.mark.parametrize(("stage", "with_reference"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("divergence", [0.0, 0.7, 25.0])
def test_the_inverse_kl_objective_is_the_bound(stage, with_reference, divergence):
    losses = batch(2)
    reference = batch(3) if with_reference else None
    kl = torch.full((3,), divergence).double()
    found = inverse_kl(losses, reference, kl, stage)
    assert found.shape == (3,)
    for member in range(3):
        own = None if reference is None else reference[member]
        expected = bound(losses[member], own, divergence, stage)
        assert float(found[member]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("stage", "with_reference"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("divergence", [0.7, 25.0])
def test_gradients_of_the_inverse_kl_objective_are_those_of_the_bound(
    stage, with_reference, divergence
):
    """Central differences of the bound itself, in every loss and in the KL."""
    losses = batch(2, members=1).requires_grad_()
    reference = batch(3, members=1) if with_reference else None
    kl = torch.full((1,), divergence).double().requires_grad_()
    inverse_kl(losses, reference, kl, stage).sum().backward()
    own = None if reference is None else reference[0]

    def value(row, step, kl_step):
        moved = losses.detach()[0].clone()
        moved[row] += step
        return bound(moved, own, divergence + kl_step, stage)

    step = 1e-5
    for row in range(losses.shape[1]):
        slope = (value(row, step, 0) - value(row, -step, 0)) / (2 * step)
        assert float(losses.grad[0, row]) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    slope = (value(0, 0, 1e-3) - value(0, 0, -1e-3)) / 2e-3
    assert float(kl.grad) == pytest.approx(slope, rel=1e-5)
    assert float(kl.grad) > 0


@pytest.mark.parametrize("name", OBJECTIVES)
def test_members_do_not_mix(name):
    losses, reference = batch(4).requires_grad_(), batch(5)
    kl = exact([1.0, 2.0, 3.0])
    together = OBJECTIVES[name](losses, reference, kl, EXCESS)
    for member in range(3):
        pick = slice(member, member + 1)
        alone = OBJECTIVES[name](losses[pick], reference[pick], kl[pick], EXCESS)
        assert float(alone.detach()) == pytest.approx(float(together[member].detach()), abs=1e-12)
    together[1].backward()
    assert losses.grad[1].abs().max() > 0
    assert losses.grad[0].abs().max() == losses.grad[2].abs().max() == 0


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("losses", [0.0, 1.0, 0.25])
@pytest.mark.parametrize("divergence", [0.0, 1e4])
def test_losses_at_the_ends_and_huge_divergences_have_finite_gradients(name, losses, divergence):
    for stage, reference in ((RISK, None), (EXCESS, torch.full((1, 4), 0.5))):
        rows = torch.full((1, 4), losses).requires_grad_()
        kl = torch.full((1,), divergence).requires_grad_()
        value = OBJECTIVES[name](rows, reference, kl, stage)
        value.sum().backward()
        assert value.dtype == torch.float32
        for found in (value, rows.grad, kl.grad):
            assert torch.isfinite(found).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_more_loss_more_divergence_or_fewer_units_cost_more(name):
    objective, kl = OBJECTIVES[name], exact([2.0])
    losses, reference = batch(6, members=1), batch(7, members=1)
    for stage, other in ((RISK, None), (EXCESS, reference)):
        base = float(objective(losses, other, kl, stage))
        assert float(objective(losses + 0.05, other, kl, stage)) > base
        assert float(objective(losses, other, kl + 1, stage)) > base
        assert float(objective(losses, other, kl, Stage(25, stage.delta, stage.kappa))) > base
        assert float(objective(losses, other, kl, Stage(50, 0.001, stage.kappa))) > base
