"""A small policy, and what training leaves of one."""

from itertools import pairwise
from pathlib import Path

import numpy as np

from tightrope.environments import EnvInfo
from tightrope.files import sha256
from tightrope.policies import MLPPolicy, TrainingRecord, save_mlp, save_record


def perceptron(inputs, outputs, *, seed=0, bound=1.0, log_std=None):
    """A small policy with random weights, large enough for actions that differ."""
    rng = np.random.default_rng(seed)
    sizes = [inputs, 16, 16, outputs]
    draw = lambda *shape: (0.5 * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    return MLPPolicy(
        name="perceptron",
        digest=None,
        weights=tuple(draw(a, b) for a, b in pairwise(sizes)),
        biases=tuple(draw(size) for size in sizes[1:]),
        activation="Tanh",
        head="clipped",
        low=np.full(outputs, -bound, np.float32),
        high=np.full(outputs, bound, np.float32),
        log_std=None if log_std is None else (None, np.full(outputs, log_std, np.float32)),
    )


def write_trained(folder, **changes):
    """A policy for Pendulum-v1 and its record, with other values of some fields."""
    weights = Path(folder) / "policy.safetensors"
    save_mlp(perceptron(3, 1), weights, environment="Pendulum-v1")
    given = {
        "agent": "sac",
        "environment": EnvInfo.of("Pendulum-v1").to_json(),
        "steps": 1000,
        "episodes": 5,
        "gamma": 0.99,
        "return_low": -900.0,
        "return_high": 0.5,
        "observation_mean": np.float32([0.1, 0.2, 0.3]),
        "observation_deviation": np.float32([1.0, 2.0, 3.0]),
        "settings": {"seed": 0},
        "versions": {},
        "digests": {weights.name: sha256(weights)},
    }
    save_record(TrainingRecord(**{**given, **changes}), Path(folder) / "policy.json")
