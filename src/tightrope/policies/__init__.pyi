from .load import load_policy as load_policy
from .mlp import (
    POLICY_FORMAT as POLICY_FORMAT,
    MLPPolicy as MLPPolicy,
    Normalizer as Normalizer,
    load_mlp as load_mlp,
    save_mlp as save_mlp,
)
from .policy import (
    BLOCK as BLOCK,
    ActionError as ActionError,
    Policy as Policy,
    act_in_blocks as act_in_blocks,
    as_policy as as_policy,
    check_actions as check_actions,
    check_fit as check_fit,
    normalization as normalization,
    rows_are_stable as rows_are_stable,
)
from .record import (
    RECORD_FILE as RECORD_FILE,
    TrainingRecord as TrainingRecord,
    find_record as find_record,
    load_record as load_record,
    policy_file as policy_file,
    save_record as save_record,
)
from .zoo import find_run as find_run, run_environment as run_environment
