"""REDQ (Chen et al., 2021, "Randomized Ensembled Double Q-Learning") as an SB3 algorithm.

The critics are one batched ensemble. A target is the minimum over a random subset of target
critics, and only these are evaluated; so is what the actor climbs, unless it climbs the mean of
all. With two critics, both in the subset, and the squared loss this is SAC, and is used for it.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import get_ema_multi_avg_fn

from tightrope.agents.policies import CriticEnsemble, SACPolicy
from tightrope.errors import one_line

__all__ = ["REDQ", "ActorClimbs", "actor_loss", "critic_loss", "draw_members", "squashed_sample"]

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
        compile: run the two losses through torch.compile; falls back with a warning.
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
        if not 0 <= actor_average <= 1:
            raise ValueError(f"expected actor_average in [0, 1], found {actor_average!r}")
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
        self._losses = _Losses(compiled=self.compile)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update critics, actor, temperature and targets `gradient_steps` times."""
        self.policy.set_training_mode(True)
        if self._n_updates == 0:
            assert self.replay_buffer is not None  # for the type checker
            warmup: Any = self.replay_buffer.observations[: self.replay_buffer.size()]
            warmup = self.replay_buffer._normalize_obs(warmup, self._vec_normalize_env)
            self.policy.scale_by(warmup.reshape(len(warmup) * self.n_envs, -1))
        optimizers: list[torch.optim.Optimizer] = [self.actor.optimizer, self.critic.optimizer]
        if self.ent_coef_optimizer is not None:
            optimizers.append(self.ent_coef_optimizer)
        self._update_learning_rate(optimizers)
        for _ in range(gradient_steps):
            record = self._update(batch_size)
            self._n_updates += 1
            share = (_DECAY + 1) / (self._n_updates + _DECAY)
            share = max(self.actor_average, share)
            _follow(self.policy.average, self.actor, share)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in record.items():
            self.logger.record(f"train/{name}", value.item())

    def _update(self, batch_size: int) -> dict[str, Tensor]:
        assert self.replay_buffer is not None  # for the type checker
        batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        observations, actions = batch.observations.float(), batch.actions
        next_observations = batch.next_observations.float()  # MuJoCo's are in float64
        # SB3's buffer says 0 here at a time limit: a truncated episode bootstraps.
        bootstraps = (1 - batch.dones) * (
            self.gamma if batch.discounts is None else batch.discounts
        )
        # Drawn outside the losses, so that compiled and plain ones see the same numbers.
        noise = torch.randn((2, *actions.shape), device=self.device)  # (2, batch, actions)
        members = draw_members(self.critics, self.subset, self.device)
        climbed = None
        if self.actor_climbs == "minimum":
            climbed = draw_members(self.critics, self.subset, self.device)
        if self.log_ent_coef is None:
            temperature = self.ent_coef_tensor
        else:
            temperature = self.log_ent_coef.detach().exp()

        loss = self._losses.critic(
            self.critic,
            self.critic_target,
            self.actor,
            observations=observations,
            actions=actions,
            next_observations=next_observations,
            rewards=batch.rewards.squeeze(1),
            bootstraps=bootstraps.squeeze(1),
            noise=noise[0],
            members=members,
            temperature=temperature,
            huber=self.huber,
        )
        _descend(self.critic.optimizer, loss)

        policy_loss, log_prob = self._losses.actor(
            self.critic,
            self.actor,
            observations=observations,
            noise=noise[1],
            temperature=temperature,
            members=climbed,
            climbs=self.actor_climbs,
        )
        _descend(self.actor.optimizer, policy_loss)
        record = {"critic_loss": loss, "actor_loss": policy_loss, "ent_coef": temperature}

        if self.ent_coef_optimizer is not None and self.log_ent_coef is not None:
            # As in SB3 the loss is -log(temperature) * (mean log-density + target entropy).
            mean = log_prob.mean()
            self.log_ent_coef.grad = -(mean + float(self.target_entropy)).reshape(1)
            self.ent_coef_optimizer.step()
            record["entropy"] = -mean
        _follow(self.critic_target, self.critic, self.tau)
        return {name: value.detach() for name, value in record.items()}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_losses"]


