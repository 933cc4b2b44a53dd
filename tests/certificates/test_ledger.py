"""The ledger: section L of docs/theory.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope
from tightrope.bounds import monte_carlo_upper, pac_bayes_kl, split_kl
from tightrope.certificates.ledger import (
    Entry,
    Ledger,
    auto_ledger,
    beside,
    holdout_ledger,
    recursive_ledger,
)

RETURNS = ["discounted return", "undiscounted return", "expected discounted return"]
FAILURES = ["an episode terminates early", "an episode is no success"]


def ledgers(**options):
    """One of each kind."""
    return {
        **{f"rec-{portions}": recursive_ledger(portions, **options) for portions in (1, 2, 3, 7)},
        "holdout": holdout_ledger(**options),
        "auto": auto_ledger(RETURNS, FAILURES, **options),
        "auto, one of each": auto_ledger(RETURNS[:1], FAILURES[:1], **options),
    }


@pytest.mark.parametrize("candidates", [1, 3, 10])
def test_shares_of_each_source_add_up_to_one_over_the_candidates(candidates):
    """(L.2) to (L.4): the union bound is spent exactly, not approximately."""
    for name, ledger in ledgers(candidates=candidates).items():
        for source in ("delta", "delta_prime"):
            shares = [entry.share for entry in ledger.entries if entry.source == source]
            assert sum(shares) == Fraction(1, candidates), (name, source)


def test_the_failures_of_all_statements_never_exceed_what_the_confidence_states():
    """(L.1), in exact arithmetic on the float64 values that the bounds will use."""
    for delta, delta_prime in [(0.025, 0.01), (0.1, 0.3), (1e-9, 1e-7)]:
        both = Fraction(delta) + Fraction(delta_prime)
        for name, ledger in ledgers(delta=delta, delta_prime=delta_prime).items():
            statements = {entry.statement for entry in ledger.entries}
            spent = sum(Fraction(ledger.failure(statement)) for statement in statements)
            assert both * Fraction(999_999, 1_000_000) <= spent <= both, name
            assert sum(Fraction(entry.failure) for entry in ledger.spent()) <= both
            assert Fraction(ledger.confidence) <= 1 - both + Fraction(1, 10**15)


@pytest.mark.parametrize("candidates", [2, 5])
def test_candidates_divide_every_share_and_leave_every_confidence_as_it_is(candidates):
    """Whichever is chosen, the union over all candidates gives back what the division took."""
    alone, shared = ledgers(), ledgers(candidates=candidates)
    for name, ledger in alone.items():
        for one, other in zip(ledger.entries, shared[name].entries, strict=True):
            assert (one.statement, one.source) == (other.statement, other.source)
            assert one.share == candidates * other.share
            before = ledger.confidence_in(one.statement)
            assert shared[name].confidence_in(one.statement) == pytest.approx(before, abs=1e-15)
            assert before == pytest.approx(1 - ledger.failure(one.statement), abs=1e-15)
        assert ledger.confidence == shared[name].confidence
    assert beside(delta=0.3, candidates=candidates) * candidates == pytest.approx(0.3, abs=1e-15)
    assert Fraction(beside(delta=0.3, candidates=candidates)) * candidates <= Fraction(0.3)


def test_statements_of_one_kind_share_its_part_equally_in_the_ledger_of_auto():
    few, many = auto_ledger(RETURNS[:1], FAILURES[:1]), auto_ledger(RETURNS, FAILURES)
    for names in (RETURNS, FAILURES):
        parts = {many.failure(name) for name in names}
        assert len(parts) == 1
        assert parts.pop() * len(names) == pytest.approx(few.failure(names[0]), rel=1e-12)
    for name in ("tolerance", "mean risk, unit step", "band", "monitor"):
        assert many.failure(name) == few.failure(name)
        assert {e.source for e in many.entries if e.statement == name} == {"delta", "delta_prime"}


def test_a_statement_paid_from_both_sources_gets_the_sum():
    assert holdout_ledger(delta=0.25, delta_prime=0.125).failure("hold-out: risk") == 0.375


def test_the_default_confidence_is_the_one_of_the_corrected_paper():
    for ledger in ledgers().values():
        assert ledger.confidence == pytest.approx(0.965, abs=1e-15)


def test_the_ledger_puts_the_constants_of_the_recursion_into_the_budgets():
    """With mean 0 the inverse is 1 - exp(-budget): ln(T xi/δ), ln(2T xi/δ), ln(2T/δ') appear."""
    ledger, n = recursive_ledger(3, delta=0.025, delta_prime=0.01), 50
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
    assert len(re.findall(r"\b0\.025\b", code)) == 1
    assert len(re.findall(r"\b0\.01\b", code)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, r"delta must be in \(0, 1\), found 0.0"),
        ({"delta": math.nan}, r"delta must be in \(0, 1\), found nan"),
        ({"delta_prime": 1.0}, r"delta_prime must be in \(0, 1\), found 1.0"),
        ({"delta": 0.5, "delta_prime": 0.5}, r"delta \+ delta_prime must be below 1, found 0.5"),
        ({"candidates": 0}, "candidates must be a whole number of at least 1, found 0"),
    ],
)
def test_wrong_arguments_are_named_with_the_allowed_set_and_the_value(arguments, message):
    with pytest.raises(ValueError, match=message):
        recursive_ledger(2, **arguments)


def test_a_ledger_that_overspends_or_repeats_itself_cannot_be_made():
    half = Entry("a", "delta", Fraction(1, 2))
    with pytest.raises(ValueError, match="at most 1, found 9/8"):
        Ledger(0.1, 0.1, (half, Entry("b", "delta", Fraction(5, 8))))
    with pytest.raises(ValueError, match="'a' twice"):
        Ledger(0.1, 0.1, (half, half))
    with pytest.raises(ValueError, match="share must be positive"):
        Ledger(0.1, 0.1, (Entry("a", "delta", Fraction(0)),))
    with pytest.raises(ValueError, match="source must be"):
        Ledger(0.1, 0.1, (Entry("a", "epsilon", Fraction(1)),))


def test_an_unknown_statement_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="one of 'portion 1: risk', 'portion 1: draws', found 'x'"):
        recursive_ledger(1).failure("x")
