"""Comparisons say who is better as rarely wrongly as promised, and refuse what cannot be compared.

The differences are computed by plain loops here; the bounds on their mean have tests of their own.
"""

import json
import sys

import numpy as np
import pytest
from common_seeds import Rewarding, high, low
from recordings import recording, short
from scipy.stats import binom

from tightrope.bounds import difference_lower, difference_upper
from tightrope.certificates.certify import certify
from tightrope.certificates.folder import load_certificate
from tightrope.certificates.ledger import Ledger
from tightrope.comparison.compare import compare
from tightrope.comparison.questions import Question, intersect
from tightrope.errors import InputError
from tightrope.rollouts import Episode, Rollout, join

SIDE = (0.025 + 0.01) / 6  # three questions, two sides each


def log(totals, *, terminated=False, seeds=None, features=2, success=None, subject=None):
    """Episodes of one step with these returns."""
    flags = np.broadcast_to(terminated, len(totals))
    return join(
        [
            Episode(
                np.zeros((1, features), np.float32),
                np.array([total]),
                bool(flag),
                not flag,
                seed=-1 if seeds is None else int(seeds[index]),
                success=None if success is None else bool(success[index]),
            )
            for index, (total, flag) in enumerate(zip(totals, flags, strict=True))
        ],
        subject or {},
    )


def interval_of(values, delta):
    ends = difference_lower(values, delta=delta), difference_upper(values, delta=delta)
    return pytest.approx(tuple(map(float, ends)), abs=1e-9)


def verdicts(comparison):
    return {each.name: each.verdict for each in comparison.intervals}


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(5)
    first, second = rng.normal(3.0, 0.3, 80), rng.normal(0.0, 3.0, 80)
    return first, second, rng.random(80) < 0.1, rng.random(80) < 0.6


@pytest.fixture(scope="module")
def found(drawn):
    first, second, fails, others = drawn
    return compare(
        log(first, terminated=fails), log(second, terminated=others), termination="failure"
    )


def test_each_question_is_about_the_differences_that_it_says(found, drawn):
    first, second, fails, others = drawn
    pairs = list(zip(first, second, strict=True))
    signs = [int(a > b) - int(a < b) for a, b in pairs]
    failed = [int(b) - int(a) for a, b in zip(fails, others, strict=True)]
    apart = []
    for i in range(0, 80, 2):
        own, other = abs(first[i] - first[i + 1]), abs(second[i] - second[i + 1])
        apart.append(int(own < other) - int(own > other))
    for name, values in (("return", signs), ("failure", failed), ("predictability", apart)):
        interval = found.interval(name)
        assert interval.effect == pytest.approx(np.mean(values))
        assert (interval.low, interval.high) == interval_of(values, SIDE)
        assert interval.n == len(values)
    assert found.confidence == 0.965
    assert sum(entry.failure for entry in found.ledger) == pytest.approx(0.035)


def test_positive_is_for_a_and_exchanging_them_exchanges_the_verdicts(found, drawn):
    first, second, fails, others = drawn
    assert set(verdicts(found).values()) == {"A better"}
    assert found.decided
    mirrored = compare(
        log(second, terminated=others), log(first, terminated=fails), termination="failure"
    )
    assert set(verdicts(mirrored).values()) == {"B better"}
    for one, other in zip(found.intervals, mirrored.intervals, strict=True):
        assert (one.low, one.high) == (-other.high, -other.low)
        assert (one.first, one.second) == (other.second, other.first)


def test_with_a_range_expectations_are_compared_too_in_return_units(drawn):
    first, second, *_ = drawn
    comparison = compare(log(first), log(second), return_range=(-20, 20))
    delta = 0.035 / 8  # four questions now
    signs = [int(a > b) - int(a < b) for a, b in zip(first, second, strict=True)]
    interval = comparison.interval("return")
    assert (interval.low, interval.high) == interval_of(signs, delta)
    mean = comparison.interval("mean return")
    assert mean.effect == pytest.approx(first.mean() - second.mean())
    scaled = [(a - b) / 40 for a, b in zip(first, second, strict=True)]
    assert (mean.low / 40, mean.high / 40) == interval_of(scaled, delta)
    gini = [abs(x[0::2] - x[1::2]).mean() for x in (first, second)]
    effect = comparison.interval("predictability").effect
    assert effect == pytest.approx(gini[1] - gini[0])
    with pytest.raises(InputError, match=r"outside the range \[-1, 1\].* on other episodes"):
        compare(log(first), log(second), return_range=(-1, 1))


