"""What is trained: a specification that a folder is begun with, and the agent built from it."""

import dataclasses
import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents.hyperparameters import (
    LEVELS,
    PPOSettings,
    REDQSettings,
    SACSettings,
    Settings,
    settings,
)
from tightrope.agents.policies import PPOPolicy, SACPolicy
from tightrope.agents.redq import REDQ
from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.system import library_versions, multiplies_bfloat16, resolve_device

__all__ = ["RUN_FORMAT", "Compile", "Run", "build", "specify"]

Compile = Literal["auto", "always", "never"]

RUN_FORMAT = "tightrope.run/4"
_COMPILE_FROM = 20_000  # updates from which compiling pays for itself (benchmarks/README.md)
_EVALUATIONS = 50  # in a whole run
_SCALED_FROM = 10  # steps of a warm-up whose moments say anything


@dataclass(frozen=True)
class Run:
    """What is trained; a folder resumes only the run it was begun with.

    Attributes:
        agent: redq, sac or ppo.
        environment: how it is built.
        settings: hyperparameters.
        steps: environment steps in all.
        levels: names of snapshots and the steps at which they are taken.
        seed: root of all randomness.
        compile: whether updates of REDQ or SAC are compiled.
        evaluate_every: steps between two evaluations.
        evaluation_episodes: deterministic episodes in each.
        device: that it is trained on.
    """

    agent: str
    environment: EnvInfo
    settings: Settings
    steps: int
    levels: dict[str, int]
    seed: int
    compile: bool
    evaluate_every: int
    evaluation_episodes: int
    device: str

    def to_json(self) -> dict[str, Any]:
        """As JSON, with the versions that a checkpoint depends on."""
        content = {**dataclasses.asdict(self), "settings": self.settings.to_json()}
        return {"format": RUN_FORMAT, **content, "versions": library_versions()}


