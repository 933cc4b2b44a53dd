"""Replaying a certificate's episodes with the policy itself: whether they are its own.

A closed loop magnifies the last digit of a number until nothing is alike, and processors differ in
last digits. So the loop is cut: what the policy does on the recorded observations is judged, and
what the environment does with the recorded actions is judged while rounding cannot explain a
difference. The closed loop is run and shown, not judged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.folder import load_certificate
from tightrope.certificates.request import Rollout, rollout_arguments
from tightrope.environments import recorded_environment
from tightrope.errors import InputError
from tightrope.policies import Policy, act_in_blocks
from tightrope.rollouts import Episode, Episodes, policy_source
from tightrope.rollouts.collect import describe, episode_seeds, fitting

__all__ = ["Replayed", "replay"]

# Actions on the same observations: the tolerance of the tests of collect. Of discrete actions, a
# share may differ: two values that are equal but for rounding.
_ACTIONS, _DISCRETE = 1e-4, 1e-2
# Observations and rewards by the recorded actions: float32's rounding at the start, growing by a
# tenth with every step; after this many steps a difference may be rounding alone.
_START, _GROWTH, _STEPS = 1e-5, 1.1, 50


@dataclass(frozen=True)
class Replayed:
    """One episode again.

    Attributes:
        seed: of the episode.
        steps: recorded.
        exact: leading steps whose observations and rewards came out the same to the last bit.
        recorded_return: undiscounted sum of the recorded rewards.
        closed_return: the same of the policy acting on its own, for a person to compare.
        problems: what cannot be rounding, in words.
    """

    seed: int
    steps: int
    exact: int
    recorded_return: float
    closed_return: float
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"episode with seed {self.seed}: {self.exact} of {self.steps} steps the same to the "
            f"last bit; return {self.recorded_return:g} recorded, {self.closed_return:g} when the "
            "policy acts again"
        )


def replay(
    folder: str | Path,
    policy: Any,
    env: Any = None,
    *,
    episodes: int = 3,
    rollout: Rollout | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[list[Replayed], list[str]]:
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
    source = policy_source(policy, recorded_environment(place) if env is None else env)
    given = rollout_arguments(rollout)
    chosen = {name: given[name] for name in ("normalize", "trust")}
    chosen["sample"] = by.get("actions") == "sampled"
    loaded, built = fitting(source.policy, source.environment, **chosen)
    if not loaded.deterministic and not loaded.noise_size:
        raise InputError(f"expected a policy whose draws can be repeated, found {loaded.name}")
    problems = _subject_problems(recorded, describe(loaded, built))
    rng = rng or np.random.default_rng()
    sample = np.sort(rng.permutation(len(recorded))[:episodes])
    made = built.make()
    try:
        replayed = [_again(recorded.episode(int(index)), loaded, made) for index in sample]
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


def _again(episode: Episode, policy: Policy, env: Any) -> Replayed:
    noise = _noise(episode, policy)
    problems = list(_action_problems(episode, policy, noise))
    exact, late = _by_recorded_actions(episode, env)
    return Replayed(
        seed=episode.seed,
        steps=len(episode.rewards),
        exact=exact,
        recorded_return=float(episode.rewards.sum()),
        closed_return=_closed(episode, policy, env),
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
        close = np.isclose(stated, found, rtol=_ACTIONS, atol=_ACTIONS)
        wrong = np.flatnonzero(~close.all(axis=1))
    if not len(wrong):
        return []
    return [f"{len(wrong)} actions are not the policy's, the first in step {wrong[0]}"]


def _by_recorded_actions(episode: Episode, env: Any) -> tuple[int, list[str]]:
    """Leading steps that are the same to the last bit, and what rounding cannot explain."""
    assert episode.actions is not None
    observation, _ = env.reset(seed=episode.seed)
    steps, exact, differs = len(episode.rewards), 0, False
    scale = 1.0 + np.abs(episode.observations).max(axis=0)
    reward_scale = 1.0 + float(np.abs(episode.rewards).max())
    for step in range(steps):
        allowed = _START * _GROWTH**step
        seen = np.asarray(observation, np.float32)
        observation, reward, terminated, truncated, _ = env.step(episode.actions[step])
        same = np.array_equal(seen, episode.observations[step]) and reward == episode.rewards[step]
        differs = differs or not same
        exact += not differs
        off = np.abs(seen - episode.observations[step]) / scale
        off_reward = abs(float(reward) - episode.rewards[step]) / reward_scale
        if step < _STEPS and not (off.max(initial=0.0) <= allowed and off_reward <= allowed):
            return exact, [f"another observation or reward in step {step} by the same actions"]
        if terminated or truncated:
            early = step < steps - 1
            ends = (bool(terminated), bool(truncated)) == (episode.terminated, episode.truncated)
            if step < _STEPS and (early or not ends):
                return exact, [f"it ends otherwise, in step {step}, by the same actions"]
            return exact, []
    if steps <= _STEPS:
        return exact, [f"it goes on after its last step, {steps - 1}, by the same actions"]
    return exact, []


def _closed(episode: Episode, policy: Policy, env: Any) -> float:
    """The return when the policy acts on what it sees."""
    generator = np.random.default_rng([episode.seed, 1])
    observation, _ = env.reset(seed=episode.seed)
    total, ended = 0.0, False
    while not ended:
        row = np.asarray(observation, np.float32)[None]
        noise = generator.standard_normal((1, policy.noise_size), np.float32)
        action = act_in_blocks(policy, row, noise)[0]
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), bool(terminated or truncated)
    return total
