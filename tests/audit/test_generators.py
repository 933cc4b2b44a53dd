"""Synthetic tasks are what they say, and certificates warn where an assumption is violated."""

import numpy as np
import pytest
from recordings import short
from scipy.stats import pearsonr

from tightrope.audit.generators import TASKS
from tightrope.certificates.certify import certify

COUNT = 4000


def new(name, seed=0):
    return TASKS[name].new(COUNT, np.random.default_rng(seed))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_gives_whole_episodes_and_what_is_known_of_it_agrees_with_them(name):
    episodes, task = new(name), TASKS[name]
    assert (episodes.truncated != episodes.terminated).all()
    assert len(set(episodes.seeds.tolist())) == len(episodes) == COUNT
    assert episodes.lengths.max() == task.options["time_limit"]
    assert (episodes.lengths[episodes.truncated] == task.options["time_limit"]).all()
    assert episodes.returns(1.0).min() >= task.options.get("return_floor", -np.inf)
    assert np.array_equal(new(name).rewards, episodes.rewards)
    assert not np.array_equal(new(name, 1).rewards[:10], episodes.rewards[:10])
    values = {
        "early-termination": episodes.terminated.astype(float),
        "discounted-return": episodes.rewards[episodes.offsets[:-1]],  # the discount is 0
        "undiscounted-return": np.add.reduceat(episodes.rewards, episodes.offsets[:-1]),
    }
    for target, known in task.known.items():
        found = values[target]
        assert abs(found.mean() - known) <= 5 * found.std() / COUNT**0.5, target
    if name != "drifting":  # the others are the same at all times
        made = (draw(50, np.random.default_rng(3)) for draw in (task.record, task.new))
        assert np.array_equal(*(each.rewards for each in made))


def test_tasks_have_the_property_that_they_are_named_for():
    for name, least, most in (("independent", -0.03, 0.03), ("correlated", 0.4, 0.6)):
        rewards = new(name).rewards.reshape(COUNT, -1)
        assert least < pearsonr(rewards[:, 0], rewards[:, 1])[0] < most
    struck = new("catastrophes")
    assert (struck.rewards.reshape(COUNT, -1)[struck.terminated] == -2.5).all()
    low, high = TASKS["clipping"].options["return_range"]
    rewards = new("clipping").rewards
    assert np.mean((rewards < low) | (rewards > high)) == pytest.approx(0.79, abs=0.03)
    falling = new("survivorship")
    assert 0.5 < falling.terminated.mean() < 0.95
    hint = np.add.reduceat(falling.observations[:, 1], falling.offsets[:-1]) / falling.lengths
    assert pearsonr(hint, falling.lengths)[0] < -0.3
    assert new("time-limit").truncated.all()
    recorded = TASKS["drifting"].record(COUNT, np.random.default_rng(0))
    quarters = recorded.rewards.reshape(4, -1).mean(axis=1)
    assert quarters == pytest.approx([0.1875, 0.5625, 0.9375, 1.3125], abs=0.05)
    assert new("drifting").rewards.mean() == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize(
    ("name", "dependent", "drifting"),
    [("independent", False, False), ("correlated", True, False), ("drifting", None, True)],
)
def test_certificates_warn_where_an_assumption_is_violated(name, dependent, drifting):
    task = TASKS[name]
    episodes = task.record(60, np.random.default_rng(0))
    found = certify(episodes, seed=0, preset_values=short(width=8), **task.options).checks
    assert found.drifting is drifting
    assert dependent is None or found.dependent is dependent
