"""What several rooms' tests share: small policies, models and environments of our own."""

import os
import signal
import sys
import warnings
import zlib
from pathlib import Path

import pytest

# Worker processes inherit the import path, and so find these environments, too.
HELPERS = Path(__file__).parent / "helpers"
sys.path.insert(0, str(HELPERS))

# What was said is compared as it is said without a terminal, whoever runs the tests.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
    os.environ.pop(name, None)

from small_policies import perceptron, write_trained  # noqa: E402


@pytest.fixture(scope="session")
def helpers():
    """The folder on the import path with custom_environments.py."""
    return HELPERS


@pytest.fixture(scope="session")
def import_path():
    """PYTHONPATH for a process of its own: the helpers, and whatever this process was given."""
    return os.pathsep.join(filter(None, [str(HELPERS), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def small_policy():
    return perceptron


@pytest.fixture
def interruptible():
    """Ctrl-C reaches the processes of this test, also in a job that ignores it (`pytest &`).

    A child inherits that a signal is ignored, but not that it is handled.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def trained():
    """A function that writes a policy for Pendulum-v1 and its record, as training leaves them."""
    return write_trained


@pytest.fixture(scope="session")
def sb3_model():
    """A function that builds (once) an SB3 model whose weights are random and not small."""
    import custom_environments  # noqa: F401
    import gymnasium as gym
    import sb3_contrib
    import stable_baselines3
    import torch

    built = {}

    def build(algorithm, env, policy="MlpPolicy", *, arguments=None, **policy_kwargs):
        key = (algorithm, env, repr(policy), repr(arguments), repr(policy_kwargs))
        if key not in built:
            replays = algorithm in ("SAC", "TD3", "DDPG", "DQN", "TQC", "QRDQN")
            extra = {"buffer_size": 10} if replays else {}
            kind = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
            given = {"net_arch": [8, 8], **policy_kwargs}
            given = {name: value for name, value in given.items() if value is not None}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "(?s).*is out of date", DeprecationWarning)
                made = gym.make(env)
            model = kind(
                policy,
                made,
                device="cpu",
                policy_kwargs=given,
                **extra,
                **(arguments or {}),
            )
            generator = torch.Generator().manual_seed(zlib.crc32(repr(key).encode()))
            with torch.no_grad():
                for parameter in model.policy.parameters():
                    parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
            built[key] = model
        return built[key]

    return build


@pytest.fixture(scope="session")
def sb3_file(sb3_model, tmp_path_factory):
    """A function that saves such a model and returns the path of its zip."""
    folder, saved = tmp_path_factory.mktemp("models"), {}

    def save(algorithm, env, *arguments, **keywords):
        model = sb3_model(algorithm, env, *arguments, **keywords)
        if id(model) not in saved:
            saved[id(model)] = folder / f"{algorithm.lower()}{len(saved)}.zip"
            model.save(saved[id(model)])
        return saved[id(model)]

    return save
