"""Counting against exact binomial limits; what is inconclusive never speaks for us."""

import pandas as pd
import pytest
from scipy.stats import beta, binom

from tightrope.audit.coverage import ALL, coverage, interval, verdict, warning_counts

EPISODES, STEPS = "independent episodes", "independent steps"


@pytest.mark.parametrize(("count", "runs"), [(0, 50), (3, 50), (17, 300), (50, 50)])
def test_intervals_are_those_of_clopper_and_pearson(count, runs):
    """By their definition with beta quantiles."""
    low, high = interval(count, runs)
    assert low == pytest.approx(beta.ppf(0.025, count, runs - count + 1) if count else 0.0)
    assert high == pytest.approx(beta.ppf(0.975, count + 1, runs - count) if count < runs else 1.0)


def test_a_verdict_needs_the_whole_interval_on_one_side():
    """The smallest and largest counts that decide, found by the tails of the binomial."""
    runs, nominal = 60, 0.15
    for count in range(runs + 1):
        violated = binom.sf(count - 1, runs, nominal) < 0.025
        held = binom.cdf(count, runs, nominal) < 0.025
        expected = "violated" if violated else "held" if held else "too few runs"
        assert verdict(count, 0, runs, nominal) == expected, count


@pytest.mark.parametrize(
    ("violated", "inconclusive", "expected"),
    [(0, 0, "held"), (0, 30, "too few runs"), (30, 0, "violated"), (5, 25, "too few runs")],
)
def test_what_is_inconclusive_counts_against_either_verdict(violated, inconclusive, expected):
    assert verdict(violated, inconclusive, 300, 0.035) == expected


def check(statement, truth, assumes=EPISODES, nominal=0.1, scheme="auto", claimed=True, **values):
    return {"scheme": scheme, "statement": statement, "claimed": claimed, "assumes": assumes,
            "nominal": nominal, "truth": truth, **values}  # fmt: skip


def test_rows_count_what_was_violated_and_what_was_inconclusive():
    truths = ("held", "violated", "inconclusive", "held")
    checks = [check("a", t, value=0.5, exact=0.2, tightness=0.3) for t in truths]
    checks += [check("a: all steps", "violated", claimed=False), check(ALL, "held", nominal=0.3)]
    checks += [check("a", "held", scheme="rec-6"), check(ALL, "held", nominal=1.0, scheme="rec-6")]
    rows = coverage(pd.DataFrame(checks), frozenset()).set_index(["scheme", "statement"])
    # Nothing is said of all at once where nothing is claimed of that.
    assert list(rows.index) == [
        *(("auto", "a"), ("auto", "a: all steps"), ("auto", ALL), ("rec-6", "a"))
    ]
    assert list(rows["claim"]) == ["made", "not made", "made", "made"]
    first = rows.loc[("auto", "a")]
    assert (first.runs, first.violated, first.inconclusive) == (4, 1, 1)
    assert (first.low, first.high) == (interval(1, 4)[0], interval(2, 4)[1])
    assert (first.value, first.exact) == pytest.approx((0.5, 0.2))
    assert first.tightness == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("violated", "claims"),
    [
        ((), ["made", "made", "made"]),
        ((STEPS,), ["made", "assumption violated", "made"]),
        (("alike episodes",), ["assumption violated"] * 3),
    ],
)
def test_a_row_needs_the_assumption_of_its_statement_and_no_other(violated, claims):
    checks = [check("a", "violated"), check("s", "violated", STEPS), check(ALL, "violated")] * 50
    rows = coverage(pd.DataFrame(checks), frozenset(violated))
    assert list(rows["claim"]) == claims
    assert set(rows["verdict"]) == {"violated"}


def test_warnings_are_counted_by_scheme():
    given = ("drift, failed fit", "", "drift")
    checks = [check("a", "held"), *(check(ALL, "held", warnings=each) for each in given)]
    rows = warning_counts(pd.DataFrame(checks)).set_index("warning")
    assert rows["fired"].to_dict() == {
        **dict.fromkeys(("dependent steps", "vacuous", "void"), 0), "drift": 2, "failed fit": 1
    }  # fmt: skip
    assert set(rows["runs"]) == {3}
    assert (rows.low["drift"], rows.high["drift"]) == interval(2, 3)
