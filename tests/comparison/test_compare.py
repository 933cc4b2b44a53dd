"""Comparisons say who is better as rarely wrongly as promised, and refuse what cannot be compared.

The differences are computed by plain loops here; the bounds on their mean have tests of their own.
"""

import json

import numpy as np
import pytest
from common_seeds import Rewarding, high, low
from recordings import recording, short_fits
from scipy.stats import binom

from tightrope import certify, compare
from tightrope.bounds import difference_lower, difference_upper
from tightrope.certificates import load_certificate
from tightrope.certificates.ledger import comparison_ledger
from tightrope.certificates.request import Rollout
from tightrope.errors import InputError
from tightrope.monitors.answers import answer, failures, narrowed, returns, spreads
from tightrope.monitors.comparing import QUESTIONS, with_statistics
from tightrope.rollouts import Episode, join

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
                seed=-1 if seeds is None else seeds[index],
                success=None if success is None else bool(success[index]),
            )
            for index, (total, flag) in enumerate(zip(totals, flags, strict=True))
        ],
        subject or {},
    )


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(5)
    first, second = rng.normal(3.0, 0.3, 80), rng.normal(0.0, 3.0, 80)
    return first, second, rng.random(80) < 0.1, rng.random(80) < 0.6


@pytest.fixture(scope="module")
def found(drawn):
    first, second, fails, others = drawn
    return compare(log(first, terminated=fails), log(second, terminated=others))


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
        answer = found.answer(name)
        assert answer.effect == pytest.approx(np.mean(values))
        assert answer.low == pytest.approx(float(difference_lower(values, delta=SIDE)), abs=1e-9)
        assert answer.high == pytest.approx(float(difference_upper(values, delta=SIDE)), abs=1e-9)
        assert answer.n == len(values)
    assert found.confidence == 0.965
    assert sum(entry.failure for entry in found.ledger) == pytest.approx(0.035)


def test_positive_is_a_better_and_exchanging_them_exchanges_the_verdicts(found, drawn):
    first, second, fails, others = drawn
    assert [answer.verdict for answer in found.answers] == ["A better"] * 3
    assert found.decided
    mirrored = compare(log(second, terminated=others), log(first, terminated=fails))
    assert [answer.verdict for answer in mirrored.answers] == ["B better"] * 3
    for one, other in zip(found.answers, mirrored.answers, strict=True):
        assert (one.low, one.high) == (-other.high, -other.low)
        assert (one.first, one.second) == (other.second, other.first)


def test_with_a_range_expectations_are_compared_in_return_units(drawn):
    first, second, *_ = drawn
    found = compare(log(first), log(second), return_range=(-20.0, 20.0))
    answer = found.answer("return")
    assert answer.effect == pytest.approx(first.mean() - second.mean())
    scaled = [(a - b) / 40 for a, b in zip(first, second, strict=True)]
    assert answer.low == pytest.approx(40 * float(difference_lower(scaled, delta=SIDE)))
    gini = [abs(x[0::2] - x[1::2]).mean() for x in (first, second)]
    assert found.answer("predictability").effect == pytest.approx(gini[1] - gini[0])
    with pytest.raises(InputError, match=r"outside the range \[-1, 1\].* a wider `return_range`"):
        compare(log(first), log(second), return_range=(-1.0, 1.0))


def test_the_same_episodes_on_both_sides_are_never_decided():
    episodes = log(np.arange(50.0), seeds=range(50))
    found = compare(episodes, episodes)
    assert [answer.effect for answer in found.answers] == [0.0] * 3
    assert not found.decided
    assert str(found).count("not decided with 50 episodes") == 3


def test_pairing_by_seed_sees_what_unpaired_episodes_hide():
    """A is better by a little on every seed, whose spread is large."""
    level = np.random.default_rng(0).normal(0.0, 100.0, 40)
    order = np.random.default_rng(1).permutation(40)
    first = log(level + 1.0, seeds=range(40))
    paired = compare(first, log(level[order], seeds=order))
    assert paired.answer("return").verdict == "A better"
    assert paired.pairing == "paired by seed"
    apart = compare(first, log(level[order], seeds=100 + order))
    assert apart.answer("return").verdict == "not decided"
    assert apart.pairing.startswith("not paired by seed")