def rare_fortune():
    """A: always 1.05. B: 1, and 1,041 in a tenth of the episodes; 105 on average."""
    other = np.ones(400)
    other[np.random.default_rng(0).permutation(400)[:40]] = 1041.0
    return log(np.full(400, 1.05)), log(other)


def test_a_rare_fortune_wins_on_average_what_it_loses_in_pairs_and_the_text_says_so():
    both = compare(*rare_fortune(), return_range=(0, 1041))
    assert verdicts(both)["return"] == "A better"
    assert verdicts(both)["mean return"] == "B better"
    assert both.disagreement == (
        "The returns disagree: A returns more in more of the pairs (certified), B returns more on "
        "average (certified: A 1.05, B 105)."
    )
    pairs = compare(*rare_fortune())  # without a range the mean is not certified
    assert list(verdicts(pairs)) == ["return", "termination", "predictability"]
    assert "B returns more on average (in this sample: A 1.05, B 105)" in str(pairs)
    assert pairs.to_json()["disagreement"] == pairs.disagreement


def test_the_same_episodes_on_both_sides_are_never_decided():
    episodes = log(np.random.default_rng(0).permutation(50) * 1.0, seeds=range(50))
    comparison = compare(episodes, episodes)
    assert [each.effect for each in comparison.intervals] == [0.0] * 3
    assert not comparison.decided
    assert str(comparison).count("not decided with ") == 3


def test_pairing_by_seed_sees_what_unpaired_episodes_hide():
    """A is better by a little on every seed, whose spread is large."""
    level = np.random.default_rng(0).normal(0.0, 100.0, 40)
    order = np.random.default_rng(1).permutation(40)
    first = log(level + 1.0, seeds=range(40))
    paired = compare(first, log(level[order], seeds=order))
    assert verdicts(paired)["return"] == "A better"
    assert paired.pairing == "paired by seed"
    apart = compare(first, log(level[order], seeds=100 + order))
    assert verdicts(apart)["return"] == "not decided"


# --- what an end means ----------------------------------------------------------------------------


def goal_or_not():
    """Episodes of B terminate because it reaches the goal; those of A are cut."""
    returns = np.random.default_rng(2).normal(size=(2, 60))
    return log(returns[0]), log(returns[1], terminated=True)


def test_termination_without_a_meaning_is_neither_a_failure_nor_better():
    comparison = compare(*goal_or_not())
    interval = comparison.interval("termination")
    assert interval.verdict == "A terminates early less often"
    block = str(comparison).split("\n")
    start = next(i for i, line in enumerate(block) if line.startswith("Early termination"))
    text = " ".join([*block[start : start + 4], json.dumps(interval.to_json())])
    assert "better" not in text
    assert "fail" not in text
    with pytest.raises(InputError, match="found 'failure'"):
        comparison.interval("failure")


def test_termination_is_what_the_user_says():
    for options, name, verdict, words in (
        ({"termination": "success"}, "success", "B better", "reaches its goal"),
        ({"termination": "failure"}, "failure", "A better", "fails if it terminates early"),
        ({"fail_below": -99.0}, "failure", "not decided", "undiscounted return is below -99"),
    ):
        interval = compare(*goal_or_not(), **options).interval(name)
        assert interval.verdict == verdict
        assert words in interval.measure


def test_a_recorded_success_has_precedence_and_both_must_record_it():
    totals = np.random.default_rng(0).normal(size=20)
    plain = log(totals)
    recorded = log(totals, success=np.arange(20) % 2 == 0)
    question = compare(recorded, recorded, termination="failure").interval("failure")
    assert "not recorded as a success" in question.measure
    assert question.first == 0.5
    assert "termination" in verdicts(compare(plain, recorded))


