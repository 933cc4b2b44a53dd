"""Stable-Baselines3's policies with the paper's layers, for SAC, PPO and REDQ.

Layers are linear, layer norm, CReLU. SB3's `policy_kwargs` cannot say CReLU, which doubles the
width that the next layer sees; so each policy replaces the networks that SB3 builds. An ensemble
keeps the weights of all its members in one tensor per layer, so that a pass through all of them is
one batched matrix product per layer, not a Python loop.

Zips carry these classes with them (see `snapshot`), so this module and `replay_buffer` import
nothing else of tightrope.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy, BaseModel
from stable_baselines3.common.preprocessing import get_action_dim, get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, MlpExtractor
from stable_baselines3.sac.policies import Actor
from stable_baselines3.sac.policies import SACPolicy as StockSACPolicy
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CReLU", "CriticEnsemble", "PPOPolicy", "SACPolicy", "hidden_layers"]

_LEAST_DEVIATION = 1e-2  # that a feature is divided by; the least of MuJoCo's Hopper is 0.02


class CReLU(nn.Module):
    """Concatenate relu(x) and relu(-x): twice as wide, and no unit is ever dead on both sides."""

    signs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("signs", torch.tensor([[1.0], [-1.0]]), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., width) to (..., 2 width).

        Written with |x|, which is exact up to half the largest float: of relu(x) the compiler keeps
        a mask for the way back, and an update without layer norm takes 1.8 times as long. And with
        both signs at once: of torch.cat it writes the halves to memory before a last layer sums.
        """
        each = inputs.unsqueeze(-2)  # (..., 1, width)
        return (0.5 * (each.abs() + self.signs * each)).flatten(-2)


def hidden_layers(inputs: int, widths: Sequence[int], *, learned_norm: bool) -> nn.Sequential:
    """Linear, layer norm and CReLU for each width; the output is twice the last width.

    The scale and shift of a layer norm that is not learned stay 1 and 0, but are there, so that
    all our networks are read in one way.
    """
    layers: list[nn.Module] = []
    for width in widths:
        norm = nn.LayerNorm(width).requires_grad_(learned_norm)
        layers += [nn.Linear(inputs, width), norm, CReLU()]
        inputs = 2 * width
    return nn.Sequential(*layers)


class EnsembleLinear(nn.Module):
    """One linear layer per member, each initialised as torch.nn.Linear does it.

    Args:
        members: how many.
        inputs: of each.
        outputs: of each.
        halved: batched products round what they multiply to bfloat16; weights, the inputs shared by
            all members and a single output stay float32.
    """

    def __init__(self, members: int, inputs: int, outputs: int, *, halved: bool = False) -> None:
        super().__init__()
        self.halved = halved
        limit = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-limit, limit))

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, inputs) or (batch, inputs) to (members, batch, outputs).

        Inputs shared by all members are not copied. A compiler fuses what is not a batched product:
        a single output with what comes before it, a bias with what comes after.
        """
        if inputs.dim() == 2:
            return torch.bmm(inputs.expand(len(weight), -1, -1), weight) + bias
        if weight.shape[-1] == 1:
            return (inputs * weight.transpose(1, 2)).sum(dim=-1, keepdim=True) + bias
        if self.halved:
            return torch.bmm(inputs.bfloat16(), weight.bfloat16()).float() + bias
        return torch.bmm(inputs, weight) + bias


class EnsembleNorm(nn.Module):
    """One layer norm per member, whose scale and shift are learned or stay 1 and 0."""

    def __init__(self, members: int, width: int, learned: bool) -> None:
        super().__init__()
        self.learned = learned
        self.weight = nn.Parameter(torch.ones(members, 1, width), requires_grad=learned)
        self.bias = nn.Parameter(torch.zeros(members, 1, width), requires_grad=learned)

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, width), normalised over the width."""
        normal = functional.layer_norm(inputs, inputs.shape[-1:])
        return torch.addcmul(bias, normal, weight) if self.learned else normal