def test_which_failure_is_meant():
    totals, success = np.arange(20.0), np.arange(20) % 2 == 0
    plain, recorded = log(totals), log(totals, success=success)
    assert "terminates early" in compare(plain, plain).answer("failure").measure
    assert "is no success" in compare(recorded, recorded).answer("failure").measure
    low = compare(plain, plain, fail_below=5.0).answer("failure")
    assert "returns less than 5" in low.measure
    assert low.first == 0.25
    with pytest.raises(InputError, match="that record success for `failure` success"):
        compare(plain, recorded, failure="success")


REFUSED = {
    "environments": (
        {"subject": {"environment": {"id": "Hopper-v4"}}},
        {"subject": {"environment": {"id": "Ant-v4"}}},
        "one environment, found Hopper-v4 in A and Ant-v4 in B",
    ),
    "observations": ({}, {"features": 3}, "of one size, found 2 features in A and 3 in B"),
    "a partial collection": (
        {},
        {"subject": {"partial": "3 of 9"}},
        "whole collection as B, found a partial one",
    ),
}


@pytest.mark.parametrize(("first", "second", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_one_line(first, second, words):
    with pytest.raises(InputError, match=words):
        compare(log(np.arange(4.0), **first), log(np.arange(4.0), **second))


def test_a_policy_and_a_recording_are_refused_and_so_is_a_rollout_of_recordings():
    episodes = log(np.arange(4.0))
    with pytest.raises(InputError, match="found a policy as A and recorded episodes as B"):
        compare(lambda observations: observations, episodes)
    with pytest.raises(InputError, match="expected no `env` for recorded episodes"):
        compare(episodes, episodes, "Hopper-v4")
    with pytest.raises(InputError, match="expected no `workers` for recorded episodes"):
        compare(episodes, episodes, rollout=Rollout(workers=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 1}, "`batch` must be a whole number of at least 2"),
        ({"max_episodes": 0}, "`max_episodes` must be"),
        ({"gamma": 2.0}, r"`gamma` must be in \[0, 1\]"),
        ({"return_range": (1.0, 1.0)}, "finite `return_range` LO < HI"),
        ({"failure": "return"}, "expected `fail_below`"),
        ({"failure": "early", "fail_below": 1.0}, "expected no `fail_below`"),
        ({"failure": "fall"}, "expected `failure` among"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\)"),
        ({"episodes": 3}, "found 'episodes'"),
    ],
)
def test_wrong_options_are_one_line(options, words):
    with pytest.raises(InputError, match=words):
        compare(log(np.arange(4.0)), log(np.arange(4.0)), **options)


# --- policies, rolled out here --------------------------------------------------------------------


def test_policies_are_rolled_out_on_common_seeds_until_decided():
    """Seeds decide most of the return: only pairs show that `high` is better in every episode."""
    found = compare(
        *(high, low, Rewarding),
        rollout=Rollout(workers=1),
        batch=12,
        max_episodes=24,
        seed=1,
    )
    assert found.answer("return").verdict == "A better"
    assert found.answer("return").effect == 1.0
    assert found.answer("failure").effect == 0.0
    assert found.episodes == 24  # the other questions never are decided
    assert found.pairing == "paired by seed"
    assert found.names == ("high", "low")
    for one, other in zip(*found.returns, strict=True):
        assert 0.4999 <= one - other <= 0.7001  # 0.1 in each of 5 to 7 steps
    assert json.loads(json.dumps(found.to_json()))["answers"][0]["verdict"] == "A better"


def test_policies_trained_in_two_environments_are_refused(trained, tmp_path):
    from tightrope.environments import recipe

    for name, changes in (
        ("a", {}),
        ("b", {"environment": recipe("MountainCarContinuous-v0").to_json()}),
    ):
        (tmp_path / name).mkdir()
        trained(tmp_path / name, **changes)
    with pytest.raises(InputError, match="found Pendulum-v1 for A and MountainCarContinuous-v0"):
        compare(tmp_path / "a", tmp_path / "b")


def test_b_may_have_observation_statistics_of_its_own(tmp_path):
    given = Rollout(workers=3, no_normalize=True)
    assert with_statistics(given, "same") is given
    own = with_statistics(given, tmp_path / "b.npz")
    assert (own.normalize, own.no_normalize, own.workers) == (tmp_path / "b.npz", False, 3)
    assert with_statistics(own, "none") == Rollout(workers=3)


