"""Tables of results and counts compared: pairs, tasks, units, candidates, two lines of counts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tightrope.bounds import difference_lower, rate_sequence, rate_test
from tightrope.certificates.certify import certify
from tightrope.comparison.compare import compare
from tightrope.errors import InputError
from tightrope.rollouts.results_table import ResultsTable, read_results

WHOLE = 0.025 + 0.01


def table(successes=None, returns=None, *, seeds=None, tasks=None, unit="return", candidates=1):
    count = len(successes if returns is None else returns)
    return ResultsTable(
        name="t.csv",
        returns=returns,
        success=successes,
        keys=np.full(count, -1) if seeds is None else np.asarray(seeds),
        tasks=tasks or (("", count),),
        columns={} if returns is None else {"return": unit},
        candidates=candidates,
    )


def drawn(seed, rate, count=120):
    return np.random.default_rng(seed).random(count) < rate


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_of_successes_is_one_question_with_all_of_the_failure_probability():
    first, second = drawn(1, 0.95), drawn(2, 0.6)
    (interval,) = compare(table(first), table(second)).intervals
    differences = first.astype(float) - second
    assert interval.low == pytest.approx(float(difference_lower(differences, delta=WHOLE / 2)))
    assert (interval.verdict, interval.confidence) == ("A better", pytest.approx(1 - WHOLE))
    assert interval.sides[0][0] < (~first).mean() < interval.sides[0][1] < interval.sides[1][0]


def test_tasks_are_rows_of_a_table_with_one_confidence_for_all():
    first = table(drawn(1, 0.95), tasks=(("task a", 80), ("task b", 40)))
    second = table(drawn(2, 0.5), tasks=(("task b", 80), ("task a", 40)))
    found = compare(first, second)
    assert [each.name for each in found.intervals] == ["failure, task a", "failure, task b"]
    assert [entry.failure for entry in found.ledger] == pytest.approx([WHOLE / 4] * 4)
    assert found.interval("failure, task a").n == 40  # B has 40 of it
    assert found.interval("failure, task b").second == (~drawn(2, 0.5)[:40]).mean()
    lines = str(found).splitlines()
    assert sum(line.startswith("failure, task") for line in lines) == 2
    assert any(line.split()[:2] == ["A", "B"] for line in lines)


def test_the_best_of_several_evaluations_counts_as_so_many_candidates():
    first, second = drawn(1, 0.95), drawn(2, 0.6)
    found = compare(table(first, candidates=5), table(second), candidates=2)
    assert found.candidates == 10
    differences = first.astype(float) - second
    expected = float(difference_lower(differences, delta=WHOLE / 20))
    assert found.intervals[0].low == pytest.approx(expected)


def test_the_forecasts_are_where_the_bound_itself_decides():
    """Pairs with the detectable lead, or so many more like these, exclude 0; fewer do not."""
    rng = np.random.default_rng(3)
    signs = rng.permutation(np.repeat([1.0, 0.0, -1.0], [34, 40, 26]))
    first = table(returns=signs, seeds=np.arange(100))
    second = table(returns=np.zeros(100), seeds=np.arange(100))
    (interval,) = compare(first, second).intervals
    delta = WHOLE / 2

    def decides(up, down, ties):
        values = np.repeat([1.0, -1.0, 0.0], [up, down, ties])
        return float(difference_lower(values, delta=delta)) > 0

    fewest = next(up for up in range(61) if decides(up, 60 - up, 40))
    assert interval.detectable == pytest.approx((2 * fewest - 60) / 100, abs=0.02)
    times = (100 + interval.more) / 100
    for factor, expected in ((1.03, True), (0.97, False)):
        counts = [round(times * factor * count) for count in (34, 26, 40)]
        assert decides(*counts) is expected


def test_tables_that_cannot_be_compared_are_one_line():
    tasks = (("task a", 60), ("task b", 60))
    sorted_by_task = table(np.tile(np.arange(60) < 20, 2), tasks=tasks)
    returns = table(returns=np.random.default_rng(1).normal(size=120))
    for first, second, words in (
        (table(drawn(1, 0.5)), returns, "a column of returns, or of successes, that both tables"),
        (sorted_by_task, table(drawn(1, 0.5), tasks=tasks), "sorted by success"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            compare(first, second)
        assert "\n" not in str(caught.value)


# --- counts ---------------------------------------------------------------------------------------


def test_counts_have_an_exact_test_and_an_interval_for_who_looked():
    found = compare("74/80", "91/120")
    assert found.fixed.p_value == rate_test(74, 80, 91, 120) == pytest.approx(0.0020, abs=5e-5)
    assert found.fixed.verdict == "A better"
    assert 0 < found.fixed.low < 74 / 80 - 91 / 120 < found.fixed.high
    first, second = (rate_sequence(x, n, delta=WHOLE / 2) for x, n in ((74, 80), (91, 120)))
    assert (found.looked.first, found.looked.second) == (first, second)
    assert (found.looked.low, found.looked.high) == (first[0] - second[1], first[1] - second[0])
    assert found.looked.verdict == "not decided"
    lines = str(found).splitlines()
    assert lines[3].startswith("Number of episodes fixed beforehand: A better (p = 0.0020, Boschl")
    assert lines[4].startswith("Looked at on the way, or not sure:   not decided; A - B -10.4 to")
    assert json.loads(json.dumps(found.to_json()))["fixed"]["verdict"] == "A better"
    assert compare("74/80", "91/120", candidates=20).fixed.verdict == "not decided"
    counted = compare(table(drawn(1, 0.5)), "91/120")
    assert counted.counts == ((int(drawn(1, 0.5).sum()), 120), (91, 120))
    mirrored = compare("91/120", "74/80")
    assert mirrored.fixed.verdict == "B better"
    assert mirrored.fixed.low == pytest.approx(-found.fixed.high)


def test_the_detectable_difference_of_counts_is_the_smallest_that_is_decided():
    found = compare("74/80", "91/120")
    decided = [x for x in range(61, 81) if rate_test(x, 80, 91, 120) <= WHOLE]
    assert found.fixed.detectable == pytest.approx(decided[0] / 80 - 91 / 120)
    close = compare("70/100", "60/100")
    assert close.fixed.verdict == "not decided"
    for factor, expected in ((1.02, True), (0.95, False)):
        n = round((200 + close.fixed.more) / 2 * factor)
        p_value = rate_test(round(0.7 * n), n, round(0.6 * n), n)
        assert (p_value <= WHOLE) is expected
    assert compare("1/2", "1/2").fixed.detectable is None
    assert compare("1/2", "1/2").fixed.more is None


def test_counts_and_tables_under_another_name_are_never_given_pairs(tmp_path):
    """20 of 20 against 28 of 30: in pairs, the two failures would be left out as the last."""
    found = compare(read_results("20/20"), read_results("28/30"))
    assert found.counts == ((20, 20), (28, 30))
    folders = [certify(each, seed=0).save(tmp_path / each[:2]) for each in ("20/20", "28/30")]
    for pair in ((tmp_path / "20", tmp_path / "28"), [each.rollouts for each in folders]):
        assert compare(*pair).fixed == found.fixed


def test_forecasts_of_counts_say_no_more_than_is_known():
    perfect = compare("1000/1000", "900/900").fixed  # no room above: the other could be worse
    missing = next(x for x in range(900) if rate_test(1000, 1000, 900 - x, 900) <= WHOLE)
    assert perfect.detectable == pytest.approx(missing / 900)
    assert "; not even 64 times as many would at these rates" in str(compare("50/100", "50/100"))


UNFIT = [
    ("91/120", {"fail_below": 1.0}, "no `fail_below` for counts"),
    ("91/120", {"order": "random"}, "no `order` for counts"),
    ("91/120", {"env": "Hopper-v4"}, "no `env` for the recorded episodes"),
    (table(returns=np.ones(4)), {}, "successes of one task to compare with counts"),
    ("nowhere.zip", {}, "found recorded episodes as A and a policy as B"),
    ("80/74", {}, "two whole numbers such as 74/80.* found 80/74"),
]


def test_what_counts_cannot_be_compared_with_is_one_line():
    for second, options, words in UNFIT:
        with pytest.raises(InputError, match=words):
            compare("74/80", second, **options)


def test_certificates_of_tables_are_compared_as_the_tables_are(tmp_path):
    """Task by task, without what no table tells; candidates of the table count."""
    tasks = (("task a", 60), ("task b", 60))
    tables = [table(drawn(seed, 0.6), tasks=tasks, candidates=3) for seed in (1, 2)]
    for name, each in zip("ab", tables, strict=True):
        certify(each, seed=0).save(tmp_path / name)
    found, expected = compare(tmp_path / "a", tmp_path / "b"), compare(*tables)
    assert found.to_json() == {**expected.to_json(), "names": ("a", "b")}
    assert found.candidates == 9
    assert [each.name for each in found.intervals] == ["failure, task a", "failure, task b"]


def test_a_record_of_a_table_that_does_not_fit_its_episodes_is_refused():
    first = table(drawn(1, 0.6)).episodes()
    record = first.subject["table"]
    for changes in (
        {"tasks": [["", 121]]},
        {"tasks": [["a", 121], ["b", -1]]},
        {"tasks": 3},
        {"columns": ["return"]},
        {"candidates": 0},
    ):
        other = replace(first, subject={"table": {**record, **changes}})
        with pytest.raises(InputError, match="the record of a table as tightrope writes it"):
            compare(first, other)
