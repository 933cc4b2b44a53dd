"""Any policy as `act(observations) -> actions`: SB3 zips, torch, ONNX, Python objects."""

from tightrope.policies.base import (
    BLOCK,
    Policy,
    act_in_blocks,
    check_actions,
    check_fit,
    rows_are_stable,
)
from tightrope.policies.load import load_policy
from tightrope.policies.mlp import MLPPolicy, Normalizer
from tightrope.policies.objects import as_policy
from tightrope.policies.storage import FORMAT as POLICY_FORMAT
from tightrope.policies.storage import load_mlp, save_mlp, stored_format

__all__ = [
    "BLOCK",
    "POLICY_FORMAT",
    "MLPPolicy",
    "Normalizer",
    "Policy",
    "act_in_blocks",
    "as_policy",
    "check_actions",
    "check_fit",
    "load_mlp",
    "load_policy",
    "rows_are_stable",
    "save_mlp",
    "stored_format",
]
