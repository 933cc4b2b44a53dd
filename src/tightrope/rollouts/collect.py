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
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from tightrope.environments import EnvInfo, EnvKwargs
from tightrope.errors import InputError, one_line
from tightrope.policies import BLOCK, Policy, check_fit, load_policy, normalization
from tightrope.processes import start_worker
from tightrope.progress import Report, progress_bar
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.own import OWN_ENVIRONMENT, OwnRollout, own_rollout
from tightrope.rollouts.worker import BOARD, Job
from tightrope.seeds import Seed, resolve_seed
from tightrope.system import library_versions

__all__ = ["CollectionError", "Rollout", "collect", "describe", "episode_seeds", "fitting"]

_SEEDS = 2**31  # the largest range that every suite takes


@dataclass(frozen=True)
class Rollout:
    """How a policy is rolled out; nothing of it is for recorded episodes."""

    workers: int | Literal["auto"] = "auto"
    """Worker processes of the roll-out; auto: one per core."""
    timeout: float = 60.0
    """Seconds without a step after which an environment counts as hanging."""
    normalize: Literal["none"] | Path = "none"
    """Observation statistics of an SB3 policy: a VecNormalize pickle or an .npz with
    mean, var, epsilon and clip."""
    no_normalize: bool = False
    """Roll an SB3 policy out without the observation statistics of its training, on purpose."""
    trust: bool = False
    """Allow loading files that execute code."""
    sample: bool = False
    """Draw actions from the policy's distribution instead of taking its mode."""
    env_kwargs: Annotated[tuple[str, ...] | Mapping[str, Any], "NAME=VALUE"] = ()
    """Arguments of the environment, for gymnasium.make, such as use_contact_forces=true."""

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
    for name, value in (("episodes", episodes), ("batch", batch), ("workers", workers)):
        if value < 1 or value != int(value):
            raise InputError(f"{name} must be a whole number of at least 1, found {value!r}")
    if first < 0 or first != int(first):
        raise InputError(f"first must be a whole number of at least 0, found {first!r}")
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
    seeds = episode_seeds(root, first + episodes)[first:]
    crew = _Crew.of(loaded, built, seeds, workers, batch, timeout)
    metadata = {**describe(loaded, built), "seed": root}
    with progress_bar("rolling out", episodes, shown=progress) as report:
        failure = crew.run(report)
        if failure is None and crew.departed is not None and own is not None:
            warnings.warn(
                f"{own.name} gives another episode for seed {crew.departed} when called again: its "
                "episodes cannot be repeated, and if it keeps state they are not independent",
                stacklevel=2,
            )
            metadata["repeatable"] = False
        elif failure is None and crew.departed is not None:
            warnings.warn(
                f"a reset of {built.id} leaves something behind: the episode with seed "
                f"{crew.departed} is another one after others; every episode gets an environment "
                "of its own",
                stacklevel=2,
            )
            metadata["fresh_environments"] = True
            crew = _Crew([replace(job, fresh=True) for job in crew.jobs], seeds, timeout)
            failure = crew.run(report)
    done = [crew.finished[index] for index in sorted(crew.finished)]
    if failure is None:
        return join(done, metadata)
    metadata["partial"] = (
        f"{len(done)} of {episodes} episodes: those that finished before a failure"
    )
    raise CollectionError(failure, join(done, metadata) if done else None, crew.interrupted)


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


@dataclass
class _Member:
    """One worker process as the parent sees it."""

    process: subprocess.Popen
    connection: Connection
    board: mmap.mmap
    steps: int = 0
    at: int = -1  # the episode that was last seen being worked on
    moved: float = 0.0  # when either last changed
    ready: bool = False
    done: bool = False


