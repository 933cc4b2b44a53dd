"""Roll out a frozen policy: many environments, all cores, one recorded seed per episode."""

import contextlib
import math
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from tightrope.environments import EnvInfo, EnvKwargs
from tightrope.errors import InputError, one_line
from tightrope.policies import BLOCK, Policy, check_fit, load_policy, normalization
from tightrope.progress import Report, progress_bar
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.stepping import OWN_ENVIRONMENT, OwnRollout, own_rollout
from tightrope.rollouts.worker import BOARD, Job
from tightrope.seeds import Seed, resolve_seed
from tightrope.system import library_versions, start_worker

__all__ = [
    "CollectionError",
    "Loading",
    "Rollout",
    "collect",
    "describe",
    "episode_seeds",
    "fitting",
]

_SEEDS = 2**31  # the largest range that every suite takes


@dataclass(frozen=True)
class Loading:
    """How a policy and its environment are loaded.

    Attributes:
        normalize: Observation statistics of an SB3 policy; a VecNormalize pickle or an .npz with
            mean, var, epsilon and clip.
        no_normalize: Roll an SB3 policy out without the observation statistics of its training, on
            purpose.
        trust: Allow loading files that execute code.
        env_kwargs: Arguments of the environment, for gymnasium.make, such as
            use_contact_forces=true.
    """

    normalize: Literal["none"] | Path = "none"
    no_normalize: bool = False
    trust: bool = False
    env_kwargs: Annotated[tuple[str, ...] | Mapping[str, Any], "NAME=VALUE"] = ()


@dataclass(frozen=True)
class Rollout(Loading):
    """How a policy is rolled out; nothing of it is for recorded episodes.

    Attributes:
        workers: Worker processes of the roll-out; auto: one per core.
        timeout: Seconds without a step after which an environment counts as hanging.
        sample: Draw actions from the policy's distribution instead of taking its mode.
    """

    workers: int | Literal["auto"] = "auto"
    timeout: float = 60.0
    sample: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of :func:`collect`, but for `env_kwargs`, which name the environment.

        Raises:
            InputError: two of them contradict each other.
        """
        if self.no_normalize and self.normalize != "none":
            raise InputError("expected `normalize` or `no_normalize`, found both")
        given = None if self.normalize == "none" else self.normalize
        return {
            "workers": None if self.workers == "auto" else self.workers,
            "timeout": self.timeout,
            "normalize": False if self.no_normalize else given,
            "trust": self.trust,
            "sample": self.sample,
        }


class CollectionError(InputError):
    """An episode failed, or Ctrl-C came; `partial` has the finished ones, or is None."""

    def __init__(self, message: str, partial: Episodes | None, interrupted: bool) -> None:
        super().__init__(message)
        self.partial, self.interrupted = partial, interrupted


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """Distinct seeds of the episodes; those of a longer collection begin with a shorter one's."""
    base = int(np.random.SeedSequence(resolve_seed(seed)).generate_state(1, np.uint64)[0])
    return [(base + index) % _SEEDS for index in range(episodes)]


