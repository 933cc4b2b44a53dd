from .log import COLUMNS as COLUMNS, read_log as read_log
from .policies import PPOPolicy as PPOPolicy, SACPolicy as SACPolicy
from .redq import REDQ as REDQ
from .specification import Run as Run, build as build, specify as specify
from .hyperparameters import (
    AGENTS as AGENTS,
    LEVELS as LEVELS,
    PPOSettings as PPOSettings,
    REDQSettings as REDQSettings,
    SACSettings as SACSettings,
    Settings as Settings,
)
from .snapshot import export as export
from .training import TrainingInterruptedError as TrainingInterruptedError, train as train
