"""From episodes to (state, discounted return) pairs."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError
from tightrope.rollouts.episodes import Episodes

__all__ = ["GAMMA", "Pairs", "discounted_returns", "first_visits", "pairs"]

GAMMA = 0.99


@dataclass(frozen=True)
class Pairs:
    """Thinned (observation, return) pairs, and the episode and time of each."""

    observations: NDArray[np.float32]  # (pairs, features)
    returns: NDArray[np.float64]  # (pairs,)
    episode: NDArray[np.int64]  # (pairs,), non-decreasing
    step: NDArray[np.int64]  # (pairs,), steps since the start of the episode
    episodes: int

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        features = self.observations.shape[1]
        return f"Pairs({len(self)} pairs of {self.episodes} episodes, {features} features)"


def discounted_returns(episodes: Episodes, gamma: float = GAMMA) -> NDArray[np.float64]:
    r"""Return to the end of the episode from every step, :math:`G_t = r_t + \gamma G_{t+1}`.

    One scan backwards in time over all episodes at once, padded with zero rewards after their
    ends to one length.

    Raises:
        InputError: gamma is outside [0, 1].
    """
    if not 0 <= gamma <= 1:
        raise InputError(f"gamma must be in [0, 1], found {gamma!r}")
    lengths = episodes.lengths
    inside = np.arange(lengths.max()) < lengths[:, None]  # (episodes, longest)
    returns = np.zeros(inside.shape[::-1])  # (longest, episodes)
    returns.T[inside] = episodes.rewards
    for step in range(len(returns) - 2, -1, -1):
        returns[step] += gamma * returns[step + 1]
    return returns.T[inside]


def first_visits(episodes: Episodes) -> NDArray[np.bool_]:
    """(steps,) whether a step is the first of its episode with exactly that observation."""
    visited = np.zeros(len(episodes.rewards), dtype=np.bool_)
    observations = episodes.observations + np.float32(0.0)  # -0.0 and 0.0 are the same observation
    for start, stop in pairwise(episodes.offsets):
        _, first = np.unique(observations[start:stop], axis=0, return_index=True)
        visited[start + first] = True
    return visited


def pairs(episodes: Episodes, *, gamma: float = GAMMA, thin: int = 1) -> Pairs:
    """Every `thin`-th step from t = 0 that is a first visit, with its return.

    Raises:
        InputError: `thin` is not a whole number of at least 1, or gamma is outside [0, 1].
    """
    if thin < 1 or thin != int(thin):
        raise InputError(f"thin must be a whole number of at least 1, found {thin!r}")
    step = np.arange(len(episodes.rewards)) - np.repeat(episodes.offsets[:-1], episodes.lengths)
    kept = np.flatnonzero((step % thin == 0) & first_visits(episodes))
    returns = discounted_returns(episodes, gamma)
    return Pairs(
        observations=episodes.observations[kept],
        returns=returns[kept],
        episode=episodes.episode_of_step[kept],
        step=step[kept],
        episodes=len(episodes),
    )
