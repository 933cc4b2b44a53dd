"""The wrapper that most runs of rl-baselines3-zoo use: the remaining time as a last feature."""

from typing import Any

import gymnasium as gym
import numpy as np

__all__ = ["TimeFeature"]


class TimeFeature(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """Appends 1 - t / limit to observations, as sb3-contrib's TimeFeatureWrapper does.

    Args:
        env: an environment of vectors, or of a dictionary with a vector `observation`.
        max_steps: limit of an episode whose environment has none.
        test_mode: append 1 at every step, to see whether the policy depends on the time.
    """

    def __init__(self, env: Any, max_steps: int = 1000, test_mode: bool = False) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_steps=max_steps, test_mode=test_mode)
        super().__init__(env)
        space = env.observation_space
        keyed = isinstance(space, gym.spaces.Dict)
        vector = space["observation"] if keyed else space
        low, high = np.append(vector.low, 0.0), np.append(vector.high, 1.0)
        longer = gym.spaces.Box(
            low.astype(vector.dtype), high.astype(vector.dtype), dtype=vector.dtype
        )
        spaces = {**space.spaces, "observation": longer} if keyed else {}
        self.observation_space = gym.spaces.Dict(spaces) if keyed else longer
        self.limit = (env.spec and env.spec.max_episode_steps) or max_steps
        self.test_mode, self.steps = test_mode, 0

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        self.steps = 0
        observation, info = self.env.reset(**kwargs)
        return self._with_time(observation), info

    def step(self, action: Any) -> Any:
        """Take one step."""
        self.steps += 1
        observation, *rest = self.env.step(action)
        return (self._with_time(observation), *rest)

    def _with_time(self, observation: Any) -> Any:
        if isinstance(observation, dict):
            longer = self._with_time(observation["observation"])
            return {**observation, "observation": longer}
        left = 1.0 if self.test_mode else 1.0 - self.steps / self.limit
        return np.append(observation, np.array(left, observation.dtype))
