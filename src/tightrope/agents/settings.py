"""Hyperparameters: one frozen record per agent, whose defaults are the paper's but for four.

No layer norm in critics, the squared loss of REDQ's, scaled observations, and an averaged actor;
why is in docs/agents.md. Products in bfloat16 are for speed.

The fields are the arguments of :func:`tightrope.agents.train`, the options of the command with
their help, and part of the record of a run. Nothing here needs torch.
"""

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from operator import index
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tightrope.errors import InputError

__all__ = [
    "AGENTS",
    "LEVELS",
    "THREADS",
    "PPOSettings",
    "REDQSettings",
    "SACSettings",
    "Settings",
    "is_whole",
    "settings",
]

_SHARES = ("gamma", "tau", "gae_lambda", "actor_average")
_FROM_ZERO = ("warmup", "entropy_weight", "value_weight")
_TO_INFINITY = ("huber",)


@dataclass(frozen=True)
class Settings:
    """What all agents share.

    Raises:
        InputError: a value is outside its set.
    """

    gamma: float = 0.99
    """Discount factor."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of every network."""
    learning_rate: float = 3e-4
    """Of Adam, for all networks and the temperature."""
    batch: int = 256
    """Transitions in a mini-batch."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            wanted = _wanted(name, kind, getattr(self, name))
            if wanted is not None:
                raise InputError(f"`{name}` must be {wanted}, found {getattr(self, name)!r}")
            if isinstance(getattr(self, name), Real) and kind is not bool:  # NumPy's too
                plain = int if kind is int else float
                object.__setattr__(self, name, plain(getattr(self, name)))
        object.__setattr__(self, "hidden", tuple(map(int, self.hidden)))

    def to_json(self) -> dict[str, Any]:
        """As JSON, which has no infinity."""
        values = {name: getattr(self, name) for name in get_type_hints(type(self))}
        values["hidden"] = list(self.hidden)
        return {name: "inf" if value == math.inf else value for name, value in values.items()}


@dataclass(frozen=True)
class SACSettings(Settings):
    """Soft actor-critic: two critics, automatic temperature."""

    tau: float = 5e-3
    """Share of the new weights in each soft update of the targets."""
    buffer: int = 1_000_000
    """Transitions that the replay buffer holds."""
    warmup: int = 10_000
    """Steps with random actions before the first update."""
    replay_ratio: int = 1
    """Updates per environment step."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy in nats that the temperature steers to; auto: minus the number of actions."""
    critic_norm: bool = False
    """Whether critics have layer norm, as the paper's do; the actor always has."""
    learned_norm: bool = False
    """Whether layer norm has a scale and a shift that are learned, instead of 1 and 0."""
    scaled_observations: bool = True
    """Whether networks see observations scaled by mean and deviation of the warm-up's."""
    actor_average: float = 3e-4
    """Share of the newest weights in the averaged actor, which is evaluated and frozen; 1: only
    these."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the critics' products between hidden layers; auto: bfloat16 where the processor has
    such products."""


@dataclass(frozen=True)
class REDQSettings(SACSettings):
    """SAC with an ensemble of critics and randomised targets."""

    buffer: int = 100_000
    critics: int = 10
    """Size of the ensemble."""
    subset: int = 2
    """Target critics drawn for each update; the minimum of their values enters the target."""
    huber: float = math.inf
    """Error beyond which the critics' loss is linear instead of square; the paper's is 1."""
    actor_climbs: Literal["minimum", "mean"] = "minimum"
    """What the actor maximises: the minimum of as many critics, newly drawn, or the mean of all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset > self.critics:
            raise InputError(f"`subset` must be at most `critics` {self.critics}: {self.subset}")


@dataclass(frozen=True)
class PPOSettings(Settings):
    """Proximal policy optimisation with a state-value critic; SB3's defaults but for the batch."""

    rollout: int = 2048
    """Steps between two rounds of updates."""
    epochs: int = 10
    """Passes over these steps."""
    gae_lambda: float = 0.95
    """Of generalised advantage estimation."""
    clip: float = 0.2
    """Range of the clipped surrogate."""
    entropy_weight: float = 0.0
    """Of the entropy in the loss."""
    value_weight: float = 0.5
    """Of the critic's error in the loss."""
    gradient_norm: float = 0.5
    """Largest norm of a gradient."""


AGENTS: dict[str, type[Settings]] = {"redq": REDQSettings, "sac": SACSettings, "ppo": PPOSettings}

# Environment steps at which the paper freezes its policies.
LEVELS: dict[str, dict[str, int]] = {
    "redq": {"starter": 100_000, "intermediate": 200_000, "expert": 300_000},
    "sac": {"starter": 50_000, "intermediate": 100_000, "expert": 1_000_000},
    "ppo": {"starter": 1_000_000, "intermediate": 3_000_000, "expert": 5_000_000},
}

# Of torch: no more than what its networks are large enough for (benchmarks/README.md).
THREADS: dict[str, int | Literal["all"]] = {"redq": "all", "sac": 2, "ppo": 1}


def settings(agent: str, overrides: dict[str, Any]) -> Settings:
    """The default settings of an agent with these changes.

    Raises:
        InputError: the agent is unknown, or a setting is not one of its own or out of range.
    """
    if agent not in AGENTS:
        raise InputError(f"expected an agent among {', '.join(AGENTS)}, found {agent!r}")
    own = [field.name for field in dataclasses.fields(AGENTS[agent])]
    for name in overrides:
        if name not in own:
            listed = ", ".join(f"`{each}`" for each in own)
            raise InputError(f"expected settings of {agent} ({listed}), found `{name}`")
    return AGENTS[agent](**overrides)


def _wanted(name: str, kind: Any, value: Any) -> str | None:
    """What a value of that field must be; None if it is."""
    if kind is bool:
        return None if isinstance(value, bool) else "True or False"
    if get_origin(kind) is Literal:
        return None if value in get_args(kind) else f"among {', '.join(get_args(kind))}"
    if get_origin(kind) is Union:
        words = [word for part in get_args(kind) for word in get_args(part)]
        word = isinstance(value, str) and value in words
        return None if word or _is_finite(value) else f"a number or {', '.join(words)}"
    if get_origin(kind) is tuple:
        several = isinstance(value, tuple | list) and len(value) > 0
        fine = several and all(is_whole(width) and width >= 1 for width in value)
        return None if fine else "whole numbers of at least 1"
    if isinstance(value, bool | str) or value is None:
        return "a number"
    if kind is int and not is_whole(value):
        return "a whole number"
    if name in _SHARES:
        return None if 0 <= value <= 1 else "in [0, 1]"
    least = value >= 0 if name in _FROM_ZERO else value > 0
    most = value <= math.inf if name in _TO_INFINITY else value < math.inf
    numbers = "numbers of at least 0" if name in _FROM_ZERO else "positive numbers"
    return None if least and most else f"among the {numbers}"


def _is_finite(value: Any) -> bool:
    """Whether it is a number of Python or NumPy that a float holds; a truth value is none."""
    try:
        number = isinstance(value, Real) and not isinstance(value, bool)
        return number and math.isfinite(float(value))
    except OverflowError:
        return False


def is_whole(value: Any) -> bool:
    """Whether it is an integer of Python or NumPy; a truth value is none."""
    try:
        index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)
