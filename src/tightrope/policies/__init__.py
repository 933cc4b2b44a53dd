"""Any policy as `act(observations) -> actions`: SB3 zips, torch, ONNX, Python objects."""

from tightrope.policies.load import load_policy
from tightrope.policies.mlp import POLICY_FORMAT, MLPPolicy, Normalizer, load_mlp, save_mlp
from tightrope.policies.policy import (
    BLOCK,
    ActionError,
    Policy,
    act_in_blocks,
    as_policy,
    check_actions,
    check_fit,
    normalization,
    rows_are_stable,
)
from tightrope.policies.record import (
    POLICY_FILES,
    RECORD_FILE,
    RECORD_FORMAT,
    TrainingRecord,
    find_record,
    load_record,
    policy_file,
    save_record,
)
from tightrope.policies.zoo import find_run, run_environment

__all__ = [
    "BLOCK",
    "POLICY_FILES",
    "POLICY_FORMAT",
    "RECORD_FILE",
    "RECORD_FORMAT",
    "ActionError",
    "MLPPolicy",
    "Normalizer",
    "Policy",
    "TrainingRecord",
    "act_in_blocks",
    "as_policy",
    "check_actions",
    "check_fit",
    "find_record",
    "find_run",
    "load_mlp",
    "load_policy",
    "load_record",
    "normalization",
    "policy_file",
    "rows_are_stable",
    "run_environment",
    "save_mlp",
    "save_record",
]