@dataclass
class _Crew:
    """The workers, their shares, and what they have finished."""

    jobs: list[Job]
    seeds: list[int]
    timeout: float
    finished: dict[int, Episode] = field(default_factory=dict)
    members: list[_Member] = field(default_factory=list)
    interrupted: bool = False
    departed: int | None = None  # seed of an episode that is another one when rolled out again

    @classmethod
    def of(
        cls,
        policy: Policy | OwnRollout,
        built: EnvInfo,
        seeds: list[int],
        workers: int,
        batch: int,
        timeout: float,
    ) -> "_Crew":
        """Share the episodes out: to workers in turn, then to their environments in turn."""
        entry = None
        if not isinstance(policy, OwnRollout):
            import gymnasium as gym

            entry = gym.registry.get(built.id.rpartition(":")[2])
        parts = (
            _pickle("environment", built),
            _pickle("policy", policy),
            _pickle("registration", entry),
        )
        jobs = []
        for worker in range(min(workers, len(seeds))):
            share = list(enumerate(seeds))[worker :: min(workers, len(seeds))]
            rounds = math.ceil(len(share) / batch)
            slots = math.ceil(len(share) / rounds)
            quotas = tuple(tuple(share[slot::slots]) for slot in range(slots))
            jobs.append(Job(*parts, quotas))
        return cls(jobs, seeds, timeout)

    def run(self, report: Report) -> str | None:
        """Run all jobs; None, or what went wrong."""
        start = time.monotonic()
        try:
            for job in self.jobs:
                member = _start()
                self.members.append(member)
                with contextlib.suppress(BrokenPipeError):  # it died; waiting for it tells why
                    member.connection.send_bytes(pickle.dumps(job))
            while not all(member.done for member in self.members):
                failure = self._listen()
                if failure is not None:
                    return failure
                steps = sum(member.steps for member in self.members)
                rate = steps / (time.monotonic() - start)
                report(len(self.finished), f"{steps:,} steps, {rate:,.0f} steps/s")
        except KeyboardInterrupt:
            self.interrupted = True
            return f"interrupted after {len(self.finished)} of {len(self.seeds)} episodes"
        finally:
            for member in self.members:
                _stop(member)
        return None

    def _listen(self) -> str | None:
        open_members = {m.connection: m for m in self.members if not m.done}
        for connection in wait(list(open_members), timeout=0.2):
            failure = self._receive(open_members[connection])  # type: ignore[index]
            if failure is not None:
                return failure
        return self._watch(open_members.values())

    def _receive(self, member: _Member) -> str | None:
        try:
            kind, *content = member.connection.recv()
        except (EOFError, ConnectionResetError):
            code = member.process.wait()
            cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            return f"a worker process died ({cause}) in {self._place(member)}"
        if kind == "episode":
            self.finished[content[0]] = content[1]
            if not _finite(content[1]):
                place = f"the episode with seed {content[1].seed}"
                del self.finished[content[0]]
                return f"expected finite observations and rewards, found NaN or infinity in {place}"
        elif kind == "failed":
            index, line = content
            return f"{self._episode(index)} failed: {line}"
        elif kind == "departs":
            self.departed = content[0]
        elif kind == "ready":
            member.ready, member.moved = True, time.monotonic()
        else:
            member.done = True
            member.steps = BOARD.unpack_from(member.board)[1]
        return None

    def _watch(self, members: Any) -> str | None:
        now = time.monotonic()
        for member in members:
            at, steps = BOARD.unpack_from(member.board)
            if (at, steps) != (member.at, member.steps) or not member.ready:
                member.at, member.steps, member.moved = at, steps, now
            elif not member.done and now - member.moved > self.timeout:
                return f"{self._place(member)} hangs: no step in {self.timeout:g} seconds"
        return None

    def _place(self, member: _Member) -> str:
        return self._episode(BOARD.unpack_from(member.board)[0])

    def _episode(self, index: int) -> str:
        return f"the episode with seed {self.seeds[index]}" if index >= 0 else "its preparation"


def _pickle(what: str, content: Any) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(content))
    except Exception as error:  # whatever the user's own objects raise
        raise InputError(
            f"cannot send the {what} to worker processes ({type(error).__name__}: "
            f"{one_line(error)}): it holds what cannot be pickled; create that on first use"
        ) from error


def _finite(episode: Episode) -> bool:
    arrays = (episode.rewards, episode.observations, episode.final_observation)
    return all(a is None or bool(np.isfinite(a).all()) for a in arrays)


def _start() -> _Member:
    with tempfile.TemporaryFile() as shared:
        shared.write(BOARD.pack(-1, 0))
        shared.flush()
        board = mmap.mmap(shared.fileno(), BOARD.size)
        process, connection = start_worker("tightrope.rollouts.worker", shared.fileno())
    return _Member(process, connection, board)


def _stop(member: _Member) -> None:
    if member.process.poll() is None:
        try:
            member.process.wait(timeout=5.0 if member.done else 0.0)
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()
    member.connection.close()
    member.board.close()
