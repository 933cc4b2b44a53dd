"""The perceptron in numpy is torch's function, layer norm and CReLU included."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from tightrope.errors import InputError
from tightrope.policies import BLOCK, MLPPolicy, Normalizer, rows_are_stable

RNG = np.random.default_rng(0)
OBSERVATIONS = RNG.normal(0, 2, (BLOCK, 5)).astype(np.float32)
NO_NOISE = np.zeros((BLOCK, 0), np.float32)


class CReLU(nn.Module):
    """Written out, independently of the package."""

    def forward(self, inputs):
        return torch.cat([torch.relu(inputs), torch.relu(-inputs)], dim=1)


def network(sizes, activation, *, norms, seed=0):
    """A torch network in float64 whose weights are float32 numbers, layer norms not trivial."""
    generator = torch.Generator().manual_seed(seed)
    inputs, layers = sizes[0], []
    for index, width in enumerate(sizes[1:]):
        layers.append(nn.Linear(inputs, width))
        if index == len(sizes) - 2:
            break
        layers += [nn.LayerNorm(width)] if norms else []
        layers.append(CReLU() if activation == "CReLU" else getattr(nn, activation)())
        inputs = 2 * width if activation == "CReLU" else width
    module = nn.Sequential(*layers)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator))
    return module.double()


def as_policy(module, activation, bound=1e6):
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    norms = [layer for layer in module if isinstance(layer, nn.LayerNorm)]
    single = lambda tensor: tensor.detach().numpy().astype(np.float32)  # noqa: E731
    outputs = linear[-1].out_features
    return MLPPolicy(
        name="rebuilt",
        digest=None,
        weights=tuple(np.ascontiguousarray(single(layer.weight).T) for layer in linear),
        biases=tuple(single(layer.bias) for layer in linear),
        activation=activation,
        head="clipped",
        low=np.full(outputs, -bound, np.float32),
        high=np.full(outputs, bound, np.float32),
        norms=tuple((single(layer.weight), single(layer.bias)) for layer in norms),
    )


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("activation", ["CReLU", "ReLU", "Tanh", "ELU", "LeakyReLU"])
@pytest.mark.parametrize("sizes", [(5, 256, 256, 2), (5, 7, 2), (5, 2), (5, 3, 11, 4, 2)])
def test_actions_are_the_outputs_of_the_torch_network(sizes, activation, norms):
    module = network(sizes, activation, norms=norms)
    expected = module(torch.from_numpy(OBSERVATIONS).double()).detach().numpy()
    found = as_policy(module, activation).act(OBSERVATIONS, NO_NOISE)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=2e-6 * scale * len(sizes) ** 2, rtol=0)
    assert found.dtype == np.float32


def test_layer_norm_is_torchs_also_where_its_epsilon_decides():
    """A row of nearly equal pre-activations: the biased variance is of the size of 1e-5."""
    module = network((5, 16, 2), "CReLU", norms=True)
    with torch.no_grad():
        module[0].weight.mul_(1e-3)
        module[0].bias.fill_(3.0)
    inputs = torch.from_numpy(OBSERVATIONS).double()
    assert 1e-6 < module[0](inputs).var(dim=1).median() < 1e-4
    expected = module(inputs).detach().numpy()
    found = as_policy(module, "CReLU").act(OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_an_observation_is_left_as_it_was():
    observations = OBSERVATIONS.copy()
    as_policy(network((5, 8, 8, 2), "CReLU", norms=True), "CReLU").act(observations, NO_NOISE)
    np.testing.assert_array_equal(observations, OBSERVATIONS)


@pytest.mark.parametrize("features", [3, 17, 376])
@pytest.mark.parametrize("width", [5, 64, 100, 256])
def test_rows_are_stable_with_layer_norm_and_crelu(width, features):
    """With weights that pick one input for each unit: sums of one term, which round alike wherever
    the matrix product puts them. Whether other products do is up to the processor.
    """
    policy = as_policy(network((features, width, width, 6), "CReLU", norms=True), "CReLU")
    weights = [np.zeros_like(weight) for weight in policy.weights]
    for weight in weights:
        units = np.arange(weight.shape[1])
        weight[units % len(weight), units] = 1.5
    assert rows_are_stable(dataclasses.replace(policy, weights=tuple(weights)), features)


def changed(policy, field, index, shape):
    value = list(getattr(policy, field))
    value[index] = tuple(np.ones(s, np.float32) for s in shape)
    value[index] = value[index] if field == "norms" else value[index][0]
    return {field: tuple(value)}


WRONG = {  # of a network of 5 x 8 x 6 x 2 with CReLU
    "a weight for half of CReLU": ("weights", 1, [(8, 6)]),
    "a last weight for half of CReLU": ("weights", 2, [(6, 2)]),
    "a weight of one dimension": ("weights", 1, [(16,)]),
    "a weight of no dimension": ("weights", 0, [()]),
    "a bias of another width": ("biases", 0, [(7,)]),
    "a scale of another width": ("norms", 1, [(12,), (6,)]),
}


def test_layers_that_do_not_fit_are_an_input_error():
    policy = as_policy(network((5, 8, 6, 2), "CReLU", norms=True), "CReLU")
    wrong = [changed(policy, *change) for change in WRONG.values()]
    wrong += [{"norms": policy.norms[:1]}, {"norms": (*policy.norms, policy.norms[0])}]
    wrong += [{"biases": policy.biases[:2]}, {"weights": (), "biases": ()}]
    spread = np.zeros(2, np.float32)  # sees what CReLU doubled
    wrong += [{"log_std": (np.zeros((6, 2), "f4"), spread)}, {"log_std": (None, np.zeros(3, "f4"))}]
    wrong += [{"normalizer": Normalizer(np.zeros(1), np.ones(1), 1.0)}, {"head": "wooden"}]
    wrong += [{"low": np.zeros(4, "f4"), "high": np.zeros(4, "f4")}, {"activation": "Sine"}]
    for fields in wrong:
        with pytest.raises(InputError, match=r"expected .*found") as refusal:
            dataclasses.replace(policy, **fields)
        assert "\n" not in str(refusal.value)
    for fields in ({"norms": ()}, {"log_std": (np.zeros((12, 2), "f4"), spread)}):
        dataclasses.replace(policy, **fields)
