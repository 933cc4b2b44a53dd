"""REDQ (Chen et al., 2021, "Randomized Ensembled Double Q-Learning") as an SB3 algorithm.

The critics are one batched ensemble. A target is the minimum over a random subset of target
critics, and only these are evaluated; so is what the actor climbs, unless it climbs the mean of
all. With two critics, both in the subset, and the squared loss this is SAC, and is used for it.
"""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.adam import adam

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
        for optimizer in self._optimizers():
            _state(optimizer)  # raises for an optimizer that is not Adam
        _keep_freed_memory()
        self._step = _compiled(self._learn) if self.compile else self._learn

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
        rate = torch.tensor(optimizers[0].param_groups[0]["lr"], device=self.device)
        states = [_state(optimizer) for optimizer in optimizers]
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            self._n_updates += 1
            share = max(self.actor_average, (_DECAY + 1) / (self._n_updates + _DECAY))
            # Drawn here, so that compiled and plain updates see the same numbers.
            record = self._step(
                batch,
                noise=torch.randn((2, *batch.actions.shape), device=self.device),
                members=draw_members(self.critics, self.subset, self.device),
                climbed=draw_members(self.critics, self.subset, self.device)
                if self.actor_climbs == "minimum"
                else None,
                states=states,
                rate=rate,
                share=torch.tensor(share, device=self.device),
            )
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in record.items():
            self.logger.record(f"train/{name}", value.item())

    def _learn(
        self,
        batch: ReplayBufferSamples,
        noise: Tensor,
        members: Tensor | None,
        climbed: Tensor | None,
        states: list["_AdamState"],
        rate: Tensor,
        share: Tensor,
    ) -> dict[str, Tensor]:
        """One update, all of it tensors, so that a compiler sees it whole."""
        observations = batch.observations.float()  # MuJoCo's are in float64
        # SB3's buffer says 0 here at a time limit: a truncated episode bootstraps.
        bootstraps = (1 - batch.dones) * (
            self.gamma if batch.discounts is None else batch.discounts
        )
        if self.log_ent_coef is None:
            temperature = self.ent_coef_tensor
        else:
            temperature = self.log_ent_coef.detach().exp()
        loss = critic_loss(
            self.critic,
            self.critic_target,
            self.actor,
            observations=observations,
            actions=batch.actions,
            next_observations=batch.next_observations.float(),
            rewards=batch.rewards.squeeze(1),
            bootstraps=bootstraps.squeeze(1),
            noise=noise[0],
            members=members,
            temperature=temperature,
            huber=self.huber,
        )
        _descend(states[0], _gradients(loss, states[0]), rate)

        policy_loss, log_prob = actor_loss(
            self.critic,
            self.actor,
            observations=observations,
            noise=noise[1],
            temperature=temperature,
            members=climbed,
            climbs=self.actor_climbs,
        )
        _descend(states[1], _gradients(policy_loss, states[1]), rate)
        mean = log_prob.mean()
        if self.log_ent_coef is not None:
            # As in SB3 the loss is -log(temperature) * (mean log-density + target entropy).
            _descend(states[2], [-(mean + float(self.target_entropy)).reshape(1)], rate)
        _follow(self.critic_target, self.critic, self.tau)
        _follow(self.policy.average, self.actor, share)
        return {
            "critic_loss": loss.detach(),
            "actor_loss": policy_loss.detach(),
            "ent_coef": temperature,
            "entropy": -mean,
        }

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


class _AdamState(NamedTuple):
    """What Adam keeps for each weight, and its settings."""

    weights: list[Tensor]
    means: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    settings: dict[str, Any]


def _state(optimizer: torch.optim.Optimizer) -> _AdamState:
    """Of the weights that learn, in the optimizer's own tensors, which its checkpoints hold."""
    (group,) = optimizer.param_groups
    if type(optimizer) is not torch.optim.Adam or group["amsgrad"]:
        raise ValueError(f"expected torch.optim.Adam without amsgrad, found {optimizer}")
    weights = [weight for weight in group["params"] if weight.requires_grad]
    for weight in weights:
        if not optimizer.state[weight]:
            optimizer.state[weight] = {
                "step": torch.zeros((), device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
    kept = [optimizer.state[weight] for weight in weights]
    beta1, beta2 = group["betas"]
    return _AdamState(
        weights,
        [each["exp_avg"] for each in kept],
        [each["exp_avg_sq"] for each in kept],
        [each["step"] for each in kept],
        {
            "beta1": beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "maximize": group["maximize"],
        },
    )


def _gradients(loss: Tensor, state: _AdamState) -> list[Tensor]:
    """Zeros for what the loss does not depend on."""
    return [*torch.autograd.grad(loss, state.weights, allow_unused=True, materialize_grads=True)]


@torch.no_grad()
def _descend(state: _AdamState, gradients: list[Tensor], rate: Tensor) -> None:
    """One step of torch's Adam.

    Compiled it is arithmetic that is fused with what gives the gradients; otherwise one call for
    all weights, which takes for granted that gradients are laid out as these.
    """
    compiled = torch.compiler.is_compiling()
    if not compiled:
        gradients = [
            gradient
            if gradient.stride() == weight.stride()
            else torch.empty_like(weight).copy_(gradient)
            for weight, gradient in zip(state.weights, gradients, strict=True)
        ]
    adam(
        state.weights,
        gradients,
        state.means,
        state.squares,
        [],
        state.steps,
        foreach=False,
        capturable=compiled,
        fused=not compiled,
        amsgrad=False,
        lr=rate,
        **state.settings,
    )


@torch.no_grad()
def _follow(moving: nn.Module, followed: nn.Module, share: float | Tensor) -> None:
    """Move each weight this share of the way to the other network's."""
    for weight, aim in zip(moving.parameters(), followed.parameters(), strict=True):
        weight.lerp_(aim, share)


def _keep_freed_memory() -> None:
    """Have the C library keep what one update frees for the next.

    glibc gives back to the system what is larger than the largest block freed so far, up to 32 MB,
    and the pages that the next update gets instead are filled with zeros first: a tenth of an
    update with layer norm in ten critics. Other libraries do not mind.
    """
    torch.empty(2**25 - 2**13, dtype=torch.uint8)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile, or after its first failure the function itself."""
    fast: Callable[..., Any] | None = torch.compile(function, dynamic=False)
    # Otherwise, and by a torch that lacks it, the update is cut into graphs at each gradient.
    known = hasattr(torch._dynamo.config, "trace_autograd_ops")
    whole = torch._dynamo.config.patch(trace_autograd_ops=True) if known else nullcontext()

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal fast
        if fast is not None:
            try:
                with whole:
                    return fast(*args, **kwargs)
            except Exception as error:  # no C++ compiler, or whatever the compiler raises
                fast = None
                line = one_line(error, 160)
                warnings.warn(f"torch.compile failed, going on without it: {line}", stacklevel=2)
        return function(*args, **kwargs)

    return call
