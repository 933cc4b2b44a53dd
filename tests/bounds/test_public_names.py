"""What leaves the package, and what it may not bring along."""

import subprocess
import sys

from tightrope import bounds


def test_exactly_the_documented_names_are_public():
    assert bounds.__all__ == [
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
    assert all(callable(getattr(bounds, name)) for name in bounds.__all__)


def test_importing_the_bounds_does_not_import_torch():
    program = "import sys, tightrope.bounds; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr
