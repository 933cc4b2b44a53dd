"""Fits of one portion and of chains: deterministic, batched, started at their priors, honest."""

import dataclasses

import numpy as np
import pytest
import torch
from recordings import same

from tightrope.posteriors import (
    OBJECTIVES,
    PRESETS,
    Curves,
    FitSettings,
    Gaussians,
    Link,
    Rows,
    Stage,
    draw_losses,
    fit,
    fit_chain,
    informed_prior,
    kaiming_means,
    kl_divergence,
    random_prior,
    regress,
    settled,
)
from tightrope.seeds import Stream, child_seed

SHORT = FitSettings(
    objective="inverse-kl",
    sampling="local",
    learning_rate=2e-2,
    decay=0.5,
    decay_epochs=4,
    epochs=4,
    epoch_steps=5,
    batch=32,
    clip=1.0,
    whitened=True,
)
RISK, EXCESS = Stage(200, 0.025, 0.0), Stage(200, 0.025, 0.5)
SEEDS = (11, 12, 13)


def rows(count=90, seed=0, features=3):
    """Targets in [0, 1] that depend on two features, one of them through a product."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, features)).astype(np.float32)
    targets = 1 / (1 + np.exp(-2 * inputs[:, 0] + inputs[:, 1] * inputs[:, 2]))
    return Rows(torch.from_numpy(inputs), torch.from_numpy(targets).float())


def small_prior(members=1, *, log_variance=-4.0, output=0.5, hidden=16):
    """A prior of two small hidden layers that predicts about `output`."""
    means = list(kaiming_means((3, hidden, hidden, 1), range(members)))
    means[-1] = means[-1].clone()
    means[-1][:, -1] = output
    return Gaussians(tuple(means), tuple(torch.full_like(mean, log_variance) for mean in means))


def settings(**changes):
    return dataclasses.replace(SHORT, **changes)


def assert_close(left, right, tolerance):
    for a, b in zip(
        (*left.means, *left.log_variances), (*right.means, *right.log_variances), strict=True
    ):
        assert torch.allclose(a, b, rtol=0, atol=tolerance), (a - b).abs().max()


# --- determinism and batching ------------------------------------------------------------------

MODES = {
    "tight": {},
    "paper": {"objective": "mcallester", "whitened": False},
    "weights": {"sampling": "weights"},
}


@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_a_fit_is_a_function_of_its_seed(changes):
    prior, own = small_prior(), settings(**changes)
    one, curve = fit(prior, rows(), EXCESS, own, [5])
    torch.manual_seed(999)  # global randomness is not used
    again, curve_again = fit(prior, rows(), EXCESS, own, [5])
    other, _ = fit(prior, rows(), EXCESS, own, [6])
    assert same(one, again)
    np.testing.assert_array_equal(curve.objective, curve_again.objective)
    assert not same(one, other)


@pytest.mark.parametrize("stage", [RISK, EXCESS], ids=["risk", "excess"])
@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_repetitions_fitted_together_are_those_fitted_alone(changes, stage):
    prior, own = small_prior(3), settings(**changes)
    together, curves = fit(prior, rows(), stage, own, SEEDS)
    for index, seed in enumerate(SEEDS):
        alone, curve = fit(prior.member(index), rows(), stage, own, [seed])
        assert_close(together.member(index), alone, 2e-4)
        # The members have moved much farther than they differ.
        assert (alone.means[1] - prior.means[1][index]).abs().max() > 5e-3
        for name in ("loss", "kl", "objective"):
            np.testing.assert_allclose(
                getattr(curves, name)[index], getattr(curve, name)[0], rtol=1e-3, atol=1e-5
            )


def test_the_network_of_the_presets_is_batched_as_faithfully():
    """Three members of 256 x 256 for a few updates, with the settings of `tight`."""
    recipe = PRESETS["tight"]
    own = dataclasses.replace(recipe.fit, epochs=2, epoch_steps=4)
    together = random_prior(recipe, 3, SEEDS)
    posteriors, _ = fit(together, rows(), RISK, own, SEEDS)
    prior = random_prior(recipe, 3, SEEDS[1:2])
    assert same(prior, together.member(1))
    alone, _ = fit(prior, rows(), RISK, own, SEEDS[1:2])
    assert_close(posteriors.member(1), alone, 2e-4)
    divergence = kl_divergence(posteriors, together)[1]
    assert divergence == pytest.approx(kl_divergence(alone, prior)[0], rel=1e-3)


def test_the_gradient_of_each_member_is_clipped_on_its_own():
    """A member with a huge loss must not slow the others down."""
    prior = small_prior(2)
    means = list(prior.means)
    means[-1] = means[-1].clone()
    means[-1][1, -1] = 400.0  # predicts 400: its gradient dwarfs the other's
    pair = Gaussians(tuple(means), prior.log_variances)
    own = settings(objective="mcallester", whitened=False)
    together, _ = fit(pair, rows(), RISK, own, [1, 2])
    alone, _ = fit(prior.member(0), rows(), RISK, own, [1])
    assert_close(together.member(0), alone, 1e-4)


# --- where it starts, where it gets ------------------------------------------------------------


@pytest.mark.parametrize("whitened", [True, False])
def test_a_fit_starts_at_its_prior(whitened):
    prior = small_prior(2)
    still, curves = fit(
        prior, rows(), EXCESS, settings(learning_rate=0.0, whitened=whitened), [1, 2]
    )
    assert kl_divergence(still, prior).tolist() == [0.0, 0.0]
    assert (curves.kl == 0).all()
    barely, _ = fit(prior, rows(), EXCESS, settings(learning_rate=1e-6, whitened=whitened), [1, 2])
    assert (kl_divergence(barely, prior) < 1e-4).all()


def test_a_fit_leaves_its_prior_as_it_was():
    prior = small_prior()
    copy = Gaussians(*(tuple(v.clone() for v in p) for p in (prior.means, prior.log_variances)))
    posterior, _ = fit(prior, rows(), EXCESS, SHORT, [1])
    assert same(prior, copy)
    assert not same(posterior, copy)
    assert not any(v.requires_grad for v in (*posterior.means, *posterior.log_variances))


def error(gaussians, of):
    losses = draw_losses(gaussians, of.inputs, of.targets.double().numpy(), passes=5, seed=0)
    return float(losses.mean())


def test_tight_learns_a_function_far_better_than_a_constant_can():
    """The real network and settings on 600 rows; judged on rows that it has not seen."""
    recipe, unseen = PRESETS["tight"], rows(3000, seed=99)
    prior = random_prior(recipe, 3, [0])
    posterior, found = fit(prior, rows(600), Stage(16_600, 0.025, 0.0), recipe.fit, [1])
    constant = float(unseen.targets.var())
    assert error(prior, unseen) > constant
    assert error(posterior, unseen) < 0.25 * constant
    assert found.loss[0, -1] < 0.25 * constant
    assert found.objective[0, -1] < 0.5 * found.objective[0, 0]


def test_predictions_outside_the_range_still_learn():
    """Clipping has no gradient there; training must not stand still."""
    prior = small_prior(output=1.6, log_variance=-8.0)
    low = Rows(rows().inputs, torch.zeros(90))
    own = settings(objective="mcallester", whitened=False, epochs=30, decay_epochs=30)
    posterior, _ = fit(prior, low, Stage(100_000, 0.025, 0.0), own, [1])
    assert error(prior, low) > 0.95
    assert error(posterior, low) < 0.2


def test_a_prior_around_a_regression_predicts_its_rows_and_a_fit_from_there_keeps_it():
    """The first prior of `tight`: its variance is small enough for its draws to keep the fit."""
    recipe, free = PRESETS["tight"], rows(300)
    settings = dataclasses.replace(recipe.regression, folds=2, steps=150, batch=64, memory=30)
    regressed = regress(free, np.arange(300) // 30, settings, 0)
    informed, blank = informed_prior(recipe, [regressed.single]), random_prior(recipe, 3, [0])
    plain = float(np.mean((regressed.single(free.inputs) - free.targets.double().numpy()) ** 2))
    assert plain < error(informed, free) < plain + 0.001 < 0.01 < error(blank, free)
    own = dataclasses.replace(recipe.fit, epochs=2, epoch_steps=5)
    posterior, _ = fit(informed, rows(300, seed=1), Stage(300, 0.025, 0.0), own, [0])
    assert error(posterior, free) < 0.01


# --- the divergence ----------------------------------------------------------------------------


@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_the_final_divergence_in_float64_is_the_last_one_of_training(changes):
    """With a last epoch that stands still: the curve is of the state before each update."""
    own = settings(**changes, epochs=4, decay=1e-9, decay_epochs=3)
    prior = small_prior(2)
    posterior, curves = fit(prior, rows(), EXCESS, own, [1, 2])
    final = kl_divergence(posterior, prior)
    assert final.dtype == np.float64
    assert (final > 0.01).all()
    np.testing.assert_allclose(curves.kl[:, -1], final, rtol=1e-4)


def test_the_divergence_pays_for_every_unit_that_a_mean_moves():
    """A shift by s of one mean costs s^2 / (2 variance), whatever units the fit learns in."""
    prior = small_prior(log_variance=-6.0)
    for whitened in (True, False):
        posterior, _ = fit(prior, rows(), RISK, settings(whitened=whitened), [3])
        expected = 0.0
        layers = zip(posterior.means, posterior.log_variances, prior.means, strict=True)
        for mean, log_variance, start in layers:
            ratio = log_variance.double() + 6.0
            shift = (mean.double() - start.double()) ** 2 / np.exp(-6.0)
            expected += float((ratio.exp() - 1 - ratio + shift).sum()) / 2
        assert kl_divergence(posterior, prior)[0] == pytest.approx(expected, rel=1e-9)


# --- curves ------------------------------------------------------------------------------------


def test_curves_have_one_row_per_member_and_one_column_per_epoch():
    ticks = []
    own = settings(epochs=6, epoch_steps=3)
    _, curves = fit(small_prior(2), rows(), EXCESS, own, [1, 2], tick=ticks.append)
    for name in ("loss", "kl", "objective"):
        assert getattr(curves, name).shape == (2, 6)
        assert np.isfinite(getattr(curves, name)).all()
    assert curves.converged.shape == (2,)
    assert ticks == [3] * 6
    assert sum(ticks) == own.steps


def test_curves_hold_the_loss_and_the_objective_of_the_fit():
    """At a standstill they are the risk of the prior and its bound at KL = 0."""
    prior, data = small_prior(log_variance=-20.0), rows()
    own = settings(learning_rate=0.0, batch=90, epoch_steps=1)
    _, curves = fit(prior, data, RISK, own, [1])
    expected = error(prior, data)
    np.testing.assert_allclose(curves.loss, expected, rtol=1e-3)
    losses = torch.full((1, 1), expected, dtype=torch.float64)
    bound = float(OBJECTIVES["inverse-kl"](losses, None, torch.zeros(1).double(), RISK))
    np.testing.assert_allclose(curves.objective, bound, rtol=1e-3)


def curves(*objective):
    values = np.atleast_2d(np.array(objective, float))
    return Curves(np.zeros_like(values), np.zeros_like(values), values)


def test_a_fit_that_still_improves_by_more_than_2_percent_has_not_converged():
    still = [1, 0.5, 0.4, 0.4, 0.397, 0.397, 0.396, 0.396]
    moving = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    below_zero = [0.1, 0.0, -0.1, -0.1, -0.2, -0.2, -0.3, -0.3]
    assert curves(still, moving, below_zero).converged.tolist() == [True, False, False]
    assert curves([-0.2] * 8, [np.nan] * 8).converged.tolist() == [True, False]


def test_a_fit_that_gets_worse_has_not_converged():
    assert curves([1, 0.5, 0.4, 0.4, 0.4, 0.4, 0.8, 1.6]).converged.tolist() == [False]


def test_a_scatter_within_noise_counts_as_converged_and_a_single_epoch_does_not():
    """Quarters of eight epochs: their means are 4 % apart, the scatter around them is 10 %."""
    rng = np.random.default_rng(0)
    scatter = 0.1 * rng.permutation(np.linspace(-1, 1, 8))
    quarters = np.r_[np.ones(16), 1.0 + scatter, 0.96 + scatter]
    assert settled(quarters)
    assert not settled(np.r_[np.ones(16), 1.0 + scatter / 100, 0.96 + scatter / 100])
    assert not settled([0.5])
    assert settled([0.5, 0.5])
    assert not settled([0.5, 0.4])


def test_a_long_fit_is_reported_as_converged_and_a_short_one_is_not():
    stage, data = Stage(20_000, 0.025, 0.0), rows(300)
    own = settings(epochs=80, decay_epochs=8, learning_rate=5e-2, batch=300)
    short = settings(epochs=8, decay_epochs=80, learning_rate=5e-2, batch=300)
    assert fit(small_prior(2), data, stage, own, [1, 2])[1].converged.all()
    assert not fit(small_prior(2), data, stage, short, [1, 2])[1].converged.any()


# --- weight sampling ---------------------------------------------------------------------------


def test_weight_sampling_fits_as_well_and_is_another_fit():
    own = settings(epochs=20, decay_epochs=20, sampling="weights")
    prior, data, stage = small_prior(), rows(300), Stage(20_000, 0.025, 0.0)
    posterior, curve = fit(prior, data, stage, own, [1])
    assert error(posterior, data) < 0.7 * error(prior, data)
    assert np.isfinite(curve.objective).all()
    local, _ = fit(prior, data, stage, dataclasses.replace(own, sampling="local"), [1])
    assert not same(posterior, local)


# --- chains ------------------------------------------------------------------------------------


def test_a_chain_is_its_fits_one_after_the_other_with_seeds_of_their_own():
    links = [Link(0, 30, RISK), Link(0, 60, EXCESS), Link(0, 90, EXCESS)]
    data, prior = rows(), small_prior(2)
    posteriors, found = fit_chain(prior, links, data, SHORT, [7, 8])
    assert len(posteriors) == len(found) == 3
    before = prior
    for index, link in enumerate(links):
        own = [child_seed(seed, Stream.FIT, index) for seed in (7, 8)]
        seen = Rows(data.inputs[: link.stop], data.targets[: link.stop])
        expected, _ = fit(before, seen, link.stage, SHORT, own)
        assert same(posteriors[index], expected)
        before = expected
    # Continued where it was left, a chain is the same chain.
    head, _ = fit_chain(prior, links[:1], data, SHORT, [7, 8])
    tail, _ = fit_chain(head[0], links[1:], data, SHORT, [7, 8], first=1)
    assert same(tail[1], posteriors[2])


def test_a_link_sees_its_own_rows_only():
    links = [Link(0, 30, RISK), Link(30, 60, RISK)]
    data, prior = rows(), small_prior()
    whole, _ = fit_chain(prior, links, data, SHORT, [7])
    for hidden, untouched in ((slice(60, 90), (0, 1)), (slice(30, 60), (0,))):
        inputs, targets = data.inputs.clone(), data.targets.clone()
        inputs[hidden], targets[hidden] = -7.0, 1.0
        blind, _ = fit_chain(prior, links, Rows(inputs, targets), SHORT, [7])
        for index in untouched:
            assert same(blind[index], whole[index])
    inputs, targets = data.inputs.clone(), data.targets.clone()
    inputs[:30] += 1.0
    after, _ = fit_chain(whole[0], links[1:], Rows(inputs, targets), SHORT, [7], first=1)
    assert same(after[0], whole[1])
