"""Any policy as `act(observations) -> actions`: SB3 zips, torch, ONNX, Python objects."""

from tightrope.policies.base import (
    BLOCK,
    Policy,
    act_in_blocks,
    check_actions,
    check_fit,
    normalization,
    rows_are_stable,
)
from tightrope.policies.load import load_policy
from tightrope.policies.mlp import MLPPolicy, Normalizer
from tightrope.policies.objects import as_policy
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
from tightrope.policies.storage import FORMAT as POLICY_FORMAT
from tightrope.policies.storage import load_mlp, save_mlp, stored_format

__all__ = [
    "BLOCK",
    "POLICY_FILES",
    "POLICY_FORMAT",
    "RECORD_FILE",
    "RECORD_FORMAT",
    "MLPPolicy",
    "Normalizer",
    "Policy",
    "TrainingRecord",
    "act_in_blocks",
    "as_policy",
    "check_actions",
    "check_fit",
    "find_record",
    "load_mlp",
    "load_policy",
    "load_record",
    "normalization",
    "policy_file",
    "rows_are_stable",
    "save_mlp",
    "save_record",
    "stored_format",
]
