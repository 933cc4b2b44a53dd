"""A Gymnasium environment with a monitor watching."""

from typing import Any

import gymnasium as gym
import numpy as np

from tightrope.deploy.monitor import Monitor, Status
from tightrope.errors import InputError

__all__ = ["MonitorWrapper"]


class MonitorWrapper(gym.Wrapper):
    """Shows every step to a monitor; its status is in ``info["monitor"]`` and in `status`.

    Nothing else is changed: what to do about an alarm is up to whoever runs the episodes.

    Args:
        env: with flat observations, as the certificate's; others are flattened to be shown.
        monitor: for such observations.

    Raises:
        InputError: the observations are of another size.
    """

    def __init__(self, env: gym.Env, monitor: Monitor) -> None:
        super().__init__(env)
        space = env.observation_space
        size = gym.spaces.flatdim(space) if space.is_np_flattenable else None
        if size != monitor.features:
            name = str(env) if env.spec is None else env.spec.id
            raise InputError(
                f"expected an environment with {monitor.features} numbers in an observation, found "
                f"{size or 'none'} in {name!r}: it is not the one that was certified"
            )
        self.monitor = monitor
        self.status: Status | None = None

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**arguments)
        self.status = self.monitor.reset(self._flat(observation))
        return observation, {**info, "monitor": self.status}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Go on by one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.status = self.monitor.step(
            float(reward), self._flat(observation), terminated, truncated
        )
        return observation, reward, terminated, truncated, {**info, "monitor": self.status}

    def _flat(self, observation: Any) -> Any:
        return np.asarray(gym.spaces.flatten(self.env.observation_space, observation))
