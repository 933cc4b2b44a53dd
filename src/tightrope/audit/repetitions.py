"""The job of an audit: some repetitions, each compared with the truth."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from tightrope.audit.experiment import Audit
from tightrope.audit.generators import FEATURES, SYNTHETIC, TASKS, SyntheticTask
from tightrope.audit.ground_truth import Check, NewEpisodes, checks_of, checks_of_comparison
from tightrope.certificates import Certificate, Settings, certify, settle
from tightrope.certificates.settings import training_scaling
from tightrope.comparison import Comparison
from tightrope.comparison.compare import compare
from tightrope.files import write_text
from tightrope.rollouts import Episodes, PolicySource, Rollout, load, policy_source
from tightrope.studies.job_plan import child
from tightrope.studies.tasks import shared_fits

__all__ = ["CHECKS", "TaskEnvironment", "repeat_job"]

CHECKS = "checks.json"
_LOOK = 50  # pairs of episodes, after which a comparison is looked at once more
_PAIRS = 500  # at the most, by default
_NEW = 20_000  # episodes that tell the truth, by default
_STEPS = 20  # of training, from one certificate to the next


def repeat_job(spec: Mapping[str, Any], needs: Sequence[Path], out: Path) -> None:
    """Repetitions `first` to `last`: fresh episodes, what is stated of them, and what is true."""
    torch.set_num_threads(1)
    audit = Audit(**spec["audit"])
    tasks = [TASKS[name] for name in spec["task"].split(":") if name]
    if len(tasks) > 1:
        repeat = _comparing(tasks, audit)
    elif tasks:
        repeat = _certifying(_synthetic(tasks[0], audit), audit)
    else:
        source = policy_source(needs[0] / spec["file"], spec["environment"] or None)
        new = load(needs[1] / "rollouts.safetensors")
        repeat = _certifying(_of_policy(source, new), audit)
    checks = [
        {"repetition": number, **check}
        for number in range(spec["first"], spec["last"])
        for check in repeat([_seed(audit, number, each) for each in range(audit.candidates)])
    ]
    write_text(out / CHECKS, json.dumps(checks, indent=1) + "\n")


def _seed(audit: Audit, number: int, candidate: int) -> int:
    return child(audit.seed, "repetition", number, *([candidate] if candidate else []))


@dataclass(frozen=True)
class _Subject:
    """What is certified.

    Attributes:
        source: what defaults are settled for.
        collect: fresh episodes, from the settings, the largest number that there will be, how many,
            and which is the first.
        new: the episodes that tell the truth.
        task: the synthetic one, if it is.
    """

    source: PolicySource
    collect: Callable[[Settings, int, int, int], Episodes]
    new: Episodes
    task: SyntheticTask | None = None


def _synthetic(task: SyntheticTask, audit: Audit) -> _Subject:
    def collect(settings: Settings, most: int, count: int, first: int) -> Episodes:
        recorded = task.record(most, np.random.default_rng(settings.seed))
        return recorded.span(first, first + count)

    return _Subject(SYNTHETIC, collect, _new(task, audit, "truth"), task)


def _of_policy(source: PolicySource, new: Episodes) -> _Subject:
    def collect(settings: Settings, most: int, count: int, first: int) -> Episodes:
        return certify.roll_out(source, settings, Rollout(workers=1), count, first=first)

    return _Subject(source, collect, new)


def _certifying(subject: _Subject, audit: Audit) -> Callable[[Sequence[int]], Iterator[Check]]:
    """A repetition: of the certificates of each scheme the best one, against the truth."""
    task = subject.task

    @cache
    def new(gamma: float, thin: int) -> NewEpisodes:
        return NewEpisodes(subject.new, gamma, thin, task.known if task else {})

    def repeat(seeds: Sequence[int]) -> Iterator[Check]:
        if task and audit.via == "callback":
            candidates = [[each] for each in _in_training(task, audit, seeds[0])]
        else:
            candidates = [_issued(subject, audit, seed) for seed in seeds]
        for found in zip(*candidates, strict=True):
            best = min(found, key=lambda c: c.statements[c.headline].limit)
            yield from checks_of(best, new(best.settings.gamma, best.thin))

    return repeat


def _issued(subject: _Subject, audit: Audit, seed: int) -> list[Certificate]:
    """A certificate of each scheme, all of them of the last ones of the same episodes."""
    asked = [
        options.seeded(seed)
        for options in audit.requests(subject.task.options if subject.task else {})
    ]
    trained = [training_scaling(options, subject.source) for options in asked]
    decided = [
        settle(options, subject.source, preset=audit.preset_values, training=training)
        for options, training in zip(asked, trained, strict=True)
    ]
    most = max(settings.pilot + settings.most for settings in decided)
    collect = partial(subject.collect, decided[0], most)
    if audit.until != "off":
        return [certify.issue_until(collect, decided[0], options=asked[0])]
    episodes, fit = collect(most, 0), shared_fits()
    return [
        certify.issue(
            episodes.span(most - settings.episodes, most),
            settings,
            options=options,
            training=training,
            fit=fit,
        )
        for options, settings, training in zip(asked, decided, trained, strict=True)
    ]


def _in_training(task: SyntheticTask, audit: Audit, seed: int) -> list[Certificate]:
    """As many as there are candidates, issued by a callback during one short training."""
    from stable_baselines3 import A2C

    from tightrope.deploy import CertifyCallback

    options = {**vars(audit.requests(task.options)[0]), "candidates": 1, "seed": seed}
    callback = CertifyCallback(
        lambda: TaskEnvironment(task),
        every=_STEPS,
        rollout=Rollout(workers=1),
        preset_values=audit.preset_values,
        **options,
    )
    small: dict[str, Any] = {
        "policy_kwargs": {"net_arch": [4]},
        "seed": seed % 2**31,
        "device": "cpu",
    }
    A2C("MlpPolicy", TaskEnvironment(task), **small).learn(_STEPS * audit.candidates, callback)
    return list(callback.certificates.values())


class TaskEnvironment(gym.Env[Any, Any]):
    """The episodes of a task, whatever a policy does: the truth is that of the task."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, task: SyntheticTask) -> None:
        self.task = task

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Draw an episode, and observe its first step."""
        super().reset(seed=seed)
        self.episode, self.step_number = self.task.new(1, self.np_random), 0
        return self.episode.observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The next step of the episode."""
        drawn, now = self.episode, self.step_number
        self.step_number += 1
        over, falls = self.step_number == len(drawn.rewards), bool(drawn.terminated[0])
        observation = drawn.observations[now if over else now + 1]
        return observation, float(drawn.rewards[now]), over and falls, over and not falls, {}


