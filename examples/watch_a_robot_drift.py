"""Watch a robot drift: the motor of a pendulum fades, and the monitor notices. About a minute.

The monitor knows nothing of motors: rewards no longer add up to what was predicted.
"""

import gymnasium as gym
import numpy as np

import tightrope as tr


def swing_up(observations: np.ndarray) -> np.ndarray:
    """Pump energy while the pendulum hangs, balance when it is up; torques in [-2, 2]."""
    cosine, sine, speed = observations.T
    pump = 2 * np.sign(speed + 1e-9) * np.sign(5 * (1 - cosine) - speed**2 / 6)
    balance = -12 * np.arctan2(sine, cosine) - 3 * speed
    return np.clip(np.where(cosine > 0.9, balance, pump), -2, 2)[:, None].astype(np.float32)


def main(episodes: int = 200) -> None:
    """Certify the fresh robot, then watch it wear out."""
    monitor = tr.Monitor(tr.certify(swing_up, "Pendulum-v1", episodes=episodes, gamma=0.97))
    print(f"false alarms in at most {monitor.calibration.false_alarms:.1%} of episodes")
    watched = tr.MonitorWrapper(gym.make("Pendulum-v1"), monitor)
    for number, strength in enumerate((1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)):
        observation, _ = watched.reset(seed=1000 + number)
        over = False
        while not over:
            action = strength * swing_up(observation[None])[0]
            observation, _, terminated, truncated, info = watched.step(action)
            over = terminated or truncated
        since = info["monitor"].since
        print(
            f"motor at {strength:4.0%}:", "no alarm" if since is None else f"ALARM at step {since}"
        )


if __name__ == "__main__":
    main()
