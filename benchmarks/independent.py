"""Train Tianshou's REDQ on Hopper-v4 under the conditions of ours.

With tianshou 2.0.1, mujoco, imageio, and the gymnasium, numpy and torch of constraints.txt:

    python benchmarks/independent.py --seed 0 --steps 40000 --out redq-tianshou.csv

Replay, targets, temperature, losses, actions and their scaling are Tianshou's; networks (two hidden
layers of 256, learned layer norm, CReLU), ten critics, subsets of two, rates, 10,000 random steps
and one update per step are ours. Its actor climbs the mean of all critics and its loss is the
squared one, as ours with --actor-climbs mean --critic-norm --learned-norm
--no-scaled-observations --actor-average 1.
Columns are those of our log; values and discounted returns are over steps of which a time limit
does not cut more than 1 %. Its networks are compiled.
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

from agents import BATCH, GAMMA, tianshou_redq

WARMUP, EVALUATE, EPISODES, CUT = 10_000, 2_500, 10, 458
HEAD = ("step", "seconds", "train_return", "eval_return", "eval_deviation", "eval_length")
HEAD += ("eval_value", "eval_discounted")


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
    for network in (algorithm.critic, algorithm.critic_old, algorithm.policy.actor):
        network.compile()
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
                found = [episode(algorithm, other, 1000 + k) for k in range(EPISODES)]
                sums, lengths, values, futures = zip(*found, strict=True)
                last = np.mean(returns[-100:])
                means = (last, np.mean(sums), np.std(sums), np.mean(lengths))
                means += (np.mean(np.concatenate(values)), np.mean(np.concatenate(futures)))
                seconds = round(time.monotonic() - begun, 1)
                log.writerow([step, seconds, *(f"{value:.6g}" for value in means)])
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


def episode(algorithm, env: gym.Env, seed: int) -> tuple[float, int, np.ndarray, np.ndarray]:
    """Return and length of a deterministic episode, values of its actions and what followed."""
    policy = algorithm.policy
    observation, _ = env.reset(seed=seed)
    rows, rewards, over = [], [], False
    while not over:
        action = act(policy, observation, training=False)
        rows.append((observation, action))
        observation, reward, terminated, truncated, _ = env.step(policy.map_action(action))
        rewards.append(float(reward))
        over = terminated or truncated
    futures = np.zeros(len(rewards) + 1)
    for step in reversed(range(len(rewards))):
        futures[step] = rewards[step] + GAMMA * futures[step + 1]
    known = len(rewards) if terminated else max(len(rewards) - CUT, 0)
    observations, actions = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    with torch.no_grad():  # in rows of one size, or every length would be compiled anew
        padded = [np.resize(column, (1000, column.shape[1])) for column in (observations, actions)]
        values = algorithm.critic(*padded).mean(dim=0).flatten().numpy()
    return sum(rewards), len(rewards), values[:known], futures[:known]


if __name__ == "__main__":
    main()