def collect(
    policy: Any = None,
    env: Any = None,
    episodes: int = 100,
    seed: Seed = "fresh",
    *,
    rollout: Any = None,
    env_kwargs: EnvKwargs = None,
    first: int = 0,
    workers: int | None = None,
    batch: int = BLOCK,
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
    sample: bool = False,
    timeout: float = 60.0,
    progress: bool = False,
) -> Episodes:
    """Whole episodes of a policy in an environment, the same for the same seed.

    The result does not depend on `workers` or `batch`, bit for bit: each episode has its own seed,
    is assigned to an environment before anything runs, and the policy is always called with blocks
    of one size. (A policy that keeps state or draws random numbers of its own voids this.)

    Args:
        policy: a path, ``module:name`` or object, as :func:`tightrope.policies.load_policy` takes;
            or a function of a `seed` alone, which is a `rollout`.
        env: id of the environment, `file.py:function`, an environment, or what returns one
            (:func:`tightrope.environments.EnvInfo.of`).
        episodes: how many, at least 1.
        rollout: in place of `policy` and `env`, a function of your own (or ``file.py:name``) that
            takes a seed and returns an `Episode` or a dictionary of its fields.
        env_kwargs: arguments of `gymnasium.make`; they go on record.
        seed: the root of the episodes' seeds, at least 0; fresh: one that is drawn and recorded.
        first: number of the first one, from 0: a collection may be continued later.
        workers: processes; by default one per core.
        batch: environments per worker.
        normalize: observation statistics of an SB3 zip, or False to use it without.
        trust: allow loading a policy that executes code.
        sample: draw actions instead of taking the policy's mode.
        timeout: seconds without a single step (of a `rollout`: without an episode) after which an
            environment counts as hanging.
        progress: show a bar on standard error.

    Raises:
        InputError: an argument is wrong, or the policy does not fit the environment.
        CollectionError: an episode failed, or the collection was interrupted.
    """
    workers = os.cpu_count() or 1 if workers is None else workers
    whole = {"episodes": episodes, "batch": batch, "workers": workers, "first": first}
    for name, value in whole.items():
        least = int(name != "first")
        if value < least or value != int(value):
            raise InputError(f"{name} must be a whole number of at least {least}, found {value!r}")
    if not timeout > 0:
        raise InputError(f"timeout must be positive, found {timeout!r}")
    own = own_rollout(policy if rollout is None else rollout, named=rollout is not None)
    loaded: Policy | OwnRollout
    if own is None:
        loaded, built = fitting(
            policy, EnvInfo.of(env, env_kwargs), normalize=normalize, trust=trust, sample=sample
        )
    else:
        given = {"policy": rollout is not None and policy, "env": env, "sample": sample}
        given |= {"normalize": normalize, "env_kwargs": env_kwargs}
        for name, value in given.items():
            if value and value != OWN_ENVIRONMENT:
                raise InputError(f"expected no `{name}` with a roll-out of your own, found one")
        loaded, built, batch = own, OWN_ENVIRONMENT, 1
    root = resolve_seed(seed)
    pool = _Pool(episode_seeds(root, first + episodes)[first:], timeout)
    jobs = _share_out(loaded, built, pool.seeds, workers, batch)
    metadata = {**describe(loaded, built), "seed": root}
    try:
        with progress_bar("rolling out", episodes, shown=progress) as report:
            departed = pool.run(jobs, report)
            if departed is not None and own is not None:
                metadata["repeatable"] = False
                warnings.warn(
                    f"{own.name} gives another episode for seed {departed} when called again: its "
                    "episodes cannot be repeated, and if it keeps state they are not independent",
                    stacklevel=2,
                )
            elif departed is not None:
                metadata["fresh_environments"] = True
                warnings.warn(
                    f"a reset of {built.id} leaves something behind: the episode with seed "
                    f"{departed} is another one after others; every episode gets an environment "
                    "of its own",
                    stacklevel=2,
                )
                pool.finished.clear()
                pool.run([replace(job, fresh=True) for job in jobs], report)
    except (_FailureError, KeyboardInterrupt) as error:
        interrupted, done = isinstance(error, KeyboardInterrupt), pool.done()
        metadata["partial"] = (
            f"{len(done)} of {episodes} episodes: those that finished before a failure"
        )
        line = (
            f"interrupted after {len(done)} of {episodes} episodes" if interrupted else str(error)
        )
        partial = join(done, metadata) if done else None
        raise CollectionError(line, partial, interrupted) from None
    return join(pool.done(), metadata)


def fitting(
    policy: Any,
    env: Any,
    *,
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
    sample: bool = False,
) -> tuple[Policy, EnvInfo]:
    """The policy and the environment that :func:`collect` would roll out, tried on each other.

    Raises:
        InputError: there is no such policy or environment, or they do not fit.
    """
    if own_rollout(policy) is not None:
        raise InputError("expected a policy to load, found a roll-out of your own")
    with contextlib.redirect_stdout(sys.stderr):  # what environments and policies print
        built = EnvInfo.of(env)
        example = built.make()
        loaded = load_policy(policy, example, normalize=normalize, trust=trust, sample=sample)
        check_fit(loaded, example)
        example.close()
    return loaded, built


def describe(policy: Policy | OwnRollout, environment: EnvInfo) -> dict[str, Any]:
    """The metadata of episodes of this policy in this environment, but for their seed."""
    if isinstance(policy, OwnRollout):
        actions, statistics = "as the roll-out chooses them", "none"
    else:
        actions = "deterministic" if policy.deterministic else "sampled"
        statistics = normalization(policy)
    return {
        "environment": environment.to_json(),
        "policy": {
            "name": policy.name,
            "digest": policy.digest,
            "actions": actions,
            "normalization": statistics,
        },
        "versions": library_versions(),
    }


