"""The ledger: section L of docs/theory.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope
from tightrope.bounds import monte_carlo_upper, pac_bayes_kl, split_kl
from tightrope.certificates import Entry, Ledger, recursive_ledger


@pytest.mark.parametrize("portions", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("candidates", [1, 3])
def test_shares_of_each_source_add_up_to_one_over_the_candidates(portions, candidates):
    """(L.2): the union bound is spent exactly, not approximately."""
    ledger = recursive_ledger(portions, candidates=candidates)
    for source in ("delta", "delta_prime"):
        shares = [entry.share for entry in ledger.entries if entry.source == source]
        assert sum(shares) == Fraction(1, candidates)


def test_the_failures_of_all_statements_never_exceed_what_the_confidence_states():
    """(L.1), in exact arithmetic on the float64 values that the bounds will use."""
    for delta, delta_prime, portions in [(0.025, 0.01, 6), (0.1, 0.3, 7), (1e-9, 1e-7, 11)]:
        ledger = recursive_ledger(portions, delta=delta, delta_prime=delta_prime)
        spent = sum(Fraction(ledger.failure(entry.statement)) for entry in ledger.entries)
        assert spent <= Fraction(delta) + Fraction(delta_prime)
        assert spent >= (Fraction(delta) + Fraction(delta_prime)) * Fraction(999_999, 1_000_000)


def test_the_default_confidence_is_the_one_of_the_corrected_paper():
    assert recursive_ledger(6).confidence == pytest.approx(0.965, abs=1e-15)


def test_the_ledger_puts_the_constants_of_the_recursion_into_the_budgets():
    """With mean 0 the inverse is 1 - exp(-budget): ln(2T√n/δ), ln(4T√n/δ), ln(2T/δ') appear."""
    ledger, n = recursive_ledger(3, delta=0.025, delta_prime=0.01), 50
    first = pac_bayes_kl(0, kl=1.5, n=n, delta=ledger.failure("portion 1: risk"))
    excess = ledger.failure("portion 2: excess")
    second = split_kl(0, 0, kl=1.5, n=n, delta=excess, low=-0.5, high=1, mu=0)
    draws = monte_carlo_upper(0, draws=n, delta=ledger.failure("portion 2: draws plus"))
    root = math.sqrt(n)
    assert first == pytest.approx(1 - math.exp(-(1.5 + math.log(6 * root / 0.025)) / n), abs=1e-12)
    assert second == pytest.approx(
        1 - math.exp(-(1.5 + math.log(12 * root / 0.025)) / n), abs=1e-12
    )
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


def test_an_unknown_statement_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="one of 'portion 1: risk', 'portion 1: draws', found 'x'"):
        recursive_ledger(1).failure("x")