def squashed_sample(actor: Any, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(mean + deviation * noise) in [-1, 1] and their log-densities, (batch,)."""
    mean, log_deviation, _ = actor.get_action_dist_params(observations)
    raw = mean + log_deviation.exp() * noise  # (batch, actions)
    log_normal = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh(x)^2) in a form that does not cancel for large x
    log_slope = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
    return torch.tanh(raw), (log_normal - log_slope).sum(dim=1)


def critic_loss(
    critic: CriticEnsemble,
    target: CriticEnsemble,
    actor: Any,
    observations: Tensor,
    actions: Tensor,
    next_observations: Tensor,
    rewards: Tensor,
    bootstraps: Tensor,
    noise: Tensor,
    members: Tensor | None,
    temperature: Tensor,
    huber: float,
) -> Tensor:
    """Sum over the critics of their mean Huber loss (or half squared error) to one target.

    Target: reward + bootstrap * (min over the drawn target critics - temperature * log-density).
    """
    with torch.no_grad():
        next_actions, log_prob = squashed_sample(actor, next_observations, noise)
        each = target.values(next_observations, next_actions, members)  # (members, batch)
        lowest = each.amin(dim=0)
        goal = rewards + bootstraps * (lowest - temperature * log_prob)
    values = critic.values(observations, actions)  # (critics, batch)
    if huber == math.inf:  # the squared loss, without arithmetic on infinity
        loss: Tensor = 0.5 * (values - goal).square()
    else:
        loss = functional.huber_loss(values, goal.expand_as(values), reduction="none", delta=huber)
    return loss.mean(dim=1).sum()


def actor_loss(
    critic: CriticEnsemble,
    actor: Any,
    observations: Tensor,
    noise: Tensor,
    temperature: Tensor,
    members: Tensor | None,
    climbs: ActorClimbs,
) -> tuple[Tensor, Tensor]:
    """Mean of temperature * log-density - value of the critics drawn; and the log-densities."""
    actions, log_prob = squashed_sample(actor, observations, noise)
    each = critic.values(observations, actions, members, frozen=True)  # (members, batch)
    values = each.amin(dim=0) if climbs == "minimum" else each.mean(dim=0)
    return (temperature * log_prob - values).mean(), log_prob.detach()


def draw_members(critics: int, subset: int, device: Any = None) -> Tensor | None:
    """Indices of `subset` different critics, every subset equally likely; None for all of them."""
    return None if subset == critics else torch.randperm(critics, device=device)[:subset]


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Backward and step, without the copy of each gradient that backward makes.

    It copies because a compiled graph still holds them, and to lay them out as the weights are:
    fused Adam takes that for granted, so where it is not so they are copied here, too.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight in weights:
        weight.grad = None
    weights = [weight for weight in weights if weight.requires_grad]
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is not None and gradient.stride() != weight.stride():
            weight.grad = torch.empty_like(weight).copy_(gradient)
        else:
            weight.grad = gradient
    optimizer.step()


def _follow(moving: nn.Module, followed: nn.Module, share: float) -> None:
    """Move each weight this share of the way to the other network's, in one pass over memory."""
    move = get_ema_multi_avg_fn(1 - share)  # type: ignore[no-untyped-call]
    move([*moving.parameters()], [*followed.parameters()], None)  # the count is not used


class _Losses:
    """The two losses, compiled if asked and possible."""

    def __init__(self, *, compiled: bool) -> None:
        self.critic: Callable[..., Any] = _compiled(critic_loss) if compiled else critic_loss
        self.actor: Callable[..., Any] = _compiled(actor_loss) if compiled else actor_loss


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile, or after its first failure the function itself."""
    fast: Callable[..., Any] | None = torch.compile(function, dynamic=False)

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal fast
        if fast is not None:
            try:
                return fast(*args, **kwargs)
            except Exception as error:  # no C++ compiler, or whatever the compiler raises
                fast = None
                line = one_line(error, 160)
                warnings.warn(f"torch.compile failed, going on without it: {line}", stacklevel=2)
        return function(*args, **kwargs)

    return call
