"""The ledger: section L of docs/theory.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope
from tightrope.bounds import monte_carlo_upper, pac_bayes_kl, split_kl
from tightrope.certificates.ledger import (
    BOUND,
    JOINT,
    Ledger,
    chain_ledger,
    comparison_ledger,
    joint_ledger,
)

PARTS = [("a", Fraction(1, 2)), ("b", Fraction(3, 20)), ("c", Fraction(7, 20))]


def ledgers(**options):
    """One of each kind."""
    chains = {f"rec-{t}": chain_ledger(t, ["return", "low"], **options) for t in (1, 2, 3, 7)}
    return {
        **chains,
        "joint": joint_ledger(PARTS, ["mean over steps"], **options),
        "compared": comparison_ledger(["return", "success", "length"], **options),
    }


@pytest.mark.parametrize("candidates", [1, 3, 10])
def test_shares_of_each_budget_add_up_to_one_over_the_candidates(candidates):
    """(L.2), (L.4), (L.5): the union bound is spent exactly, not approximately."""
    for name, ledger in ledgers(candidates=candidates).items():
        for budget in {budget for _, budget, *_ in ledger.shares}:
            for source in ("delta", "delta_prime"):
                total = sum(
                    share
                    for _, b, s, share in ledger.shares
                    if b == budget and s in (source, "both")
                )
                beside = budget in ("return", "low") and source == "delta_prime"
                assert total == (0 if beside else Fraction(1, candidates)), (name, budget, source)


@pytest.mark.parametrize(
    ("delta", "delta_prime"), [(0.025, 0.01), (0.1, 0.3), (1e-9, 1e-7), (0.3, 0.1)]
)
def test_what_statements_spend_never_exceeds_what_the_confidence_states(delta, delta_prime):
    """(L.1), in exact arithmetic on the float64 values that the bounds will use."""
    both = Fraction(delta) + Fraction(delta_prime)
    for name, ledger in ledgers(delta=delta, delta_prime=delta_prime).items():
        for budget in {budget for _, budget, *_ in ledger.shares}:
            entries = [entry for entry in ledger.entries() if entry.budget == budget]
            spent = sum(Fraction(entry.failure) for entry in entries)
            allowed = Fraction(delta) if budget in ("return", "low") else both
            assert allowed * Fraction(999_999, 1_000_000) <= spent <= allowed, (name, budget)
            assert Fraction(ledger.confidence_of([budget])) <= 1 - spent
            assert ledger.confidence_of([budget]) == pytest.approx(float(1 - allowed), abs=1e-15)
        assert Fraction(ledger.confidence) <= 1 - both + Fraction(1, 10**15)


def test_the_shares_of_a_recursion_and_of_a_comparison_are_equal_parts():
    for portions in (1, 3):
        found = {name: share for name, *_, share in chain_ledger(portions).shares}
        assert (
            found.pop("portion 1: risk") == found.pop("portion 1: draws") == Fraction(1, portions)
        )
        for t in range(2, portions + 1):
            assert found.pop(f"portion {t}: excess") == Fraction(1, portions)
            halves = [found.pop(f"portion {t}: draws {side}") for side in ("plus", "minus")]
            assert halves == [Fraction(1, 2 * portions)] * 2
        assert found == {}
    compared = comparison_ledger(["return", "success"])
    assert {share for *_, share in compared.shares} == {Fraction(1, 4)}
    assert [name for name, *_ in compared.shares] == [
        "return: lower", "return: upper", "success: lower", "success: upper"
    ]  # fmt: skip
    assert {budget for _, budget, *_ in compared.shares} == {JOINT}


@pytest.mark.parametrize("candidates", [2, 5])
def test_candidates_divide_every_share_and_leave_every_confidence_as_it_is(candidates):
    """Whichever is chosen, the union over all candidates gives back what the division took."""
    alone, divided = ledgers(), ledgers(candidates=candidates)
    for name, ledger in alone.items():
        for one, other in zip(ledger.shares, divided[name].shares, strict=True):
            assert one[:3] == other[:3]
            assert one[3] == candidates * other[3]
            before = ledger.confidence_in(one[0])
            assert divided[name].confidence_in(one[0]) == pytest.approx(before, abs=1e-15)
            assert before == pytest.approx(1 - ledger.failure(one[0]), abs=1e-15)
        assert ledger.confidence == divided[name].confidence
        budgets = {budget for _, budget, *_ in ledger.shares}
        assert divided[name].confidence_of(budgets) == pytest.approx(
            ledger.confidence_of(budgets), abs=1e-15
        )


def test_the_confidence_of_several_budgets_is_that_of_their_union():
    ledger = chain_ledger(2, ["return", "low"], delta=0.1, delta_prime=0.05)
    assert ledger.confidence_of([BOUND]) == pytest.approx(0.85)
    assert ledger.confidence_of([BOUND, "return"]) == pytest.approx(0.75)
    assert ledger.confidence_of([BOUND, "return", "low"]) == pytest.approx(0.65)
    assert ledger.confidence_of([]) == 1.0
    many = chain_ledger(2, [f"property {i}" for i in range(12)], delta=0.1, delta_prime=0.05)
    assert many.confidence_of({budget for _, budget, *_ in many.shares}) == 0.0


def test_a_statement_that_spends_both_sources_gets_the_sum():
    assert joint_ledger([("a", 1)], delta=0.25, delta_prime=0.125).failure("a") == 0.375
    assert joint_ledger([], ["a"], delta=0.25, delta_prime=0.125).failure("a") == 0.375


def test_the_default_confidence_is_the_one_of_the_corrected_paper():
    for ledger in ledgers().values():
        assert ledger.confidence == pytest.approx(0.965, abs=1e-15)


def test_the_ledger_puts_the_constants_of_the_recursion_into_the_bounds():
    """With mean 0 the inverse is 1 - exp(-x): ln(T xi/δ), ln(2T xi/δ), ln(2T/δ') appear."""
    ledger, n = chain_ledger(3, delta=0.025, delta_prime=0.01), 50
    xi = sum(math.comb(n, k) * (k / n) ** k * (1 - k / n) ** (n - k) for k in range(n + 1))
    first = pac_bayes_kl(0, kl=1.5, n=n, delta=ledger.failure("portion 1: risk"))
    excess = ledger.failure("portion 2: excess")
    second = split_kl(0, 0, kl=1.5, n=n, delta=excess, low=-0.5, high=1, mu=0)
    draws = monte_carlo_upper(0, draws=n, delta=ledger.failure("portion 2: draws plus"))
    assert first == pytest.approx(1 - math.exp(-(1.5 + math.log(3 * xi / 0.025)) / n), abs=1e-12)
    assert second == pytest.approx(1 - math.exp(-(1.5 + math.log(6 * xi / 0.025)) / n), abs=1e-12)
    assert draws == pytest.approx(1 - math.exp(-math.log(6 / 0.01) / n), abs=1e-12)


def test_the_papers_deltas_stand_in_the_source_exactly_once():
    source = "".join(p.read_text() for p in Path(tightrope.__file__).parent.rglob("*.py"))
    code = re.sub(r'r?""".*?"""', "", source, flags=re.DOTALL)
    lines = [line for line in code.splitlines() if re.search(r"\b0\.(025|01)\b", line)]
    assert [line.split("  #")[0] for line in lines if "delta" in line.lower()] == [
        "DELTA = 0.025", "DELTA_PRIME = 0.01"
    ]  # fmt: skip


WRONG = {
    "delta 0": ({"delta": 0.0}, r"delta must be in \(0, 1\), found 0.0"),
    "delta NaN": ({"delta": math.nan}, r"delta must be in \(0, 1\), found nan"),
    "delta' 1": ({"delta_prime": 1.0}, r"delta_prime must be in \(0, 1\), found 1.0"),
    "sum": ({"delta": 0.5, "delta_prime": 0.5}, r"delta \+ delta_prime must be below 1, found 0.5"),
    "none": ({"candidates": 0}, "candidates must be a whole number of at least 1, found 0"),
    "half": ({"candidates": 1.5}, "candidates must be a whole number of at least 1, found 1.5"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named_with_the_allowed_set_and_the_value(arguments, message):
    given = {"delta": 0.1, "delta_prime": 0.1, "shares": (), "candidates": 1, **arguments}
    with pytest.raises(ValueError, match=message):
        Ledger(**given)


def test_a_ledger_that_overspends_or_repeats_itself_cannot_be_made():
    half = ("a", JOINT, "delta", Fraction(1, 2))

    def rest(share, budget=JOINT, source="delta"):
        return Ledger(0.1, 0.1, (half, ("b", budget, source, share)))

    with pytest.raises(ValueError, match=r"shares of delta must add up to at most 1 .* found 9/8"):
        rest(Fraction(5, 8))
    with pytest.raises(ValueError, match="found 9/8"):
        rest(Fraction(5, 8), source="both")
    with pytest.raises(ValueError, match="found 3/2"):  # with the candidates that were promised
        Ledger(0.1, 0.1, (half,), candidates=3)
    with pytest.raises(ValueError, match="share must be positive"):
        rest(Fraction(0))
    with pytest.raises(ValueError, match="found one twice"):
        Ledger(0.1, 0.1, (half, half))
    rest(Fraction(5, 8), budget="another")
    rest(Fraction(1), source="delta_prime")
    with pytest.raises(ValueError, match="portions must be a whole number of at least 1, found 0"):
        chain_ledger(0)
    with pytest.raises(ValueError, match="one of 'portion 1: risk', 'portion 1: draws', found 'x'"):
        chain_ledger(1).failure("x")
