"""Replay a certificate's episodes with the policy itself: whether they are its own.

A closed loop magnifies the last digit of a number until nothing agrees, and processors differ in
last digits. So the loop is cut: what the policy does on the recorded observations is judged, and
what the environment does with the recorded actions is judged while rounding cannot explain a
difference. Tolerances scale with what is replayed here, never with what is on record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.folder import load_certificate
from tightrope.environments import recorded_environment
from tightrope.errors import InputError, one_line
from tightrope.policies import Policy, act_in_blocks
from tightrope.rollouts import Episode, Episodes, Rollout, policy_source
from tightrope.rollouts.collecting import describe, episode_seeds, fitting
from tightrope.rollouts.stepping import roll_out

__all__ = ["ReplayedEpisode", "replay"]

# Actions on the same observations: the tolerance of the tests of collect. Of discrete actions, a
# share may differ: two values that are equal but for rounding.
_ACTIONS, _DISCRETE = 1e-4, 1e-2
# Observations and rewards by the recorded actions: float32's rounding in the first step; from the
# first bit that differs on, a difference may grow by a tenth with every step, and after so many
# steps it may be rounding alone.
_FIRST, _START, _GROWTH, _STEPS = 1e-6, 1e-5, 1.1, 50


@dataclass(frozen=True)
class ReplayedEpisode:
    """One episode again.

    Attributes:
        seed: of the episode.
        steps: recorded.
        agreed: leading steps whose observation and reward agree up to rounding.
        exact: leading steps where they agree to the last bit.
        problems: what cannot be rounding, in words.
    """

    seed: int
    steps: int
    agreed: int
    exact: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"episode with seed {self.seed}: {self.agreed} of {self.steps} steps agree, "
            f"{self.exact} of them to the last bit"
        )


def replay(
    folder: str | Path,
    policy: Any,
    env: Any = None,
    *,
    episodes: int = 3,
    rollout: Rollout | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[list[ReplayedEpisode], list[str]]:
    """Run a random sample of a certificate's episodes again.

    Args:
        folder: of the certificate.
        policy: whose it should be, as for certify.
        env: its environment; by default the one that the certificate names.
        episodes: how many, at most all.
        rollout: how the policy is loaded; whether it samples is on record.
        rng: what chooses the episodes; by default nobody can foresee them.

    Returns:
        The episodes, and everything that cannot be rounding, in words.

    Raises:
        InputError: there is no such certificate or policy, or its episodes cannot be repeated.
    """
    if episodes < 1:
        raise InputError(f"expected `replay` of at least 1 episode, found {episodes}")
    recorded = load_certificate(folder, verify=False).rollouts
    by, place = recorded.subject.get("policy"), recorded.subject.get("environment")
    if not (isinstance(by, Mapping) and isinstance(place, Mapping)) or recorded.actions is None:
        raise InputError(
            "expected episodes that tightrope rolled out, with their actions, found others in "
            f"{str(folder)!r}: they cannot be replayed"
        )
    rollout = rollout or Rollout()
    where = recorded_environment(place) if env is None else env
    source, given = policy_source(policy, where, rollout.env_kwargs), rollout.arguments
    loaded, built = fitting(
        source.policy,
        source.environment,
        normalize=given["normalize"],
        trust=given["trust"],
        sample=by.get("actions") == "sampled",
    )
    if not loaded.deterministic and not loaded.noise_size:
        raise InputError(f"expected a policy whose draws can be repeated, found {loaded.name}")
    problems = _subject_problems(recorded, describe(loaded, built))
    rng = rng or np.random.default_rng()
    sample = np.sort(rng.permutation(len(recorded))[:episodes])
    replayed = []
    for index in sample:  # in an environment of its own: a reset may leave something behind
        made = built.make()
        try:
            replayed.append(_again(recorded[index], loaded, made))
        finally:
            made.close()
    return replayed, [*problems, *(line for one in replayed for line in one.problems)]


def _subject_problems(recorded: Episodes, found: dict[str, Any]) -> list[str]:
    subject, problems = recorded.subject, []
    for name in ("environment", "policy"):
        for key in sorted({*subject[name], *found[name]} - {"name"}):
            stated, here = subject[name].get(key), found[name].get(key)
            if stated != here:
                problems.append(f"subject.{name}.{key}: stated {stated!r}, here {here!r}")
    seed = subject.get("seed")
    follow = isinstance(seed, int) and recorded.seeds.tolist() == episode_seeds(seed, len(recorded))
    if not follow:
        problems.append(f"rollouts: their seeds do not follow from subject.seed {seed!r}")
    return problems


def _again(episode: Episode, policy: Policy, env: Any) -> ReplayedEpisode:
    problems = _action_problems(episode, policy, _noise(episode, policy))
    try:
        here = _by_recorded_actions(episode, env)
    except Exception as error:  # whatever the environment makes of actions that are not its own
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot replay the episode with seed {episode.seed}: {reason}") from error
    agreed, exact, late = _compare(episode, here)
    return ReplayedEpisode(
        seed=episode.seed,
        steps=len(episode.rewards),
        agreed=agreed,
        exact=exact,
        problems=tuple(f"episode with seed {episode.seed}: {line}" for line in [*problems, *late]),
    )


def _noise(episode: Episode, policy: Policy) -> NDArray[np.float32]:
    """(steps, noise_size) the draws of the episode, as the worker makes them."""
    generator = np.random.default_rng([episode.seed, 1])
    size, steps = policy.noise_size, len(episode.rewards)
    drawn = [generator.standard_normal(size, np.float32) for _ in range(steps)]
    return np.array(drawn, np.float32).reshape(steps, size)


def _action_problems(episode: Episode, policy: Policy, noise: NDArray[np.float32]) -> list[str]:
    """The policy on the recorded observations."""
    assert episode.actions is not None
    observations = np.ascontiguousarray(episode.observations)
    found = act_in_blocks(policy, observations, noise).reshape(len(observations), -1)
    stated = np.asarray(episode.actions).reshape(len(observations), -1)
    if found.shape != stated.shape:
        return [f"actions of {stated.shape[1]} numbers, the policy gives {found.shape[1]}"]
    if found.dtype.kind in "iu":
        other = (found != stated).any(axis=1)
        wrong = np.flatnonzero(other) if other.mean() > _DISCRETE else np.zeros(0, int)
    else:
        close = np.abs(stated - found) <= _ACTIONS * (1.0 + np.abs(found))
        wrong = np.flatnonzero(~close.all(axis=1))
    if not len(wrong):
        return []
    return [f"{len(wrong)} actions are not the policy's, the first in step {wrong[0]}"]


def _by_recorded_actions(episode: Episode, env: Any) -> Episode:
    """The environment from the episode's seed on, until it or the recording ends."""
    assert episode.actions is not None
    actions = iter(episode.actions)
    return roll_out(lambda _: next(actions, None), env, episode.seed)