class ScaledObservations(BaseFeaturesExtractor):
    """Observations less a mean, over a deviation: given once, never learned.

    The actor's layer norm after its first layer divides by what varies most there. The joint
    velocities of Hopper vary 10 to 80 times as much as the angles and the height that decide over
    a fall.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, observation_space: spaces.Space) -> None:
        super().__init__(observation_space, get_flattened_obs_dim(observation_space))
        self.register_buffer("mean", torch.zeros(self.features_dim))
        self.register_buffer("deviation", torch.ones(self.features_dim))

    def forward(self, observations: Tensor) -> Tensor:
        """(batch, …) to (batch, features)."""
        return (observations.flatten(1) - self.mean) / self.deviation


class LayeredActor(Actor):
    """SAC's squashed Gaussian on our layers."""

    def __init__(self, *args: Any, learned_norm: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.use_sde:
            raise ValueError("expected use_sde=False, found True: these layers do not support it")
        actions = get_action_dim(self.action_space)
        self.latent_pi = hidden_layers(self.features_dim, self.net_arch, learned_norm=learned_norm)
        self.mu = nn.Linear(2 * self.net_arch[-1], actions)
        self.log_std = nn.Linear(2 * self.net_arch[-1], actions)  # type: ignore[assignment]


class CriticEnsemble(BaseModel):
    """All critics as one network: each layer is one batched product."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Box,
        net_arch: list[int],
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        n_critics: int,
        normed: bool,
        learned_norm: bool = False,
        halved: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_space, action_space, features_extractor=features_extractor)
        inputs = features_dim + get_action_dim(action_space)
        layers: list[nn.Module] = []
        for width in net_arch:
            layers.append(EnsembleLinear(n_critics, inputs, width, halved=halved))
            if normed:
                layers.append(EnsembleNorm(n_critics, width, learned_norm))
            inputs = 2 * width
        self.layers = nn.ModuleList([*layers, EnsembleLinear(n_critics, inputs, 1)])
        self.normed, self.crelu = normed, CReLU()

    def forward(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        """Action values of each member, (batch, 1), as SB3's own SAC expects them."""
        return tuple(value.unsqueeze(1) for value in self.values(observations, actions))

    def values(
        self,
        observations: Tensor,
        actions: Tensor,
        members: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """Action values of all members, or of those drawn: (members, batch).

        Args:
            observations: (batch, …).
            actions: (batch, actions), in [-1, 1].
            members: indices of the members to evaluate.
            frozen: a gradient for the actions only, not for the critics' weights.
        """
        assert self.features_extractor is not None  # given to the constructor
        features = self.extract_features(observations, self.features_extractor)
        if frozen:
            features = features.detach()
        hidden = torch.cat((features, actions), dim=1)  # (batch, inputs)
        for index, layer in enumerate(self.layers, start=1):
            weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
            if frozen:
                weight, bias = weight.detach(), bias.detach()
            if members is not None:
                weight, bias = weight[members], bias[members]
            hidden = layer(hidden, weight, bias)
            if index < len(self.layers) and isinstance(layer, EnsembleNorm) == self.normed:
                hidden = self.crelu(hidden)
        return hidden.squeeze(-1)


class SACPolicy(StockSACPolicy):
    """For SAC and REDQ: a squashed Gaussian actor, all critics as one ensemble, fused Adam.

    Attributes:
        average: an actor whose weights are a moving average of the actor's, kept by REDQ.
    """

    average: Actor

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Box,
        lr_schedule: Any,
        critic_norm: bool = False,
        learned_norm: bool = False,
        halved: bool = False,
        scaled: bool = False,
        **kwargs: Any,
    ) -> None:
        if scaled:
            kwargs["features_extractor_class"] = ScaledObservations
        kwargs["optimizer_kwargs"] = {"fused": True, **(kwargs.get("optimizer_kwargs") or {})}
        self.critic_norm, self.learned_norm, self.halved = critic_norm, learned_norm, halved
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.average = self.make_actor().requires_grad_(False)
        self.average.load_state_dict(self.actor.state_dict())

    def _get_constructor_parameters(self) -> dict[str, Any]:
        own = ("critic_norm", "learned_norm", "halved")
        return super()._get_constructor_parameters() | {name: getattr(self, name) for name in own}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Meanwhile the actor has the weights of its average."""
        held = {name: value.clone() for name, value in self.actor.state_dict().items()}
        try:
            self.actor.load_state_dict(self.average.state_dict())
            yield
        finally:
            self.actor.load_state_dict(held)

    def scale_by(self, observations: NDArray[Any]) -> None:
        """Scale by the moments of these, (rows, …), from now on, unless it scales already.

        What never varies is left, and nothing is magnified more than a hundredfold: what random
        actions hardly move, such as a drawer, would drown all else once it moves.
        """
        if self.features_extractor_class is not ScaledObservations:
            return
        rows = torch.as_tensor(observations).flatten(1).double()
        deviation = rows.std(dim=0, correction=0)
        deviation = torch.where(deviation < 1e-6, 1.0, deviation.clamp(min=_LEAST_DEVIATION))
        for network in (self.actor, self.average, self.critic, self.critic_target):
            extractor = cast(ScaledObservations, network.features_extractor)
            if extractor.mean.eq(0).all() and extractor.deviation.eq(1).all():
                extractor.mean.copy_(rows.mean(dim=0))
                extractor.deviation.copy_(deviation)

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        """The actor that SB3's constructor asks for."""
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return LayeredActor(**kwargs, learned_norm=self.learned_norm).to(self.device)

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """The critics that SB3's constructor asks for, twice: the targets are made the same way."""
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        kwargs |= {"normed": self.critic_norm, "learned_norm": self.learned_norm}
        kwargs["halved"] = self.halved
        return CriticEnsemble(**kwargs).to(self.device)


class LayeredExtractor(MlpExtractor):
    """PPO's two separate stacks of hidden layers, in the shape that SB3 expects."""

    def __init__(self, features: int, policy: list[int], value: list[int]) -> None:
        super().__init__(features, [], nn.Identity)
        self.policy_net = hidden_layers(features, policy, learned_norm=True)
        self.value_net = hidden_layers(features, value, learned_norm=True)
        self.latent_dim_pi, self.latent_dim_vf = 2 * policy[-1], 2 * value[-1]


class PPOPolicy(ActorCriticPolicy):
    """For SB3's PPO: actor and state-value critic on our layers, fused Adam."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Any,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        **kwargs: Any,
    ) -> None:
        # SB3's own epsilon for PPO, which giving any optimizer_kwargs would lose
        adam = {"fused": True, "eps": 1e-5}
        kwargs["optimizer_kwargs"] = {**adam, **(kwargs.get("optimizer_kwargs") or {})}
        arch = [256, 256] if net_arch is None else net_arch
        super().__init__(observation_space, action_space, lr_schedule, arch, **kwargs)

    def _build_mlp_extractor(self) -> None:
        arch = self.net_arch
        policy, value = (arch["pi"], arch["vf"]) if isinstance(arch, dict) else (arch, arch)
        self.mlp_extractor = LayeredExtractor(self.features_dim, policy, value).to(self.device)
