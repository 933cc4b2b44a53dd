"""Hyperparameters: one frozen record per agent, whose defaults are the paper's but for four.

No layer norm in critics, the squared loss of REDQ's, scaled observations, and an averaged actor;
why is in docs/agents.md. Products in bfloat16 are for speed.

The fields are the arguments of :func:`tightrope.agents.train`, the options of the command with
their help, and part of the record of a run. Nothing here needs torch.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tightrope.errors import InputError
from tightrope.records import checked

__all__ = [
    "AGENTS",
    "LEVELS",
    "THREADS",
    "Count",
    "PPOSettings",
    "REDQSettings",
    "SACSettings",
    "Settings",
    "settings",
]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]

_SCALED_FROM = 10  # steps of a warm-up whose moments say anything


@checked
class Settings:
    """What all agents share.

    Attributes:
        gamma: Discount factor.
        hidden: Widths of the hidden layers of every network.
        learning_rate: Of Adam, for all networks and the temperature.
        batch: Transitions in a mini-batch.

    Raises:
        InputError: a value is outside its set.
    """

    gamma: Share = 0.99
    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (256, 256)
    learning_rate: Positive = 3e-4
    batch: Count = 256

    def to_json(self) -> dict[str, Any]:
        """As JSON, which has no infinity."""
        values = dataclasses.asdict(self) | {"hidden": list(self.hidden)}
        return {name: "inf" if value == math.inf else value for name, value in values.items()}


@checked
class SACSettings(Settings):
    """Soft actor-critic: two critics, automatic temperature.

    Attributes:
        tau: Share of the new weights in each soft update of the targets.
        buffer: Transitions that the replay buffer holds.
        warmup: Steps with random actions before the first update.
        replay_ratio: Updates per environment step.
        target_entropy: Entropy in nats that the temperature steers to; auto: minus the number of
            actions.
        critic_norm: Whether critics have layer norm, as the paper's do; the actor always has.
        learned_norm: Whether layer norm has a scale and a shift that are learned, instead of 1 and
            0.
        scaled_observations: Whether networks see observations scaled by mean and deviation of the
            warm-up's.
        actor_average: Share of the newest weights in the averaged actor, which is evaluated and
            frozen; 1: only these.
        precision: Of the critics' products between hidden layers; auto: bfloat16 where the
            processor has such products.
    """

    tau: Share = 5e-3
    buffer: Count = 1_000_000
    warmup: Annotated[int, Field(ge=0)] = 10_000
    replay_ratio: Count = 1
    target_entropy: float | Literal["auto"] = "auto"
    critic_norm: bool = False
    learned_norm: bool = False
    scaled_observations: bool = True
    actor_average: Share = 3e-4
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    def __post_init__(self) -> None:
        if self.scaled_observations and self.warmup < _SCALED_FROM:
            raise InputError(
                f"`warmup` must be at least {_SCALED_FROM} to scale observations by, found "
                f"{self.warmup}: or switch `scaled_observations` off"
            )


@checked
class REDQSettings(SACSettings):
    """SAC with an ensemble of critics and randomised targets.

    Attributes:
        critics: Size of the ensemble.
        subset: Target critics drawn for each update; the minimum of their values enters the target.
        huber: Error beyond which the critics' loss is linear instead of square; the paper's is 1.
        actor_climbs: What the actor maximises: the minimum of as many critics, newly drawn, or the
            mean of all.
    """

    buffer: Count = 100_000
    critics: Count = 10
    subset: Count = 2
    huber: Annotated[float, Field(gt=0, allow_inf_nan=True)] = math.inf
    actor_climbs: Literal["minimum", "mean"] = "minimum"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset > self.critics:
            raise InputError(f"`subset` must be at most `critics` {self.critics}: {self.subset}")


@checked
class PPOSettings(Settings):
    """Proximal policy optimisation with a state-value critic; SB3's defaults but for the batch.

    Attributes:
        rollout: Steps between two rounds of updates.
        epochs: Passes over these steps.
        gae_lambda: Of generalised advantage estimation.
        clip: Range of the clipped surrogate.
        entropy_weight: Of the entropy in the loss.
        value_weight: Of the critic's error in the loss.
        gradient_norm: Largest norm of a gradient.
    """

    rollout: Count = 2048
    epochs: Count = 10
    gae_lambda: Share = 0.95
    clip: Positive = 0.2
    entropy_weight: Weight = 0.0
    value_weight: Weight = 0.5
    gradient_norm: Positive = 0.5

    def __post_init__(self) -> None:
        if self.batch < 2 or self.rollout % self.batch:
            raise InputError(
                f"`rollout` must be a multiple of a `batch` of at least 2, found {self.rollout} "
                f"and {self.batch}"
            )


AGENTS: dict[str, type[Settings]] = {"redq": REDQSettings, "sac": SACSettings, "ppo": PPOSettings}

# Environment steps at which the paper freezes its policies.
LEVELS: dict[str, dict[str, int]] = {
    "redq": {"starter": 100_000, "intermediate": 200_000, "expert": 300_000},
    "sac": {"starter": 50_000, "intermediate": 100_000, "expert": 1_000_000},
    "ppo": {"starter": 1_000_000, "intermediate": 3_000_000, "expert": 5_000_000},
}

# Of torch: no more than what its networks are large enough for (benchmarks/README.md).
THREADS: dict[str, int | Literal["all"]] = {"redq": "all", "sac": 2, "ppo": 1}


def settings(agent: str, overrides: Mapping[str, Any]) -> Settings:
    """The default settings of an agent with these changes.

    Raises:
        InputError: the agent is unknown, or a setting is not one of its own or out of range.
    """
    if agent not in AGENTS:
        raise InputError(f"expected an agent among {', '.join(AGENTS)}, found {agent!r}")
    return AGENTS[agent](**overrides)
