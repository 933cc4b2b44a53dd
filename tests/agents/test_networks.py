"""The shared layers against plain torch modules, one network at a time."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from tightrope.agents.policies import CReLU, CriticEnsemble, PPOPolicy, SACPolicy, hidden_layers

OBSERVATIONS = spaces.Box(-np.inf, np.inf, (5,), np.float32)
ACTIONS = spaces.Box(-2.0, 3.0, (2,), np.float32)


def ensemble(members=10, widths=(16, 12), seed=0, normed=True, learned_norm=True, halved=False):
    torch.manual_seed(seed)
    critic = CriticEnsemble(
        OBSERVATIONS,
        ACTIONS,
        list(widths),
        FlattenExtractor(OBSERVATIONS),
        5,
        members,
        normed=normed,
        learned_norm=learned_norm,
        halved=halved,
    )
    if not (normed and learned_norm):
        return critic
    with torch.no_grad():  # norms that are not the identity, so that a lost one shows
        for name, parameter in critic.named_parameters():
            if name.split(".")[1] in ("1", "3"):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return critic


class SeparateCritic(nn.Module):
    """One member, written without any of our layers."""

    def __init__(self, critic, member):
        super().__init__()
        layers = []
        for layer in critic.layers:
            weight, bias = layer.weight[member].detach(), layer.bias[member, 0].detach()
            if weight.shape[0] > 1:  # the norms have one row
                own = nn.Linear(*weight.shape)
                own.weight.data, own.bias.data = weight.T.clone(), bias.clone()
            else:
                own = nn.LayerNorm(weight.shape[-1])
                own.weight.data, own.bias.data = weight[0].clone(), bias.clone()
            layers.append(own)
        self.layers = nn.ModuleList(layers)

    def forward(self, observations, actions):
        hidden = torch.cat((observations, actions), dim=1)
        for layer, following in zip(self.layers[:-1], self.layers[1:], strict=True):
            hidden = layer(hidden)
            if isinstance(following, nn.Linear):
                hidden = torch.cat((hidden.clamp(min=0), (-hidden).clamp(min=0)), dim=1)
        return self.layers[-1](hidden)[:, 0]


def batch(size=7, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(size, 5, generator=generator),
        2 * torch.rand(size, 2, generator=generator) - 1,
        torch.randn(size, generator=generator),
    )


def rounded(x):
    """Float32 with the 8 significant bits of bfloat16, to nearest, without torch's own casts."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.rint(mantissa * 2**8), exponent - 8)


def test_bfloat16_rounds_what_hidden_layers_multiply_and_nothing_else():
    critic = ensemble(members=3, learned_norm=False, halved=True)
    observations, actions, _ = batch()
    hidden = np.concatenate((observations, actions), axis=1)
    for member in range(3):
        weights = [layer.weight[member].detach().double().numpy() for layer in critic.layers]
        biases = [layer.bias[member].detach().double().numpy() for layer in critic.layers]

        def normed(x):
            return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)

        def both(x):
            return np.concatenate((np.maximum(x, 0), np.maximum(-x, 0)), axis=1)

        first = both(normed(hidden.astype(float) @ weights[0] + biases[0]))
        second = rounded(rounded(first) @ rounded(weights[2])) + biases[2]
        expected = (both(normed(second)) @ weights[4] + biases[4])[:, 0]
        values = critic.values(observations, actions)[member].detach().numpy()
        # a sum at the edge between two bfloat16 numbers may go to either: 2**-8 of one unit
        np.testing.assert_allclose(values, expected, atol=3e-3, rtol=0)
        exact = ensemble(members=3, learned_norm=False).values(observations, actions)[member]
        assert np.abs(values - exact.detach().numpy()).max() > 1e-4


def test_scaled_observations_are_those_of_a_policy_that_is_shown_scaled_ones():
    """Of all networks; what never varies is left, what hardly does is magnified by 100."""
    plain, scaled = (
        SACPolicy(OBSERVATIONS, ACTIONS, lambda _: 3e-4, net_arch=[16, 12], n_critics=3, scaled=way)
        for way in (False, True)
    )
    missing = scaled.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert len(missing) == 8  # a mean and a deviation each
    rng = np.random.default_rng(0)
    seen = rng.normal([5, 0, 0, -3, 7], [9, 0.05, 1e-4, 2, 0], (1000, 5)).astype(np.float32)
    for policy in (plain, scaled):
        policy.scale_by(seen)  # nothing, for the plain one
    deviation = seen.std(axis=0, dtype=np.float64)
    deviation[2:5:2] = 0.01, 1
    shown = torch.as_tensor((seen - seen.mean(axis=0, dtype=np.float64)) / deviation).float()
    observations, actions = torch.as_tensor(seen), torch.rand(1000, 2) * 2 - 1
    for name in ("critic", "critic_target"):
        ours, theirs = getattr(scaled, name), getattr(plain, name)
        expected = theirs.values(shown, actions)
        torch.testing.assert_close(ours.values(observations, actions), expected, atol=1e-4, rtol=0)
    for name in ("average", "actor"):
        mean, expected = getattr(scaled, name)(observations, True), plain.actor(shown, True)
        torch.testing.assert_close(mean, expected, atol=1e-4, rtol=0)
    scaled.scale_by(seen + 1)  # a second time changes nothing
    torch.testing.assert_close(scaled.actor(observations, True), mean, atol=0, rtol=0)


