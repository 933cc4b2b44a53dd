"""The parts of a bound add up to it, and each is what its term adds."""

import numpy as np
import pytest
from recordings import certified, recording

from tightrope.bounds import kl_inverse_lower, kl_inverse_upper, xi
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.statements.pac_bayes import Portion, bound_chain
from tightrope.reports.page import breakdown

LEDGER = Ledger.chain(3)
EXCESS = {"mean": 0.004, "mean_plus": 0.012, "mean_minus": 0.008}
BELOW = {"mean": -0.4, "mean_plus": 0.0, "mean_minus": 0.4, "n": 10**6, "draws": 10**6}


def bounded(*changes):
    """Portions with a loss of 0.02, changed so, and the parts of their bounds."""
    given = {"episodes": 50, "n": 2000, "kl": 12.0, "draws": 8000, "loss": 0.02, "mean": 0.02,
             "mean_plus": 0.02}  # fmt: skip
    portions = bound_chain([Portion(**{**given, **own}) for own in changes], ledger=LEDGER,
                           kappa=0.5)  # fmt: skip
    parts = breakdown(portions, LEDGER.entries, 0.5)
    for portion, own in zip(portions, parts, strict=True):
        assert sum(own.values()) == pytest.approx(portion.bound, rel=1e-12)
    return portions, parts


def test_the_parts_of_a_risk_are_those_of_a_plain_evaluation_of_p1():
    _, (parts,) = bounded({})
    drawn = float(kl_inverse_upper(0.02, np.log(1 / LEDGER.failure("portion 1: draws")) / 8000))
    nats = np.log(xi(2000) / LEDGER.failure("portion 1: risk"))
    certain = float(kl_inverse_upper(drawn, nats / 2000))
    whole = float(kl_inverse_upper(drawn, (nats + 12.0) / 2000))
    expected = [0.02, 0.0, drawn - 0.02, certain - drawn, whole - certain]
    assert list(parts.values()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert min(expected[2:]) > 1e-4  # none is a left-over
    assert bounded({"kl": 0.0})[1][0]["kl"] == 0
    assert bounded({"draws": 10**12})[1][0]["draws"] < 1e-6


def test_the_parts_of_an_excess_follow_p2_and_the_recursion():
    (_, portion), (first, second) = bounded({}, EXCESS)
    plus, minus = portion.upper_plus, portion.lower_minus
    nats = np.log(2 * xi(2000) / LEDGER.failure("portion 2: excess")) / 2000
    upper = float(kl_inverse_upper(plus, nats))
    certain = upper - 0.5 * float(kl_inverse_lower(minus / 0.5, nats))
    own = {"empirical": 0.004, "draws": plus - minus - 0.004, "confidence": certain - plus + minus}
    for name, part in own.items():
        assert second[name] == pytest.approx(part + 0.5 * first[name], rel=1e-9)
    assert bounded({"kl": 0.0}, {**BELOW, "kl": 0.0})[0][-1].bound < 0  # void, and still a sum


@pytest.mark.parametrize("bet", [0.1, 0.9, 0.999])
def test_the_spread_of_a_bet_is_what_unequal_losses_cost(bet):
    costs = {0.0: -np.log1p(-bet * 0.02), 1.0: 0.02 * -np.log1p(-bet)}  # all 0.02; one in 50 is 1
    for unequal, cost in costs.items():
        _, (parts,) = bounded({"bet": bet, "mean_bet_loss": cost})
        assert parts["spread"] == pytest.approx(-np.expm1(-cost) / bet - 0.02, abs=1e-12)
        assert (parts["spread"] > 1e-4) == bool(unequal)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"unit": "step"}, {"scheme": "rec-2"}, {"scheme": "rec-6", "preset": "paper"},
        {"scheme": "nonrec-inf"}, {"scheme": "nonrec-noninf", "preset": "paper", "candidates": 3},
        {"scheme": "holdout"}, {"scheme": "10,20,70", "sampling": "weights"},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "auto",
)  # fmt: skip
def test_the_parts_of_every_certificate_add_up_in_both_units(options):
    made = certified(recording(24, seed=1), mc_passes=2, seed=0, **options)
    for portions in (made.portions, made.other_portions):
        found = breakdown(portions, made.ledger, made.settings.kappa)
        for parts, portion in zip(found, portions, strict=True):
            assert sum(parts.values()) == pytest.approx(portion.bound, rel=1e-9, abs=1e-12)
            assert min(list(parts.values())[1:]) >= -1e-12
