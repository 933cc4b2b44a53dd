"""(F.1) by hand; (F.2) and its gradients against the bounds it promises to be."""

import numpy as np
import pytest
import torch

from tightrope.bounds import pac_bayes_kl, split_kl
from tightrope.posteriors import OBJECTIVES, PosteriorStep
from tightrope.posteriors.objectives import inverse_kl, mcallester


def a_step(n=50, delta=0.025, kappa=0.0):
    return PosteriorStep(start=0, stop=8, n=n, delta=delta, kappa=kappa)


RISK, EXCESS = a_step(), a_step(kappa=0.5)


def batch(seed, rows=8, high=0.4):
    return torch.tensor(np.random.default_rng(seed).random(rows) * high)


def exact(values):
    return torch.tensor(values, dtype=torch.float64)


def test_mcallester_by_hand():
    # mean of (0.1, 0.2, 0.6) is 0.3; sqrt((4 + ln(2 sqrt(50) / 0.025)) / 100) with
    # 2 * 7.0710678 / 0.025 = 565.685425, ln = 6.33803814; sqrt(0.1033803814) = 0.3215281969
    losses, kl = exact([0.1, 0.2, 0.6]), exact(4.0)
    assert float(mcallester(losses, None, kl, RISK)) == pytest.approx(0.6215281969, abs=1e-10)
    # excess: 0.3 - 0.5 * mean(0.2, 0.4, 0.6) = 0.1, and a range of 1.5
    reference = exact([0.2, 0.4, 0.6])
    found = float(mcallester(losses, reference, kl, EXCESS))
    assert found == pytest.approx(0.1 + 1.5 * 0.3215281969, abs=1e-9)


def parts(losses, reference, kappa):
    """Mean positive and negative parts of the excess, by plain loops."""
    plus = minus = 0.0
    for loss, other in zip(losses.tolist(), reference.tolist(), strict=True):
        excess = loss - kappa * other
        plus += max(excess, 0.0) / len(losses)
        minus += max(-excess, 0.0) / len(losses)
    return plus, minus


def bound(losses, reference, kl, step):
    """What (F.2) stands for, through tightrope.bounds."""
    case = {"kl": kl, "n": step.n, "delta": step.delta}
    if reference is None:
        return float(pac_bayes_kl(float(losses.mean()), **case))
    plus, minus = parts(losses, reference, step.kappa)
    return float(split_kl(plus, minus, **case, low=-step.kappa, high=1.0, mu=0.0))


CASES = {
    "risk": (RISK, False),
    "excess": (EXCESS, True),
    "excess with another kappa": (a_step(n=300, delta=0.3, kappa=0.9), True),
}


@pytest.mark.parametrize(("step", "with_reference"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("divergence", [0.0, 0.7, 25.0])
def test_the_inverse_kl_objective_is_the_bound(step, with_reference, divergence):
    losses = batch(2)
    reference = batch(3) if with_reference else None
    found = inverse_kl(losses, reference, exact(divergence), step)
    assert found.shape == ()
    assert float(found) == pytest.approx(bound(losses, reference, divergence, step), abs=1e-9)


@pytest.mark.parametrize(("step", "with_reference"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("divergence", [0.7, 25.0])
def test_gradients_of_the_inverse_kl_objective_are_those_of_the_bound(
    step, with_reference, divergence
):
    """Central differences of the bound itself, in every loss and in the KL."""
    losses = batch(2).requires_grad_()
    reference = batch(3) if with_reference else None
    kl = exact(divergence).requires_grad_()
    inverse_kl(losses, reference, kl, step).backward()

    def value(row, move, kl_move):
        moved = losses.detach().clone()
        moved[row] += move
        return bound(moved, reference, divergence + kl_move, step)

    move = 1e-5
    for row in range(len(losses)):
        slope = (value(row, move, 0) - value(row, -move, 0)) / (2 * move)
        assert float(losses.grad[row]) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    slope = (value(0, 0, 1e-3) - value(0, 0, -1e-3)) / 2e-3
    assert float(kl.grad) == pytest.approx(slope, rel=1e-5)
    assert float(kl.grad) > 0


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("losses", [0.0, 1.0, 0.25])
@pytest.mark.parametrize("divergence", [0.0, 1e4])
def test_losses_at_the_ends_and_huge_divergences_have_finite_gradients(name, losses, divergence):
    for step, reference in ((RISK, None), (EXCESS, torch.full((4,), 0.5))):
        rows = torch.full((4,), losses).requires_grad_()
        kl = torch.tensor(divergence).requires_grad_()
        value = OBJECTIVES[name](rows, reference, kl, step)
        value.backward()
        assert value.dtype == torch.float32
        for found in (value, rows.grad, kl.grad):
            assert torch.isfinite(found).all()
