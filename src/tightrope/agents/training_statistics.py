"""What a run sees: episodes with seeds of their own, the range of returns, moments of observations.

A certificate takes its return range and its observation scaling from here, so that a policy
trained by us needs no pilot episodes.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy import signal

from tightrope.errors import InputError
from tightrope.seeds import RunStream, run_seed

__all__ = ["TrainingStatistics", "failures", "following_returns"]


@contextlib.contextmanager
def failures(where: str) -> Iterator[None]:
    """Whatever the environment's own code raises, as one line."""
    try:
        yield
    except Exception as error:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"the environment failed at {where}: {line}") from error


def following_returns(rewards: list[float], gamma: float) -> NDArray[np.float64]:
    """(steps,) the discounted return that follows each step of one episode."""
    backwards = signal.lfilter([1.0], [1.0, -gamma], rewards[::-1])
    return np.asarray(backwards[::-1])


class TrainingStatistics(gym.Wrapper):
    """Counts and measures whole episodes; episode k of a run always starts from the same seed.

    Attributes:
        episodes: finished episodes.
        low: smallest discounted return from any step of a finished episode.
        high: largest such return.
    """

    def __init__(self, env: Any, *, seed: int, gamma: float) -> None:
        super().__init__(env)
        self.gamma, self.root = gamma, seed
        self.started = self.episodes = 0
        self.low, self.high = float("inf"), float("-inf")
        features = int(np.prod(env.observation_space.shape))
        self.count = 0
        self.mean, self.squares = np.zeros(features), np.zeros(features)
        self._observations: list[NDArray[Any]] = []
        self._rewards: list[float] = []

    @property
    def between_episodes(self) -> bool:
        """Whether the current episode has no step yet."""
        return not self._rewards

    @property
    def deviation(self) -> NDArray[np.float64]:
        """(features,) standard deviation of observations; 1 where they never vary."""
        spread = np.sqrt(self.squares / max(self.count, 1))
        return np.where(spread > 1e-6, spread, 1.0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start the next episode of the run; SB3's own seeds are not used."""
        start = run_seed(self.root, RunStream.TRAINING, self.started)
        self.started += 1
        self._rewards.clear()
        with failures(f"the start of training episode {self.started - 1}"):
            observation, info = self.env.reset(seed=start, options=options)
        self._observations = [np.array(observation)]  # environments may reuse theirs
        return observation, info

    def step(self, action: Any) -> Any:
        """Step, and at the end of an episode add it to the record."""
        with failures(f"step {len(self._rewards)} of training episode {self.started - 1}"):
            observation, reward, terminated, truncated, info = self.env.step(action)
        if not math.isfinite(reward):
            raise InputError(f"expected finite rewards, found {reward} from the environment")
        self._rewards.append(float(reward))
        if terminated or truncated:
            info["episode"] = {"r": sum(self._rewards), "l": len(self._rewards), "t": 0.0}
            self._finish()
        else:
            self._observations.append(np.array(observation))
        return observation, reward, terminated, truncated, info

    def state(self) -> dict[str, Any]:
        """The record so far; an episode that has begun is not part of it."""
        started = self.started - 1 if self.between_episodes else self.started
        moments = {"mean": self.mean.tolist(), "squares": self.squares.tolist()}
        numbers = {"low": self.low, "high": self.high, "count": self.count}
        return {"started": started, "episodes": self.episodes, **numbers, **moments}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`; the next reset starts the episode after it."""
        for name in ("started", "episodes", "low", "high", "count"):
            setattr(self, name, state[name])
        self.mean, self.squares = np.array(state["mean"]), np.array(state["squares"])

    def _finish(self) -> None:
        self.episodes += 1
        futures = following_returns(self._rewards, self.gamma)
        self.low, self.high = (
            min(self.low, float(futures.min())),
            max(self.high, float(futures.max())),
        )
        rows = np.reshape(self._observations, (len(self._rewards), -1)).astype(np.float64)
        mean, both = rows.mean(axis=0), self.count + len(rows)  # merged as by Chan et al. (1979)
        shift = mean - self.mean
        self.squares += ((rows - mean) ** 2).sum(axis=0)
        self.squares += shift**2 * (self.count * len(rows) / both)
        self.mean += shift * (len(rows) / both)
        self.count = both
