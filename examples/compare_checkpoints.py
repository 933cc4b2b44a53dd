"""Find out which of two checkpoints is better: python examples/compare_checkpoints.py.

Trains PPO on a pendulum for a few seconds, keeps an early and a late checkpoint, and rolls out both
until the comparison is decided or 100 episodes are used. Stopping early is part of the method. With
checkpoints of your own: tightrope compare a.zip b.zip --env ID.
"""

from stable_baselines3 import PPO

import tightrope as tr


def main(steps: int = 8192, episodes: int = 100) -> None:
    """Train, compare, say what was decided."""
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=512, seed=0, device="cpu")
    model.learn(steps)
    model.save("early.zip")
    model.learn(3 * steps, reset_num_timesteps=False)
    model.save("late.zip")

    # Both policies start every pair of episodes from the same reset.
    comparison = tr.compare("early.zip", "late.zip", "Pendulum-v1", max_episodes=episodes)
    print(comparison)


if __name__ == "__main__":
    main()
