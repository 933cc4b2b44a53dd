"""Confidence bounds on risks: pure functions of numbers and arrays (numpy and scipy only).

Every function is stated, with its proof and its pitfalls, in ``docs/theory.md`` under the tag
its docstring gives. ``delta`` is always a failure probability; nothing here splits it between
statements, except where a theorem's own constant does.
"""

from tightrope.bounds.holdout import (
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    holdout_kl,
)
from tightrope.bounds.kl import kl, kl_inverse_lower, kl_inverse_upper
from tightrope.bounds.monte_carlo import monte_carlo_lower, monte_carlo_upper
from tightrope.bounds.pac_bayes import pac_bayes_kl, split_kl
from tightrope.bounds.recursive import recursive_bound

__all__ = [
    "betting_lower",
    "betting_upper",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "holdout_kl",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "monte_carlo_lower",
    "monte_carlo_upper",
    "pac_bayes_kl",
    "recursive_bound",
    "split_kl",
]
