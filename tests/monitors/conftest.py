"""A policy on Pendulum and the certificate of it, with fits that are short."""

from pathlib import Path

import pytest
from recordings import short_fits

from tightrope.certificates import certify
from tightrope.certificates.folder import write
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
    with short_fits():
        certificate = certify(episodes, pilot_episodes=3, gamma=0.97, seed=0)
    write(certificate, folder / "certificate")
    return Path(folder)
