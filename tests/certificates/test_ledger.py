"""The ledger: section L of docs/theory.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope
from tightrope.bounds import monte_carlo_upper, pac_bayes_kl, split_kl
from tightrope.certificates.ledger import BOUND, JOINT, Ledger

PARTS = [("a", Fraction(1, 2)), ("b", Fraction(3, 20)), ("c", Fraction(7, 20))]


def ledgers(**budget):
    """One of each kind."""
    chains = {f"rec-{t}": Ledger.chain(t, ["return", "low"], **budget) for t in (1, 2, 3, 7)}
    shares = [(name, JOINT, "both", share) for name, share in PARTS]
    return {
        **chains,
        "joint": Ledger.of([*shares, ("alone", "alone", "both", Fraction(1))], **budget),
        "compared": Ledger.comparison(["return", "success", "length"], **budget),
    }


def budgets(ledger):
    return {entry.budget for entry in ledger.entries}


@pytest.mark.parametrize("candidates", [1, 3, 10])
def test_shares_of_each_budget_add_up_to_one_over_the_candidates(candidates):
    """(L.2), (L.4), (L.5): the union bound is spent exactly; every confidence stays as it is."""
    for (name, ledger), alone in zip(
        ledgers(candidates=candidates).items(), ledgers().values(), strict=True
    ):
        for budget in budgets(ledger):
            for source in ("delta", "delta_prime"):
                spent = [
                    Fraction(e.share)
                    for e in ledger.entries
                    if e.budget == budget and e.source in (source, "both")
                ]
                beside = budget in ("return", "low") and source == "delta_prime"
                assert sum(spent) == (0 if beside else Fraction(1, candidates)), (name, budget)
        for one, other in zip(alone.entries, ledger.entries, strict=True):
            assert Fraction(one.share) == candidates * Fraction(other.share)
            found, before = (each.confidence_in(one.statement) for each in (ledger, alone))
            assert found == pytest.approx(before, abs=1e-15)
            assert before == pytest.approx(1 - one.failure, abs=1e-15)
        assert ledger.confidence == alone.confidence == pytest.approx(0.965, abs=1e-15)
        assert ledger.joint_confidence == pytest.approx(alone.joint_confidence, abs=1e-15)


@pytest.mark.parametrize(
    ("delta", "delta_prime"), [(0.025, 0.01), (0.1, 0.3), (1e-9, 1e-7), (0.3, 0.1)]
)
def test_what_statements_spend_never_exceeds_what_the_confidence_states(delta, delta_prime):
    """(L.1), in exact arithmetic on the float64 values that the bounds will use."""
    both = Fraction(delta) + Fraction(delta_prime)
    for name, ledger in ledgers(delta=delta, delta_prime=delta_prime).items():
        for budget in budgets(ledger):
            spent = sum(Fraction(e.failure) for e in ledger.entries if e.budget == budget)
            allowed = Fraction(delta) if budget in ("return", "low") else both
            assert allowed * Fraction(999_999, 1_000_000) <= spent <= allowed, (name, budget)
            assert Fraction(ledger.confidence_of([budget])) <= 1 - spent
            assert ledger.confidence_of([budget]) == pytest.approx(float(1 - allowed), abs=1e-15)
        assert Fraction(ledger.confidence) <= 1 - both + Fraction(1, 10**15)


def test_the_shares_of_a_recursion_and_of_a_comparison_are_equal_parts():
    third, sixth = Fraction(1, 3), Fraction(1, 6)
    assert {e.statement: Fraction(e.share) for e in Ledger.chain(3).entries} == {
        "portion 1: risk": third, "portion 1: draws": third,
        "portion 2: excess": third, "portion 3: excess": third,
        "portion 2: draws plus": sixth, "portion 2: draws minus": sixth,
        "portion 3: draws plus": sixth, "portion 3: draws minus": sixth,
    }  # fmt: skip
    compared = Ledger.comparison(["return", "success"]).entries
    assert [(e.statement, e.budget, e.share) for e in compared] == [
        (f"{name}: {side}", JOINT, "1/4")
        for name in ("return", "success")
        for side in ("lower", "upper")
    ]


def test_the_confidence_of_several_budgets_is_that_of_their_union():
    ledger = Ledger.chain(2, ["return", "low"], delta=0.1, delta_prime=0.05)
    for names, expected in (
        ([BOUND], 0.85), ([BOUND, "return"], 0.75), ([BOUND, "return", "low"], 0.65), ([], 1.0)
    ):  # fmt: skip
        assert ledger.confidence_of(names) == pytest.approx(expected)
    many = Ledger.chain(2, [f"property {i}" for i in range(12)], delta=0.1, delta_prime=0.05)
    assert many.joint_confidence == 0.0
    both = Ledger.of([("a", "a", "both", Fraction(1))], delta=0.25, delta_prime=0.125)
    assert both.failure("a") == 0.375


def test_the_ledger_puts_the_constants_of_the_recursion_into_the_bounds():
    """With mean 0 the inverse is 1 - exp(-x): ln(T xi/δ), ln(2T xi/δ), ln(2T/δ') appear."""
    ledger, n = Ledger.chain(3, delta=0.025, delta_prime=0.01), 50
    xi = sum(math.comb(n, k) * (k / n) ** k * (1 - k / n) ** (n - k) for k in range(n + 1))
    first = pac_bayes_kl(0, kl=1.5, n=n, delta=ledger.failure("portion 1: risk"))
    excess = ledger.failure("portion 2: excess")
    second = split_kl(0, 0, kl=1.5, n=n, delta=excess, low=-0.5, high=1, mu=0)
    draws = monte_carlo_upper(0, draws=n, delta=ledger.failure("portion 2: draws plus"))
    for found, nats in (
        (first, 1.5 + math.log(3 * xi / 0.025)),
        (second, 1.5 + math.log(6 * xi / 0.025)),
        (draws, math.log(6 / 0.01)),
    ):
        assert found == pytest.approx(1 - math.exp(-nats / n), abs=1e-12)


def test_the_papers_deltas_stand_in_the_source_exactly_once():
    source = "".join(p.read_text() for p in Path(tightrope.__file__).parent.rglob("*.py"))
    code = re.sub(r'r?""".*?"""', "", source, flags=re.DOTALL)
    lines = [line for line in code.splitlines() if re.search(r"\b0\.(025|01)\b", line)]
    assert [line.split("  #")[0] for line in lines if "delta" in line.lower()] == [
        "DELTA = 0.025", "DELTA_PRIME = 0.01"
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["delta", "delta_prime", "both"])
def test_a_ledger_that_spends_more_than_there_is_cannot_be_made(source):
    half = ("a", JOINT, "both", Fraction(1, 2))
    with pytest.raises(ValueError, match=r"must add up to at most 1, found .*Fraction\(9, 8\)"):
        Ledger.of([half, ("b", JOINT, source, Fraction(5, 8))])
    Ledger.of([half, ("b", "another", source, Fraction(5, 8))])
    Ledger.of([half, ("b", JOINT, source, Fraction(1, 2))], candidates=3)
