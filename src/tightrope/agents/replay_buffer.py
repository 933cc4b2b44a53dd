"""A replay buffer that holds every observation once and in float32: a quarter of SB3's memory."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["CompactReplayBuffer"]


class CompactReplayBuffer(ReplayBuffer):
    """SB3's replay buffer: the same draws, and the same samples as its networks see them.

    These cast observations to float32, so nothing wider is held. The observation after a step is
    that of the row below; where it is not, at the end of an episode and at the newest row, it is
    kept apart.

    A time limit does not count as an end.

    Args:
        buffer_size: transitions it holds, over all environments.
        observation_space: of the environment, a Box.
        action_space: of the environment.
        options: device and number of environments, as for SB3's buffer.

    Attributes:
        added: rows ever added; row k of the run is in slot k % buffer_size.
        apart: by slot, (n_envs, …) the observations after it where the next slot lacks them.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        **options: Any,
    ) -> None:
        held = np.float32 if observation_space.dtype.itemsize > 4 else observation_space.dtype
        # SB3's own way to hold observations once forgets the last one of an episode and the oldest
        # transition: only its arrays are taken.
        options |= {"optimize_memory_usage": True, "handle_timeout_termination": False}
        box = spaces.Box(0, 1, observation_space.shape, held)
        super().__init__(buffer_size, box, action_space, **options)
        self.observation_space = observation_space
        self.optimize_memory_usage, self.handle_timeout_termination = False, True
        self.added = 0
        self.apart: dict[int, NDArray[Any]] = {}

    def reset(self) -> None:
        """Forget all transitions."""
        self.apart.clear()
        self.go_to(0)

    def go_to(self, added: int) -> None:
        """Set the number of rows added, and with it the next slot."""
        self.added = added
        self.pos, self.full = added % self.buffer_size, added >= self.buffer_size

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Add one step of every environment."""
        slot, newest = self.pos, (self.pos - 1) % self.buffer_size
        self.observations[slot] = obs
        after = self.apart.get(newest)
        if after is not None and after.tobytes() == self.observations[slot].tobytes():
            del self.apart[newest]
        self.apart[slot] = np.array(next_obs, self.observations.dtype)
        self.actions[slot] = action.reshape(self.n_envs, self.action_dim)
        self.rewards[slot], self.dones[slot] = reward, done
        self.timeouts[slot] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.go_to(self.added + 1)

    def _get_samples(
        self, batch_inds: NDArray[Any], env: VecNormalize | None = None
    ) -> ReplayBufferSamples:
        envs = np.random.randint(0, self.n_envs, size=len(batch_inds))  # noqa: NPY002  # as SB3
        drawn = batch_inds, envs
        after = self.observations[(batch_inds + 1) % self.buffer_size, envs]  # (batch, …)
        for row, slot in enumerate(batch_inds.tolist()):
            if slot in self.apart:
                after[row] = self.apart[slot][envs[row]]
        ends = self.dones[drawn] * (1 - self.timeouts[drawn])
        batch: tuple[Any, ...] = (
            self._normalize_obs(self.observations[drawn], env),
            self.actions[drawn],
            self._normalize_obs(after, env),
            ends.reshape(-1, 1),
            self._normalize_reward(self.rewards[drawn].reshape(-1, 1), env),
        )
        # Indexing by arrays has already copied.
        return ReplayBufferSamples(*(self.to_torch(array, copy=False) for array in batch))
