"""Deterministic episodes during training, and what the critics say of them.

Critics that value actions far above the returns that follow are the usual reason why an actor does
not learn, so both numbers go to the log.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents.experience import failures, following_returns
from tightrope.agents.policies import CriticEnsemble
from tightrope.environments import EnvInfo
from tightrope.seeds import RunStream, run_seed

__all__ = ["Evaluation", "evaluate"]

_FORGOTTEN = 1e-2  # of a return may be cut off by a time limit


@dataclass(frozen=True)
class Evaluation:
    """Deterministic episodes, always from the same seeds.

    Attributes:
        returns: undiscounted return of each episode.
        lengths: steps of each.
        value: mean of what the critics say of the actions taken; SAC's and REDQ's count entropy.
        discounted: mean discounted return that followed them. Both are over the steps whose return
            a time limit did not cut by more than 1 %; NaN if there are none.
    """

    returns: list[float]
    lengths: list[int]
    value: float
    discounted: float


def evaluate(
    model: BaseAlgorithm, env_info: EnvInfo, *, episodes: int, gamma: float, seed: int
) -> Evaluation:
    """Run `episodes` deterministic episodes."""
    env = env_info.make()
    returns, lengths = [], []
    values: list[NDArray[Any]] = []
    futures: list[NDArray[Any]] = []
    for index in range(episodes):
        observations, actions, rewards, terminated = _episode(model, env, seed, index)
        returns.append(sum(rewards))
        lengths.append(len(rewards))
        known = len(rewards) if terminated else int(max(len(rewards) - _cut_steps(gamma), 0))
        if known:
            values.append(action_values(model, observations[:known], actions[:known]))
            futures.append(following_returns(rewards, gamma)[:known])
    env.close()
    value, discounted = (
        float(np.concatenate(each).mean()) if each else math.nan for each in (values, futures)
    )
    return Evaluation(returns, lengths, value, discounted)


def _episode(
    model: BaseAlgorithm, env: Any, seed: int, index: int
) -> tuple[NDArray[Any], NDArray[Any], list[float], bool]:
    """Observations, actions and rewards of every step, and whether the episode terminated."""
    observations, actions = [], []
    rewards: list[float] = []
    terminated = truncated = False
    with failures(f"evaluation episode {index}"):
        observation, _ = env.reset(seed=run_seed(seed, RunStream.EVALUATION, index))
    while not (terminated or truncated):
        action, _ = model.predict(observation, deterministic=True)
        observations.append(np.array(observation))  # environments may reuse theirs
        actions.append(action)
        with failures(f"step {len(rewards)} of evaluation episode {index}"):
            observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
    return np.array(observations), np.array(actions), rewards, bool(terminated)


def action_values(
    model: BaseAlgorithm, observations: NDArray[Any], actions: NDArray[Any]
) -> NDArray[np.float32]:
    """(steps,) mean over the critics of the value of each action; PPO's is that of the state."""
    policy: Any = model.policy
    seen = policy.obs_to_tensor(observations)[0].float()
    with torch.no_grad():
        critic = getattr(policy, "critic", None)
        if not isinstance(critic, CriticEnsemble):
            return np.asarray(policy.predict_values(seen).flatten().cpu())
        scaled = torch.as_tensor(policy.scale_action(actions), device=model.device).float()
        return np.asarray(critic.values(seen, scaled).mean(dim=0).cpu())


def _cut_steps(gamma: float) -> float:
    """Steps before a time limit whose return it cuts by more than a hundredth."""
    if gamma == 1:
        return math.inf
    return math.ceil(math.log(_FORGOTTEN) / math.log(gamma)) - 1 if gamma > _FORGOTTEN else 0
