"""What leaves the package, and what it may not bring along."""

import subprocess
import sys

from tightrope import bounds


def test_exactly_the_documented_names_are_public():
    assert bounds.__all__ == [
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
    assert all(callable(getattr(bounds, name)) for name in bounds.__all__)


def test_importing_the_bounds_does_not_import_torch():
    program = "import sys, tightrope.bounds; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr
