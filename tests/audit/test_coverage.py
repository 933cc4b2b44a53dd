"""Counting against exact binomial limits; what is inconclusive never speaks for us."""

import pandas as pd
import pytest
from scipy.stats import beta, binom

from tightrope.audit.auditing import coverage, warning_counts
from tightrope.audit.ground_truth import ALL, WARNINGS


def check(statement, truth="held", **changes):
    usual = {"scheme": "auto", "claimed": True, "assumes": "independent episodes", "nominal": 0.1}
    usual |= {"value": 0.5, "exact": 0.2, "tightness": 0.3}
    return {**usual, "statement": statement, "truth": truth, **changes}


def counted(violated, inconclusive, runs, nominal):
    """The row of a statement that was violated, or inconclusive, so often."""
    truths = ["violated"] * violated + ["inconclusive"] * inconclusive
    truths += ["held"] * (runs - len(truths))
    (row,) = coverage(pd.DataFrame([check("a", t, nominal=nominal) for t in truths]), ()).iloc
    return row


def test_limits_are_those_of_clopper_and_pearson():
    """By their definition with beta quantiles; the upper one counts what is inconclusive."""
    for count, unsure, runs in ((0, 0, 50), (3, 0, 50), (17, 5, 300), (50, 0, 50), (1, 2, 4)):
        row, most = counted(count, unsure, runs, 0.1), count + unsure
        low = beta.ppf(0.025, count, runs - count + 1) if count else 0.0
        high = beta.ppf(0.975, most + 1, runs - most) if most < runs else 1.0
        assert (row.low, row.high) == pytest.approx((low, high))
        assert (row.runs, row.violated, row.inconclusive) == (runs, count, unsure)


def test_a_verdict_needs_the_whole_interval_on_one_side():
    """The smallest and largest counts that decide, found by the tails of the binomial."""
    runs, nominal = 60, 0.15
    for count in range(runs + 1):
        violated = binom.sf(count - 1, runs, nominal) < 0.025
        held = binom.cdf(count, runs, nominal) < 0.025
        expected = "violated" if violated else "held" if held else "too few runs"
        assert counted(count, 0, runs, nominal).verdict == expected, count
    for count, unsure, expected in (
        *((0, 0, "held"), (0, 30, "too few runs"), (30, 0, "violated"), (5, 25, "too few runs")),
    ):
        assert counted(count, unsure, 300, 0.035).verdict == expected


def test_there_is_a_row_for_each_statement_of_each_scheme():
    checks = [check("a", value=v, tightness=v - 0.2) for v in (0.4, 0.6)]
    checks += [check("a: all steps", "violated", claimed=False), check(ALL, nominal=0.3)]
    checks += [check("a", scheme="rec-6"), check(ALL, nominal=1.0, scheme="rec-6")]
    rows = coverage(pd.DataFrame(checks), ()).set_index(["scheme", "statement"])
    # Nothing is said of all at once where nothing is claimed of that.
    expected = [("auto", "a"), ("auto", "a: all steps"), ("auto", ALL), ("rec-6", "a")]
    assert list(rows.index) == expected
    assert list(rows["claim"]) == ["made", "not made", "made", "made"]
    first = rows.loc[("auto", "a")]
    assert (first.value, first.exact, first.tightness) == pytest.approx((0.5, 0.2, 0.3))


@pytest.mark.parametrize(
    ("violated", "claims"),
    [
        ((), ["made", "made", "made"]),
        (("independent steps",), ["made", "assumption violated", "made"]),
        (("alike episodes",), ["assumption violated"] * 3),
    ],
)
def test_a_row_needs_the_assumption_of_its_statement_and_no_other(violated, claims):
    steps = check("s", "violated", assumes="independent steps")
    checks = [check("a", "violated"), steps, check(ALL, "violated")] * 50
    rows = coverage(pd.DataFrame(checks), violated)
    assert list(rows["claim"]) == claims
    assert set(rows["verdict"]) == {"violated"}


def test_warnings_are_counted_by_scheme():
    usual = dict.fromkeys(WARNINGS, False)
    fired = ({"drift": True, "failed fit": True}, {}, {"drift": True})
    checks = [check("a"), *(check(ALL, **{**usual, **each}) for each in fired)]
    rows = warning_counts(pd.DataFrame(checks)).set_index("warning")
    assert rows["fired"].to_dict() == {**dict.fromkeys(WARNINGS, 0), "drift": 2, "failed fit": 1}
    assert set(rows["runs"]) == {3}
    two = counted(2, 0, 3, 0.1)
    assert (rows.low["drift"], rows.high["drift"]) == (two.low, two.high)
