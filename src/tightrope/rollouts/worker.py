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
from numpy.typing import NDArray

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
from tightrope.rollouts.episodes import Episode, join
from tightrope.rollouts.stepping import OwnRollout, roll_out, stepping

__all__ = ["BOARD", "Job", "main", "run"]

BOARD = struct.Struct("qq")  # (index of the episode being stepped, or -1; steps done)
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

    def episode(self, index: int, episode: Episode) -> None:
        """Send a finished episode, if it is whole and of finite numbers."""
        self.index = index
        join([episode])  # refuses what is not
        self.send(("episode", index, episode))


class _Slot:
    """One environment with its queue of episodes.

    Attributes:
        index: of the episode that it is in.
        observation: the current one.
        generator: of the episode's own, so that its actions do not depend on what runs beside it.
    """

    def __init__(self, environment: EnvInfo, queue: Queue, fresh: bool) -> None:
        self.environment, self.env = environment, environment.make()
        self.queue, self.fresh, self.index = list(queue), fresh, -1

    def begin(self, output: _Output) -> None:
        """Reset to the next episode of the queue, if need be in a new environment."""
        if self.fresh and self.index >= 0:
            self.env.close()
            self.env = self.environment.make()
        self.index, seed = self.queue.pop(0)
        output.at(self.index)
        self.generator = np.random.default_rng([seed, 1])
        self.run = stepping(self.env, seed)
        self.observation = next(self.run)

    def step(self, action: Any) -> Episode | None:
        """Take an action; the episode, if it ends here."""
        try:
            self.observation = self.run.send(action)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        return None


def _roll_out_policy(job: Job, policy: Policy, output: _Output) -> int | None:
    """Step all environments until their queues are done, sending each episode as it ends.

    Returns:
        The seed of an episode that is another one when it is rolled out again; None without one.
    """
    environment: EnvInfo = pickle.loads(job.environment)
    active = [_Slot(environment, queue, job.fresh) for queue in job.queues]
    longest, several = active[0], len(job.queues[0]) > 1
    first: tuple[int, Episode] | None = None  # of the longest queue
    if not policy.deterministic and not policy.noise_size:
        import torch

        # It draws from torch's global generator, which starts alike in every process.
        torch.manual_seed(job.queues[0][0][1])
    # A policy whose rounding depends on its neighbours is called for one row at a time.
    space = longest.env.observation_space
    block = BLOCK if rows_are_stable(policy, space.shape[0]) else 1
    for slot in active:
        slot.begin(output)
    while active:
        actions = _act(policy, active, block, output)
        for slot, action in zip(tuple(active), actions, strict=True):
            output.at(slot.index, 1)
            episode = slot.step(action)
            if episode is not None:
                output.episode(slot.index, episode)
                if slot is longest and first is None:
                    first = slot.index, episode
                if slot.queue:
                    slot.begin(output)
                else:
                    active.remove(slot)
    if first is None or not several or job.fresh:
        return None
    return first[1].seed if _departs(longest.env, *first, output) else None


def _act(policy: Policy, active: list[_Slot], block: int, output: _Output) -> NDArray[Any]:
    """An action for the observation of each environment."""
    observations = np.array([slot.observation for slot in active])
    noise = np.empty((len(active), policy.noise_size), np.float32)
    for row, slot in enumerate(active if policy.noise_size else ()):
        noise[row] = slot.generator.standard_normal(policy.noise_size, np.float32)
    finite = np.isfinite(observations).all(axis=1)
    if not finite.all():
        output.index = active[int(np.argmin(finite))].index
        raise InputError("expected finite observations, found NaN or infinity")
    try:
        actions = act_in_blocks(policy, observations, noise, block=block)
        check_actions(policy, actions, active[0].env.action_space)
    except ActionError as error:
        output.index = active[error.row or 0].index
        raise
    return actions


def _departs(env: Any, index: int, episode: Episode, output: _Output) -> bool:
    """Whether an episode is another one now, after those that came later.

    Its first steps again, by the same actions: what a reset leaves behind shows in them.
    """
    actions = iter(episode.actions[:_AGAIN])  # type: ignore[index]

    def act(_: Any) -> Any:
        output.at(index, 1)
        return next(actions, None)

    try:
        again = roll_out(act, env, episode.seed)
    except Exception:  # whatever the environment raises, it did not when the episode was first
        return True
    return _differ(again, episode, _AGAIN)


def _differ(again: Episode, first: Episode, steps: int | None = None) -> bool:
    return not all(
        np.array_equal(getattr(again, name), getattr(first, name)[:steps])
        for name in ("observations", "rewards")
    )


def _roll_out_own(job: Job, rollout: OwnRollout, output: _Output) -> int | None:
    """Call the user's function for each episode, and for the first of several again.

    Returns:
        The seed of the first, if it is another one then; None otherwise.
    """
    (queue,) = job.queues
    first = None
    for index, seed in queue:
        output.at(index)
        episode = rollout(seed)
        output.episode(index, episode)
        output.steps += len(episode.rewards)
        first = first or episode
    if first is None or len(queue) == 1:
        return None
    output.at(queue[0][0])
    return first.seed if _differ(rollout(first.seed), first) else None


def run(job: Job, send: Callable[[Any], None], board: Any) -> None:
    """Run a job: send ("episode", index, Episode) for each, then ("done", -1, departed).

    `departed` is the seed of an episode that is another one when rolled out again, or None. What
    goes wrong is sent as ("failed", index of the episode or -1, one line).
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
        departed = work(job, policy, output)
        output.at(-1)
    except InputError as error:
        send(("failed", output.index, str(error)))
    except Exception as error:  # whatever the environment or the policy raises
        send(("failed", output.index, f"{type(error).__name__}: {one_line(error)}"))
    else:
        send(("done", -1, departed))


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
