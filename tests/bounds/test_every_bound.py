"""What all bounds have in common: names, shapes, and what they refuse in which words."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tightrope import bounds
from tightrope.bounds import (
    Tolerance,
    bet_loss,
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    difference_lower,
    difference_upper,
    effective_draws,
    episodes_needed,
    holdout_kl,
    joint_tolerance,
    kl,
    kl_inverse_lower,
    kl_inverse_upper,
    mean_from_tolerance,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    planned_bet,
    planned_bets,
    rate_difference_lower,
    rate_test,
    recursive_bound,
    risk_floor,
    split_kl,
    tolerance_rank,
    tolerance_share,
    xi,
)


def test_every_public_name_is_a_function_of_the_theory_and_none_needs_torch():
    theory = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
    for name in bounds.__all__:
        assert callable(getattr(bounds, name))
        assert name in theory or name == "Tolerance", name
    program = "import sys, tightrope.bounds; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr


BROADCAST = {  # the first two arguments get shapes (3, 1) and (2,)
    kl: {"q": [0.1, 0.3, 1.0], "p": [0.2, 0.9]},
    kl_inverse_upper: {"q": [0.1, 0.3, 1.0], "budget": [0.2, 3.0]},
    kl_inverse_lower: {"q": [0.1, 0.3, 1.0], "budget": [0.2, 3.0]},
    monte_carlo_upper: {"mean": [0.0, 0.3, 1.0], "draws": [5, 50], "delta": 0.05},
    monte_carlo_lower: {"mean": [0.0, 0.3, 1.0], "draws": [5, 50], "delta": 0.05},
    holdout_kl: {"empirical_risk": [0.0, 0.3, 1.0], "n": [5, 50], "delta": 0.05},
    risk_floor: {"mean": [0.0, 0.3, 1.0], "n": [5, 50], "delta": 0.05},
    clopper_pearson_upper: {"successes": [0, 3, 5], "n": [5, 50], "delta": 0.05},
    clopper_pearson_lower: {"successes": [0, 3, 5], "n": [5, 50], "delta": 0.05},
    pac_bayes_kl: {"empirical_risk": [0.0, 0.3, 1.0], "kl": [0.5, 2.0], "n": 50, "delta": 0.05},
    split_kl: {"mean_plus": [0.0, 0.1, 0.2], "mean_minus": [0.1, 0.3]}
    | {"kl": 1.0, "n": 100, "delta": 0.05, "low": -0.5, "high": 1.0, "mu": 0.0},
    bet_loss: {"loss": [0.0, 0.3, 1.0], "bet": [0.1, 0.9]},
    pac_bayes_bet: {"mean_bet_loss": [0.0, 0.2, 0.4], "kl": [0.0, 0.5]}
    | {"bet": 0.5, "n": 50, "delta": 0.05},
    tolerance_share: {"rank": [1, 3, 5], "n": [5, 50], "delta": 0.05},
    tolerance_rank: {"share": [0.1, 0.5, 0.99], "n": [5, 1000], "delta": 0.05},
    episodes_needed: {"share": [0.1, 0.5, 0.99], "delta": [0.05, 0.2]},
}


@pytest.mark.parametrize("function", BROADCAST)
def test_arrays_give_the_same_as_a_loop_and_scalars_a_scalar(function):
    (first, left), (second, right), *rest = BROADCAST[function].items()
    table = function(**{first: np.array(left)[:, None], second: np.array(right), **dict(rest)})
    assert table.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        one = function(**{first: left[i], second: right[j], **dict(rest)})
        assert isinstance(one, np.int64 if table.dtype == np.int64 else np.float64)
        assert table[i, j] == pytest.approx(one, rel=1e-12)


WHOLE, OPEN, UNIT = "be a whole number of at least 1", "be in (0, 1)", "be in [0, 1]"
FROM_0, SHARES = "be in [0, inf]", "be whole numbers in [0, n]"
COUNT = [("n", 0, f"{WHOLE}, found 0.0"), ("n", 10.5, f"{WHOLE}, found 10.5"),
         ("n", np.inf, f"{WHOLE}, found inf"), ("n", np.nan, f"{WHOLE}, found nan")]  # fmt: skip
DELTA = [("delta", value, f"{OPEN}, found {float(value)}") for value in (0, 1, 2.0, np.nan)]
DELTA += [("delta", "0.05", "be real numbers, found '0.05'")]
SEVERAL = "be one or more real numbers, found"
REFUSED = [  # functions, arguments that they take, and (argument, value, what it must ...)
    (
        [kl],
        {"q": 0.5, "p": 0.5},
        [
            ("q", -0.1, f"{UNIT}, found -0.1"),
            ("p", 1.5, f"{UNIT}, found 1.5"),
            ("p", np.nan, f"{UNIT}, found nan"),
            *(("p", x, f"be real numbers, found {x!r}") for x in ("0.1", 0.1j, None)),
        ],
    ),
    (
        [kl_inverse_upper, kl_inverse_lower],
        {"q": 0.5, "budget": 0.5},
        [
            ("q", np.nan, f"{UNIT}, found nan"),
            ("q", [0.5, 2], f"{UNIT}, found 2.0 at index 1"),
            ("q", [[0.1], [0.1, 0.2]], "be real numbers, found [[0.1], [0.1, 0.2]]"),
            ("budget", [[-1]], f"{FROM_0}, found -1.0 at index (0, 0)"),
            ("budget", np.nan, f"{FROM_0}, found nan"),
            ("budget", -np.inf, f"{FROM_0}, found -inf"),
        ],
    ),
    ([xi], {"n": 5}, [("n", 0, f"{WHOLE}, found 0.0"), ("n", 2.5, f"{WHOLE}, found 2.5")]),
    (
        [monte_carlo_upper, monte_carlo_lower],
        {"mean": 0.5, "draws": 10, "delta": 0.05},
        [
            ("mean", 1.5, f"{UNIT}, found 1.5"),
            ("mean", [0.5, np.nan], f"{UNIT}, found nan at index 1"),
            *(("draws", *rest) for _, *rest in COUNT),
            *DELTA,
        ],
    ),
    (
        [holdout_kl],
        {"empirical_risk": 0.1, "n": 10, "delta": 0.05},
        [("empirical_risk", np.nan, f"{UNIT}, found nan"), *COUNT, *DELTA],
    ),
    (
        [risk_floor],
        {"mean": 0.1, "n": 10, "delta": 0.05},
        [("mean", [0.1, 1.1], f"{UNIT}, found 1.1 at index 1"), *COUNT, *DELTA],
    ),
    (
        [clopper_pearson_lower, clopper_pearson_upper],
        {"successes": 3, "n": 10, "delta": 0.05},
        [
            *(("successes", x, f"{SHARES}, found {x}") for x in (11.0, -1.0, 2.5, np.nan)),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [pac_bayes_kl],
        {"empirical_risk": 0.1, "kl": 1.0, "n": 100, "delta": 0.05},
        [
            ("empirical_risk", 1.01, f"{UNIT}, found 1.01"),
            ("kl", -1e-9, f"{FROM_0}, found -1e-09"),
            ("kl", [0.0, np.nan], f"{FROM_0}, found nan at index 1"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [split_kl],
        {"mean_plus": 0.1, "mean_minus": 0.1, "kl": 1.0, "n": 100, "delta": 0.05}
        | {"low": -0.5, "high": 1.0, "mu": 0.0},
        [
            ("mean_plus", 1.01, "be in [0, high - mu], found 1.01"),
            ("mean_plus", -0.1, "be in [0, high - mu], found -0.1"),
            ("mean_minus", 0.51, "be in [0, mu - low], found 0.51"),
            ("mean_minus", np.nan, "be in [0, mu - low], found nan"),
            ("kl", -1.0, f"{FROM_0}, found -1.0"),
            ("low", -np.inf, "be in [-1e+300, 1e+300], found -inf"),
            ("low", np.nan, "be in [-1e+300, 1e+300], found nan"),
            ("high", -0.5, "be above low and at most 1e+300, found -0.5"),
            ("high", np.inf, "be above low and at most 1e+300, found inf"),
            ("mu", 1.5, "be in [low, high], found 1.5"),
            ("mu", [0.0, -0.6], "be in [low, high], found -0.6 at index 1"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [bet_loss],
        {"loss": 0.5, "bet": 0.5},
        [
            ("loss", 1.5, f"{UNIT}, found 1.5"),
            ("loss", [0.0, np.nan], f"{UNIT}, found nan at index 1"),
            ("bet", 1.0, f"{OPEN}, found 1.0"),
            ("bet", 0.0, f"{OPEN}, found 0.0"),
        ],
    ),
    (
        [pac_bayes_bet],
        {"mean_bet_loss": 0.1, "bet": 0.5, "kl": 1.0, "n": 100, "delta": 0.05},
        [
            *(("mean_bet_loss", x, f"be in [0, -ln(1 - bet)], found {x}") for x in (0.7, -0.1)),
            ("bet", 1.0, f"{OPEN}, found 1.0"),
            ("kl", -1.0, f"{FROM_0}, found -1.0"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [planned_bet],
        {"losses": [0.1], "n": 10, "delta": 0.05},
        [
            ("losses", 1.5, f"{UNIT}, found 1.5"),
            ("losses", [], "have at least one value, found []"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [betting_lower, betting_upper],
        {"values": [0.1, 0.2], "delta": 0.05, "bets": [0.5, 1.0], "weights": [0.5, 0.5]},
        [
            ("values", [0.5, 1.5], f"{UNIT}, found 1.5 at index 1"),
            ("values", [[0.1, np.nan]], f"{UNIT}, found nan at index (0, 1)"),
            *(("values", x, f"have at least one value in its last axis, found {x!r}")
              for x in ([], 0.5, [[], []])),
            *(("bets", [0.5, x], f"be in (0, 1], found {x}") for x in (1.5, 0.0, np.nan)),
            *(("bets", x, f"{SEVERAL} {x!r}") for x in ([], ["1"])),
            ("weights", [1.0], "be one for each of the 2 bets, found 1"),
            ("weights", [-0.5, 1], "be in (0, 1], found -0.5"),
            ("weights", [0.5, 0.75], "add up to at most 1, found a sum of 1.25"),
            *DELTA,
        ],
    ),
    (
        [planned_bets],
        {"values": [0.1], "n": 10, "delta": 0.05},
        [
            ("values", [1.5], f"{UNIT}, found 1.5 at index 0"),
            ("values", [], "have at least one value, found []"),
            ("planned_share", 1.0, f"{OPEN}, found 1.0"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [effective_draws],
        {"weights": [1.0]},
        [
            ("weights", [], SEVERAL),
            ("weights", ["a"], SEVERAL),
            *(("weights", [0.5, x], f"be in (0, 1], found {x}") for x in (0.0, 1.5, np.nan)),
            ("weights", [0.5, 0.25], "add up to 1, found a sum of 0.75"),
        ],
    ),
    (
        [difference_lower, difference_upper],
        {"differences": [0.0], "delta": 0.05},
        [("differences", [0.0, x], "be in [-1, 1], found") for x in (-1.1, 1.0001, np.nan)],
    ),
    (
        [recursive_bound],
        {"first": 0.5, "excesses": [0.1, 0.1], "kappa": 0.5},
        [
            *(("first", x, f"be finite and at least 0, found {x}") for x in (-0.1, np.nan, np.inf)),
            ("kappa", 1.5, f"{UNIT}, found 1.5"),
            ("kappa", [0.5, np.nan], f"{UNIT}, found nan at index 1"),
            ("kappa", [0.5], "be one number or one for each of the 2 excesses, found shape (1,)"),
        ],
    ),
    (
        [tolerance_share],
        {"rank": 3, "n": 10, "delta": 0.05},
        [
            ("rank", 0, f"{WHOLE}, found 0.0"),
            ("rank", [1, 11], "be whole numbers in [1, n], found 11.0 at index 1"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [tolerance_rank],
        {"share": 0.5, "n": 10, "delta": 0.05},
        [("share", 1.0, f"{OPEN}, found 1.0"), *COUNT, *DELTA],
    ),
    (
        [episodes_needed],
        {"share": 0.5, "delta": 0.05},
        [
            ("share", 0.0, f"{OPEN}, found 0.0"),
            ("share", 1 - 1e-13, f"be in (0, 1 - 1e-12], found {1 - 1e-13!r}"),
            *DELTA,
        ],
    ),
    (
        [joint_tolerance],
        {"shares": [0.5], "n": 10, "delta": 0.05},
        [
            ("shares", [0.5, 1.0], f"{OPEN}, found 1.0 at index 1"),
            ("top", 1.0, f"{OPEN}, found 1.0"),
            *COUNT,
            *DELTA,
        ],
    ),
    (
        [mean_from_tolerance],
        {"scores": [0.1, 0.2], "tolerances": [Tolerance(1, 0.5)]},
        [
            ("scores", [0.1, 1.2], f"{UNIT}, found 1.2 at index 1"),
            ("scores", [], "have at least one in its last axis, found []"),
            ("tolerances", [], "have at least one statement, found []"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("functions", "given", "wrong"), REFUSED, ids=[row[0][0].__name__ for row in REFUSED]
)
def test_what_is_outside_its_set_is_refused_with_the_name_the_set_and_the_value(
    functions, given, wrong
):
    for function in functions:
        function(**given)
        for argument, value, said in wrong:
            with pytest.raises(ValueError, match=f"^{re.escape(f'{argument} must {said}')}"):
                function(**{**given, argument: value})


def test_what_does_not_go_together_is_refused():
    two = {"scores": [0.1, 0.2]}
    falling = [Tolerance(2, 0.5), Tolerance(1, 0.4)]
    for call, said in (
        (lambda: betting_upper([0.1], delta=0.1, weights=[0.5]), "weights need bets, found"),
        (lambda: recursive_bound(0.5, [0.1, np.nan]), "excesses (E_3) must be finite, found nan"),
        (lambda: recursive_bound(0.5, [[0.1, -np.inf]]), "excesses (E_2) must be finite, found -i"),
        (lambda: mean_from_tolerance(**two, tolerances=falling), "shares of tolerances must rise"),
        (lambda: mean_from_tolerance(**two, tolerances=[Tolerance(3, 0.5)]), "ranks of tolerances"),
        (lambda: mean_from_tolerance(**two, tolerances=[Tolerance(1, 1.5)]), "shares of tolerance"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            call()
    for counts in ((80, 74, 1, 2), (-1, 5, 1, 2), (1, 2, 7.5, 10), (1, 2, 0, 0)):
        for call in (rate_test, lambda *c: rate_difference_lower(*c, delta=0.1)):
            with pytest.raises(ValueError, match="whole number of events in trials"):
                call(*counts)