def test_a_threshold_is_for_the_undiscounted_return_as_in_certificates():
    rewards = np.array([0.0, 10.0])
    episodes = join(
        [Episode(np.zeros((2, 1), np.float32), rewards, False, True) for _ in range(4)], {}
    )
    question = compare(episodes, episodes, gamma=0.5, fail_below=7.0).interval("failure")
    assert (question.first, question.second) == (0.0, 0.0)  # discounted, 5 is below 7
    assert compare(episodes, episodes, gamma=0.5).interval("return").first == 5.0


# --- the order of recordings ----------------------------------------------------------------------


ORDERS = {
    "descending": (np.arange(10.0)[::-1], {}, "sorted by return"),
    "with ties": (np.repeat([0.0, 1.0, 2.0], 4), {}, "sorted by return"),
    "one out of order": (np.r_[1.0, 0.0, np.arange(2.0, 10.0)], {}, None),
    "all equal": (np.ones(12), {}, None),
    "one rare value last": (np.r_[np.zeros(11), 1.0], {}, None),
    "failures first": (None, {"success": np.arange(30) >= 3}, "sorted by success"),
    "successes among failures": (None, {"success": np.arange(30) % 3 == 0}, None),
    "ended first": (None, {"terminated": np.arange(30) < 9}, "sorted by termination"),
}


def test_which_orders_are_refused():
    for totals, columns, words in ORDERS.values():
        rng = np.random.default_rng(4)
        totals = rng.normal(size=30) if totals is None else totals
        flags = {"success": rng.random(len(totals)) < 0.5} if "success" in columns else {}
        pair = [log(totals, **columns), log(rng.normal(size=len(totals)), **flags)]
        for side, both in (("A", pair), ("B", pair[::-1])):
            if words is None:
                compare(*both)
                continue
            with pytest.raises(InputError, match=f"expected {side} .*{words}"):
                compare(*both)
            compare(*both, order="random")


def test_the_whole_of_a_longer_recording_must_be_unsorted():
    """Its successes come first, so those that are paired are all successes."""
    rng = np.random.default_rng(4)
    short_one = log(rng.normal(size=20), success=rng.random(20) < 0.5)
    long_one = log(rng.normal(size=60), success=np.arange(60) < 30)
    with pytest.raises(InputError, match=r"found it sorted by success"):
        compare(short_one, long_one)


def test_by_seed_only_the_order_of_the_pairs_counts():
    """Neighbours in the order of A give its spread, so A must not be sorted; B may be."""
    totals = np.sort(np.random.default_rng(0).normal(size=40))
    order = np.random.default_rng(1).permutation(40)
    ordered, mixed = log(totals, seeds=range(40)), log(totals[order], seeds=order)
    with pytest.raises(InputError, match=r"expected A .*sorted by return"):
        compare(ordered, mixed)
    assert compare(mixed, ordered).interval("return").effect == 0.0


def test_a_random_order_is_recorded_and_holds_for_this_number_of_episodes_only():
    rng = np.random.default_rng(3)
    pair = [log(np.sort(rng.normal(size=50))) for _ in range(2)]
    comparison = compare(*pair, order="random", seed=7)
    assert comparison.seed == 7
    assert not comparison.anytime
    text = str(comparison)
    assert "hold at once, for this number of episodes only, with confidence 96.5 %" in text
    assert "in a random order from seed 7" in text
    assert "at every number" not in text
    assert (
        text == str(compare(*pair, order="random", seed=7)) != str(compare(*pair, order="random"))
    )
    unsorted = str(compare(log(rng.normal(size=50)), log(rng.normal(size=50))))
    assert "hold at once, at every number of episodes, with confidence 96.5 %" in unsorted


def test_candidates_divide_the_failure_probability(drawn):
    first, second, *_ = drawn
    comparison = compare(log(first), log(second), candidates=4)
    interval = comparison.interval("return")
    signs = np.sign(first - second)
    assert (interval.low, interval.high) == interval_of(signs, SIDE / 4)
    assert sum(entry.failure for entry in comparison.ledger) == pytest.approx(0.035 / 4)
    assert interval.confidence == pytest.approx(1 - 0.035 / 3)
    assert "All intervals of all 4 comparisons hold at once" in str(comparison)
    assert comparison.confidence == 0.965


