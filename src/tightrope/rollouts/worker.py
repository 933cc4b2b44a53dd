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
from tightrope.rollouts.episodes import Episode
from tightrope.rollouts.own import OwnRollout
from tightrope.rollouts.stepping import Recorder

__all__ = ["BOARD", "Job", "main", "run"]

BOARD = struct.Struct("qq")  # (index of the episode being stepped, steps done)
_AGAIN = 300  # steps of an episode that are rolled out again

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Job:
    """What one worker does: episodes (index, seed) shared out over its environments beforehand."""

    environment: bytes  # cloudpickle, as are the next two: it may hold a function of the user's
    policy: bytes
    registration: bytes  # Gymnasium's entry, for environments of the user's own
    quotas: tuple[tuple[tuple[int, int], ...], ...]  # one queue of episodes per environment
    fresh: bool = False  # whether every episode gets an environment of its own


class _Place:
    """Which episode is being worked on, here to blame and on the board for the parent to see."""

    def __init__(self, board: Any) -> None:
        self.board, self.index, self.steps = board, -1, 0

    def move(self, index: int) -> None:
        self.index = index
        BOARD.pack_into(self.board, 0, index, self.steps)


class _Slot(Recorder):
    """One environment with its queue of episodes, and the noise of the one it is in."""

    def __init__(self, env: Any, quota: tuple[tuple[int, int], ...], noise_size: int) -> None:
        super().__init__(env)
        self.quota, self.noise_size = list(quota), noise_size
        self.used = False

    def next(self, place: _Place, make: Callable[[], Any] | None) -> None:
        """Reset to the next episode of the quota, in a new environment if `make` builds one."""
        if make is not None and self.used:
            self.env.close()
            self.env = make()
        self.used = True
        self.index, seed = self.quota.pop(0)
        place.move(self.index)
        # A generator of the episode's own: its actions do not depend on what runs beside it.
        self.generator = np.random.default_rng([seed, 1]) if self.noise_size else None
        self.begin(seed)

    def departs(self, episode: Episode, index: int, place: _Place) -> bool:
        """Whether an episode is another one now, after those that came later.

        Its first steps again, by the same actions: what a reset leaves behind shows in them.
        """
        assert episode.actions is not None
        try:
            self.begin(episode.seed)
            for step, action in enumerate(episode.actions[:_AGAIN]):
                here = np.asarray(self.observation, np.float32)
                if self.ended or not np.array_equal(here, episode.observations[step]):
                    return True
                self.step(here, action)
                place.steps += 1
                place.move(index)
        except Exception:  # whatever the environment raises, it did not when the episode was first
            return True
        return not np.array_equal(self.rewards, episode.rewards[:_AGAIN])


