"""The networks: plain ones against loops in numpy, draws against brute force that samples all."""

import math

import numpy as np
import pytest
import recordings  # noqa: F401
import torch

from tightrope.posteriors import (
    Gaussians,
    Network,
    draw,
    draw_losses,
    draw_predictions,
    kaiming_means,
    predict,
)
from tightrope.posteriors.network import forward

SIZES = (3, 7, 6, 1)
ROW = np.array([0.8, -1.3, 0.4])


def noise(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def network(seed=0, *, sizes=SIZES, members=1, log_variance=-2.0, centre=0.0):
    """Gaussians with variances that differ from number to number."""
    means = list(kaiming_means(sizes, range(seed, seed + members)))
    means[-1] = means[-1].clone()
    means[-1][:, -1] += centre
    spreads = kaiming_means(sizes, range(seed + 50, seed + 50 + members))
    return Gaussians(tuple(means), tuple(log_variance + value for value in spreads))


def brute_force(gaussians, row, draws, seed=0):
    """Outputs of `draws` networks for one row: all weights sampled, layers computed by hand."""
    rng = np.random.default_rng(seed)
    hidden = np.broadcast_to(row, (draws, len(row)))
    last = len(gaussians.means) - 1
    for index, (mean, log_variance) in enumerate(
        zip(gaussians.means, gaussians.log_variances, strict=True)
    ):
        mean, deviation = mean[0].double().numpy(), np.exp(0.5 * log_variance[0].double().numpy())
        weights = mean + deviation * rng.normal(size=(draws, *mean.shape))
        hidden = np.einsum("di,dio->do", hidden, weights[:, :-1]) + weights[:, -1]
        if index < last:
            centred = hidden - hidden.mean(axis=1, keepdims=True)
            scale = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)  # torch's epsilon
            hidden = np.maximum(centred / scale, 0.0)
    return hidden


def repeated(row, times):
    return torch.tensor(row, dtype=torch.float32).expand(times, len(row))


