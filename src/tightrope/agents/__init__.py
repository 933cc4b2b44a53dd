"""Step i: networks, REDQ, SAC and PPO, training with checkpoints; agents make policies.

Names are loaded on first use: the settings of an agent should not cost the import of torch.
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.agents.log import COLUMNS, read_log
    from tightrope.agents.policies import PPOPolicy, SACPolicy
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
    from tightrope.agents.snapshot import export
    from tightrope.agents.training import TrainingInterruptedError, train

_HOMES = {
    "AGENTS": "settings",
    "COLUMNS": "log",
    "LEVELS": "settings",
    "REDQ": "redq",
    "PPOPolicy": "policies",
    "PPOSettings": "settings",
    "REDQSettings": "settings",
    "Run": "run",
    "SACPolicy": "policies",
    "SACSettings": "settings",
    "Settings": "settings",
    "TrainingInterruptedError": "training",
    "build": "run",
    "export": "snapshot",
    "read_log": "log",
    "specify": "run",
    "train": "training",
}
__all__ = [
    "AGENTS",
    "COLUMNS",
    "LEVELS",
    "REDQ",
    "PPOPolicy",
    "PPOSettings",
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

__getattr__ = on_first_use(__name__, _HOMES)
