"""Fits of one posterior: deterministic, started at the prior, on their own rows, honest."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from interruptions import threads_when_interrupted
from recordings import same

from tightrope.posteriors import (
    OBJECTIVES,
    PRESETS,
    Gaussians,
    PosteriorStep,
    draw_losses,
    fit_posterior,
    informed_prior,
    kaiming_means,
    kl_divergence,
    random_prior,
    regress,
)

SHORT = dataclasses.replace(PRESETS["tight"].fit, decay_epochs=4, epochs=4, epoch_steps=5, batch=32)
MODES = {
    "tight": {},
    "paper": {"objective": "mcallester", "whitened": False},
    "weights": {"sampling": "weights"},
}


def a_step(stop=90, start=0, *, n=200, kappa=0.0):
    return PosteriorStep(start=start, stop=stop, n=n, delta=0.025, kappa=kappa)


RISK, EXCESS = a_step(), a_step(kappa=0.5)


def rows(count=90, seed=0):
    """Targets in [0, 1] that depend on two features, one of them through a product."""
    inputs = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    targets = 1 / (1 + np.exp(-2 * inputs[:, 0] + inputs[:, 1] * inputs[:, 2]))
    return inputs, targets.astype(np.float32)


def small_prior(*, log_variance=-4.0, output=0.5, hidden=16, layer_norm=True):
    """A prior of two small hidden layers that predicts about `output`."""
    means = kaiming_means((3, hidden, hidden, 1), 0)
    means[-1][-1] = output
    return Gaussians(means, tuple(np.full_like(mean, log_variance) for mean in means), layer_norm)


def settings(**changes):
    return dataclasses.replace(SHORT, **changes)


def error(gaussians, of):
    inputs, targets = of
    return float(draw_losses(gaussians, inputs, targets.astype(float), passes=5, seed=0).mean())


# --- determinism -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [RISK, EXCESS], ids=["risk", "excess"])
@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_a_fit_is_a_function_of_its_seed(changes, step):
    prior, own = small_prior(), settings(**changes)
    one, curves = fit_posterior(prior, *rows(), step, own, 5)
    torch.manual_seed(999)  # global randomness is not used
    state = torch.get_rng_state()
    again, curves_again = fit_posterior(prior, *rows(), step, own, 5)
    assert torch.equal(torch.get_rng_state(), state)
    other, _ = fit_posterior(prior, *rows(), step, own, 6)
    assert same(one, again)
    assert curves == curves_again
    assert not same(one, other)


def test_a_fit_sees_its_own_rows_only():
    inputs, targets = rows()
    one, _ = fit_posterior(small_prior(), inputs, targets, a_step(60, 30), SHORT, 7)
    alone, _ = fit_posterior(small_prior(), inputs[30:60], targets[30:60], a_step(30), SHORT, 7)
    assert same(one, alone)
    for hidden, seen in ((slice(0, 30), False), (slice(60, 90), False), (slice(30, 60), True)):
        others = inputs.copy(), targets.copy()
        others[0][hidden], others[1][hidden] = -7.0, 1.0
        blind, _ = fit_posterior(small_prior(), *others, a_step(60, 30), SHORT, 7)
        assert same(blind, one) != seen


@pytest.mark.parametrize("changes", [{}, {"objective": "mcallester", "whitened": False}])
def test_a_fit_is_the_one_that_torchs_own_optimiser_makes(changes):
    """Written down again with torch.optim.Adam, StepLR and clip_grad_norm_, on leaf tensors."""
    own, (inputs, targets) = settings(epochs=6, decay_epochs=2, clip=0.05, **changes), rows()
    prior = small_prior()
    found, _ = fit_posterior(prior, inputs, targets, RISK, own, 3)
    inputs, targets = torch.from_numpy(inputs), torch.from_numpy(targets)
    means, log_variances = (
        [torch.from_numpy(layer) for layer in each] for each in (prior.means, prior.log_variances)
    )
    shifts, ratios = ([torch.zeros_like(m, requires_grad=True) for m in means] for _ in range(2))
    optimiser = torch.optim.Adam([*shifts, *ratios], lr=own.learning_rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, own.decay_epochs, own.decay)
    generator, order = torch.Generator().manual_seed(3), []
    unit = math.exp(-2.0) if own.whitened else 1.0  # standard deviation of the prior
    for _ in range(own.epochs):
        for _ in range(own.epoch_steps):
            if len(order) < own.batch:
                order = torch.randperm(90, generator=generator).tolist()
            picked, order = order[: own.batch], order[own.batch :]
            hidden, kl = inputs[picked], 0.0
            for layer, (mean, value) in enumerate(zip(means, log_variances, strict=True)):
                if layer:
                    hidden = torch.nn.functional.layer_norm(hidden, (16,)).relu()
                weights, variance = mean + unit * shifts[layer], (value + ratios[layer]).exp()
                centre = hidden @ weights[:-1] + weights[-1]
                spread = (hidden**2 @ variance[:-1] + variance[-1]).sqrt()
                hidden = centre + spread * torch.randn(centre.shape, generator=generator)
                kl += torch.distributions.kl_divergence(
                    torch.distributions.Normal(weights, variance.sqrt()),
                    torch.distributions.Normal(mean, (value / 2).exp()),
                ).sum()
            drawn = hidden[:, 0] + (hidden[:, 0].clamp(0, 1) - hidden[:, 0]).detach()
            value = OBJECTIVES[own.objective]((drawn - targets[picked]) ** 2, None, kl, RISK)
            optimiser.zero_grad()
            value.backward()
            norm = torch.nn.utils.clip_grad_norm_([*shifts, *ratios], own.clip)
            optimiser.step()
        schedule.step()
    assert norm > own.clip, "or clipping would not show"
    for layer, start in enumerate(prior.means):
        expected = start + unit * shifts[layer].detach().numpy()
        moved = abs(expected - start).max()
        np.testing.assert_allclose(found.means[layer], expected, atol=0.01 * moved)


# --- where it starts, where it gets ------------------------------------------------------------


@pytest.mark.parametrize("whitened", [True, False])
def test_a_fit_starts_at_its_prior(whitened):
    prior, own = small_prior(), settings(learning_rate=0.0, whitened=whitened)
    still, curves = fit_posterior(prior, *rows(), EXCESS, own, 1)
    assert kl_divergence(still, prior) == 0.0
    assert set(curves.kl) == {0.0}
    own = settings(learning_rate=1e-6, whitened=whitened)
    assert kl_divergence(fit_posterior(prior, *rows(), EXCESS, own, 1)[0], prior) < 1e-4


def test_a_fit_leaves_its_prior_and_its_rows_and_the_kind_of_network_as_they_were():
    prior, data = small_prior(), rows()
    posterior, _ = fit_posterior(prior, *data, EXCESS, SHORT, 1)
    assert same(prior, small_prior())
    assert not same(posterior, prior)
    for found, expected in zip(data, rows(), strict=True):
        np.testing.assert_array_equal(found, expected)
    plain, _ = fit_posterior(small_prior(layer_norm=False), *rows(), EXCESS, SHORT, 1)
    assert (posterior.layer_norm, plain.layer_norm) == (True, False)
    assert not same(posterior, plain)


def test_tight_learns_a_function_far_better_than_a_constant_can():
    """The real network and settings on 600 rows; judged on rows that it has not seen."""
    preset, unseen = PRESETS["tight"], rows(3000, seed=99)
    prior = random_prior(preset, 3, 0)
    step = a_step(600, n=16_600)
    posterior, found = fit_posterior(prior, *rows(600), step, preset.fit, 1)
    constant = float(unseen[1].var())
    assert error(prior, unseen) > constant
    assert error(posterior, unseen) < 0.25 * constant
    assert found.loss[-1] < 0.25 * constant
    assert found.objective[-1] < 0.6 * found.objective[0]


def test_a_prior_around_a_regression_predicts_its_rows_and_a_fit_from_there_keeps_it():
    """The first prior of `tight`: its variance is small enough for its draws to keep the fit."""
    preset, fitted = PRESETS["tight"], rows(300)
    own = dataclasses.replace(preset.regression, folds=2, steps=150, batch=64, memory=30)
    ensemble = regress(*fitted, np.arange(300) // 30, own, 0)
    informed, blank = informed_prior(preset, ensemble.single), random_prior(preset, 3, 0)
    still = Gaussians(informed.means, tuple(np.full_like(m, -60.0) for m in informed.means))
    plain = error(still, fitted)
    assert plain < error(informed, fitted) < plain + 0.001 < 0.01 < error(blank, fitted)
    own = dataclasses.replace(preset.fit, epochs=2, epoch_steps=5)
    posterior, _ = fit_posterior(informed, *rows(300, seed=1), a_step(300, n=300), own, 0)
    assert error(posterior, fitted) < 0.01


# --- the divergence ----------------------------------------------------------------------------


@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_the_final_divergence_in_float64_is_the_last_one_of_training(changes):
    """With a last epoch that stands still: the curve is of the state before each update."""
    own = settings(**changes, epochs=4, decay=1e-9, decay_epochs=3)
    posterior, curves = fit_posterior(small_prior(), *rows(), EXCESS, own, 1)
    final = kl_divergence(posterior, small_prior())
    assert final > 0.01
    assert curves.kl[-1] == pytest.approx(final, rel=1e-4)


# --- curves, progress, interruption ------------------------------------------------------------


def test_curves_have_one_number_per_epoch_and_progress_adds_up():
    advanced, own = [], settings(epochs=6, epoch_steps=3)
    _, curves = fit_posterior(small_prior(), *rows(), EXCESS, own, 1, advance=advanced.append)
    for curve in dataclasses.astuple(curves):
        assert len(curve) == 6
        assert all(type(value) is float and math.isfinite(value) for value in curve)
    assert advanced == [3] * 6
    assert sum(advanced) == own.steps


def test_an_interrupted_fit_leaves_torchs_threads_as_they_were():
    data = small_prior(), *rows(), RISK, SHORT, 1
    assert threads_when_interrupted(lambda stop: fit_posterior(*data, advance=stop)) == [1]