def _share_out(
    policy: Policy | OwnRollout, built: EnvInfo, seeds: list[int], workers: int, batch: int
) -> list[Job]:
    """The episodes of each worker: shared out to these in turn, then to environments in turn."""
    entry = None
    if not isinstance(policy, OwnRollout):
        import gymnasium as gym

        entry = gym.registry.get(built.id.rpartition(":")[2])
    content = {"environment": built, "policy": policy, "registration": entry}
    parts: dict[str, Any] = {name: _pickle(name, part) for name, part in content.items()}
    workers, jobs = min(workers, len(seeds)), []
    for worker in range(workers):
        share = tuple(enumerate(seeds))[worker::workers]
        slots = math.ceil(len(share) / math.ceil(len(share) / batch))
        jobs.append(Job(**parts, queues=tuple(share[slot::slots] for slot in range(slots))))
    return jobs


def _pickle(what: str, content: Any) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(content))
    except Exception as error:  # whatever the user's own objects raise
        raise InputError(
            f"cannot send the {what} to worker processes ({type(error).__name__}: "
            f"{one_line(error)}): it holds what cannot be pickled; create that on first use"
        ) from error


# --- worker processes ----------------------------------------------------------------------------


class _FailureError(Exception):
    """What went wrong in a worker, in one line."""


class _Worker:
    """One worker process as the parent sees it."""

    def __init__(self, job: Job) -> None:
        with tempfile.TemporaryFile() as shared:
            shared.write(BOARD.pack(-1, 0))
            shared.flush()
            self.board = mmap.mmap(shared.fileno(), BOARD.size)
            self.process, self.connection = start_worker(
                "tightrope.rollouts.worker", shared.fileno()
            )
        self.seen, self.moved, self.done = (-1, 0), 0.0, False  # what the board said, and when
        with contextlib.suppress(BrokenPipeError):  # it died; waiting for it tells why
            self.connection.send_bytes(pickle.dumps(job))

    def look(self) -> float:
        """Seconds for which the board has not changed, in an episode."""
        now, seen = time.monotonic(), BOARD.unpack_from(self.board)
        if seen != self.seen:
            self.seen, self.moved = seen, now
        return now - self.moved if seen[0] >= 0 else 0.0

    def stop(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5.0 if self.done else 0.0)
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self.board.close()


@dataclass
class _Pool:
    """The episodes to roll out, and those that have finished."""

    seeds: list[int]
    timeout: float
    finished: dict[int, Episode] = field(default_factory=dict)

    def done(self) -> list[Episode]:
        """What has finished, in the order of the seeds."""
        return [self.finished[index] for index in sorted(self.finished)]

    def run(self, jobs: list[Job], report: Report) -> int | None:
        """Run all jobs; the seed of an episode that is another one when rolled out again."""
        start, departed = time.monotonic(), None
        with contextlib.ExitStack() as stack:
            workers = {}
            for job in jobs:
                worker = _Worker(job)
                stack.callback(worker.stop)
                workers[worker.connection] = worker
            while running := [c for c, worker in workers.items() if not worker.done]:
                for connection in wait(running, timeout=0.2):
                    again = self._receive(workers[connection])  # type: ignore[index]
                    departed = again if departed is None else departed
                for worker in workers.values():
                    if worker.look() > self.timeout and not worker.done:
                        line = f"hangs: no step in {self.timeout:g} seconds"
                        raise _FailureError(f"{self._place(worker.seen[0])} {line}")
                steps = sum(worker.seen[1] for worker in workers.values())
                rate = steps / (time.monotonic() - start)
                report(len(self.finished), f"{steps:,} steps, {rate:,.0f} steps/s")
        return departed

    def _receive(self, worker: _Worker) -> int | None:
        """Keep an episode that a worker sends; at its end, the seed of one that departs."""
        try:
            kind, index, content = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            code = worker.process.wait()
            cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            place = self._place(BOARD.unpack_from(worker.board)[0])
            raise _FailureError(f"a worker process died ({cause}) in {place}") from None
        if kind == "failed":
            raise _FailureError(f"{self._place(index)} failed: {content}")
        if kind == "episode":
            self.finished[index] = content
            return None
        worker.done = True
        return content  # type: ignore[no-any-return]

    def _place(self, index: int) -> str:
        return f"the episode with seed {self.seeds[index]}" if index >= 0 else "its preparation"
