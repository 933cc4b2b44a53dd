"""The parts of a bound add up to it, and each is what its term adds."""

import numpy as np
import pytest
from recordings import certified, recording

from tightrope.bounds import kl_inverse_lower, kl_inverse_upper, xi
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.statements.pac_bayes import Portion, bound_chain
from tightrope.reports.page import breakdown


def measured(**changes):
    given = {
        "episodes": 50,
        "n": 2000,
        "kl": 12.0,
        "draws": 8000,
        "loss": 0.02,
        "mean": 0.02,
        "mean_plus": 0.02,
    }
    return Portion(**{**given, **changes})


def bound_risk(one):
    (portion,) = bound_chain([one], ledger=LEDGER, kappa=0.5)
    return portion


EXCESS = {"mean": 0.004, "mean_plus": 0.012, "mean_minus": 0.008}
LEDGER = Ledger.chain(3)


def parts_of(portions, ledger=LEDGER, kappa=0.5):
    return breakdown(portions, ledger.entries, kappa)


def test_the_parts_of_a_risk_are_those_of_a_plain_evaluation_of_p1():
    portion = bound_risk(measured())
    (parts,) = parts_of([portion])
    drawn = float(kl_inverse_upper(0.02, np.log(1 / LEDGER.failure("portion 1: draws")) / 8000))
    nats = np.log(xi(2000) / LEDGER.failure("portion 1: risk"))
    certain = float(kl_inverse_upper(drawn, nats / 2000))
    whole = float(kl_inverse_upper(drawn, (nats + 12.0) / 2000))
    expected = (0.02, 0.0, drawn - 0.02, certain - drawn, whole - certain)
    np.testing.assert_allclose(
        [parts["empirical"], parts["spread"], parts["draws"], parts["confidence"], parts["kl"]],
        expected,
        rtol=1e-9,
        atol=1e-12,
    )
    assert min(parts["draws"], parts["confidence"], parts["kl"]) > 1e-4  # none is a left-over
    assert sum(parts.values()) == pytest.approx(portion.value, rel=1e-12)


def test_the_parts_of_an_excess_follow_p2_and_the_recursion():
    portions = bound_chain([measured(), measured(**EXCESS)], ledger=LEDGER, kappa=0.5)
    first, second = parts_of(portions)
    plus, minus = portions[1].upper_plus, portions[1].lower_minus
    nats = np.log(2 * xi(2000) / LEDGER.failure("portion 2: excess")) / 2000
    upper = float(kl_inverse_upper(plus, nats))
    certain = upper - 0.5 * float(kl_inverse_lower(minus / 0.5, nats))
    assert second["empirical"] == pytest.approx(0.004 + 0.5 * first["empirical"], rel=1e-9)
    assert second["draws"] == pytest.approx(plus - minus - 0.004 + 0.5 * first["draws"], rel=1e-9)
    assert second["confidence"] == pytest.approx(
        certain - (plus - minus) + 0.5 * first["confidence"], rel=1e-9
    )
    assert sum(second.values()) == pytest.approx(portions[1].bound, rel=1e-12)


@pytest.mark.parametrize("bet", [0.1, 0.9, 0.999])
def test_the_parts_of_a_bet_add_up_and_its_spread_is_what_unequal_losses_cost(bet):
    costs = {0.0: -np.log1p(-bet * 0.02), 1.0: 0.02 * -np.log1p(-bet)}  # all 0.02; one in 50 is 1
    for unequal, cost in costs.items():
        portion = bound_risk(measured(bet=bet, mean_bet_loss=cost))
        (parts,) = parts_of([portion])
        assert sum(parts.values()) == pytest.approx(portion.value, rel=1e-12)
        assert parts["spread"] == pytest.approx(-np.expm1(-cost) / bet - 0.02, abs=1e-12)
        assert (parts["spread"] > 1e-4) == bool(unequal)


def test_without_a_distance_from_the_prior_nothing_is_paid_for_it():
    (parts,) = parts_of([bound_risk(measured(kl=0.0))])
    assert parts["kl"] == 0
    (parts,) = parts_of([bound_risk(measured(draws=10**12))])
    assert parts["draws"] < 1e-6


def test_a_void_recursion_has_parts_that_add_up_to_its_negative_bound():
    below = {"mean": -0.4, "mean_plus": 0.0, "mean_minus": 0.4}
    portions = bound_chain(
        [measured(kl=0.0), measured(**below, n=10**6, draws=10**6)], ledger=LEDGER, kappa=0.5
    )
    assert portions[-1].bound < 0
    assert sum(parts_of(portions)[-1].values()) == pytest.approx(portions[-1].bound, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unit": "step"},
        {"scheme": "rec-2"},
        {"scheme": "rec-6", "preset": "paper"},
        {"scheme": "nonrec-inf"},
        {"scheme": "nonrec-noninf", "preset": "paper", "candidates": 3},
        {"scheme": "holdout"},
        {"scheme": "10,20,70", "sampling": "weights"},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "auto",
)
def test_the_parts_of_every_certificate_add_up_in_both_units(options):
    made = certified(recording(24, seed=1), mc_passes=2, seed=0, **options)
    for portions in (made.portions, made.other_portions):
        found = breakdown(portions, made.ledger, made.settings.kappa)
        assert len(found) == len(portions)
        for parts, portion in zip(found, portions, strict=True):
            assert sum(parts.values()) == pytest.approx(portion.bound, rel=1e-9, abs=1e-12)
            assert min(parts["spread"], parts["draws"], parts["confidence"], parts["kl"]) >= -1e-12