def assert_same_moments(found, expected):
    """Means and variances of two samples agree within five standard errors."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    for statistic in (lambda x: x, lambda x: (x - x.mean()) ** 2):
        left, right = statistic(found), statistic(expected)
        error = math.sqrt(left.var() / len(left) + right.var() / len(right))
        assert abs(left.mean() - right.mean()) < 5 * error
        assert error < 0.05 * right.std()  # or the comparison would say nothing


# --- moments -----------------------------------------------------------------------------------


def test_local_draws_of_one_layer_have_the_closed_form_moments_and_are_uncorrelated():
    """mean x.m + b, variance x^2.v + v_b for each output, the outputs independent."""
    layer, draws = network(sizes=(3, 5)), 40_000
    mean, variance = layer.means[0][0].numpy(), layer.log_variances[0][0].exp().numpy()
    found = draw(layer, repeated(ROW, draws), noise(1))[0].numpy()  # (draws, outputs)
    expected = ROW @ mean[:-1] + mean[-1]
    spread = ROW**2 @ variance[:-1] + variance[-1]
    assert (abs(found.mean(axis=0) - expected) < 5 * np.sqrt(spread / draws)).all()
    assert (abs(found.var(axis=0) / spread - 1) < 5 * math.sqrt(2 / draws)).all()
    correlations = np.corrcoef(found.T)[np.triu_indices(5, 1)]
    assert (abs(correlations) < 5 / math.sqrt(draws)).all()
    for output, sampled in enumerate(brute_force(layer, ROW, draws).T):
        assert_same_moments(found[:, output], sampled)


@pytest.mark.parametrize("log_variance", [-4.6, -2.0, 0.0])
def test_local_draws_of_the_whole_network_have_the_moments_of_sampled_weights(log_variance):
    gaussians = network(log_variance=log_variance)
    found = draw(gaussians, repeated(ROW, 40_000), noise(2))[0]
    assert_same_moments(found, brute_force(gaussians, ROW, 40_000)[:, 0])


def test_weight_draws_have_the_moments_of_sampled_weights():
    gaussians, generators = network(), noise(3)
    inputs = repeated(ROW, 1)
    found = [float(draw(gaussians, inputs, generators, "weights")) for _ in range(6000)]
    assert_same_moments(found, brute_force(gaussians, ROW, 40_000)[:, 0])


def test_the_evaluation_draws_from_the_same_distribution():
    """`draw_predictions` has a forward pass of its own; here over rows of more than one chunk."""
    gaussians = network(centre=0.5, log_variance=-3.0)
    expected = np.clip(brute_force(gaussians, ROW, 40_000)[:, 0], 0, 1)
    local = draw_predictions(gaussians, repeated(ROW, 2500), passes=16, seed=4, sampling="local")
    assert local.shape == (16, 2500)
    assert_same_moments(local.ravel(), expected)
    assert_same_moments(local[:, 2048:].ravel(), expected)  # the last chunk
    weights = draw_predictions(gaussians, repeated(ROW, 1), passes=6000, seed=5, sampling="weights")
    assert_same_moments(weights.ravel(), expected)


# --- what is independent of what ---------------------------------------------------------------


def correlation(left, right):
    return float(np.corrcoef(left, right)[0, 1])


def test_rows_of_a_local_pass_are_independent_draws():
    """Equal rows get different draws, and draws of neighbours are uncorrelated."""
    drawn = draw(network(), repeated(ROW, 40_000), noise(6))[0].numpy()
    for lag in (1, 2, 7):
        assert abs(correlation(drawn[:-lag], drawn[lag:])) < 5 / math.sqrt(40_000)
    squares = (drawn - drawn.mean()) ** 2
    assert abs(correlation(squares[:-1], squares[1:])) < 5 / math.sqrt(40_000)


def test_passes_and_rows_of_the_evaluation_are_independent_draws():
    options = {"passes": 8, "seed": 7, "sampling": "local"}
    drawn = draw_predictions(network(centre=0.5), repeated(ROW, 5000), **options)
    assert abs(correlation(drawn[:-1].ravel(), drawn[1:].ravel())) < 5 / math.sqrt(35_000)
    assert abs(correlation(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())) < 5 / math.sqrt(35_000)
    # Rows of different chunks do not share their noise either.
    assert abs(correlation(drawn[:, :1024].ravel(), drawn[:, 1024:2048].ravel())) < 0.06


def test_rows_of_a_weights_pass_share_the_draw():
    drawn = draw(network(), repeated(ROW, 50), noise(8), "weights")[0]
    assert torch.allclose(drawn, drawn[0].expand(50), atol=1e-5)
    options = {"passes": 30, "seed": 7, "sampling": "weights"}
    narrow = network(centre=0.5, log_variance=-6.0)
    passes = draw_predictions(narrow, repeated(ROW, 20), **options)
    assert np.ptp(passes, axis=1).max() < 1e-5
    assert len(np.unique(passes[:, 0].round(5))) > 20


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_a_member_does_not_depend_on_its_neighbours(sampling):
    gaussians = network(members=3)
    inputs = torch.randn(9, 3, generator=torch.Generator().manual_seed(9))
    together = draw(gaussians, inputs, noise(11, 12, 13), sampling)
    assert together.shape == (3, 9)
    for index, seed in enumerate((11, 12, 13)):
        alone = draw(gaussians.member(index), inputs, noise(seed), sampling)
        assert torch.allclose(together[index], alone[0], atol=1e-5)
    others = draw(gaussians, inputs, noise(21, 12, 23), sampling)
    assert torch.allclose(others[1], together[1], atol=1e-5)
    assert not torch.allclose(others[0], together[0], atol=1e-3)


def test_members_may_have_inputs_of_their_own():
    gaussians = network(members=2)
    inputs = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(10))
    together = draw(gaussians, inputs, noise(1, 2))
    for index, seed in enumerate((1, 2)):
        alone = draw(gaussians.member(index), inputs[index], noise(seed))
        assert torch.allclose(together[index], alone[0], atol=1e-5)


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_gradients_of_means_and_variances_are_those_of_finite_differences(sampling):
    """In float64 and under the same noise; every weight, bias and log-variance of all layers."""
    gaussians = network(seed=3, members=2)
    inputs = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1)).double()
    layers = len(gaussians.means)
    parameters = [
        value.double().requires_grad_() for value in (*gaussians.means, *gaussians.log_variances)
    ]

    def outputs(*values):
        return draw(Gaussians(values[:layers], values[layers:]), inputs, noise(1, 2), sampling)

    assert outputs(*parameters).dtype == torch.float64
    assert torch.autograd.gradcheck(outputs, parameters, eps=1e-6, atol=1e-6)


# --- plain networks ----------------------------------------------------------------------------


def by_hand(layers, member, row):
    """Unclipped output of one network for one row, unit by unit."""
    hidden = [float(value) for value in row]
    for index, layer in enumerate(layers):
        weights = layer[member].double().numpy()
        outputs = []
        for unit in range(weights.shape[1]):
            terms = [value * weights[place, unit] for place, value in enumerate(hidden)]
            outputs.append(math.fsum(terms) + weights[-1, unit])
        if index < len(layers) - 1:
            mean = math.fsum(outputs) / len(outputs)
            variance = math.fsum((value - mean) ** 2 for value in outputs) / len(outputs)
            outputs = [max((v - mean) / math.sqrt(variance + 1e-5), 0.0) for v in outputs]
        hidden = outputs
    return hidden[0]


def plain(members=3):
    """Networks that reach beyond both ends of [0, 1], but not for the same rows."""
    layers = list(kaiming_means(SIZES, range(members)))
    layers[-1] = 4 * layers[-1]
    layers[-1][:, -1] = torch.linspace(0.1, 0.9, members)[:, None]
    return Network(tuple(layers))


def test_a_plain_network_is_the_mean_of_its_members_clipped_outputs():
    """Each member is clipped, and then they are averaged; not the other way round."""
    network, rows = plain(), np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
    outputs, means = network.outputs(torch.from_numpy(rows)), network(torch.from_numpy(rows))
    assert outputs.shape == (3, 30)
    assert outputs.dtype == means.dtype == np.float64
    otherwise = 0
    for index, row in enumerate(rows):
        raw = [by_hand(network.layers, member, row) for member in range(3)]
        clipped = [min(max(value, 0.0), 1.0) for value in raw]
        np.testing.assert_allclose(outputs[:, index], clipped, atol=2e-6)
        assert means[index] == pytest.approx(sum(clipped) / 3, abs=2e-6)
        otherwise += abs(sum(clipped) / 3 - min(max(sum(raw) / 3, 0.0), 1.0)) > 0.01
    assert otherwise > 5, "or the order of clipping and averaging would not show"
    assert outputs.min() == 0
    assert outputs.max() == 1


def test_unclipped_outputs_and_inputs_of_each_members_own():
    network = plain()
    inputs = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(7))
    found = forward(network.layers, inputs)
    assert found.shape == (3, 5)
    assert found.min() < 0
    assert found.max() > 1
    for member, row in np.ndindex(3, 5):
        expected = by_hand(network.layers, member, inputs[member, row])
        assert float(found[member, row]) == pytest.approx(expected, abs=5e-6)


def test_a_member_of_a_plain_network_is_the_average_of_itself():
    network, inputs = plain(), torch.randn(9, 3, generator=torch.Generator().manual_seed(8))
    for index in range(3):
        alone = network.member(index)
        np.testing.assert_allclose(alone(inputs), network.outputs(inputs)[index], atol=1e-6)
        assert alone.outputs(inputs).shape == (1, 9)
    assert repr(network) == "Network(3 members, 3 x 7 x 6 x 1)"
    assert network.features == alone.features == 3


def test_rows_do_not_depend_on_their_neighbours_or_on_how_many_there_are():
    """More rows than are evaluated at a time; equal rows get equal predictions."""
    network = plain()
    inputs = torch.randn(8192 + 100, 3, generator=torch.Generator().manual_seed(9))
    inputs[-1] = inputs[0]
    whole = network(inputs)
    assert whole.shape == (8292,)
    np.testing.assert_allclose(whole[8150:8250], network(inputs[8150:8250]), rtol=0, atol=1e-6)
    assert whole[-1] == pytest.approx(whole[0], abs=1e-6)
    assert network(inputs[:0]).shape == (0,)


def test_the_draws_of_gaussians_without_variance_are_the_plain_network():
    network = plain(1)
    narrow = Gaussians(
        network.layers, tuple(torch.full_like(layer, -60.0) for layer in network.layers)
    )
    inputs = torch.randn(50, 3, generator=torch.Generator().manual_seed(10))
    for sampling in ("local", "weights"):
        drawn = predict(narrow, inputs, noise(1), sampling)[0].numpy()
        np.testing.assert_allclose(drawn, network(inputs), atol=1e-5)


# --- what the network is -----------------------------------------------------------------------


def test_hidden_layers_are_normalised_without_a_scale_or_a_shift_of_their_own():
    """Scaling or shifting all pre-activations of a hidden layer changes nothing."""
    gaussians = network(seed=2)
    inputs = repeated(ROW, 200)
    before = draw(gaussians, inputs, noise(1))
    for layer in (0, 1):
        means, log_variances = list(gaussians.means), list(gaussians.log_variances)
        means[layer] = 30 * means[layer]
        log_variances[layer] = log_variances[layer] + 2 * math.log(30)
        means[layer][:, -1] += 4.0  # the same shift for all units
        after = draw(Gaussians(tuple(means), tuple(log_variances)), inputs, noise(1))
        assert torch.allclose(after, before, atol=1e-3)


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_predictions_are_draws_clipped_to_the_unit_interval(sampling):
    wild = network(log_variance=2.0, centre=0.5)
    inputs = torch.randn(500, 3, generator=torch.Generator().manual_seed(2))
    one, other = noise(5), noise(5)
    raw = torch.cat([draw(wild, inputs, one, sampling) for _ in range(20)])
    clipped = torch.cat([predict(wild, inputs, other, sampling) for _ in range(20)])
    assert raw.min() < 0
    assert raw.max() > 1
    assert clipped.min() == 0
    assert clipped.max() == 1
    assert torch.equal(clipped, raw.clip(0, 1))
    drawn = draw_predictions(wild, inputs, passes=20, seed=1, sampling=sampling)
    assert drawn.min() == 0
    assert drawn.max() == 1


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_losses_are_squared_errors_of_the_drawn_predictions(sampling):
    gaussians, rng = network(centre=0.5), np.random.default_rng(3)
    inputs = torch.randn(40, 3, generator=torch.Generator().manual_seed(3))
    targets = rng.random(40)
    options = {"passes": 4, "seed": 6, "sampling": sampling}
    losses = draw_losses(gaussians, inputs, targets, **options)
    drawn = draw_predictions(gaussians, inputs, **options)
    assert losses.dtype == np.float64
    for p in range(4):
        for row in range(40):
            expected = (float(drawn[p, row]) - targets[row]) ** 2
            assert losses[p, row] == pytest.approx(expected, abs=1e-15)
    assert losses.min() >= 0
    assert losses.max() <= 1


def test_draws_are_a_function_of_the_seed():
    inputs = torch.randn(1100, 3, generator=torch.Generator().manual_seed(4))
    for sampling in ("local", "weights"):
        options = {"passes": 2, "sampling": sampling}
        one = draw_predictions(network(centre=0.5), inputs, seed=1, **options)
        again = draw_predictions(network(centre=0.5), inputs, seed=1, **options)
        other = draw_predictions(network(centre=0.5), inputs, seed=2, **options)
        np.testing.assert_array_equal(one, again)
        assert abs(one - other).max() > 0.01
