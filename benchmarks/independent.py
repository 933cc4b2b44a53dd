"""Train Tianshou's REDQ on Hopper-v4 under the conditions of ours.

With tianshou 2.0.1, mujoco, imageio, and the gymnasium, numpy and torch of constraints.txt:

    python benchmarks/independent.py --seed 0 --steps 40000 --out redq-tianshou.csv

Replay, targets, temperature, losses, actions and their scaling are Tianshou's; networks (two hidden
layers of 256, learned layer norm, CReLU), ten critics, subsets of two, rates, 10,000 random steps
and one update per step are ours. Its actor climbs the mean of all critics and its loss is the
squared one: `tightrope train redq --actor-climbs mean --learned-norm --huber inf` is that recipe.
"""

import argparse
import csv
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from agents import BATCH, tianshou_redq

WARMUP, EVALUATE, EPISODES = 10_000, 2_500, 10
HEAD = ("step", "seconds", "train_return", "eval_return", "eval_deviation", "eval_length")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    np.random.seed(given.seed)  # noqa: NPY002 - what Tianshou draws from
    env, other = gym.make("Hopper-v4"), gym.make("Hopper-v4")
    env.action_space.seed(given.seed)
    algorithm = tianshou_redq(env.action_space)
    buffer = ReplayBuffer(100_000)
    begun, total, returns = time.monotonic(), 0.0, []
    observation, _ = env.reset(seed=given.seed)
    with given.out.open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(HEAD)
        for step in range(1, given.steps + 1):
            if step <= WARMUP:
                real = env.action_space.sample()
                action = algorithm.policy.map_action_inverse(real)
            else:
                action = act(algorithm.policy, observation, training=True)
                real = algorithm.policy.map_action(action)
            following, reward, terminated, truncated, _ = env.step(real)
            total += float(reward)
            transition = {"obs": observation, "act": action, "rew": reward, "obs_next": following}
            ends = {"terminated": terminated, "truncated": truncated}
            buffer.add(Batch(**transition, **ends, info={}))
            observation = following
            if terminated or truncated:
                returns.append(total)
                total, (observation, _) = 0.0, env.reset()
            if step > WARMUP:
                with policy_within_training_step(algorithm.policy):
                    algorithm.update(buffer, BATCH)
            if step % EVALUATE == 0:
                found = [episode(algorithm.policy, other, 1000 + k) for k in range(EPISODES)]
                sums, lengths = zip(*found, strict=True)
                last = np.mean(returns[-100:])
                values = (last, np.mean(sums), np.std(sums), np.mean(lengths))
                seconds = round(time.monotonic() - begun, 1)
                log.writerow([step, seconds, *(f"{value:.6g}" for value in values)])
                file.flush()


def act(policy, observation: np.ndarray, *, training: bool) -> np.ndarray:
    """An action in [-1, 1]: drawn while training, the mode otherwise."""
    batch = Batch(obs=observation[None], info={})
    policy.train(training)
    with torch.no_grad():
        if training:
            with policy_within_training_step(policy):
                return policy(batch).act[0].numpy()
        return policy(batch).act[0].numpy()


def episode(policy, env: gym.Env, seed: int) -> tuple[float, int]:
    """Return and length of a deterministic episode."""
    observation, _ = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        action = policy.map_action(act(policy, observation, training=False))
        observation, reward, terminated, truncated, _ = env.step(action)
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    return total, steps


if __name__ == "__main__":
    main()
