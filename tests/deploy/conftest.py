"""A policy on Pendulum and the certificate of it, with fits that are short."""

from pathlib import Path

import pytest
from recordings import short

from tightrope.certificates.certify import certify
from tightrope.policies import save_mlp
from tightrope.rollouts import collect


@pytest.fixture(scope="session")
def pendulum(small_policy, tmp_path_factory):
    """A folder with policy.safetensors, other.safetensors, and certificate/ of the first."""
    folder = tmp_path_factory.mktemp("pendulum")
    for seed, name in enumerate(("policy", "other")):
        policy = small_policy(3, 1, seed=seed, bound=2.0)
        save_mlp(policy, folder / f"{name}.safetensors", environment="Pendulum-v1")
    episodes = collect(folder / "policy.safetensors", "Pendulum-v1", 14, 5, workers=1)
    made = certify(episodes, preset_values=short(), gamma=0.97, fit_episodes=4, seed=0)
    made.save(folder / "certificate")
    return Path(folder)
