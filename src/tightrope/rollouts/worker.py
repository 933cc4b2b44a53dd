"""A worker process: runs its share of the episodes in several environments at once.

Started as a fresh Python by `collect`, not through multiprocessing: that would import the
caller's main script again. It gets its job and answers through a pipe, and keeps a small shared
board up to date, from which the parent reads progress and, if nothing moves any more, which
episode hangs.
"""

import contextlib
import gc
import mmap
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tightrope.environments import EnvInfo
from tightrope.errors import InputError, one_line
from tightrope.imports import quiet_registration
from tightrope.policies import (
    BLOCK,
    ActionError,
    Policy,
    act_in_blocks,
    check_actions,
    rows_are_stable,
)
from tightrope.rollouts.episodes import Episode
from tightrope.rollouts.own import OwnRollout
from tightrope.rollouts.stepping import Recorder, roll_out

__all__ = ["BOARD", "Job", "main", "run"]

BOARD = struct.Struct("qq")  # (index of the episode being stepped, steps done)
_AGAIN = 300  # steps of an episode that are rolled out again

Queue = tuple[tuple[int, int], ...]  # (index, seed) of episodes


@dataclass(frozen=True)
class Job:
    """What one worker does: episodes shared out over its environments beforehand."""

    environment: bytes  # cloudpickle, as are the next two: it may hold a function of the user's
    policy: bytes
    registration: bytes  # Gymnasium's entry, for environments of the user's own
    queues: tuple[Queue, ...]  # one for each environment
    fresh: bool = False  # whether every episode gets an environment of its own


class _Output:
    """What the parent hears: episodes by the pipe, and by the board which one is worked on."""

    def __init__(self, send: Callable[[Any], None], board: Any) -> None:
        self.send, self.board = send, board
        self.index, self.steps = -1, 0

    def at(self, index: int, steps: int = 0) -> None:
        """Say that the episode of this number is being worked on, so many steps further."""
        self.index, self.steps = index, self.steps + steps
        BOARD.pack_into(self.board, 0, index, self.steps)

    def episode(self, index: int, episode: Episode) -> Episode:
        """Send a finished episode, if it is one of finite numbers."""
        self.index = index
        for array in (episode.rewards, episode.observations, episode.final_observation):
            if array is not None and not np.isfinite(array).all():
                raise InputError("expected finite observations and rewards, found NaN or infinity")
        self.send(("episode", index, episode))
        return episode


class _Slot(Recorder):
    """One environment with its queue of episodes."""

    def __init__(self, environment: EnvInfo, queue: Queue, noise_size: int, fresh: bool) -> None:
        super().__init__(environment.make())
        self.environment, self.fresh = environment, fresh
        self.queue, self.noise_size, self.index = list(queue), noise_size, -1

    def next(self, output: _Output) -> None:
        """Reset to the next episode of the queue, if need be in a new environment."""
        if self.fresh and self.index >= 0:
            self.env.close()
            self.env = self.environment.make()
        self.index, seed = self.queue.pop(0)
        output.at(self.index)
        # A generator of the episode's own: its actions do not depend on what runs beside it.
        self.generator = np.random.default_rng([seed, 1]) if self.noise_size else None
        self.begin(seed)

    def departs(self, index: int, episode: Episode, output: _Output) -> bool:
        """Whether an episode is another one now, after those that came later.

        Its first steps again, by the same actions: what a reset leaves behind shows in them.
        """
        actions = iter(episode.actions[:_AGAIN])  # type: ignore[index]
        try:
            again = roll_out(
                lambda _: next(actions, None),
                self.env,
                episode.seed,
                watch=lambda _: output.at(index, 1),
            )
        except Exception:  # whatever the environment raises, it did not when the episode was first
            return True
        return any(
            not np.array_equal(getattr(again, name), getattr(episode, name)[:_AGAIN])
            for name in ("observations", "rewards")
        )


