"""Episodes of a policy with a monitor watching, one after the other."""

import contextlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.statements.base import rarely
from tightrope.certificates.text import percent
from tightrope.deploy.monitor import Monitor
from tightrope.deploy.wrapper import MonitorWrapper
from tightrope.environments import EnvInfo, EnvKwargs, recorded_environment
from tightrope.errors import InputError, one_line
from tightrope.policies import (
    BLOCK,
    Policy,
    act_in_blocks,
    check_actions,
    check_fit,
    load_policy,
    rows_are_stable,
)
from tightrope.rollouts import episode_seeds
from tightrope.rollouts.stepping import roll_out
from tightrope.seeds import Seed, resolve_seed

__all__ = ["MonitoredEpisode", "summary", "watch"]


@dataclass(frozen=True, repr=False)
class MonitoredEpisode:
    """One episode as the monitor saw it.

    Attributes:
        seed: of the episode.
        values: (steps,) departures, in return units.
        thresholds: (steps,) that they may reach.
        since: step of the first alarm; None without one.
    """

    seed: int
    values: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    since: int | None

    @property
    def steps(self) -> int:
        """Length of the episode."""
        return len(self.values)

    @property
    def largest(self) -> float:
        """The largest departure, as a multiple of its threshold: above 1 is an alarm."""
        return float((np.abs(self.values) / self.thresholds).max())

    def __str__(self) -> str:
        alarm = "no alarm" if self.since is None else f"ALARM at step {self.since}"
        return (
            f"episode with seed {self.seed}: {self.steps} steps, largest departure "
            f"{self.largest:.0%} of the threshold, {alarm}"
        )

    def __repr__(self) -> str:
        return f"MonitoredEpisode({self})"


def watch(
    monitor: Monitor,
    policy: Any,
    env: Any = None,
    *,
    env_kwargs: EnvKwargs = None,
    episodes: int = 5,
    seed: Seed = "fresh",
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
    sample: bool = False,
    show: Callable[[MonitoredEpisode], None] | None = None,
) -> tuple[MonitoredEpisode, ...]:
    """Run episodes under a monitor.

    Args:
        monitor: that watches.
        policy: as :func:`tightrope.collect` takes it.
        env: id, `file.py:function`, object or function that returns the environment; by
            default the certificate's.
        env_kwargs: arguments of `gymnasium.make`.
        episodes: how many, at least 1.
        seed: the root of their seeds.
        normalize: observation statistics of an SB3 zip, or False to use it without.
        trust: allow loading a policy that executes code.
        sample: draw actions instead of taking the policy's mode.
        show: called with each episode when it has ended.

    Raises:
        InputError: an argument is wrong, or policy, environment and monitor do not go together.
    """
    if episodes < 1 or episodes != int(episodes):
        raise InputError(f"`episodes` must be a whole number of at least 1, found {episodes!r}")
    recorded = monitor.calibration.subject.get("environment")
    found = []
    with contextlib.redirect_stdout(sys.stderr):  # what environments and policies print
        built = EnvInfo.of(recorded_environment(recorded) if env is None else env, env_kwargs)
        made = built.make()
        try:
            watched = MonitorWrapper(made, monitor)
            acting = load_policy(policy, made, normalize=normalize, trust=trust, sample=sample)
            check_fit(acting, made)
            _warn_of_others(monitor, acting, built)
            block = BLOCK if rows_are_stable(acting, monitor.features) else 1
            for each in episode_seeds(resolve_seed(seed), episodes):
                found.append(_episode(watched, acting, block, each))
                if show is not None:
                    show(found[-1])
        except InputError:
            raise
        except Exception as error:  # whatever the environment or the policy raises
            line = f"{type(error).__name__}: {one_line(error)}"
            raise InputError(f"an episode failed: {line}") from error
        finally:
            made.close()
    return tuple(found)


def summary(monitor: Monitor, episodes: tuple[MonitoredEpisode, ...]) -> str:
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

    def act(observation: NDArray[np.float32]) -> Any:
        statuses.append(env.status)
        rows = observation[None]  # (1, features)
        drawn = noise.standard_normal((1, policy.noise_size), np.float32)
        actions = act_in_blocks(policy, rows, drawn, block=block)
        check_actions(policy, actions, env.action_space)
        return actions[0]

    roll_out(act, env, seed)
    steps = [*statuses[1:], env.status]  # the first is that of the reset
    return MonitoredEpisode(
        seed=seed,
        values=np.array([status.value for status in steps]),
        thresholds=np.array([status.threshold for status in steps]),
        since=steps[-1].since,
    )


def _warn_of_others(monitor: Monitor, policy: Policy, built: EnvInfo) -> None:
    """Warn of what the certified share of false alarms is not about; it may be on purpose."""
    subject = monitor.calibration.subject
    certified = subject.get("policy", {}).get("digest")
    named = subject.get("environment", {}).get("id")
    others = []
    if None not in (certified, policy.digest) and certified != policy.digest:
        others.append(f"{policy.name} is not the policy that was certified")
    if named not in (None, built.id):
        others.append(f"{built.id} is not {named}, which was certified")
    for other in others:
        warnings.warn(
            f"{other}: the share of false alarms is not certified for it",
            stacklevel=3,
        )
