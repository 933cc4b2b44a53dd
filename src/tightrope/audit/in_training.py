"""Certificates of a synthetic task that a callback issues while an SB3 algorithm trains."""

from typing import Any

import gymnasium as gym
import numpy as np

from tightrope.audit.experiment import Audit
from tightrope.audit.generators import FEATURES, Generator, SyntheticTask
from tightrope.certificates import Certificate
from tightrope.rollouts import Rollout

__all__ = ["TaskEnvironment", "certificates_in_training"]

_STEPS = 20  # of training, from one certificate to the next


class TaskEnvironment(gym.Env[Any, Any]):
    """The episodes of a generator, whatever a policy does: the truth is that of the task."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw an episode, and observe its first step."""
        super().reset(seed=seed)
        self.drawn, self.step_number = self.generator.draw(1, self.np_random), 0
        return self.drawn.observations[0, 0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The next step of the episode."""
        drawn, length = self.drawn, int(self.drawn.lengths[0])
        reward = float(drawn.rewards[0, self.step_number])
        self.step_number += 1
        over, ends = self.step_number == length, bool(drawn.terminated[0])
        observation = drawn.observations[0, min(self.step_number, length - 1)]
        return observation, reward, over and ends, over and not ends, {}


def certificates_in_training(
    task: SyntheticTask, audit: Audit, options: dict[str, Any], seed: int
) -> list[Certificate]:
    """As many as there are candidates, of the policies of one short training."""
    from stable_baselines3 import A2C

    from tightrope.deploy import CertifyCallback

    def make() -> TaskEnvironment:
        return TaskEnvironment(task.generator)

    callback = CertifyCallback(
        make,
        every=_STEPS,
        rollout=Rollout(workers=1),
        preset_values=audit.preset_values,
        **{**options, "candidates": 1, "seed": seed},
    )
    small = {"net_arch": [4]}
    model = A2C("MlpPolicy", make(), policy_kwargs=small, seed=seed % 2**31, device="cpu")
    model.learn(_STEPS * audit.candidates, callback=callback)
    return list(callback.certificates.values())
