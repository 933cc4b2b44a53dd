"""Replay a certificate's episodes with the policy itself: whether they are its own.

A closed loop magnifies the last digit of a number until nothing agrees, and processors differ in
last digits. So the loop is cut: what the policy does on the recorded observations is judged, and
what the environment does with the recorded actions is judged while rounding cannot explain a
difference. Tolerances scale with what is replayed here, never with what is on record.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.folder import load_certificate
from tightrope.deploy.watch import open_policy
from tightrope.errors import InputError, one_line
from tightrope.policies import Policy, act_in_blocks
from tightrope.rollouts import Episode, Episodes, Rollout
from tightrope.rollouts.collecting import describe, episode_seeds
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
) -> tuple[list[ReplayedEpisode], list[str]]:
    """Run a random sample of a certificate's episodes again; nobody can foresee which.

    Args:
        folder: of the certificate.
        policy: whose it should be, as for certify.
        env: its environment; by default the one that the certificate names.
        episodes: how many, at most all.
        rollout: how the policy is loaded; whether it samples is on record.

    Returns:
        The episodes, and everything that cannot be rounding, in words.

    Raises:
        InputError: there is no such certificate or policy, or its episodes cannot be repeated.
    """
    recorded = load_certificate(folder, verify=False).rollouts
    by, place = (recorded.subject.get(name) for name in ("policy", "environment"))
    if not (isinstance(by, Mapping) and isinstance(place, Mapping)) or recorded.actions is None:
        raise InputError(
            "expected episodes that tightrope rolled out, with their actions, found others in "
            f"{str(folder)!r}: they cannot be replayed"
        )
    sampled = replace(rollout or Rollout(), sample=by.get("actions") == "sampled")
    loaded, built = open_policy(policy, env, place, sampled)
    if not loaded.deterministic and not loaded.noise_size:
        raise InputError(f"expected a policy whose draws can be repeated, found {loaded.name}")
    replayed = []
    for index in np.sort(np.random.default_rng().permutation(len(recorded))[:episodes]):
        with contextlib.closing(built.make()) as made:  # a reset may leave something behind
            replayed.append(_again(recorded[index], loaded, made))
    problems = list(_subject_problems(recorded, describe(loaded, built)))
    return replayed, [*problems, *(line for one in replayed for line in one.problems)]


def _subject_problems(recorded: Episodes, found: dict[str, Any]) -> Iterator[str]:
    subject = recorded.subject
    for name in ("environment", "policy"):
        for key in sorted({*subject[name], *found[name]} - {"name"}):
            stated, here = subject[name].get(key), found[name].get(key)
            if stated != here:
                yield f"subject.{name}.{key}: stated {stated!r}, here {here!r}"
    seed, seeds = subject.get("seed"), recorded.seeds.tolist()
    if not isinstance(seed, int) or seeds != episode_seeds(seed, len(seeds)):
        yield f"rollouts: their seeds do not follow from subject.seed {seed!r}"


def _again(episode: Episode, policy: Policy, env: Any) -> ReplayedEpisode:
    """Judge the policy on the recorded observations, the environment by the recorded actions."""
    assert episode.actions is not None
    actions, name = iter(episode.actions), f"episode with seed {episode.seed}"
    try:
        here = roll_out(lambda _: next(actions, None), env, episode.seed)
    except Exception as error:  # whatever the environment makes of actions that are not its own
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot replay the {name}: {reason}") from error
    agreed, exact, wrong = _compare(episode, here)
    problems = tuple(f"{name}: {line}" for line in (_wrong_actions(episode, policy), wrong) if line)
    return ReplayedEpisode(episode.seed, len(episode.rewards), agreed, exact, problems)


def _wrong_actions(episode: Episode, policy: Policy) -> str:
    """What of the actions is not the policy's; empty if nothing."""
    observations = np.ascontiguousarray(episode.observations)
    rows = len(observations)
    drawn = np.random.default_rng([episode.seed, 1])  # as the worker draws, step by step
    noise = drawn.standard_normal((rows, policy.noise_size), np.float32)
    found = act_in_blocks(policy, observations, noise).reshape(rows, -1)
    stated = np.asarray(episode.actions).reshape(rows, -1)
    if found.shape != stated.shape:
        return f"actions of {stated.shape[1]} numbers, the policy gives {found.shape[1]}"
    if found.dtype.kind in "iu":
        wrong = (found != stated).any(axis=1)
        wrong &= wrong.mean() > _DISCRETE
    else:
        wrong = ~(np.abs(stated - found) <= _ACTIONS * (1.0 + np.abs(found))).all(axis=1)
    if not wrong.any():
        return ""
    return f"{wrong.sum()} actions are not the policy's, the first in step {wrong.argmax()}"


def _compare(episode: Episode, here: Episode) -> tuple[int, int, str]:
    """Leading steps that agree, those to the last bit, and what rounding cannot explain."""
    steps = len(here.rewards)
    stated, found = _rows(episode, steps), _rows(here, steps)
    if stated.shape != found.shape:
        sizes = f"{stated.shape[1] - 1} numbers, the environment gives {found.shape[1] - 1}"
        return 0, 0, f"observations of {sizes}"
    exact = _leading((stated == found).all(axis=1))
    largest = np.maximum.accumulate(np.abs(found), axis=0)  # that was replayed up to then
    off = (np.abs(stated - found) / (1.0 + largest)).max(axis=1)
    age = np.clip(np.arange(steps) - exact, 0, _STEPS)  # of a difference
    allowed = _START * _GROWTH**age
    allowed[0] = _FIRST
    agreed, judged = _leading(off <= allowed), min(steps, exact + _STEPS)
    if agreed < judged:
        return agreed, exact, f"another observation or reward in step {agreed} by the same actions"
    same_end = steps == len(episode.rewards) and (here.terminated, here.truncated) == (
        episode.terminated,
        episode.truncated,
    )
    if judged == steps and not same_end:
        return agreed, exact, f"it ends differently, in step {steps - 1}, by the same actions"
    return agreed, exact, ""


def _rows(episode: Episode, steps: int) -> NDArray[np.float64]:
    """(steps, features + 1) observations and rewards."""
    return np.column_stack([episode.observations, episode.rewards]).astype(np.float64)[:steps]


def _leading(holds: NDArray[np.bool_]) -> int:
    """How many rows hold before the first that does not."""
    return len(holds) if holds.all() else int(np.argmin(holds))
