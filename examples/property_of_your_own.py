"""Certify a number of your own: the energy that an episode of a pendulum takes.

On the command line: --property "energy=FILE.py:energy" --property-limit "energy<=40".
"""

import numpy as np

import tightrope as tr
from tightrope.rollouts import Episode


def energy(episode: Episode) -> float:
    """Sum of |torque × angular velocity| over the episode."""
    return float(np.abs(episode.actions[:, 0] * episode.observations[:, 2]).sum() / 20)


def swing_up(observations: np.ndarray) -> np.ndarray:
    """Pump energy while the pendulum hangs, balance when it is up; torques in [-2, 2]."""
    cosine, sine, speed = observations.T
    pump = 2 * np.sign(speed + 1e-9) * np.sign(5 * (1 - cosine) - speed**2 / 6)
    balance = -12 * np.arctan2(sine, cosine) - 3 * speed
    return np.clip(np.where(cosine > 0.9, balance, pump), -2, 2)[:, None].astype(np.float32)


def main(episodes: int = 200) -> None:
    """Levels of the energy, and how often it exceeds 40."""
    limit = tr.Property(energy, direction="at-most", limit=40.0)
    properties = {"energy": limit}
    certificate = tr.certify(swing_up, "Pendulum-v1", episodes=episodes, properties=properties)
    for each in certificate.statements:
        if "energy" in each.name:
            share = "probability" if each.share is None else f"{each.share:.0%} of episodes"
            print(f"{each.name}, {share}: {each.value_raw:.3g} (in sample {each.estimate:.3g})")


if __name__ == "__main__":
    main()
