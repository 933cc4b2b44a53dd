"""Counting against exact binomial limits; what is unclear never speaks for us."""

import pytest
from scipy.stats import beta, binom, binomtest

from tightrope.studies.audit.tally import ALL, ALL_EPISODE, FLAGS, flags, interval, tally, verdict


@pytest.mark.parametrize(("count", "runs"), [(0, 50), (3, 50), (17, 300), (50, 50)])
def test_intervals_are_those_of_clopper_and_pearson(count, runs):
    """By their definition with beta quantiles, and as scipy's binomtest has them."""
    low, high = interval(count, runs)
    assert low == pytest.approx(beta.ppf(0.025, count, runs - count + 1) if count else 0.0)
    assert high == pytest.approx(beta.ppf(0.975, count + 1, runs - count) if count < runs else 1.0)
    exact = binomtest(count, runs).proportion_ci(method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high))


def test_a_verdict_needs_the_whole_interval_on_one_side():
    """The smallest and largest counts that decide, found by the tails of the binomial."""
    runs, promise = 60, 0.15
    for count in range(runs + 1):
        broken = binom.sf(count - 1, runs, promise) < 0.025
        kept = binom.cdf(count, runs, promise) < 0.025
        expected = "broken" if broken else "kept" if kept else "too few runs"
        assert verdict(count, 0, runs, promise) == expected, count


def test_what_is_unclear_counts_as_broken_for_kept_and_as_kept_for_broken():
    assert verdict(0, 0, 300, 0.035) == "kept"
    assert verdict(0, 30, 300, 0.035) == "too few runs"
    assert verdict(30, 0, 300, 0.035) == "broken"
    assert verdict(5, 25, 300, 0.035) == "too few runs"


def one(statement, state, assumes="independent episodes", promise=0.1, value=0.5, truth=0.2):
    numbers = {"value": value, "truth": truth, "tightness": value - truth}
    numbers |= {"promise": promise, "low": 0.0, "high": 0.0}
    return {"statement": statement, "assumes": assumes, "state": state, **numbers}


def run(*statements, warnings=(), promise=0.3, scheme="auto"):
    return {
        "scheme": scheme,
        "promise": promise,
        "warnings": list(warnings),
        "statements": list(statements),
    }


RECORDS = [
    run(one("a", "kept"), one("s", "broken", "independent steps"), warnings=["drift"]),
    run(one("a", "broken", value=0.9), one("s", "kept", "independent steps")),
    run(one("a", "unclear"), one("s", "broken", "independent steps")),
    run(one("a", "kept"), one("s", "kept", "independent steps")),
]


def by_name(rows):
    return {row.statement: row for row in rows}


def test_rows_count_what_was_broken_and_what_was_unclear():
    rows = by_name(tally(RECORDS, frozenset()))
    assert list(rows) == ["a", "s", ALL, ALL_EPISODE]
    found = {name: (row.runs, row.broken, row.unclear) for name, row in rows.items()}
    assert found == {"a": (4, 1, 1), "s": (4, 2, 0), ALL: (4, 3, 0), ALL_EPISODE: (4, 1, 1)}
    assert rows["a"].value == pytest.approx(0.6)
    assert rows["a"].truth == pytest.approx(0.2)
    assert rows["a"].tightness == pytest.approx(0.4)
    assert rows[ALL].tightness is None
    assert (rows["a"].promise, rows[ALL].promise) == (0.1, 0.3)
    assert (rows["a"].low, rows["a"].high) == (interval(1, 4)[0], interval(2, 4)[1])


def test_only_a_promise_whose_assumption_holds_can_fail():
    bad = [run(one("a", "broken"), one("s", "broken", "independent steps"))] * 50
    assert [row.failed for row in tally(bad, frozenset())] == [True] * 4
    steps = by_name(tally(bad, frozenset({"independent steps"})))
    assert {name: row.failed for name, row in steps.items()} == {
        "a": True,
        "s": False,
        ALL: False,
        ALL_EPISODE: True,
    }
    assert all(row.verdict == "broken" for row in steps.values())
    alike = tally(bad, frozenset({"alike episodes"}))
    assert not any(row.failed for row in alike)
    assert all(row.assumption == "broken" for row in alike)


def test_schemes_are_counted_apart_and_nothing_is_said_of_all_where_nothing_is_promised():
    mixed = [*RECORDS, run(one("a", "kept"), promise=1.0, scheme="rec-6")]
    rows = tally(mixed, frozenset())
    assert [row.statement for row in rows if row.scheme == "rec-6"] == ["a"]
    assert sum(row.runs for row in rows if row.statement == "a") == 5


def test_warnings_are_counted_by_scheme():
    found = {each.warning: each for each in flags(RECORDS)}
    assert set(found) == set(FLAGS)
    assert (found["drift"].fired, found["drift"].runs) == (1, 4)
    assert (found["drift"].low, found["drift"].high) == interval(1, 4)
    assert found["dependent steps"].fired == 0
