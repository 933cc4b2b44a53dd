"""Watch a robot drift: a pendulum whose motor fades, and the monitor that notices.

    python examples/watch_a_robot_drift.py

A swing-up policy is certified; the certificate brings a monitor with a guaranteed rate of false
alarms. Then the motor loses strength from episode to episode, as a robot wears out. The monitor
knows nothing of motors: it only sees that rewards no longer add up to what was predicted. An
episode that starts on top needs little torque, and shows little. About a minute; `--quick` has
fewer episodes, and promises less.
"""

import argparse

import gymnasium as gym
import numpy as np

import tightrope as tr

STRENGTHS = (1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


def swing_up(observations: np.ndarray) -> np.ndarray:
    """Pump energy while the pendulum hangs, balance when it is up; torques in [-2, 2]."""
    cosine, sine, speed = observations.T
    angle = np.arctan2(sine, cosine)
    energy = speed**2 / 6 + 5 * (cosine - 1)  # 0 when it stands still on top
    pump = -2.0 * np.sign(speed + 1e-9) * np.sign(energy)
    balance = -12.0 * angle - 3.0 * speed
    return np.clip(np.where(cosine > 0.9, balance, pump), -2.0, 2.0)[:, None].astype(np.float32)


class Fading(gym.ActionWrapper):
    """A motor that has some of its strength left."""

    strength = 1.0

    def action(self, action: np.ndarray) -> np.ndarray:
        """The torque that is left."""
        return np.asarray(self.strength * action, np.float32)


def main() -> None:
    """Certify, then watch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small certificate")
    quick = parser.parse_args().quick

    episodes = 40 if quick else 100
    certificate = tr.certify(
        swing_up, "Pendulum-v1", episodes=episodes, test_episodes=0, seed=0, gamma=0.97
    )
    monitor = tr.Monitor(certificate)
    print(f"False alarms in at most {monitor.calibration.false_alarms:.1%} of episodes, confidence "
          f"{monitor.calibration.confidence:.2%}.\n")  # fmt: skip

    robot = Fading(gym.make("Pendulum-v1"))
    watched = tr.MonitorWrapper(robot, monitor)
    for number, strength in enumerate(STRENGTHS):
        robot.strength = strength
        observation, _ = watched.reset(seed=1000 + number)
        largest, ended = 0.0, False
        while not ended:
            action = swing_up(observation[None])[0]
            observation, _, terminated, truncated, info = watched.step(action)
            status = info["monitor"]
            largest = max(largest, abs(status.value) / status.threshold)
            ended = terminated or truncated
        said = f"ALARM at step {status.since}" if status.alarm else "no alarm"
        print(f"motor at {strength:4.0%}: deviation {largest:4.0%} of the threshold, {said}")


if __name__ == "__main__":
    main()
