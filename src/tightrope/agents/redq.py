"""REDQ (Chen et al., 2021, "Randomized Ensembled Double Q-Learning") as an SB3 algorithm.

The critics are one batched ensemble. A target is the minimum over a random subset of target
critics, and only these are evaluated; so is what the actor climbs, unless it climbs the mean of
all. With two critics, both in the subset, and the squared loss this is SAC, and is used for it.
"""

import math
from typing import Any, ClassVar, Literal, get_args

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn
from torch.nn import functional

from tightrope.agents.compiling import (
    AdamState,
    adam_state,
    compiled,
    descend,
    gradients,
    keep_freed_memory,
)
from tightrope.agents.policies import CriticEnsemble, SACPolicy

__all__ = ["REDQ", "ActorClimbs", "draw_members", "squashed_sample"]

ActorClimbs = Literal["minimum", "mean"]
# Polynomial-decay averaging (Shamir and Zhang, 2013): over about the last tenth of the updates.
_DECAY = 9


class REDQ(SAC):
    """Soft actor-critic with an ensemble of critics and randomised targets.

    Args:
        policy: :class:`SACPolicy`, or its name in `policy_aliases`.
        env: an environment with continuous, bounded actions.
        critics: size of the ensemble.
        subset: how many target critics, drawn without replacement, the minimum is taken over.
        huber: error beyond which the critics' loss is linear; infinity gives the squared loss.
        actor_climbs: the minimum of a subset of critics drawn for it, or the mean of all.
        actor_average: share of the actor in each update of its moving average, see
            :class:`SACPolicy`; after n updates at least 10 / (n + 9), so that the average is over
            about the last tenth of them.
        compile: run updates through torch.compile; falls back with a warning.
        kwargs: as for SB3's SAC; `gradient_steps` is the replay ratio.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MlpPolicy": SACPolicy}
    policy: SACPolicy
    critic: CriticEnsemble  # type: ignore[assignment]
    critic_target: CriticEnsemble  # type: ignore[assignment]

    def __init__(
        self,
        policy: str | type[SACPolicy],
        env: Any,
        critics: int = 10,
        subset: int = 2,
        huber: float = math.inf,
        actor_climbs: ActorClimbs = "minimum",
        actor_average: float = 3e-4,
        compile: bool = False,  # noqa: A002
        buffer_size: int = 100_000,
        learning_starts: int = 10_000,
        policy_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not 1 <= subset <= critics:
            raise ValueError(f"expected 1 <= subset <= critics, found {subset} and {critics}")
        if actor_climbs not in get_args(ActorClimbs):
            raise ValueError(f"expected actor_climbs minimum or mean, found {actor_climbs!r}")
        self.critics, self.subset, self.huber, self.compile = critics, subset, huber, compile
        self.actor_climbs, self.actor_average = actor_climbs, actor_average
        super().__init__(
            policy,
            env,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            policy_kwargs={**(policy_kwargs or {}), "n_critics": critics},
            **kwargs,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        for optimizer in self._optimizers():
            adam_state(optimizer)  # raises for an optimizer that is not Adam
        keep_freed_memory()
        # Not bound to this agent: a copy of it trains its own networks.
        learn = type(self)._learn
        self._step = compiled(learn) if self.compile else learn

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """Of critics, actor and, where it is learned, temperature."""
        learned = [] if self.ent_coef_optimizer is None else [self.ent_coef_optimizer]
        return [self.critic.optimizer, self.actor.optimizer, *learned]

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update critics, actor, temperature and targets `gradient_steps` times."""
        self.policy.set_training_mode(True)
        assert self.replay_buffer is not None  # for the type checker
        if self._n_updates == 0:
            warmup: Any = self.replay_buffer.observations[: self.replay_buffer.size()]
            warmup = self.replay_buffer._normalize_obs(warmup, self._vec_normalize_env)
            self.policy.scale_by(warmup.reshape(len(warmup) * self.n_envs, -1))
        optimizers = self._optimizers()
        self._update_learning_rate(optimizers)
        states = [adam_state(optimizer) for optimizer in optimizers]
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            self._n_updates += 1
            # Drawn here, so that compiled and plain updates see the same numbers.
            record = self._step(
                self,
                batch,
                noise=torch.randn((2, *batch.actions.shape), device=self.device),
                members=draw_members(self.critics, self.subset, self.device),
                climbed=draw_members(self.critics, self.subset, self.device)
                if self.actor_climbs == "minimum"
                else None,
                states=states,
                numbers=self._numbers(optimizers[0].param_groups[0]["lr"]),
            )
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in record.items():
            self.logger.record(f"train/{name}", value.item())

    def _numbers(self, rate: float) -> Tensor:
        """What may change from update to update: as numbers, each would be compiled anew."""
        share = max(self.actor_average, (_DECAY + 1) / (self._n_updates + _DECAY))
        numbers = (rate, self.gamma, self.tau, share, float(self.target_entropy))
        return torch.tensor(numbers, dtype=torch.float32, device=self.device)

    def _learn(
        self,
        batch: ReplayBufferSamples,
        noise: Tensor,
        members: Tensor | None,
        climbed: Tensor | None,
        states: list[AdamState],
        numbers: Tensor,
    ) -> dict[str, Tensor]:
        """One update, all of it tensors, so that a compiler sees it whole."""
        rate, gamma, tau, share, target_entropy = numbers.unbind()
        if self.log_ent_coef is None:
            temperature = self.ent_coef_tensor
        else:
            temperature = self.log_ent_coef.detach().exp()
        # SB3's buffer says 0 here at a time limit: a truncated episode bootstraps.
        bootstraps = (1 - batch.dones) * (gamma if batch.discounts is None else batch.discounts)
        loss = self.critic_loss(batch, bootstraps.squeeze(1), noise[0], members, temperature)
        descend(states[0], gradients(loss, states[0]), rate)
        policy_loss, log_prob = self.actor_loss(batch, noise[1], climbed, temperature)
        descend(states[1], gradients(policy_loss, states[1]), rate)
        mean = log_prob.mean()
        if self.log_ent_coef is not None:
            # As in SB3 the loss is -log(temperature) * (mean log-density + target entropy).
            descend(states[2], [-(mean + target_entropy).reshape(1)], rate)
        _follow(self.critic_target, self.critic, tau)
        _follow(self.policy.average, self.actor, share)
        return {
            "critic_loss": loss.detach(),
            "actor_loss": policy_loss.detach(),
            "ent_coef": temperature,
            "entropy": -mean,
        }

    def critic_loss(
        self,
        batch: ReplayBufferSamples,
        bootstraps: Tensor,
        noise: Tensor,
        members: Tensor | None,
        temperature: Tensor,
    ) -> Tensor:
        """Sum over the critics of their mean Huber loss (or half squared error) to one target.

        Target: reward + bootstrap * (min over the drawn target critics - temperature *
        log-density).
        """
        with torch.no_grad():
            following = batch.next_observations.float()  # MuJoCo's are in float64
            next_actions, log_prob = squashed_sample(self.actor, following, noise)
            each = self.critic_target.values(following, next_actions, members)  # (members, batch)
            lowest = each.amin(dim=0)
            goal = batch.rewards.squeeze(1) + bootstraps * (lowest - temperature * log_prob)
        values = self.critic.values(batch.observations.float(), batch.actions)  # (critics, batch)
        if self.huber == math.inf:  # the squared loss, without arithmetic on infinity
            loss: Tensor = 0.5 * (values - goal).square()
        else:
            goal = goal.expand_as(values)
            loss = functional.huber_loss(values, goal, reduction="none", delta=self.huber)
        return loss.mean(dim=1).sum()

    def actor_loss(
        self,
        batch: ReplayBufferSamples,
        noise: Tensor,
        members: Tensor | None,
        temperature: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Mean of temperature * log-density - value of the critics drawn; and the log-densities."""
        observations = batch.observations.float()
        actions, log_prob = squashed_sample(self.actor, observations, noise)
        each = self.critic.values(observations, actions, members, frozen=True)  # (members, batch)
        values = each.amin(dim=0) if self.actor_climbs == "minimum" else each.mean(dim=0)
        return (temperature * log_prob - values).mean(), log_prob.detach()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_step"]


def squashed_sample(actor: Any, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(mean + deviation * noise) in [-1, 1] and their log-densities, (batch,)."""
    mean, log_deviation, _ = actor.get_action_dist_params(observations)
    raw = mean + log_deviation.exp() * noise  # (batch, actions)
    log_normal = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh(x)^2) in a form that does not cancel for large x
    log_slope = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
    return torch.tanh(raw), (log_normal - log_slope).sum(dim=1)


def draw_members(critics: int, subset: int, device: Any = None) -> Tensor | None:
    """Indices of `subset` different critics, every subset equally likely; None for all of them."""
    return None if subset == critics else torch.randperm(critics, device=device)[:subset]


@torch.no_grad()
def _follow(moving: nn.Module, followed: nn.Module, share: Tensor) -> None:
    """Move each weight this share of the way to the other network's."""
    for weight, aim in zip(moving.parameters(), followed.parameters(), strict=True):
        weight.lerp_(aim, share)