# --- certificates ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Folders of certificates of a policy that is easy to predict, and of one that is not."""
    folder = tmp_path_factory.mktemp("compared")

    def make(name, noise, seed, **options):
        given = {"pilot_episodes": 4, "thin": 2, "seed": 0, **options}
        with short_fits(regression_steps=60):
            certify(recording(60, seed=seed, noise=noise), **given).save(folder / name)
        return folder / name

    return make


def test_of_two_certificates_the_predictors_are_compared_on_episodes_they_did_not_see(certificates):
    easy, hard = certificates("easy", 0.05, 1), certificates("hard", 2.0, 2)
    with pytest.raises(InputError, match="or none, found"):  # both recordings count from seed 0
        compare(easy, log(np.arange(4.0), seeds=[58, 59, 60, 61], features=3))
    found = compare(easy, hard)
    answer = found.answer("predictability")
    c = load_certificate(easy)
    assert answer.n == 60 - c.episodes.pilot - c.episodes.free
    assert answer.verdict == "A better"
    assert found.gamma == c.options.gamma == 0.99
    assert "RMS error" in answer.figure


def test_certificates_of_other_discounts_or_units_are_refused(certificates):
    plain = certificates("plain", 0.3, 1)
    for name, options, words in (
        ("gamma", {"gamma": 0.9}, "with one discount, found 0.99 in A and 0.9 in B"),
        ("unit", {"unit": "episode"}, "with one unit, found step in A and episode in B"),
    ):
        with pytest.raises(InputError, match=words):
            compare(plain, certificates(name, 0.3, 1, **options))
    with pytest.raises(InputError, match=r"the `gamma` of the certificates, 0\.99, found 1"):
        compare(plain, plain, gamma=1.0)


# --- how often a verdict is wrong -----------------------------------------------------------------


def equal_policies(rng, episodes):
    """Returns and failures of two policies that do not differ."""
    return rng.standard_t(2, (2, episodes)), rng.random((2, episodes)) < 0.3


def test_two_equal_policies_are_told_apart_as_rarely_as_promised():
    """Jointly over the three questions, looked at three times, at a delta that would be noticed."""
    rng = np.random.default_rng(11)
    repetitions, looks = 150, (20, 40, 80)
    ledger = comparison_ledger(QUESTIONS, delta=0.1, delta_prime=0.1)
    draws = [equal_policies(rng, looks[-1]) for _ in range(repetitions)]
    told = np.zeros(repetitions, bool)
    for n in looks:
        for asked in (
            [returns(*totals[:, :n], None) for totals, _ in draws],
            [failures(*fails[:, :n], "it fails") for _, fails in draws],
            [spreads(*totals[:, :n], None) for totals, _ in draws],
        ):
            rows, name = np.stack([each.differences for each in asked]), asked[0].question
            told |= difference_lower(rows, delta=ledger.failure(f"{name}: lower")) > 0
            told |= difference_upper(rows, delta=ledger.failure(f"{name}: upper")) < 0
    assert told.sum() <= binom.ppf(1 - 1e-6, repetitions, 0.2)


@pytest.mark.validity
def test_two_equal_policies_are_told_apart_as_rarely_as_promised_by_compare():
    rng = np.random.default_rng(12)
    repetitions, wrong = 300, 0
    for _ in range(repetitions):
        totals, fails = equal_policies(rng, 200)
        told = False
        for n in (50, 100, 200):
            sides = [log(totals[side, :n], terminated=fails[side, :n]) for side in (0, 1)]
            found = compare(*sides, delta=0.1, delta_prime=0.1)
            told |= any(answer.verdict in ("A better", "B better") for answer in found.answers)
        wrong += told
    assert wrong <= binom.ppf(1 - 1e-6, repetitions, 0.2)


def test_intervals_only_get_narrower_and_a_drifting_log_is_a_contradiction():
    ledger = comparison_ledger(QUESTIONS, delta=0.05, delta_prime=0.05)
    early = returns(np.ones(60), np.zeros(60), None)
    late = returns(np.repeat([1.0, -1.0], [60, 3000]), np.zeros(3060), None)
    before = narrowed(early, ledger)
    after = narrowed(late, ledger, before)
    assert after[0] >= before[0]
    assert after[1] <= before[1]
    assert answer(late, after, ledger).verdict == "contradiction"
