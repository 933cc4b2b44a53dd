"""Steps per second of `tightrope collect` against its peers and the physical limit, in one run.

    python benchmarks/collect.py [POLICY] [--env Hopper-v4] [--episodes 200]

On the same policy and seeds: collect on all cores; SB3's evaluate_policy; a plain Gymnasium loop
with the same policy; and raw mujoco.mj_step on the recorded actions, one process per core, which
is as fast as the physics can go. Without POLICY it is the shipped one on Hopper-v4, as an SB3 zip,
and an untrained SAC policy elsewhere.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from tightrope import demo
from tightrope.environments import make_env
from tightrope.policies import load_policy
from tightrope.rollouts import Episodes, collect, discounted_returns

warnings.filterwarnings("ignore", message=".*is out of date.*")


def raw_steps(task: tuple[str, list[tuple[int, np.ndarray]]]) -> tuple[int, float]:
    import mujoco

    env_id, episodes = task
    env = make_env(env_id)
    inner = env.unwrapped
    steps = spent = 0.0
    for seed, actions in episodes:
        env.reset(seed=seed)
        start = time.perf_counter()
        for action in actions:
            inner.data.ctrl[:] = action
            mujoco.mj_step(inner.model, inner.data, nstep=inner.frame_skip)
        spent += time.perf_counter() - start
        steps += len(actions)
    return int(steps), spent


def raw_limit(env_id: str, episodes: Episodes) -> float:
    tasks = [(int(e.seed), np.asarray(e.actions)) for e in episodes]
    cores = os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        results = pool.map(raw_steps, [(env_id, tasks[core::cores]) for core in range(cores)])
    return sum(steps / spent for steps, spent in results)


def plain_loop(env_id: str, policy, seeds: list[int]) -> float:
    env = make_env(env_id)
    noise, steps, start = np.zeros((1, 0), np.float32), 0, time.perf_counter()
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            action = policy.act(observation[None].astype(np.float32), noise)[0]
            observation, _, terminated, truncated, _ = env.step(action)
            ended, steps = terminated or truncated, steps + 1
    return steps / (time.perf_counter() - start)


def sb3_loop(env_id: str, path: Path, episodes: int) -> float:
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(make_env(env_id))
    model = SAC.load(path, device="cpu")
    start = time.perf_counter()
    _, lengths = evaluate_policy(model, env, episodes, return_episode_rewards=True)
    return sum(lengths) / (time.perf_counter() - start)


def sb3_zip(env_id: str, folder: Path) -> Path:
    import torch
    from stable_baselines3 import SAC

    model = SAC("MlpPolicy", make_env(env_id), buffer_size=1, seed=0)
    if env_id == demo.ENVIRONMENT:
        shipped = load_policy(demo.policy_path(), make_env(env_id))
        actor = model.actor
        layers = [*(m for m in actor.latent_pi if isinstance(m, torch.nn.Linear)), actor.mu]
        for layer, weight, bias in zip(layers, shipped.weights, shipped.biases, strict=True):
            layer.weight.data, layer.bias.data = torch.tensor(weight.T), torch.tensor(bias)
    model.save(folder / "policy.zip")
    return folder / "policy.zip"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", nargs="?", type=Path)
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.policy
        if path is None:
            path = sb3_zip(options.env, Path(folder))
        start = time.perf_counter()
        episodes = collect(path, options.env, options.episodes, progress=True)
        whole = time.perf_counter() - start
        start = time.perf_counter()
        discounted_returns(episodes)
        returns = time.perf_counter() - start
        few = max(3, options.episodes // 20)
        policy = load_policy(path, make_env(options.env))
        seeds = [int(seed) for seed in episodes.seeds[:few]]
        rates = {
            "tightrope collect (start-up included)": len(episodes.rewards) / whole,
            "SB3 evaluate_policy": sb3_loop(options.env, path, few),
            "plain Gymnasium loop": plain_loop(options.env, policy, seeds),
            "raw mj_step, all cores": raw_limit(options.env, episodes),
        }
    ours = rates["tightrope collect (start-up included)"]
    print(
        f"{options.env}: {len(episodes)} episodes, {len(episodes.rewards):,} steps, {whole:.1f} s"
    )
    for name, rate in rates.items():
        print(f"  {name:<40} {rate:10,.0f} steps/s   collect is {ours / rate:5.2f} x")
    print(f"  return computation {returns / whole:.2%} of the collection's time")


if __name__ == "__main__":
    main()
