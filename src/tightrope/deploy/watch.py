"""Environments and episodes with a monitor watching."""

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from tightrope.certificates.statements.base import rarely
from tightrope.certificates.text import percent
from tightrope.deploy.monitor import Monitor, Status
from tightrope.environments import EnvInfo, recorded_environment
from tightrope.errors import InputError, one_line
from tightrope.policies import BLOCK, Policy, act_in_blocks, check_actions, rows_are_stable
from tightrope.rollouts import Rollout, episode_seeds, policy_source
from tightrope.rollouts.collecting import fitting
from tightrope.rollouts.stepping import roll_out
from tightrope.seeds import Seed, resolve_seed

__all__ = ["MonitorWrapper", "MonitoredEpisode", "open_policy", "summary", "watch"]


class MonitorWrapper(gym.Wrapper):
    """Shows every step to a monitor; its status is in ``info["monitor"]`` and in `status`.

    Nothing else is changed: what to do about an alarm is up to whoever runs the episodes.

    Args:
        env: with flat observations, as the certificate's; others are flattened to be shown.
        monitor: for such observations.

    Raises:
        InputError: on `reset`, if the observations are of another size.
    """

    def __init__(self, env: gym.Env, monitor: Monitor) -> None:
        super().__init__(env)
        self.monitor = monitor
        self.status: Status | None = None

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**arguments)
        self.status = self.monitor.reset(self._flat(observation))
        return observation, {**info, "monitor": self.status}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Go on by one step."""
        observation, reward, *ended, info = self.env.step(action)
        self.status = self.monitor.step(float(reward), self._flat(observation), *ended)
        return observation, reward, *ended, {**info, "monitor": self.status}

    def _flat(self, observation: Any) -> Any:
        return np.asarray(gym.spaces.flatten(self.env.observation_space, observation))


@dataclass(frozen=True)
class MonitoredEpisode:
    """One episode as the monitor saw it.

    Attributes:
        seed: of the episode.
        statuses: after each step.
    """

    seed: int
    statuses: tuple[Status, ...] = field(repr=False)

    @property
    def since(self) -> int | None:
        """Step of the first alarm; None without one."""
        return self.statuses[-1].since

    @property
    def largest(self) -> float:
        """The largest departure, as a multiple of its threshold: above 1 is an alarm."""
        return max(abs(status.value) / status.threshold for status in self.statuses)

    def __str__(self) -> str:
        alarm = "no alarm" if self.since is None else f"ALARM at step {self.since}"
        return (
            f"episode with seed {self.seed}: {len(self.statuses)} steps, largest departure "
            f"{self.largest:.0%} of the threshold, {alarm}"
        )


def open_policy(
    policy: Any, env: Any, recorded: Any, rollout: Rollout | None
) -> tuple[Policy, EnvInfo]:
    """A policy, and its environment: by default the one on record.

    Raises:
        InputError: there is no such policy or environment, or they do not fit.
    """
    rollout = rollout or Rollout()
    where = recorded_environment(recorded) if env is None else env
    source, given = policy_source(policy, where, rollout.env_kwargs), rollout.arguments
    loading = {name: given[name] for name in ("normalize", "trust", "sample")}
    return fitting(source.policy, source.environment, **loading)


def watch(
    monitor: Monitor,
    policy: Any,
    env: Any = None,
    *,
    episodes: int = 5,
    seed: Seed = "fresh",
    rollout: Rollout | None = None,
) -> Iterator[MonitoredEpisode]:
    """Run episodes under a monitor, one after the other.

    Args:
        monitor: that watches.
        policy: as :func:`tightrope.collect` takes it.
        env: id, `file.py:function`, object or function that returns the environment; by
            default the certificate's.
        episodes: how many, at least 1.
        seed: the root of their seeds.
        rollout: how the policy is loaded, and whether it samples.

    Raises:
        InputError: an argument is wrong, or policy, environment and monitor do not go together.
    """
    if episodes < 1:
        raise InputError(f"`episodes` must be a whole number of at least 1, found {episodes!r}")
    subject = monitor.calibration.subject
    acting, built = open_policy(policy, env, subject.get("environment"), rollout)
    _warn_of_others(subject, acting, built)
    with contextlib.redirect_stdout(sys.stderr):  # what environments and policies print
        made = built.make()
    with contextlib.closing(made):
        watched = MonitorWrapper(made, monitor)
        block = BLOCK if rows_are_stable(acting, monitor.features) else 1
        for each in episode_seeds(resolve_seed(seed), episodes):
            yield _episode(watched, acting, block, each)


def summary(monitor: Monitor, episodes: Sequence[MonitoredEpisode]) -> str:
    """How many raised an alarm, beside what is certified."""
    alarms = [one.since for one in episodes if one.since is not None]
    found = f"{len(alarms)} of {len(episodes)} episodes raised an alarm"
    if alarms:
        found += f", the first after {min(alarms)} steps, in the median after {np.median(alarms):g}"
    most = rarely(1.0 - monitor.calibration.false_alarms)
    return (
        f"{found}. If nothing has changed since the certificate, at most {most:g} % of all "
        f"episodes do (confidence {percent(monitor.calibration.confidence)})."
    )


def _episode(env: MonitorWrapper, policy: Policy, block: int, seed: int) -> MonitoredEpisode:
    noise = np.random.default_rng([seed, 1])  # as in a collection with this seed
    statuses: list[Any] = []

    def act(observation: Any) -> Any:
        statuses.append(env.status)
        rows = observation[None]  # (1, features)
        drawn = noise.standard_normal((1, policy.noise_size), np.float32)
        actions = act_in_blocks(policy, rows, drawn, block=block)
        check_actions(policy, actions, env.action_space)
        return actions[0]

    try:
        with contextlib.redirect_stdout(sys.stderr):
            roll_out(act, env, seed)
    except InputError:
        raise
    except Exception as error:  # whatever the environment or the policy raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"an episode failed: {line}") from error
    statuses.append(env.status)
    return MonitoredEpisode(seed, tuple(statuses[1:]))  # the first is that of the reset


def _warn_of_others(subject: Mapping[str, Any], policy: Policy, built: EnvInfo) -> None:
    """Warn of what the certified share of false alarms is not about; it may be on purpose."""
    certified = subject.get("policy", {}).get("digest"), subject.get("environment", {}).get("id")
    wrong = (
        f"{policy.name} is not the policy that was certified",
        f"{built.id} is not {certified[1]}, which was certified",
    )
    for stated, found, words in zip(certified, (policy.digest, built.id), wrong, strict=True):
        if None not in (stated, found) and stated != found:
            line = f"{words}: the share of false alarms is not certified for it"
            warnings.warn(line, stacklevel=3)
