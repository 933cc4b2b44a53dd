"""(G.1) against torch.distributions and mpmath; draws against brute force that samples weights."""

import math

import mpmath
import numpy as np
import pytest
import torch

from tightrope.posteriors import (
    PRESETS,
    Gaussians,
    draw_losses,
    draw_predictions,
    informed_prior,
    kaiming_means,
    kl_divergence,
    random_prior,
)
from tightrope.posteriors.gaussians import draw
from tightrope.seeds import Stream, child_seed

SIZES = (3, 7, 6, 1)
ROW = np.array([0.8, -1.3, 0.4], np.float32)


def numbers(seed, scale=1.0, shift=0.0):
    rng, shapes = np.random.default_rng(seed), ((4, 7), (8, 6), (7, 1))
    return tuple((scale * rng.normal(size=shape) + shift).astype(np.float32) for shape in shapes)


def gaussians(seed, scale=1.0):
    return Gaussians(numbers(seed, scale), numbers(seed + 100, scale, -3.0))


# --- the divergence ----------------------------------------------------------------------------


def normals(distribution):
    """Each layer as float64 Normals of torch."""
    return [
        torch.distributions.Normal(
            torch.tensor(mean).double(), (0.5 * torch.tensor(v).double()).exp()
        )
        for mean, v in zip(distribution.means, distribution.log_variances, strict=True)
    ]


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0])
def test_the_divergence_is_the_one_of_torch_distributions(scale):
    """(G.1), summed over weights and biases of all layers."""
    posterior, prior = gaussians(1, scale), gaussians(2, scale)
    pairs = zip(normals(posterior), normals(prior), strict=True)
    expected = sum(float(torch.distributions.kl_divergence(a, b).sum()) for a, b in pairs)
    found = kl_divergence(posterior, prior)
    assert type(found) is float
    assert found == pytest.approx(expected, rel=1e-12)
    assert kl_divergence(prior, prior) == 0.0


def one_number(mean, log_variance):
    return Gaussians((np.float32([[mean]]),), (np.float32([[log_variance]]),))


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, -1e-5])
def test_small_divergences_keep_their_digits(ratio):
    """exp(r) - 1 - r, which plain arithmetic would lose to cancellation, against mpmath."""
    prior, posterior = one_number(0.0, -4.0), one_number(0.0, -4.0 + ratio)
    exact = mpmath.mpf(float(posterior.log_variances[0][0, 0])) + 4
    with mpmath.workdps(50):
        expected = float((mpmath.expm1(exact) - exact) / 2)
    assert kl_divergence(posterior, prior) == pytest.approx(expected, rel=1e-9)


# --- first means and priors --------------------------------------------------------------------


def test_means_start_as_torch_starts_a_linear_layer():
    """Weights and biases uniform up to 1 / sqrt(fan-in), five standard errors allowed."""
    for mean, inputs in zip(kaiming_means((27, 256, 64, 1), 0), (27, 256, 64), strict=True):
        limit = 1 / math.sqrt(inputs)
        layer = torch.nn.Linear(inputs, mean.shape[1])
        for part, reference in ((mean[:-1], layer.weight), (mean[-1], layer.bias)):
            assert max(abs(part).max(), reference.abs().max().item()) <= limit
            error = limit / math.sqrt(part.size)
            assert abs(np.square(part).mean() - limit**2 / 3) < 5 * limit * error * 0.3


@pytest.mark.parametrize(("name", "width"), [("paper", 256), ("tight", 128)])
def test_priors_have_kaiming_means_of_their_own_stream_or_a_networks_and_the_presets_variance(
    name, width
):
    """Two hidden layers, nothing for layer normalisation; unrelated means for other seeds."""
    preset, layers = PRESETS[name], kaiming_means((4, width, width, 1), 3)
    prior, other = (random_prior(preset, 27, seed) for seed in (8, 9))
    own = kaiming_means((27, width, width, 1), child_seed(8, Stream.PRIOR_MEANS, 0))
    for found, expected, variance in (
        (prior, own, preset.prior_log_variance),
        (informed_prior(preset, layers), layers, preset.informed_log_variance),
    ):
        for mean, values, each in zip(found.means, found.log_variances, expected, strict=True):
            np.testing.assert_array_equal(mean, each)
            np.testing.assert_array_equal(values, np.full(each.shape, variance, np.float32))
    assert sum(mean.size for mean in prior.means) == 28 * width + (width + 1) * (width + 1)
    left, right = (each.means[1].ravel() for each in (prior, other))
    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / math.sqrt(left.size)


# --- draws -------------------------------------------------------------------------------------


def network(seed=0, *, sizes=SIZES, log_variance=-2.0, centre=0.0, layer_norm=True):
    """Gaussians with variances that differ from number to number."""
    means = kaiming_means(sizes, seed)
    means[-1][-1] += centre
    spreads = tuple(np.float32(log_variance) + value for value in kaiming_means(sizes, seed + 50))
    return Gaussians(means, spreads, layer_norm)


def normalised(hidden):
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5)


