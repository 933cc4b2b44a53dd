"""What a run records, against plain loops over the same episodes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.errors import InputError


class Walk(gym.Env):
    """A random walk that ends after a random number of steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed_seen = seed
        self.left = int(self.np_random.integers(1, 9))
        return self.np_random.normal(size=2), {}

    def step(self, action):
        self.left -= 1
        row, reward = 3 + self.np_random.normal(size=2), float(self.np_random.normal())
        return row, reward, self.left == 0, False, {}


def play(statistics, episodes):
    """Play whole episodes; returns what a plain loop saw."""
    seen = []
    for _ in range(episodes):
        rows, rewards = [statistics.reset()[0]], []
        over = False
        while not over:
            row, reward, over, _, info = statistics.step(np.zeros(1))
            rows.append(row)
            rewards.append(reward)
        assert info["episode"]["r"] == pytest.approx(sum(rewards))
        assert info["episode"]["l"] == len(rewards)
        seen.append((np.array(rows[:-1]), np.array(rewards)))
    return seen


def test_range_and_moments_are_those_of_all_finished_episodes():
    statistics = TrainingStatistics(Walk(), seed=3, gamma=0.9)
    seen = play(statistics, 40)
    returns = [
        sum(0.9**k * reward for k, reward in enumerate(rewards[t:]))
        for _, rewards in seen
        for t in range(len(rewards))
    ]
    rows = np.concatenate([rows for rows, _ in seen])
    assert statistics.low == pytest.approx(min(returns))
    assert statistics.high == pytest.approx(max(returns))
    np.testing.assert_allclose(statistics.mean, rows.mean(axis=0))
    np.testing.assert_allclose(statistics.deviation, rows.std(axis=0))
    assert statistics.count == len(rows)


def test_an_episode_that_did_not_finish_counts_for_nothing():
    statistics = TrainingStatistics(Walk(), seed=3, gamma=0.9)
    play(statistics, 3)
    before = statistics.state()
    statistics.reset()
    statistics.step(np.zeros(1))
    after = statistics.state()
    assert {**after, "started": 3} == before
    assert after["started"] == 4  # its seed is spent


def test_episode_k_always_starts_from_the_same_seed_of_its_own():
    first, second = (TrainingStatistics(Walk(), seed=5, gamma=0.9) for _ in range(2))
    seeds = [(first.reset(), first.env.seed_seen)[1] for _ in range(20)]
    assert [(second.reset(seed=77), second.env.seed_seen)[1] for _ in range(20)] == seeds
    assert len(set(seeds)) == 20
    other = TrainingStatistics(Walk(), seed=6, gamma=0.9)
    other.reset()
    assert other.env.seed_seen != seeds[0]


def test_a_restored_record_goes_on_as_if_nothing_had_happened():
    whole, part = (TrainingStatistics(Walk(), seed=5, gamma=0.9) for _ in range(2))
    play(whole, 8)
    play(part, 3)
    part.reset()  # as SB3 does it: the next episode has begun, without a step
    resumed = TrainingStatistics(Walk(), seed=5, gamma=0.9)
    resumed.restore(part.state())
    play(resumed, 5)
    assert resumed.state() == whole.state()


def one_step(step):
    """Statistics of an environment with this step, after one."""
    env = Walk()
    env.step, env.reset = step, lambda **_: (np.ones(2), {})
    statistics = TrainingStatistics(env, seed=0, gamma=1.0)
    statistics.reset()
    statistics.step(np.zeros(1))
    return statistics


def test_odd_environments():
    """Constant features have deviation one; what fails is one line."""
    constant = one_step(lambda action: (np.ones(2), 0.0, True, False, {}))
    assert constant.deviation.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="failed at step 0 of training episode 0: ZeroDivision"):
        one_step(lambda action: 1 / 0)
    with pytest.raises(InputError, match="expected finite rewards, found nan"):
        one_step(lambda action: (np.ones(2), float("nan"), False, False, {}))
