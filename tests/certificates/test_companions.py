"""Companion statements against the bounds themselves, with returns added up by plain loops."""

import dataclasses

import numpy as np
import pytest
from recordings import recording, short_fits

from tightrope.bounds import betting_lower, clopper_pearson_upper
from tightrope.certificates import Options, certify
from tightrope.certificates.companions import companions
from tightrope.certificates.data import prepare
from tightrope.rollouts import Episode, join

PILOT = 4
DELTA = 0.05


def mixed(count=24, seed=2):
    """Episodes of several lengths, some of which terminate early, some without success."""
    rng = np.random.default_rng(seed)
    episodes = []
    for index in range(count):
        length = int(rng.integers(2, 8))
        early = length < 5
        episodes.append(
            Episode(
                rng.normal(size=(length, 3)).astype(np.float32),
                rng.normal(0.5, 1.0, length),
                terminated=early,
                truncated=not early,
                seed=index,
                success=bool(index % 3),
            )
        )
    return join(episodes, {"log": "mixed"})


def found(recorded, *, gamma=0.9, **options):
    fail_below = options.pop("fail_below", None)
    data = prepare(recorded, Options(pilot_episodes=PILOT, thin=1, gamma=gamma, **options))
    return companions(data, gamma=gamma, delta=DELTA, fail_below=fail_below), data


def plain_returns(recorded, gamma):
    """Discounted return of each validation episode from its start."""
    returns = []
    for episode in list(recorded)[PILOT:]:
        value = 0.0
        for step, reward in enumerate(episode.rewards.tolist()):
            value += gamma**step * reward
        returns.append(value)
    return returns


def by_quantity(statements):
    return {statement.quantity: statement for statement in statements}


def only(statements, *words):
    (match,) = [s for s in statements if all(word in s.quantity for word in words)]
    return match


def test_the_expected_discounted_return_is_bounded_from_the_starts_of_episodes():
    recorded = mixed()
    statements, data = found(recorded)
    statement = only(statements, "expected discounted return", "0.9")
    returns, low, high = plain_returns(recorded, 0.9), data.scaling.low, data.scaling.high
    scaled = [min(max((g - low) / (high - low), 0.0), 1.0) for g in returns]
    expected = low + (high - low) * float(betting_lower(scaled, delta=DELTA))
    assert statement.bound == pytest.approx(expected, rel=1e-9)
    clipped = [min(max(g, low), high) for g in returns]
    assert statement.estimate == pytest.approx(sum(clipped) / 20, rel=1e-12)
    assert (statement.side, statement.confidence, statement.n) == ("at least", 1 - DELTA, 20)
    assert f"clipped to [{low:.6g}, {high:.6g}], the range of the pilot" in statement.note
    assert statement.bound < statement.estimate


def test_the_expected_undiscounted_return_uses_the_widened_range_of_the_pilots_sums():
    recorded = mixed()
    statements, _ = found(recorded)
    statement = only(statements, "expected undiscounted return")
    pilot = [sum(e.rewards.tolist()) for e in list(recorded)[:PILOT]]
    low = min(pilot) - 0.1 * (max(pilot) - min(pilot))
    high = max(pilot) + 0.1 * (max(pilot) - min(pilot))
    returns = plain_returns(recorded, 1.0)
    scaled = [min(max((g - low) / (high - low), 0.0), 1.0) for g in returns]
    expected = low + (high - low) * float(betting_lower(scaled, delta=DELTA))
    assert statement.bound == pytest.approx(expected, rel=1e-9)
    clipped = [min(max(g, low), high) for g in returns]
    assert statement.estimate == pytest.approx(sum(clipped) / 20, rel=1e-12)
    below = sum(g < low for g in returns)
    assert below > 0
    assert f"{below} of 20 episodes returned less" in statement.note


def test_undiscounted_returns_are_stated_once():
    statements, _ = found(mixed(), gamma=1.0)
    assert sum("return" in s.quantity for s in statements) == 1
    # Without a pilot there is no range for the sums, and nothing is said of them.
    data = prepare(mixed(), Options(pilot_episodes=0, thin=1, gamma=0.9, return_range=(-5.0, 9.0)))
    bare = companions(data, gamma=0.9, delta=DELTA, fail_below=None)
    assert not any("undiscounted" in s.quantity for s in bare)


EVENTS = {
    "terminates early": lambda episode: episode.terminated,
    "no success": lambda episode: not episode.success,
    "below 1.5": lambda episode: sum(episode.rewards.tolist()) < 1.5,
}


@pytest.mark.parametrize(("words", "happened"), EVENTS.items(), ids=EVENTS)
def test_probabilities_of_failure_are_exact_binomial_bounds_on_counts(words, happened):
    recorded = mixed()
    statements, _ = found(recorded, fail_below=1.5)
    statement = only(statements, "probability", words)
    count = sum(1 for episode in list(recorded)[PILOT:] if happened(episode))
    assert 0 < count < 20
    expected = float(clopper_pearson_upper(count, n=20, delta=DELTA))
    assert statement.bound == pytest.approx(expected, rel=1e-12)
    assert (statement.side, statement.confidence) == ("at most", 1 - DELTA)
    assert (statement.estimate, statement.n) == (count / 20, 20)


def test_a_return_of_exactly_the_threshold_is_no_failure():
    recorded = dataclasses.replace(mixed(), rewards=np.ones(len(mixed().rewards)))
    lengths = recorded.lengths[PILOT:].tolist()
    data_options = {"return_range": (0.0, 9.0), "fail_below": 5.0}
    statement = only(found(recorded, **data_options)[0], "below 5")
    assert statement.estimate == sum(length < 5 for length in lengths) / 20


def test_without_success_flags_nothing_is_said_of_success():
    bare = dataclasses.replace(mixed(), success=None)
    quantities = by_quantity(found(bare)[0])
    assert not any("success" in quantity for quantity in quantities)
    assert len(quantities) == 3


def test_no_early_end_in_twenty_episodes_by_hand():
    # (H.4) with k = 0: 1 - 0.05^(1/20) = 0.139108
    statement = only(found(recording(24))[0], "terminates early")
    assert statement.estimate == 0.0
    assert statement.bound == pytest.approx(0.1391083, abs=1e-6)


def test_each_companion_has_the_failure_probability_delta_alone():
    recorded = mixed()
    with short_fits():
        certificate = certify(
            recorded,
            scheme="rec-2",
            pilot_episodes=PILOT,
            thin=1,
            gamma=0.9,
            mc_passes=2,
            delta=DELTA,
            delta_prime=0.2,
            fail_below=1.5,
        )
    expected, _ = found(recorded, fail_below=1.5)
    assert list(certificate.companions) == expected
    assert {c.confidence for c in certificate.companions} == {1 - DELTA}
    assert certificate.confidence == pytest.approx(0.75)


def test_a_lower_bound_on_a_clipped_mean_does_not_pass_for_one_on_the_mean():
    """Every pilot episode survives to 20 steps at reward 1; half of the others fall after 5.

    The mean return is 12.5, but clipped to the pilot's range every return counts as 20.
    """
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(34):
        length = 20 if index < PILOT or index % 2 else 5
        observations = rng.normal(size=(length, 3)).astype(np.float32)
        episodes.append(Episode(observations, np.ones(length), length < 20, length == 20))
    statement = only(found(join(episodes, {"log": "falls"}))[0], "expected undiscounted return")
    assert "clipped" in statement.quantity
    assert statement.bound <= statement.estimate == pytest.approx(20)
    assert "15 of 30 episodes returned less" in statement.note
    assert "may be below this bound" in statement.note