# --- what is refused ------------------------------------------------------------------------------

REFUSED = (
    (
        {"subject": {"environment": {"id": "Hopper-v4"}}},
        {"subject": {"environment": {"id": "Ant-v4"}}},
        "one environment, found Hopper-v4 in A and Ant-v4 in B",
    ),
    ({}, {"features": 3}, "of one size in numbers, found 2 in A and 3 in B"),
    ({}, {"subject": {"partial": "3 of 9"}}, "whole collection as B, found a partial one"),
)


def test_what_cannot_be_compared_is_one_line():
    for first, second, words in REFUSED:
        with pytest.raises(InputError, match=words):
            compare(log(np.arange(4.0), **first), log(np.arange(4.0), **second))


def test_a_policy_and_a_recording_are_refused_and_so_are_options_of_the_other():
    episodes = log(np.arange(4.0))
    with pytest.raises(InputError, match="found a policy as A and recorded episodes as B"):
        compare(lambda observations: observations, episodes)
    with pytest.raises(InputError, match="expected no `env` for the recorded episodes"):
        compare(episodes, episodes, "Hopper-v4")
    with pytest.raises(InputError, match="expected no `workers` for the recorded episodes"):
        compare(episodes, episodes, rollout=Rollout(workers=1))
    with pytest.raises(InputError, match="expected no `order` random for policies"):
        compare(high, low, Rewarding, order="random")


WRONG = [
    ({"max_episodes": 0}, "`max_episodes` must be at least 2"),
    ({"candidates": 0}, "`candidates` must be at least 1"),
    ({"return_range": (1.0, 1.0)}, "finite `return_range` LO < HI"),
    ({"termination": "success", "fail_below": 1.0}, "`fail_below` or `termination` success"),
    ({"delta": 0.5, "delta_prime": 0.5}, "`delta` . `delta_prime` must be below 1"),
    ({"episodes": 3}, "found 'episodes'"),
]


def test_wrong_options_are_one_line():
    for options, words in WRONG:
        with pytest.raises(InputError, match=words) as caught:
            compare(log(np.arange(4.0)), log(np.arange(4.0)), **options)
        assert "\n" not in str(caught.value)


# --- policies, rolled out here --------------------------------------------------------------------


def test_policies_are_rolled_out_on_common_seeds_until_decided():
    """Seeds decide most of the return: only pairs show that `high` is better in every episode."""
    comparison = compare(
        *(high, low, Rewarding), rollout=Rollout(workers=1), batch=12, max_episodes=24, seed=1
    )
    assert verdicts(comparison) == {
        "return": "A better",
        "termination": "not decided",
        "predictability": "not decided",
    }
    assert comparison.interval("return").effect == 1.0
    assert comparison.interval("termination").effect == 0.0
    assert comparison.episodes == 24  # the other questions never are decided
    assert comparison.pairing == "paired by seed"
    assert comparison.names == ("high", "low")
    for one, other in zip(*comparison.returns, strict=True):
        assert 0.4999 <= one - other <= 0.7001  # 0.1 in each of 5 to 7 steps
    assert json.loads(json.dumps(comparison.to_json()))["intervals"][0]["verdict"] == "A better"


def test_the_event_does_not_change_on_the_way(monkeypatch):
    """All of a first batch record success, one of the second does not: no other event is taken."""
    said = {"policy": {"name": "one of them"}}
    for termination in ("neutral", "failure"):  # both events have one name in the latter
        batches = [log([1.0, 2.0], success=[True, True], subject=said, seeds=[0, 1])] * 2
        batches += [log([1.0, 2.0], subject=said, seeds=[2, 3])] * 2
        module = sys.modules[compare.__module__]
        monkeypatch.setattr(module, "collect", lambda *_, _all=batches, **__: _all.pop(0))
        with pytest.raises(InputError, match="`success` in every episode or in none"):
            compare(
                *(high, low, Rewarding),
                batch=2,
                max_episodes=4,
                seed=0,
                termination=termination,
            )