def specify(
    agent: str,
    env: str | EnvInfo,
    *,
    steps: int | None = None,
    levels: tuple[int, int, int] | None = None,
    seed: int = 0,
    compile: Compile = "auto",  # noqa: A002
    evaluate_every: int | None = None,
    evaluation_episodes: int = 10,
    device: str = "auto",
    **overrides: Any,
) -> Run:
    """A checked specification; what is not given is the default, mostly the paper's.

    Args:
        agent: redq, sac or ppo.
        env: id or `EnvInfo` of the environment.
        steps: environment steps; by default those of the paper's expert.
        levels: steps at which starter, intermediate and expert are frozen, as far as they are
            reached.
        seed: root of all randomness.
        compile: updates of REDQ and SAC; auto: if there are enough updates to make up for it.
        evaluate_every: steps between two evaluations; by default a fiftieth of the run.
        evaluation_episodes: deterministic episodes in each.
        device: cpu, cuda or such as cuda:1; auto: cuda if there is one.
        overrides: settings of the agent.

    Raises:
        InputError: a value is outside its set.
    """
    chosen = settings(agent, overrides)
    names = LEVELS[agent]
    if levels is not None:
        if not 0 < levels[0] < levels[1] < levels[2]:
            raise InputError(f"`levels` must be three rising numbers of steps, found {levels}")
        names = dict(zip(names, levels, strict=True))
    total = LEVELS[agent]["expert"] if steps is None else steps
    every = max(total // _EVALUATIONS, 1) if evaluate_every is None else evaluate_every
    whole = {"steps": (total, 1), "seed": (seed, 0), "evaluate_every": (every, 1)}
    whole["evaluation_episodes"] = (evaluation_episodes, 1)
    for name, (value, least) in whole.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise InputError(f"`{name}` must be a whole number, found {value!r}")
        if value < least:
            raise InputError(f"`{name}` must be at least {least}, found {value!r}")
    total, seed, every = int(total), int(seed), int(every)  # NumPy's too
    if compile not in get_args(Compile):
        raise InputError(f"`compile` must be among auto, always, never, found {compile!r}")
    if seed >= 2**32:
        raise InputError(f"`seed` must be below 2**32, found {seed!r}")
    if isinstance(chosen, SACSettings) and total <= chosen.warmup:
        raise InputError(
            f"`steps` must be above `warmup` {chosen.warmup:,}, found {total:,}: nothing would be "
            "learned"
        )
    off_policy = chosen if isinstance(chosen, SACSettings) else None
    if off_policy and off_policy.scaled_observations and off_policy.warmup < _SCALED_FROM:
        raise InputError(
            f"`warmup` must be at least {_SCALED_FROM} to scale observations by, found "
            f"{off_policy.warmup}: or switch `scaled_observations` off"
        )
    reached = {name: at for name, at in names.items() if at <= total}
    if total not in reached.values():
        reached["final"] = total
    device, compiled = resolve_device(device), False
    if isinstance(chosen, SACSettings):
        if chosen.precision == "auto":
            fast = multiplies_bfloat16(device)
            chosen = dataclasses.replace(chosen, precision="bfloat16" if fast else "float32")
        updates = (total - chosen.warmup) * chosen.replay_ratio
        compiled = compile == "always" or (compile == "auto" and updates >= _COMPILE_FROM)
    elif compile == "always":
        raise InputError(f"`compile` always is for redq and sac, found {agent}: that is SB3's code")
    return Run(
        agent=agent,
        environment=EnvInfo.of(env),
        settings=chosen,
        steps=total,
        levels=reached,
        seed=seed,
        compile=compiled,
        evaluate_every=every,
        evaluation_episodes=evaluation_episodes,
        device=device,
    )


def build(run: Run) -> tuple[BaseAlgorithm, TrainingStatistics]:
    """The agent and its environment, untrained.

    Raises:
        InputError: the environment cannot be built or has the wrong kind of actions.
    """
    chosen = run.settings
    env = run.environment.make()
    actions = env.action_space
    if run.agent != "ppo" and not isinstance(actions, spaces.Box):
        raise InputError(
            f"expected continuous actions for {run.agent}, found {actions} in "
            f"{run.environment.id!r}: use ppo"
        )
    flat = len(actions.shape or ()) == 1
    if isinstance(actions, spaces.Box) and not (flat and actions.is_bounded()):
        raise InputError(
            f"expected bounded actions of one dimension, found {actions} in "
            f"{run.environment.id!r}: wrap the environment"
        )
    statistics = TrainingStatistics(env, seed=run.seed, gamma=chosen.gamma)
    shared: dict[str, Any] = {
        "learning_rate": chosen.learning_rate,
        "batch_size": chosen.batch,
        "gamma": chosen.gamma,
        "policy_kwargs": {"net_arch": list(chosen.hidden)},
        "seed": run.seed,
        "device": run.device,
    }
    if isinstance(chosen, SACSettings):
        shared |= {
            "tau": chosen.tau,
            "buffer_size": chosen.buffer,
            "replay_buffer_class": CompactReplayBuffer,
            "learning_starts": chosen.warmup,
            "gradient_steps": chosen.replay_ratio,
            "target_entropy": chosen.target_entropy,
            "actor_average": chosen.actor_average,
        }
        shared["policy_kwargs"] |= {
            "critic_norm": chosen.critic_norm,
            "learned_norm": chosen.learned_norm,
            "halved": chosen.precision == "bfloat16",
            "scaled": chosen.scaled_observations,
        }
        own: dict[str, Any] = {"critics": 2, "subset": 2, "huber": math.inf}
        if isinstance(chosen, REDQSettings):
            own = {"critics": chosen.critics, "subset": chosen.subset, "huber": chosen.huber}
            own["actor_climbs"] = chosen.actor_climbs
        return REDQ(SACPolicy, statistics, compile=run.compile, **own, **shared), statistics
    assert isinstance(chosen, PPOSettings)
    if chosen.batch < 2 or chosen.rollout % chosen.batch:
        raise InputError(
            f"`rollout` must be a multiple of a `batch` of at least 2, found {chosen.rollout} and "
            f"{chosen.batch}"
        )
    model = PPO(
        PPOPolicy,
        statistics,
        n_steps=chosen.rollout,
        n_epochs=chosen.epochs,
        gae_lambda=chosen.gae_lambda,
        clip_range=chosen.clip,
        ent_coef=chosen.entropy_weight,
        vf_coef=chosen.value_weight,
        max_grad_norm=chosen.gradient_norm,
        **shared,
    )
    return model, statistics
