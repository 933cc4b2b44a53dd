"""Replay the worst episode of a certificate as a video.

    tightrope certify --demo --out demo
    MUJOCO_GL=egl python examples/replay_worst_episode.py demo Hopper-v4 worst.gif

Resets with the recorded seed and repeats the recorded actions, so it shows what happened then, to
the last bit on the same kind of processor.
"""

import sys

import gymnasium as gym
import imageio.v3 as iio
import numpy as np

import tightrope as tr


def main(folder: str, env: str, video: str = "worst.gif", every: int = 4) -> None:
    """Write one frame for every few steps."""
    certificate = tr.load_certificate(folder)
    episodes = certificate.rollouts
    returns = episodes.returns(gamma=1.0)
    worst = episodes[int(np.argmin(returns))]

    robot = gym.make(env, render_mode="rgb_array")
    robot.reset(seed=worst.seed)
    frames = [robot.render()]
    for step, action in enumerate(worst.actions):
        robot.step(action)
        if step % every == 0:
            frames.append(robot.render())
    iio.imwrite(video, np.stack(frames), duration=50, loop=0)
    print(f"{video}: seed {worst.seed}, return {returns.min():.6g}, {len(frames)} frames")


if __name__ == "__main__":
    main(*sys.argv[1:])
