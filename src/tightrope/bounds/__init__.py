"""Confidence bounds on risks: pure functions of numbers and arrays (numpy and scipy only).

Every function is stated, with its proof and its pitfalls, in ``docs/theory.md`` under the tag
its docstring gives. ``delta`` is always a failure probability; nothing here splits it between
statements, except where a theorem's own constant does.
"""

from tightrope.bounds.betting import (
    betting_lower,
    betting_upper,
    default_bets,
    planned_bets,
    target_bets,
)
from tightrope.bounds.constant_bet import bet_loss, pac_bayes_bet, planned_bet
from tightrope.bounds.difference import difference_lower, difference_upper
from tightrope.bounds.holdout import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    holdout_kl,
    risk_floor,
)
from tightrope.bounds.kl import kl, kl_inverse_lower, kl_inverse_upper
from tightrope.bounds.maurer import xi
from tightrope.bounds.monte_carlo import effective_draws, monte_carlo_lower, monte_carlo_upper
from tightrope.bounds.pac_bayes import pac_bayes_kl, split_kl
from tightrope.bounds.rates import rate_difference_lower, rate_sequence, rate_test
from tightrope.bounds.recursive import recursive_bound
from tightrope.bounds.tolerance import (
    Tolerance,
    episodes_needed,
    joint_tolerance,
    mean_from_tolerance,
    tolerance_rank,
    tolerance_share,
)

__all__ = [
    "Tolerance",
    "bet_loss",
    "betting_lower",
    "betting_upper",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "default_bets",
    "difference_lower",
    "difference_upper",
    "effective_draws",
    "episodes_needed",
    "holdout_kl",
    "joint_tolerance",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "mean_from_tolerance",
    "monte_carlo_lower",
    "monte_carlo_upper",
    "pac_bayes_bet",
    "pac_bayes_kl",
    "planned_bet",
    "planned_bets",
    "rate_difference_lower",
    "rate_sequence",
    "rate_test",
    "recursive_bound",
    "risk_floor",
    "split_kl",
    "target_bets",
    "tolerance_rank",
    "tolerance_share",
    "xi",
]
