"""Hyperparameters: one frozen record per agent; its defaults are the preset `paper`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from tightrope.errors import InputError

__all__ = ["AGENTS", "LEVELS", "PPOSettings", "REDQSettings", "SACSettings", "Settings", "settings"]


@dataclass(frozen=True)
class Settings:
    """What all agents share.

    Attributes:
        gamma: discount factor.
        hidden: widths of the hidden layers of every network.
        learning_rate: of Adam, for all networks and the temperature.
        batch: transitions in a mini-batch.
    """

    gamma: float = 0.99
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    batch: int = 256

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "hidden":
                wrong = not value or any(int(width) != width or width < 1 for width in value)
            elif field.name in _SHARES:
                wrong = not 0 <= value <= 1
            elif field.name in _FROM_ZERO:
                wrong = not 0 <= value < float("inf")
            else:
                wrong = not 0 < value < float("inf")
            if wrong:
                kind = "[0, 1]" if field.name in _SHARES else "the positive numbers"
                raise InputError(f"{_option(field.name)} must be in {kind}, found {value!r}")


_SHARES = ("gamma", "tau", "gae_lambda")
_FROM_ZERO = ("warmup", "entropy_weight", "value_weight")


@dataclass(frozen=True)
class SACSettings(Settings):
    """Soft actor-critic: two critics, automatic temperature.

    Attributes:
        tau: share of the new weights in each soft update of the targets.
        buffer: transitions that the replay buffer holds.
        warmup: steps with random actions before the first update.
        replay_ratio: updates per environment step.
    """

    tau: float = 5e-3
    buffer: int = 1_000_000
    warmup: int = 10_000
    replay_ratio: int = 1


@dataclass(frozen=True)
class REDQSettings(SACSettings):
    """SAC with an ensemble of critics, Huber loss and randomised targets.

    Attributes:
        critics: size of the ensemble.
        subset: target critics drawn for each update.
        huber: error beyond which the critics' loss is linear instead of square.
    """

    buffer: int = 100_000
    critics: int = 10
    subset: int = 2
    huber: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset > self.critics:
            raise InputError(f"`subset` must be at most `critics` {self.critics}: {self.subset}")


@dataclass(frozen=True)
class PPOSettings(Settings):
    """Proximal policy optimisation with a state-value critic; SB3's defaults but for the batch.

    Attributes:
        rollout: steps between two rounds of updates.
        epochs: passes over these steps.
        gae_lambda: of generalised advantage estimation.
        clip: range of the clipped surrogate.
        entropy_weight: of the entropy in the loss.
        value_weight: of the critic's error in the loss.
        gradient_norm: largest norm of a gradient.
    """

    rollout: int = 2048
    epochs: int = 10
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    gradient_norm: float = 0.5


AGENTS: dict[str, type[Settings]] = {"redq": REDQSettings, "sac": SACSettings, "ppo": PPOSettings}

# Environment steps at which the paper freezes its policies.
LEVELS: dict[str, dict[str, int]] = {
    "redq": {"starter": 100_000, "intermediate": 200_000, "expert": 300_000},
    "sac": {"starter": 50_000, "intermediate": 100_000, "expert": 1_000_000},
    "ppo": {"starter": 1_000_000, "intermediate": 3_000_000, "expert": 5_000_000},
}


def settings(agent: str, overrides: dict[str, Any]) -> Settings:
    """The preset of an agent with these changes.

    Raises:
        InputError: the agent is unknown, or a setting is not one of its own or out of range.
    """
    if agent not in AGENTS:
        raise InputError(f"expected an agent among {', '.join(AGENTS)}, found {agent!r}")
    own = {field.name: field for field in dataclasses.fields(AGENTS[agent])}
    for name, value in overrides.items():
        if name not in own:
            raise InputError(
                f"expected settings of {agent} ({', '.join(map(_option, own))}), found "
                f"{_option(name)}"
            )
        whole = isinstance(own[name].default, int)
        if whole and not isinstance(value, bool) and int(value) != value:
            raise InputError(f"{_option(name)} must be a whole number, found {value!r}")
    return AGENTS[agent](**overrides)


def _option(name: str) -> str:
    return f"`{name}`"
