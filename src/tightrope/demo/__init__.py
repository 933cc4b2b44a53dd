"""The policy that ships with the package: SAC on Hopper-v4 after 200,000 steps.

Made with Stable-Baselines3 2.9.2 and MuJoCo 3.3.0: ``SAC("MlpPolicy", "Hopper-v4",
learning_rate=3e-4, batch_size=256, learning_starts=5000, seed=0)``, two hidden layers of 256, the
snapshot after 200,000 steps; only the actor is kept, as weights without any pickle.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["ENVIRONMENT", "policy_path"]

ENVIRONMENT = "Hopper-v4"


def policy_path() -> Path:
    """Where the shipped policy lies."""
    return Path(str(files("tightrope.demo").joinpath("hopper-sac.safetensors")))