def _roll_out_policy(job: Job, policy: Policy, output: _Output) -> None:
    """Step all environments until their queues are done, sending each episode as it ends."""
    environment: EnvInfo = pickle.loads(job.environment)
    size = policy.noise_size
    active = [_Slot(environment, queue, size, job.fresh) for queue in job.queues]
    longest, several, oldest = active[0], len(job.queues[0]) > 1, None
    if not policy.deterministic and not size:
        import torch

        # It draws from torch's global generator, which starts alike in every process.
        torch.manual_seed(job.queues[0][0][1])
    # A policy whose rounding depends on its neighbours is called for one row at a time.
    block = BLOCK if rows_are_stable(policy, longest.shape[0]) else 1
    space = longest.env.action_space
    output.send(("ready",))
    for slot in active:
        slot.next(output)
    while active:
        observations = np.empty((len(active), *longest.shape), np.float32)
        noise = np.empty((len(active), size), np.float32)
        for row, slot in enumerate(active):
            observations[row] = slot.observation
            if slot.generator is not None:
                noise[row] = slot.generator.standard_normal(size, np.float32)
        finite = np.isfinite(observations).all(axis=1)
        if not finite.all():
            output.index = active[int(np.argmin(finite))].index
            raise InputError("expected finite observations, found NaN or infinity")
        try:
            actions = act_in_blocks(policy, observations, noise, block=block)
            check_actions(policy, actions, space)
        except ActionError as error:
            output.index = active[error.row or 0].index
            raise
        for slot, observation, action in zip(active, observations, actions, strict=True):
            output.at(slot.index)
            slot.step(observation, action)
            output.steps += 1
            if slot.ended:
                episode = output.episode(slot.index, slot.episode())
                oldest = oldest or (slot is longest and (slot.index, episode)) or None
        if any(slot.ended for slot in active):
            active = [slot for slot in active if not slot.ended or slot.queue]
            for slot in active:
                if slot.ended:
                    slot.next(output)
    if several and not job.fresh and oldest and longest.departs(*oldest, output):
        output.send(("departs", oldest[1].seed))


def _roll_out_own(job: Job, rollout: OwnRollout, output: _Output) -> None:
    """Call the user's function for each episode, and for the first of several again."""
    output.send(("ready",))
    (queue,) = job.queues
    episodes = []
    for index, seed in queue:
        output.at(index)
        episodes.append(output.episode(index, rollout(seed)))
        output.steps += len(episodes[-1].rewards)
        del episodes[1:]
    if len(queue) > 1:
        output.at(queue[0][0])
        again = rollout(queue[0][1])
        if not all(
            np.array_equal(getattr(again, name), getattr(episodes[0], name))
            for name in ("observations", "rewards")
        ):
            output.send(("departs", queue[0][1]))


def run(job: Job, send: Callable[[Any], None], board: Any) -> None:
    """Run a job: send ("ready",), then ("episode", index, Episode) for each, then ("done",).

    Before the end may come ("departs", seed): that episode is another one when rolled out again.

    What goes wrong is sent as ("failed", index of the episode or -1, one line).
    """
    output = _Output(send, board)
    try:
        with quiet_registration():  # the policy's module may register what is registered here
            entry = pickle.loads(job.registration)
            if entry is not None:
                import gymnasium as gym

                gym.registry.setdefault(entry.id, entry)
            policy: Any = pickle.loads(job.policy)
        work: Any = _roll_out_own if isinstance(policy, OwnRollout) else _roll_out_policy
        work(job, policy, output)
        output.at(-1)
    except InputError as error:
        send(("failed", output.index, str(error)))
    except Exception as error:  # whatever the environment or the policy raises
        send(("failed", output.index, f"{type(error).__name__}: {one_line(error)}"))
    else:
        send(("done",))


def main() -> None:
    """Entry point of the worker process: file descriptors of pipe and board as arguments."""
    connection = Connection(int(sys.argv[1]))
    board = mmap.mmap(int(sys.argv[2]), BOARD.size)
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    # Modules of the working directory count, but must not hide others: a user's random.py.
    sys.path.append(os.getcwd())
    with contextlib.suppress(EOFError, OSError):  # no parent, or none before the end of the job
        job = pickle.loads(connection.recv_bytes())
        threading.Thread(target=_leave_with_parent, args=(connection,), daemon=True).start()
        gc.freeze()  # nothing imported so far is garbage; do not look at it again
        run(job, connection.send, board)


def _leave_with_parent(connection: Connection) -> None:
    """End at once when the parent is gone, even if an environment hangs: nobody waits for us."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv_bytes()  # the parent sends one job and then nothing: this is the end
    os._exit(0)