def brute_force(of, row, draws, seed=0):
    """Outputs of `draws` networks for one row: all weights sampled, layers computed by hand."""
    rng = np.random.default_rng(seed)
    hidden = np.broadcast_to(row, (draws, len(row)))
    for index, (mean, value) in enumerate(zip(of.means, of.log_variances, strict=True)):
        if index:
            hidden = np.maximum(normalised(hidden) if of.layer_norm else hidden, 0.0)
        weights = mean + np.exp(0.5 * value) * rng.normal(size=(draws, *mean.shape))
        hidden = np.einsum("di,dio->do", hidden, weights[:, :-1]) + weights[:, -1]
    return hidden


def drawn(of, inputs, seed, sampling="local"):
    """Unclipped outputs, one draw."""
    pairs = zip(of.means, of.log_variances, strict=True)
    layers = [(torch.tensor(mean), torch.tensor(value)) for mean, value in pairs]
    generator = torch.Generator().manual_seed(seed)
    return draw(layers, torch.tensor(inputs), generator, sampling, of.layer_norm).numpy()


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def assert_same_moments(found, expected):
    """Means and variances of two samples agree within five standard errors."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    for statistic in (lambda x: x, lambda x: (x - x.mean()) ** 2):
        left, right = statistic(found), statistic(expected)
        error = math.sqrt(left.var() / len(left) + right.var() / len(right))
        assert abs(left.mean() - right.mean()) < 5 * error
        assert error < 0.05 * right.std()  # or the comparison would say nothing


@pytest.mark.parametrize("layer_norm", [True, False])
def test_draws_have_the_moments_of_sampled_weights(layer_norm):
    """Local draws, over rows of more than one chunk too; weights in many passes over one row."""
    for log_variance in (-4.6, 0.0):
        own = network(log_variance=log_variance, layer_norm=layer_norm)
        found = drawn(own, np.tile(ROW, (40_000, 1)), 2)
        assert_same_moments(found, brute_force(own, ROW, 40_000)[:, 0])
    own = network(centre=0.5, log_variance=-3.0, layer_norm=layer_norm)
    expected = np.clip(brute_force(own, ROW, 40_000)[:, 0], 0, 1)
    local = draw_predictions(own, np.tile(ROW, (2500, 1)), passes=16, seed=4, sampling="local")
    assert local.shape == (16, 2500)
    assert_same_moments(local.ravel(), expected)
    assert_same_moments(local[:, 2048:].ravel(), expected)  # the last chunk
    weights = draw_predictions(own, ROW[None], passes=6000, seed=5, sampling="weights")
    assert_same_moments(weights.ravel(), expected)


def correlation(left, right):
    return abs(np.corrcoef(left.ravel(), right.ravel())[0, 1])


def test_passes_and_rows_of_local_draws_are_independent():
    """Equal rows get different draws, uncorrelated with those of neighbours, chunks and passes."""
    same = np.tile(ROW, (5000, 1))
    found = draw_predictions(network(centre=0.5), same, passes=8, seed=7, sampling="local")
    assert correlation(found[:-1], found[1:]) < 5 / math.sqrt(35_000)
    for lag in (1, 2, 7):
        assert correlation(found[:, :-lag], found[:, lag:]) < 5 / math.sqrt(35_000)
    squares = np.square(found - found.mean())
    assert correlation(squares[:, :-1], squares[:, 1:]) < 5 / math.sqrt(35_000)
    assert correlation(found[:, :1024], found[:, 1024:2048]) < 5 / math.sqrt(8 * 1024)


def test_rows_of_a_weights_pass_share_the_draw():
    narrow, same = network(centre=0.5, log_variance=-6.0), np.tile(ROW, (20, 1))
    passes = draw_predictions(narrow, same, passes=30, seed=7, sampling="weights")
    assert np.ptp(passes, axis=1).max() < 1e-5
    assert len(np.unique(passes[:, 0].round(5))) > 20


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_gradients_of_means_and_variances_are_those_of_finite_differences(sampling, layer_norm):
    """In float64 and under the same noise; every weight, bias and log-variance of all layers."""
    own, inputs = network(seed=3), torch.tensor(rows(4)).double()
    count = len(own.means)
    parameters = [
        torch.tensor(value).double().requires_grad_() for value in (*own.means, *own.log_variances)
    ]

    def outputs(*values):
        layers = list(zip(values[:count], values[count:], strict=True))
        return draw(layers, inputs, torch.Generator().manual_seed(1), sampling, layer_norm)

    assert outputs(*parameters).dtype == torch.float64
    assert torch.autograd.gradcheck(outputs, parameters, eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_losses_are_squared_errors_of_drawn_predictions_clipped_to_the_unit_interval(sampling):
    own, inputs = network(log_variance=1.0, centre=0.5), rows(40)
    targets = np.random.default_rng(3).random(40)
    options = {"passes": 4, "seed": 6, "sampling": sampling}
    losses = draw_losses(own, inputs, targets, **options)
    predictions = draw_predictions(own, inputs, **options)
    assert (predictions.min(), predictions.max()) == (0, 1)
    raw = drawn(own, inputs, 6, sampling)  # the first pass
    np.testing.assert_allclose(predictions[0], np.clip(raw, 0, 1), atol=1e-6)
    assert losses.dtype == np.float64
    for index in np.ndindex(4, 40):
        expected = (float(predictions[index]) - targets[index[1]]) ** 2
        assert losses[index] == pytest.approx(expected, abs=1e-15)
