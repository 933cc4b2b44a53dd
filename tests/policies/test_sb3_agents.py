"""Zips of our own agents: layer norm and CReLU, rebuilt without unpickling anything.

The networks here are plain torch modules with the names that the agents' state dicts have.
"""

import io
import json
import zipfile

import custom_environments
import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import load_policy

MODULE = "tightrope.agents.policies"
MARKS = {  # what tells the algorithms apart in SB3's data
    "SAC": {"target_entropy": -2.0},
    "REDQ": {"target_entropy": -2.0, "subset": 2, "critics": 10},
    "PPO": {"clip_range": {":type:": "<class 'function'>"}, "gae_lambda": 0.95},
}
KWARGS = {
    "SAC": {"net_arch": [8, 6], "n_critics": 2},
    "REDQ": {"net_arch": [8, 6], "n_critics": 10, "critics": 10, "halved": True},
    "PPO": {"net_arch": [8, 6]},
}
OBSERVATIONS = np.random.default_rng(0).normal(0, 2, (64, 5)).astype(np.float32)
NO_NOISE = np.zeros((64, 0), np.float32)
LOW, HIGH = map(torch.from_numpy, (custom_environments.LOW, custom_environments.HIGH))
CASES = [("SAC", "Five-v0"), ("REDQ", "Five-v0"), ("PPO", "Five-v0"), ("PPO", "FiveKeys-v0")]


class CReLU(nn.Module):
    def forward(self, inputs):
        return torch.cat([torch.relu(inputs), torch.relu(-inputs)], dim=-1)


def hidden(widths=(8, 6), inputs=5):
    layers = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), CReLU()]
        inputs = 2 * width
    return nn.Sequential(*layers)


class Squashed(nn.Module):
    """Actor and critics of SAC and REDQ."""

    def __init__(self, ensemble):
        super().__init__()
        self.actor = nn.Module()
        self.actor.latent_pi = hidden()
        self.actor.mu, self.actor.log_std = nn.Linear(12, 2), nn.Linear(12, 2)
        for name in ("critic", "critic_target"):
            critic = nn.Module()
            if ensemble:
                critic.weight = nn.Parameter(torch.zeros(10, 7, 8))
                critic.bias = nn.Parameter(torch.zeros(10, 1, 8))
            else:
                critic.qf0 = hidden(inputs=7)
            setattr(self, name, critic)

    def forward(self, observations):
        """The mode, in the environment's bounds."""
        squashed = torch.tanh(self.actor.mu(self.actor.latent_pi(observations)))
        return LOW + (HIGH - LOW) * (squashed + 1) / 2


class Clipped(nn.Module):
    """Actor and critic of PPO."""

    def __init__(self, env):
        super().__init__()
        self.mlp_extractor = nn.Module()
        self.mlp_extractor.policy_net, self.mlp_extractor.value_net = hidden(), hidden()
        self.keys = env == "FiveKeys-v0"
        if not self.keys:
            self.log_std = nn.Parameter(torch.zeros(2))
        self.action_net, self.value_net = nn.Linear(12, 4 if self.keys else 2), nn.Linear(12, 1)

    def forward(self, observations):
        output = self.action_net(self.mlp_extractor.policy_net(observations))
        if self.keys:
            return output.argmax(dim=1)
        return torch.clamp(output, LOW, HIGH)


def build(algorithm, env="Five-v0", seed=0):
    module = Clipped(env) if algorithm == "PPO" else Squashed(algorithm == "REDQ")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            size = 0.8 if name.endswith("weight") else 0.2
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))
    return module


def write(path, algorithm, state, **changes):
    """A zip as SB3 writes it; what would be unpickled is no pickle at all."""
    described = {":type:": "<class 'abc.ABCMeta'>", ":serialized:": "!", "__module__": MODULE}
    shape = {":type:": "gymnasium.spaces.box.Box", ":serialized:": "!", "_shape": "[5]"}
    data = {
        "policy_class": described,
        "policy_kwargs": {":type:": "<class 'dict'>", ":serialized:": "!", **KWARGS[algorithm]},
        "observation_space": shape,
        "use_sde": False,
        **MARKS[algorithm],
        **changes,
    }
    weights = io.BytesIO()
    torch.save(state, weights)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", weights.getvalue())
    return path


def environment(name="Five-v0"):
    return make_env(name)


@pytest.mark.parametrize(("algorithm", "env"), CASES)
def test_a_rebuilt_agent_is_its_torch_network(algorithm, env, tmp_path):
    module = build(algorithm, env)
    path = write(tmp_path / "policy.zip", algorithm, module.state_dict())
    policy = load_policy(path, environment(env))
    expected = module(torch.from_numpy(OBSERVATIONS)).detach().numpy()
    found = policy.act(OBSERVATIONS, NO_NOISE)
    assert len(np.unique(expected.round(3), axis=0)) > 1
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    assert policy.activation == "CReLU"
    assert policy.deterministic
    assert f"({algorithm})" in policy.name


MEAN = np.array([5, 0, -1, 100, 0.5], np.float32)
DEVIATION = np.array([2, 0.01, 1, 30, 0.3], np.float32)