def test_norms_that_are_not_learned_stay_one_and_zero():
    critic = ensemble(learned_norm=False)
    policy = SACPolicy(OBSERVATIONS, ACTIONS, lambda _: 3e-2, learned_norm=False)
    observations, actions, goal = batch()
    nn.functional.mse_loss(critic.values(observations, actions), goal.expand(10, 7)).backward()
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
    optimizer.step()
    policy.actor.mu(policy.actor.latent_pi(observations)).sum().backward()
    policy.actor.optimizer.step()
    for norm in (critic.layers[1], critic.layers[3], policy.actor.latent_pi[1]):
        assert norm.weight.eq(1).all()
        assert norm.bias.eq(0).all()
        assert norm.weight.grad is None


@pytest.mark.parametrize("norms", [{}, {"learned_norm": False}, {"normed": False}])
def test_an_ensemble_has_the_values_and_gradients_of_ten_separate_networks(norms):
    critic = ensemble(**norms)
    assert len(critic.layers) == (3 if norms == {"normed": False} else 5)
    separate = [SeparateCritic(critic, m) for m in range(10)]
    observations, actions, goal = batch()
    values, loss = critic.values(observations, actions), nn.functional.huber_loss
    sum(loss(each, goal) for each in values).backward()
    for member, network in enumerate(separate):
        own_values = network(observations, actions)
        torch.testing.assert_close(values[member], own_values)
        torch.testing.assert_close(critic(observations, actions)[member][:, 0], own_values)  # SB3's
        loss(own_values, goal).backward()
        for ours, own in zip(critic.layers, network.layers, strict=True):
            if ours.weight.grad is None:  # a norm that is not learned
                assert norms == {"learned_norm": False}
                continue
            expected = own.weight.grad.T if isinstance(own, nn.Linear) else own.weight.grad[None]
            close = {"atol": 1e-6, "rtol": 1e-4}
            torch.testing.assert_close(ours.weight.grad[member], expected, **close)
            torch.testing.assert_close(ours.bias.grad[member, 0], own.bias.grad, **close)
    first = critic.layers[0].weight
    assert not torch.equal(first[0], first[1])
    assert 0.9 / np.sqrt(7) < first.abs().max() <= 1 / np.sqrt(7)  # the range of torch


def test_frozen_critics_pass_gradients_to_the_actions_alone():
    """Nor to what extracts features, which may be the actor's too."""
    critic = ensemble()
    observations, actions, _ = batch()
    plain, frozen = actions.clone().requires_grad_(), actions.clone().requires_grad_()
    critic.values(observations, plain).mean().backward()
    critic.zero_grad()
    critic.values(observations.requires_grad_(), frozen, frozen=True).mean().backward()
    torch.testing.assert_close(frozen.grad, plain.grad)
    assert observations.grad is None
    assert all(parameter.grad is None for parameter in critic.parameters())


def test_policies_have_the_shared_layers_and_fused_adam():
    """Linear, norm, CReLU; twice 256 by default; the norm comes before the activation."""
    sac, ppo = (kind(OBSERVATIONS, ACTIONS, lambda _: 3e-4) for kind in (SACPolicy, PPOPolicy))
    extractor = ppo.mlp_extractor
    for stack in (sac.actor.latent_pi, extractor.policy_net, extractor.value_net):
        assert [type(layer) for layer in stack] == [nn.Linear, nn.LayerNorm, CReLU] * 2
        assert [stack[0].out_features, stack[3].in_features] == [256, 512]
    for head in (sac.actor.mu, sac.actor.log_std, ppo.action_net, ppo.value_net):
        assert head.in_features == 512
    for optimizer in (sac.actor.optimizer, sac.critic.optimizer, ppo.optimizer):
        assert optimizer.defaults["fused"]
    assert ppo.optimizer.defaults["eps"] == 1e-5
    assert hidden_layers(5, (16, 12), learned_norm=True)(torch.zeros(4, 5)).shape == (4, 24)
    with pytest.raises(ValueError, match="expected use_sde=False"):
        SACPolicy(OBSERVATIONS, ACTIONS, lambda _: 3e-4, use_sde=True)
