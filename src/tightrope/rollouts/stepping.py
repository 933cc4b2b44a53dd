"""One environment, stepped through whole episodes: the only place that steps for a record."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError
from tightrope.rollouts.episodes import Episode

__all__ = ["Recorder", "roll_out"]


class Recorder:
    """An environment and the episode it is in.

    Attributes:
        observation: the current one, as the environment gave it.
        rewards: of the steps so far.
    """

    def __init__(self, env: Any) -> None:
        self.env, self.shape = env, env.observation_space.shape

    def begin(self, seed: int) -> None:
        """Reset; everything random in the episode follows from the seed."""
        self.seed = seed
        self.success: bool | None = None
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self.observation, _ = self.env.reset(seed=seed)
        self._check_observation()

    def step(self, observation: NDArray[np.float32], action: Any) -> None:
        """Act on the observation, which was the current one, and keep what comes of it."""
        self.observations.append(observation)
        self.actions.append(action)
        self.observation, reward, self.terminated, self.truncated, info = self.env.step(action)
        self._check_observation()
        self.rewards.append(float(reward))
        if "success" in info:
            self.success = bool(self.success) or bool(info["success"])

    def _check_observation(self) -> None:
        """A wrong shape must not be broadcast into a row, nor words be read as numbers."""
        found = np.asarray(self.observation)
        if found.shape != self.shape or found.dtype.kind not in "fiub":
            raise InputError(
                f"expected an observation of shape {self.shape} from the environment, found shape "
                f"{found.shape} of {found.dtype} after {len(self.actions)} steps"
            )

    @property
    def ended(self) -> bool:
        """Whether the environment ended the episode."""
        return bool(self.terminated or self.truncated)

    def episode(self) -> Episode:
        """What has been kept, as a whole."""
        return Episode(
            observations=np.stack(self.observations),
            rewards=np.array(self.rewards, dtype=np.float64),
            terminated=bool(self.terminated),
            truncated=bool(self.truncated),
            seed=self.seed,
            actions=np.stack(self.actions),
            final_observation=np.asarray(self.observation, dtype=np.float32),
            success=self.success,
        )


def roll_out(
    act: Callable[[Any], Any],
    env: Any,
    seed: int,
    *,
    watch: Callable[[Recorder], None] | None = None,
) -> Episode:
    """One episode, step by step.

    Args:
        act: the action for an observation as the environment gave it; None stops before the end.
        env: an environment that `EnvInfo.make` built.
        seed: of the episode.
        watch: called after the reset and after every step.
    """
    recorder = Recorder(env)
    recorder.begin(seed)
    while not recorder.ended:
        if watch is not None:
            watch(recorder)
        observation = np.array(recorder.observation, np.float32)  # environments may reuse theirs
        action = act(recorder.observation)
        if action is None:
            break
        recorder.step(observation, action)
    if watch is not None:
        watch(recorder)
    return recorder.episode()