def _comparing(
    tasks: Sequence[SyntheticTask], audit: Audit
) -> Callable[[Sequence[int]], Iterator[Check]]:
    """A repetition: of comparisons, each looked at until it is decided, the best for A."""
    most = _PAIRS if audit.episodes == "auto" else audit.episodes
    floors = [task.options.get("return_floor", 0.0) for task in tasks]
    options: dict[str, Any] = {
        "gamma": 1.0,
        "delta": audit.delta,
        "delta_prime": audit.delta_prime,
        "candidates": audit.candidates,
        # Where no return of either can be outside; off if there is no such range.
        "return_range": (min(floors), -min(floors)) if all(floors) else "off",
    }
    sides = dict(zip("AB", tasks, strict=True))
    true: Any = compare(
        *(_new(task, audit, f"truth {side}") for side, task in sides.items()), **options
    )

    def looked_at(seed: int) -> Comparison:
        one, other = (
            task.record(most, np.random.default_rng(child(seed, side)))
            for side, task in sides.items()
        )
        for count in range(min(_LOOK, most), most + 1, _LOOK):
            found: Any = compare(one.span(0, count), other.span(0, count), **options)
            if found.interval("return").is_decided:
                break
        return found  # type: ignore[no-any-return]

    def repeat(seeds: Sequence[int]) -> Iterator[Check]:
        best = max(map(looked_at, seeds), key=lambda each: each.interval("return").low)
        yield from checks_of_comparison(best, true)

    return repeat


def _new(task: SyntheticTask, audit: Audit, name: str) -> Episodes:
    count = _NEW if audit.truth_episodes == "auto" else audit.truth_episodes
    return task.new(count, np.random.default_rng(child(audit.seed, name)))
