"""A worker process: runs its share of the episodes in several environments at once.

Started as a fresh Python by `collect`, not through multiprocessing: that would import the
caller's main script again. It gets its job and answers through a pipe, and keeps a small shared
board up to date, from which the parent reads progress and, if nothing moves any more, which
episode hangs.
"""

import gc
import mmap
import os
import pickle
import struct
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tightrope.environments import Recipe
from tightrope.errors import InputError
from tightrope.policies.base import (
    BLOCK,
    ActionError,
    Policy,
    act_in_blocks,
    check_actions,
    rows_are_stable,
)
from tightrope.rollouts.episodes import Episode

__all__ = ["BOARD", "Job", "main", "run"]

BOARD = struct.Struct("qq")  # (index of the episode being stepped, steps done)


@dataclass(frozen=True)
class Job:
    """What one worker does: episodes (index, seed) shared out over its environments beforehand."""

    recipe: Recipe
    policy: bytes  # cloudpickle
    registration: bytes  # cloudpickle of Gymnasium's entry, for environments of the user's own
    quotas: tuple[tuple[tuple[int, int], ...], ...]  # one queue of episodes per environment


class _Slot:
    """One environment and the episode it is in."""

    def __init__(self, env: Any, quota: tuple[tuple[int, int], ...], noise_size: int) -> None:
        self.env, self.quota, self.noise_size = env, list(quota), noise_size

    def begin(self) -> bool:
        """Reset to the next episode of the quota; False if there is none left."""
        if not self.quota:
            return False
        self.index, self.seed = self.quota.pop(0)
        # A generator of the episode's own: its actions do not depend on what runs beside it.
        self.generator = np.random.default_rng([self.seed, 1]) if self.noise_size else None
        self.success: bool | None = None
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        observation, _ = self.env.reset(seed=self.seed)
        self.observation = observation
        return True

    def finish(self, final: Any, terminated: bool, truncated: bool) -> Episode:
        return Episode(
            observations=np.stack(self.observations),
            rewards=np.array(self.rewards, dtype=np.float64),
            terminated=terminated,
            truncated=truncated,
            seed=self.seed,
            actions=np.stack(self.actions),
            final_observation=np.asarray(final, dtype=np.float32),
            success=self.success,
        )


def run(job: Job, send: Any, board: Any) -> None:
    """Run a job: send ("episode", index, Episode) for each, then ("done",)."""
    index = -1
    try:
        policy, slots, block = _prepare(job)
        space = slots[0].env.action_space
        features = slots[0].env.observation_space.shape[0]
        send(("ready",))
        steps = 0
        active = []
        for slot in slots:
            index = slot.quota[0][0]
            BOARD.pack_into(board, 0, index, steps)
            slot.begin()
            active.append(slot)
        while active:
            observations = np.empty((len(active), features), np.float32)
            noise = np.empty((len(active), policy.noise_size), np.float32)
            for row, slot in enumerate(active):
                index = slot.index
                observations[row] = slot.observation
                if slot.generator is not None:
                    noise[row] = slot.generator.standard_normal(policy.noise_size, np.float32)
            finite = np.isfinite(observations).all(axis=1)
            if not finite.all():
                index = active[int(np.argmin(finite))].index
                raise InputError("expected finite observations, found NaN or infinity")
            try:
                actions = act_in_blocks(policy, observations, noise, block=block)
                check_actions(policy, actions, space)
            except ActionError as error:
                index = active[error.row or 0].index
                raise
            ended = False
            for row, slot in enumerate(active):
                index = slot.index
                BOARD.pack_into(board, 0, index, steps)
                action = actions[row]
                slot.observations.append(observations[row])
                slot.actions.append(action)
                observation, reward, terminated, truncated, info = slot.env.step(action)
                slot.rewards.append(float(reward))
                slot.observation = observation
                steps += 1
                if "success" in info:
                    slot.success = bool(slot.success) or bool(info["success"])
                if terminated or truncated:
                    send(("episode", index, slot.finish(observation, terminated, truncated)))
                    ended = True
                    slot.observation = None
            if ended:
                for slot in active:
                    if slot.observation is None and slot.quota:
                        index = slot.quota[0][0]
                        BOARD.pack_into(board, 0, index, steps)
                        slot.begin()
                active = [slot for slot in active if slot.observation is not None]
        BOARD.pack_into(board, 0, -1, steps)
    except InputError as error:
        send(("failed", index, str(error)))
    except Exception as error:  # whatever the environment or the policy raises
        line = " ".join(str(error).split())
        send(("failed", index, f"{type(error).__name__}: {line}"))
    else:
        send(("done",))


def _prepare(job: Job) -> tuple[Policy, list[_Slot], int]:
    """Policy, environments, and how many rows the policy is called with."""
    import gymnasium as gym

    entry = pickle.loads(job.registration)
    if entry is not None:
        gym.registry.setdefault(entry.id, entry)
    policy: Policy = pickle.loads(job.policy)
    if not policy.deterministic and not policy.noise_size:
        import torch

        # It draws from torch's global generator, which starts alike in every process.
        torch.manual_seed(job.quotas[0][0][1])
    slots = [_Slot(job.recipe.make(), quota, policy.noise_size) for quota in job.quotas]
    features = slots[0].env.observation_space.shape[0]
    # A policy whose rounding depends on its neighbours is called for one row at a time.
    return policy, slots, BLOCK if rows_are_stable(policy, features) else 1


def main() -> None:
    """Entry point of the worker process: file descriptors of pipe and board as arguments."""
    connection = Connection(int(sys.argv[1]))
    board = mmap.mmap(int(sys.argv[2]), BOARD.size)
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    # Modules of the working directory count, but must not hide others: a user's random.py.
    sys.path.append(os.getcwd())
    job = pickle.loads(connection.recv_bytes())
    gc.freeze()  # nothing imported so far is garbage; do not look at it again
    run(job, connection.send, board)
    connection.close()
