"""Built-in processes are what they say, and certificates warn where an assumption is broken."""

import numpy as np
import pytest
from recordings import short_fits
from scipy.stats import pearsonr
from tightrope.studies.audit.processes import PROCESSES

from tightrope.certificates import Options, certify_many
from tightrope.rollouts import discounted_returns

COUNT = 4000


def new(name, seed=0):
    return PROCESSES[name].new(COUNT, np.random.default_rng(seed))


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_gives_whole_episodes_and_the_same_ones_for_a_seed(name):
    episodes = new(name)
    assert len(episodes) == COUNT
    assert (episodes.truncated != episodes.terminated).all()
    assert len(set(episodes.seeds.tolist())) == COUNT
    limit = PROCESSES[name].options["time_limit"]
    assert episodes.lengths.max() == limit
    assert (episodes.lengths[episodes.truncated] == limit).all()
    again = new(name)
    assert np.array_equal(again.rewards, episodes.rewards)
    assert not np.array_equal(new(name, 1).rewards[:10], episodes.rewards[:10])


@pytest.mark.parametrize("name", [name for name in PROCESSES if PROCESSES[name].known])
def test_what_is_known_in_closed_form_agrees_with_plain_draws(name):
    episodes, process = new(name), PROCESSES[name]
    starts = episodes.offsets[:-1]
    values = {
        "early-termination": episodes.terminated.astype(float),
        "discounted-return": discounted_returns(episodes, process.options["gamma"])[starts],
        "undiscounted-return": np.add.reduceat(episodes.rewards, starts),
    }
    for target, known in process.known.items():
        found = values[target]
        assert abs(found.mean() - known) <= 5 * found.std() / COUNT**0.5, target


@pytest.mark.parametrize("name", [n for n in PROCESSES if "return_floor" in PROCESSES[n].options])
def test_no_return_is_below_its_floor(name):
    episodes = new(name)
    sums = np.add.reduceat(episodes.rewards, episodes.offsets[:-1])
    assert sums.min() >= PROCESSES[name].options["return_floor"]


def test_steps_are_correlated_where_they_should_be_and_nowhere_else():
    for name, least, most in (("independent", -0.03, 0.03), ("correlated", 0.4, 0.6)):
        rewards = new(name).rewards.reshape(COUNT, -1)
        assert least < pearsonr(rewards[:, 0], rewards[:, 1])[0] < most


def test_one_episode_in_two_hundred_is_a_catastrophe_from_its_first_step_on():
    episodes = new("catastrophes")
    rewards = episodes.rewards.reshape(COUNT, -1)
    assert (rewards[episodes.terminated] == -2.5).all()
    assert 5 <= episodes.terminated.sum() <= 45


def test_most_returns_of_the_clipping_process_are_outside_its_range():
    low, high = PROCESSES["clipping"].options["return_range"]
    rewards = new("clipping").rewards
    assert np.mean((rewards < low) | (rewards > high)) == pytest.approx(0.79, abs=0.03)


def test_survivors_have_more_steps_and_are_the_sturdy_ones():
    episodes = new("survivorship")
    assert 0.5 < episodes.terminated.mean() < 0.95
    assert len(set(episodes.lengths.tolist())) > 30
    hint = np.add.reduceat(episodes.observations[:, 1], episodes.offsets[:-1]) / episodes.lengths
    assert pearsonr(hint, episodes.lengths)[0] < -0.3


def test_every_episode_of_the_time_limit_process_is_cut():
    assert new("time-limit").truncated.all()


def test_a_drifting_process_changes_while_it_is_recorded_and_new_ones_come_after():
    process = PROCESSES["drifting"]
    recorded = process.record(COUNT, np.random.default_rng(0)).rewards.reshape(COUNT, -1)
    quarters = recorded.mean(axis=1).reshape(4, -1).mean(axis=1)
    assert quarters == pytest.approx([0.1875, 0.5625, 0.9375, 1.3125], abs=0.05)
    assert new("drifting").rewards.mean() == pytest.approx(1.5, abs=0.05)
    for name in set(PROCESSES) - {"drifting"}:  # the others are the same at all times
        same = PROCESSES[name].record(50, np.random.default_rng(3))
        assert np.array_equal(
            same.rewards, PROCESSES[name].new(50, np.random.default_rng(3)).rewards
        )


@pytest.mark.parametrize(
    ("name", "dependent", "drifting"),
    [("independent", False, False), ("correlated", True, False), ("drifting", None, True)],
)
def test_certificates_warn_where_an_assumption_is_broken(name, dependent, drifting):
    process = PROCESSES[name]
    options = Options.of({**process.options, "pilot_episodes": 4, "episodes": 60})
    for seed in range(3):
        episodes = process.record(64, np.random.default_rng(seed))
        with short_fits(hidden=(8, 8)):
            ((found,),) = certify_many(episodes, [options], [seed])
        assert found.checks.drifting is drifting
        if dependent is not None:
            assert found.checks.dependent is dependent