# --- certificates ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Folders of certificates of a policy that is easy to predict, and of one that is not."""
    folder = tmp_path_factory.mktemp("compared")

    def make(name, noise, seed, **options):
        given = {"thin": 2, "seed": 0, **options}
        certify(
            recording(60, seed=seed, noise=noise), preset_values=short(updates=60), **given
        ).save(folder / name)
        return folder / name

    return make


def test_of_two_certificates_the_predictors_are_compared_on_episodes_they_did_not_see(certificates):
    easy, hard = certificates("easy", 0.05, 1), certificates("hard", 2.0, 2)
    comparison = compare(easy, hard)
    question = comparison.interval("predictability")
    c, d = load_certificate(easy), load_certificate(hard)
    assert question.n == 60 - c.episodes.fit == 45
    errors = [
        [np.sqrt(np.mean(e.errors[e.pairs.episode == i] ** 2)) for i in range(45)]
        for e in (c.evidence(c.unseen), d.evidence(d.unseen))
    ]
    assert question.effect == pytest.approx(np.mean(np.sign(np.subtract(*errors[::-1]))))
    assert verdicts(comparison)["predictability"] == "A better"
    assert comparison.gamma == c.settings.gamma == 0.99
    assert "predicted by its certificate at every second step" in question.measure
    assert "discounted return of A" in comparison.interval("return").measure
    with pytest.raises(InputError, match="or none, found"):  # recordings count from seed 0
        compare(easy, log(np.arange(4.0), seeds=[58, 59, 60, 61], features=3))


def test_certificates_of_other_discounts_or_steps_are_refused(certificates, tmp_path):
    plain = certificates("plain", 0.3, 1)
    for name, options, words in (
        ("gamma", {"gamma": 0.9}, "with one `gamma`, found 0.99 in A and 0.9 in B"),
        ("thin", {"thin": 3}, "with one `thin`, found 2 in A and 3 in B"),
    ):
        with pytest.raises(InputError, match=words):
            compare(plain, certificates(name, 0.3, 1, **options))
    with pytest.raises(InputError, match=r"the `gamma` of the certificates .*0\.99, found 1"):
        compare(plain, plain, gamma=1.0)
    (tmp_path / "t.csv").write_text("return\n1\n3\n2\n")  # returns without a discount
    with pytest.raises(InputError, match=r"with one `gamma`, found 0\.99 in A and 1\.0 in B"):
        compare(plain, tmp_path / "t.csv")


# --- how often a verdict is wrong -----------------------------------------------------------------


def equal_policies(rng, episodes):
    """Returns and failures of two policies that do not differ."""
    return rng.standard_t(2, (2, episodes)), rng.random((2, episodes)) < 0.3


@pytest.mark.parametrize(
    ("repetitions", "looks", "order"), [(200, (50, 100, 200), "recorded"), (200, (100,), "random")]
)
@pytest.mark.validity
def test_two_equal_policies_are_told_apart_as_rarely_as_promised(repetitions, looks, order):
    """Jointly over questions and looks, at a delta that would be noticed; sorted rows at random."""
    rng = np.random.default_rng(12)
    wrong = 0
    for _ in range(repetitions):
        totals, fails = equal_policies(rng, looks[-1])
        if order == "random":
            totals.sort()
        told = False
        for n in looks:
            pair = [log(totals[side, :n], terminated=fails[side, :n]) for side in (0, 1)]
            found = compare(*pair, delta=0.1, delta_prime=0.1, order=order)
            told |= any(interval.is_decided for interval in found.intervals)
        wrong += told
    assert wrong <= binom.ppf(1 - 1e-6, repetitions, 0.2)


def test_intervals_only_get_narrower_and_a_drifting_log_is_a_contradiction():
    ledger = Ledger.comparison(["return"], delta=0.05, delta_prime=0.05)
    early, late = (
        Question("return", "", "", "", (np.ones(1),) * 2, np.repeat([1.0, -1.0], counts))
        for counts in ((60, 0), (60, 3000))
    )
    before = intersect(early, ledger)
    after = intersect(late, ledger, before)
    assert after.low >= before.low
    assert after.high <= before.high
    assert after.verdict == "contradiction"
