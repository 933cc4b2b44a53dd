"""Episodes of a policy with a monitor watching, one after the other."""

import contextlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.environments import Recipe, recipe, recorded_environment
from tightrope.errors import InputError, one_line
from tightrope.monitors.monitor import Monitor, Status
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
from tightrope.seeds import Seed, resolve_seed

__all__ = ["Show", "Watched", "summary", "watch"]


@dataclass(frozen=True, repr=False)
class Watched:
    """One episode as the monitor saw it.

    Attributes:
        seed: of the episode.
        values: (steps,) deviations, in return units.
        thresholds: (steps,) that they might reach.
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
        """The largest deviation, as a multiple of its threshold: above 1 is an alarm."""
        return float((np.abs(self.values) / self.thresholds).max())

    def __repr__(self) -> str:
        alarm = "no alarm" if self.since is None else f"alarm at step {self.since}"
        return f"Watched(seed {self.seed}, {self.steps} steps, {self.largest:.2f}, {alarm})"


# Number and seed of the episode, what the monitor has said in it, and whether it has ended.
Show = Callable[[int, int, list[Status], bool], None]


def watch(
    monitor: Monitor,
    policy: Any,
    env: Any = None,
    *,
    episodes: int = 5,
    seed: Seed = "fresh",
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
    sample: bool = False,
    show: Show | None = None,
) -> tuple[Watched, ...]:
    """Run episodes under a monitor.

    Args:
        monitor: that watches.
        policy: as :func:`tightrope.collect` takes it.
        env: id, recipe, object or factory of the environment; by default the certificate's.
        episodes: how many, at least 1.
        seed: the root of their seeds.
        normalize: observation statistics of an SB3 zip, or False to use it without.
        trust: allow loading a policy that executes code.
        sample: draw actions instead of taking the policy's mode.
        show: called after every step with what the monitor has said in the episode.

    Raises:
        InputError: an argument is wrong, or policy, environment and monitor do not go together.
    """
    if episodes < 1 or episodes != int(episodes):
        raise InputError(f"`episodes` must be a whole number of at least 1, found {episodes!r}")
    with contextlib.redirect_stdout(sys.stderr):  # what environments and policies print
        place = recorded_environment(monitor.subject.get("environment")) if env is None else env
        built = recipe(place)
        made = built.make()
        size = made.observation_space.shape[0]
        if size != monitor.features:
            made.close()
            raise InputError(
                f"expected an environment with {monitor.features} numbers in an observation, found "
                f"{size} in {built.id!r}: it is not the one that was certified"
            )
        acting = load_policy(policy, made, normalize=normalize, trust=trust, sample=sample)
        check_fit(acting, made)
        _compare(monitor, acting, built)
        block = BLOCK if rows_are_stable(acting, size) else 1
        try:
            return tuple(
                _episode(monitor, acting, made, block, own, number, show)
                for number, own in enumerate(episode_seeds(resolve_seed(seed), episodes), start=1)
            )
        except InputError:
            raise
        except Exception as error:  # whatever the environment or the policy raises
            raise InputError(
                f"an episode failed: {type(error).__name__}: {one_line(error)}"
            ) from error
        finally:
            made.close()


def _episode(
    monitor: Monitor,
    policy: Policy,
    env: Any,
    block: int,
    seed: int,
    number: int,
    show: Show | None,
) -> Watched:
    noise = np.random.default_rng([seed, 1])  # as in a collection with this seed
    observation, _ = env.reset(seed=seed)
    monitor.reset(observation)
    said: list[Status] = []
    ended = False
    while not ended:
        rows = np.asarray(observation, np.float32)[None]  # (1, features)
        drawn = noise.standard_normal((1, policy.noise_size), np.float32)
        actions = act_in_blocks(policy, rows, drawn, block=block)
        check_actions(policy, actions, env.action_space)
        observation, reward, terminated, truncated, _ = env.step(actions[0])
        said.append(monitor.step(float(reward), observation, terminated, truncated))
        ended = bool(terminated or truncated)
        if show is not None:
            show(number, seed, said, ended)
    return Watched(
        seed=seed,
        values=np.array([status.value for status in said]),
        thresholds=np.array([status.threshold for status in said]),
        since=said[-1].since,
    )


def _compare(monitor: Monitor, policy: Policy, built: Recipe) -> None:
    """Warn of what voids the promise on false alarms; it may be just what one wants to see."""
    certified = monitor.subject.get("policy", {}).get("digest")
    if certified is not None and policy.digest is not None and certified != policy.digest:
        warnings.warn(
            f"{policy.name} is not the policy that was certified: the promise on false alarms is "
            "not for it",
            stacklevel=3,
        )
    named = monitor.subject.get("environment", {}).get("id")
    if named is not None and named != built.id:
        warnings.warn(
            f"{built.id} is not {named}, which was certified: the promise on false alarms is not "
            "for it",
            stacklevel=3,
        )


def summary(monitor: Monitor, watched: tuple[Watched, ...]) -> str:
    """What came of it, beside what was promised."""
    alarms = [one.since for one in watched if one.since is not None]
    said = f"{len(alarms)} of {len(watched)} episodes raised an alarm"
    if alarms:
        said += f", the first after {min(alarms)} steps, in the median after {np.median(alarms):g}"
    most = ceil(1000 * monitor.false_alarms) / 10
    return (
        f"{said}. If nothing has changed since the certificate, at most {most:g} % of all episodes "
        "do."
    )
