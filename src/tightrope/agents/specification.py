"""What is trained: a specification that a folder is begun with, and the agent built from it."""

import dataclasses
from dataclasses import asdict
from typing import Annotated, Any, Literal

from gymnasium import spaces
from pydantic import Field
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents.hyperparameters import LEVELS, Count, SACSettings, Settings, settings
from tightrope.agents.policies import PPOPolicy, SACPolicy
from tightrope.agents.redq import REDQ
from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.records import checked
from tightrope.system import library_versions, multiplies_bfloat16, resolve_device

__all__ = ["Compile", "Run", "build", "specify"]

Compile = Literal["auto", "always", "never"]

_COMPILE_FROM = 20_000  # updates from which compiling pays for itself (benchmarks/README.md)
_EVALUATIONS = 50  # in a whole run
_ARGUMENTS = {  # what Stable-Baselines3's agents, and REDQ, call the settings
    **{name: name for name in ("gamma", "learning_rate", "tau", "target_entropy", "gae_lambda")},
    **{name: name for name in ("critics", "subset", "huber", "actor_climbs", "actor_average")},
    "batch": "batch_size",
    "buffer": "buffer_size",
    "warmup": "learning_starts",
    "replay_ratio": "gradient_steps",
    "rollout": "n_steps",
    "epochs": "n_epochs",
    "clip": "clip_range",
    "entropy_weight": "ent_coef",
    "value_weight": "vf_coef",
    "gradient_norm": "max_grad_norm",
}


@checked
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
    steps: Count
    levels: dict[str, int]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    compile: bool
    evaluate_every: Count
    evaluation_episodes: Count
    device: str

    def __post_init__(self) -> None:
        warmup = self.settings.warmup if isinstance(self.settings, SACSettings) else 0
        if self.steps <= warmup:
            raise InputError(
                f"`steps` must be above `warmup` {warmup:,}, found {self.steps:,}: nothing would "
                "be learned"
            )

    def to_json(self) -> dict[str, Any]:
        """As JSON, with the versions that a checkpoint depends on."""
        content = {**asdict(self), "settings": self.settings.to_json()}
        return {**content, "versions": library_versions()}


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
    chosen, names = settings(agent, overrides), LEVELS[agent]
    if levels is not None:
        if not 0 < levels[0] < levels[1] < levels[2]:
            raise InputError(f"`levels` must be three rising numbers of steps, found {levels}")
        names = dict(zip(names, levels, strict=True))
    total = LEVELS[agent]["expert"] if steps is None else steps
    reached = {name: int(at) for name, at in names.items() if at <= total}
    if total not in reached.values():
        reached["final"] = int(total)
    if compile not in ("auto", "always", "never"):
        raise InputError(f"`compile` must be among auto, always, never, found {compile!r}")
    device, compiled = resolve_device(device), compile == "always"
    if isinstance(chosen, SACSettings):
        if chosen.precision == "auto":
            fast = multiplies_bfloat16(device)
            chosen = dataclasses.replace(chosen, precision="bfloat16" if fast else "float32")
        updates = (total - chosen.warmup) * chosen.replay_ratio
        compiled |= compile == "auto" and updates >= _COMPILE_FROM
    elif compiled:
        raise InputError(f"`compile` always is for redq and sac, found {agent}: that is SB3's code")
    return Run(
        agent=agent,
        environment=EnvInfo.of(env),
        settings=chosen,
        steps=total,
        levels=reached,
        seed=seed,
        compile=compiled,
        evaluate_every=max(total // _EVALUATIONS, 1) if evaluate_every is None else evaluate_every,
        evaluation_episodes=evaluation_episodes,
        device=device,
    )


def build(run: Run) -> tuple[BaseAlgorithm, TrainingStatistics]:
    """The agent and its environment, untrained.

    Raises:
        InputError: the environment cannot be built or has the wrong kind of actions.
    """
    env = run.environment.make()
    actions, where = env.action_space, f"in {run.environment.id!r}"
    if not isinstance(actions, spaces.Box):
        if run.agent != "ppo":
            raise InputError(
                f"expected continuous actions for {run.agent}, found {actions} {where}: use ppo"
            )
    elif len(actions.shape) != 1 or not actions.is_bounded():
        raise InputError(
            f"expected bounded actions of one dimension, found {actions} {where}: wrap the "
            "environment"
        )
    chosen = run.settings
    statistics = TrainingStatistics(env, seed=run.seed, gamma=chosen.gamma)
    options: dict[str, Any] = {"seed": run.seed, "device": run.device}
    options |= {sb3: getattr(chosen, n) for n, sb3 in _ARGUMENTS.items() if hasattr(chosen, n)}
    layers: dict[str, Any] = {"net_arch": list(chosen.hidden)}
    if not isinstance(chosen, SACSettings):
        return PPO(PPOPolicy, statistics, policy_kwargs=layers, **options), statistics
    layers |= {
        "critic_norm": chosen.critic_norm,
        "learned_norm": chosen.learned_norm,
        "halved": chosen.precision == "bfloat16",
        "scaled": chosen.scaled_observations,
    }
    options = {"critics": 2, **options}  # SAC is REDQ with two, both of which are drawn
    options |= {"compile": run.compile, "replay_buffer_class": CompactReplayBuffer}
    return REDQ(SACPolicy, statistics, policy_kwargs=layers, **options), statistics