def _compare(episode: Episode, here: Episode) -> tuple[int, int, list[str]]:
    """Leading steps that agree, those to the last bit, and what rounding cannot explain."""
    steps = len(here.rewards)
    observations, rewards = episode.observations[:steps], episode.rewards[:steps]
    if observations.shape != here.observations.shape:
        sizes = (
            f"{observations.shape[1]} numbers, the environment gives {here.observations.shape[1]}"
        )
        return 0, 0, [f"observations of {sizes}"]
    same = (observations == here.observations).all(axis=1) & (rewards == here.rewards)
    exact = steps if same.all() else int(np.argmin(same))
    off = np.maximum(
        _relative(observations, here.observations).max(axis=1, initial=0.0),
        _relative(rewards, here.rewards),
    )
    age = np.maximum(np.arange(steps) - exact, 0)  # of a difference
    allowed = _START * _GROWTH ** np.minimum(age, _STEPS)
    allowed[0] = _FIRST
    close = off <= allowed
    agreed = steps if close.all() else int(np.argmin(close))
    if agreed < min(steps, exact + _STEPS):
        what = "another observation or reward"
        return agreed, exact, [f"{what} in step {agreed} by the same actions"]
    if agreed < steps or steps > exact + _STEPS:
        return agreed, exact, []  # what comes later may be rounding alone
    ends = steps == len(episode.rewards)
    if not ends or (here.terminated, here.truncated) != (episode.terminated, episode.truncated):
        return agreed, exact, [f"it ends differently, in step {steps - 1}, by the same actions"]
    return agreed, exact, []


def _relative(stated: NDArray[np.floating], here: NDArray[np.floating]) -> NDArray[np.floating]:
    """Differences, relative to the largest value that was replayed up to then."""
    return np.abs(stated - here) / (1.0 + np.maximum.accumulate(np.abs(here), axis=0))
