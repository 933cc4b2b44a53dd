"""An environment whose seeds decide most of the return, and two policies for it."""

import gymnasium as gym
import numpy as np


class Rewarding(gym.Env):
    """The reward of a step is the action and a number that the seed fixes; 5 to 7 steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.draw, self.left = 10.0 * self.np_random.normal(), int(self.np_random.integers(5, 8))
        return np.array([self.draw, self.left]), {}

    def step(self, action):
        self.left -= 1
        reward = float(np.ravel(action)[0]) + self.draw
        return np.array([self.draw, self.left]), reward, False, self.left == 0, {}


def high(observations):
    return np.full((len(observations), 1), 0.5, np.float32)


def low(observations):
    return np.full((len(observations), 1), 0.4, np.float32)