def scaled(algorithm, mean=MEAN, deviation=DEVIATION):
    """Weights with a scaling of observations, as our agents learn them; None leaves one out."""
    state = build(algorithm).state_dict()
    for name, values in (("mean", mean), ("deviation", deviation)):
        if values is not None:
            state[f"actor.features_extractor.{name}"] = torch.as_tensor(values)
            state[f"critic.features_extractor.{name}"] = torch.as_tensor(values)
    return state


def test_an_agent_that_scales_observations_is_its_network_at_scaled_ones(tmp_path):
    for algorithm in ("SAC", "REDQ"):
        path = write(tmp_path / "policy.zip", algorithm, scaled(algorithm))
        expected = build(algorithm)(torch.from_numpy(OBSERVATIONS)).detach().numpy()
        found = load_policy(path, environment()).act(MEAN + DEVIATION * OBSERVATIONS, NO_NOISE)
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


NO_SCALING = [
    (None, DEVIATION, r"expected the weights 'actor\.features_extractor\.mean'"),
    (MEAN, None, r"expected the weights 'actor\.features_extractor\.deviation'"),
    (MEAN[:1], DEVIATION[:1], "expected layers that fit"),
    (MEAN, np.float32(1), "expected as many variances as means"),
    (np.nan * MEAN, DEVIATION, "expected finite means"),
    *[(MEAN, factor * DEVIATION, "and positive variances") for factor in (0, -1, np.inf)],
]


def test_a_scaling_that_is_none_is_refused(tmp_path):
    for mean, deviation, words in NO_SCALING:
        path = write(tmp_path / "policy.zip", "SAC", scaled("SAC", mean, deviation))
        with refused(words):
            load_policy(path, environment())


def test_a_scaled_agent_is_scaled_once_and_by_its_own_numbers(tmp_path):
    path = write(tmp_path / "policy.zip", "SAC", scaled("SAC"))
    assert "not normalised" not in load_policy(path, environment(), normalize=False).name
    statistics = tmp_path / "statistics.npz"
    np.savez(statistics, mean=MEAN, var=DEVIATION**2, epsilon=1e-8, clip=10.0)
    with pytest.raises(InputError, match="it scales observations itself"):
        load_policy(path, environment(), normalize=statistics)
    promised = {":type:": "<class 'dict'>", ":serialized:": "!", "scaled": True}
    path = write(tmp_path / "bare.zip", "SAC", build("SAC").state_dict(), policy_kwargs=promised)
    with pytest.raises(InputError, match="expected the weights 'actor"):
        load_policy(path, environment())


def test_a_sampled_agent_has_the_spread_of_its_network(tmp_path):
    """With noise z the action before squashing is mean + exp(log_std) z, log_std in [-20, 2]."""
    module = build("REDQ")
    path = write(tmp_path / "policy.zip", "REDQ", module.state_dict())
    policy = load_policy(path, environment(), sample=True)
    noise = np.random.default_rng(1).standard_normal((64, 2), dtype=np.float32)
    with torch.no_grad():
        latent = module.actor.latent_pi(torch.from_numpy(OBSERVATIONS))
        spread = module.actor.log_std(latent).clamp(-20, 2).exp()
        squashed = torch.tanh(module.actor.mu(latent) + spread * torch.from_numpy(noise)).numpy()
    expected = LOW.numpy() + (HIGH - LOW).numpy() * (squashed + 1) / 2
    np.testing.assert_allclose(policy.act(OBSERVATIONS, noise), expected, atol=1e-5, rtol=0)


STOCK = {":type:": "!", ":serialized:": "!", "__module__": "stable_baselines3.sac.policies"}


def without(*names):
    return lambda state: [state.pop(name) for name in names]


def moved(old, new):
    part = "actor.latent_pi.{}.{}".format
    return lambda state: [
        state.update({part(new, kind): state.pop(part(old, kind))}) for kind in ("weight", "bias")
    ]


DAMAGED = {
    "no norm of a layer": without("actor.latent_pi.1.weight", "actor.latent_pi.1.bias"),
    "half a norm": without("actor.latent_pi.4.bias"),
    "no spread": without("actor.log_std.weight"),
    "no output bias": without("actor.mu.bias"),
    "a norm after the activation": moved(1, 2),
    "a norm of another width": lambda s: s.update({"actor.latent_pi.1.weight": torch.ones(16)}),
    "weights for half of CReLU": lambda s: s.update({"actor.latent_pi.3.weight": torch.ones(6, 8)}),
    "an actor of three dimensions": lambda s: s.update({"actor.mu.weight": torch.ones(3, 2, 12)}),
    "a feature extractor": lambda s: s.update({"actor.features_extractor.w": torch.ones(2, 2)}),
}


def test_an_agent_of_another_make_is_one_line(tmp_path):
    for change in DAMAGED.values():
        state = build("SAC").state_dict()
        change(state)
        with refused():
            load_policy(write(tmp_path / "policy.zip", "SAC", state), environment())
    # Layer norm, or a scaling, in a policy of SB3 itself is not guessed at.
    for state, words in ((build("SAC").state_dict(), "`trust`"), (scaled("SAC"), "extractor")):
        path = write(tmp_path / "stock.zip", "SAC", state, policy_class=STOCK)
        with refused(words):
            load_policy(path, environment())
