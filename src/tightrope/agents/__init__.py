"""Step i: networks, REDQ, SAC and PPO, training with checkpoints; agents make policies."""

from tightrope.agents.export import export
from tightrope.agents.log import COLUMNS, read_log
from tightrope.agents.policies import PPOPolicy, REDQPolicy, SACPolicy
from tightrope.agents.redq import REDQ
from tightrope.agents.run import Run, build, specify
from tightrope.agents.settings import (
    AGENTS,
    LEVELS,
    PPOSettings,
    REDQSettings,
    SACSettings,
    Settings,
)
from tightrope.agents.train import TrainingInterruptedError, train

__all__ = [
    "AGENTS",
    "COLUMNS",
    "LEVELS",
    "REDQ",
    "PPOPolicy",
    "PPOSettings",
    "REDQPolicy",
    "REDQSettings",
    "Run",
    "SACPolicy",
    "SACSettings",
    "Settings",
    "TrainingInterruptedError",
    "build",
    "export",
    "read_log",
    "specify",
    "train",
]