@dataclass(frozen=True)
class _Crowd:
    """The policy, the environments that it acts in together, and where the work is."""

    policy: Policy
    block: int  # rows that the policy is called with
    slots: list[_Slot]
    place: _Place
    make: Callable[[], Any] | None  # a new environment for each episode, if they need one

    @classmethod
    def of(cls, job: Job, policy: Policy, place: _Place) -> "_Crowd":
        """Unpack a job."""
        environment: EnvInfo = pickle.loads(job.environment)
        slots = [_Slot(environment.make(), quota, policy.noise_size) for quota in job.quotas]
        if not policy.deterministic and not policy.noise_size:
            import torch

            # It draws from torch's global generator, which starts alike in every process.
            torch.manual_seed(job.quotas[0][0][1])
        # A policy whose rounding depends on its neighbours is called for one row at a time.
        stable = rows_are_stable(policy, slots[0].shape[0])
        return cls(
            policy, BLOCK if stable else 1, slots, place, environment.make if job.fresh else None
        )

    def run(self, send: Any) -> None:
        """Step all environments until their quotas are done, sending each episode as it ends."""
        oldest: tuple[Episode, int] | None = None  # of the longest queue
        several = len(self.slots[0].quota) > 1
        active = self.begin(self.slots)
        while active:
            observations, noise = self.observe(active)
            actions = self.act(active, observations, noise)
            for slot, observation, action in zip(active, observations, actions, strict=True):
                self.place.move(slot.index)
                slot.step(observation, action)
                self.place.steps += 1
                if slot.ended:
                    episode = slot.episode()
                    send(("episode", slot.index, episode))
                    if oldest is None and slot is self.slots[0]:
                        oldest = episode, slot.index
            if any(slot.ended for slot in active):
                going_on = [slot for slot in active if not slot.ended or slot.quota]
                self.begin([slot for slot in going_on if slot.ended])
                active = going_on
        if several and self.make is None and oldest is not None:
            episode, index = oldest
            if self.slots[0].departs(episode, index, self.place):
                send(("departs", episode.seed))
        self.place.move(-1)

    def begin(self, slots: list[_Slot]) -> list[_Slot]:
        """Start the next episode in each of the slots."""
        for slot in slots:
            slot.next(self.place, self.make)
        return slots

    def observe(self, active: list[_Slot]) -> tuple[Floats, Floats]:
        """Observations (active, features) and the noise for actions (active, noise_size)."""
        size = self.policy.noise_size
        observations = np.empty((len(active), *active[0].shape), np.float32)
        noise = np.empty((len(active), size), np.float32)
        for row, slot in enumerate(active):
            observations[row] = slot.observation
            if slot.generator is not None:
                noise[row] = slot.generator.standard_normal(size, np.float32)
        finite = np.isfinite(observations).all(axis=1)
        if not finite.all():
            self.place.index = active[int(np.argmin(finite))].index
            raise InputError("expected finite observations, found NaN or infinity")
        return observations, noise

    def act(self, active: list[_Slot], observations: Floats, noise: Floats) -> NDArray[Any]:
        """Actions (active, ...) that lie in the action space."""
        try:
            actions = act_in_blocks(self.policy, observations, noise, block=self.block)
            check_actions(self.policy, actions, active[0].env.action_space)
        except ActionError as error:
            self.place.index = active[error.row or 0].index
            raise
        return actions


def _run_own(
    rollout: OwnRollout, queue: tuple[tuple[int, int], ...], place: _Place, send: Any
) -> None:
    """Call the user's function for each episode, and for the first of several again."""
    oldest: Episode | None = None
    for index, seed in queue:
        place.move(index)
        episode = rollout(seed)
        place.steps += len(episode.rewards)
        send(("episode", index, episode))
        oldest = oldest or episode
    if oldest is not None and len(queue) > 1:
        place.move(queue[0][0])
        again = rollout(oldest.seed)
        if not all(
            np.array_equal(getattr(again, name), getattr(oldest, name))
            for name in ("observations", "rewards")
        ):
            send(("departs", oldest.seed))
    place.move(-1)


def run(job: Job, send: Any, board: Any) -> None:
    """Run a job: send ("ready",), then ("episode", index, Episode) for each, then ("done",).

    Before the end may come ("departs", seed): that episode is another one when rolled out again.

    What goes wrong is sent as ("failed", index of the episode or -1, one line).
    """
    place = _Place(board)
    try:
        with quiet_registration():  # the policy's module may register what is registered here
            entry = pickle.loads(job.registration)
            if entry is not None:
                import gymnasium as gym

                gym.registry.setdefault(entry.id, entry)
            policy: Policy | OwnRollout = pickle.loads(job.policy)
            own = isinstance(policy, OwnRollout)
            work = None if own else _Crowd.of(job, policy, place)  # type: ignore[arg-type]
        send(("ready",))
        if work is None:
            _run_own(policy, job.quotas[0], place, send)  # type: ignore[arg-type]
        else:
            work.run(send)
    except InputError as error:
        send(("failed", place.index, str(error)))
    except Exception as error:  # whatever the environment or the policy raises
        send(("failed", place.index, f"{type(error).__name__}: {one_line(error)}"))
    else:
        send(("done",))


def main() -> None:
    """Entry point of the worker process: file descriptors of pipe and board as arguments."""
    connection = Connection(int(sys.argv[1]))
    board = mmap.mmap(int(sys.argv[2]), BOARD.size)
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    # Modules of the working directory count, but must not hide others: a user's random.py.
    sys.path.append(os.getcwd())
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # no parent
        job = pickle.loads(connection.recv_bytes())
        threading.Thread(target=_leave_with_parent, args=(connection,), daemon=True).start()
        gc.freeze()  # nothing imported so far is garbage; do not look at it again
        run(job, connection.send, board)


def _leave_with_parent(connection: Connection) -> None:
    """End at once when the parent is gone, even if an environment hangs: nobody waits for us."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv_bytes()  # the parent sends one job and then nothing: this is the end
    os._exit(0)
