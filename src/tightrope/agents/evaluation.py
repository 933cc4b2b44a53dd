"""Deterministic episodes during training, and what the critics say of them.

Critics that value actions far above the returns that follow are the usual reason why an actor does
not learn, so both numbers go to the log.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents.policies import CriticEnsemble
from tightrope.agents.training_statistics import failures, following_returns
from tightrope.environments import EnvInfo
from tightrope.rollouts.stepping import roll_out
from tightrope.seeds import RunStream, run_seed

__all__ = ["evaluate"]

_FORGOTTEN = 1e-2  # of a return may be cut off by a time limit


def evaluate(
    model: BaseAlgorithm, env_info: EnvInfo, *, episodes: int, gamma: float, seed: int
) -> dict[str, float]:
    """Run deterministic episodes, always from the same seeds; by columns of the log.

    `eval_value` is the mean of what the critics say of the actions taken (SAC's and REDQ's count
    entropy), `eval_discounted` of the discounted return that followed them. Both are over the steps
    whose return a time limit did not cut by more than 1 %, and absent if there are none.
    """
    env = env_info.make()
    returns, lengths = [], []
    values: list[NDArray[Any]] = []
    futures: list[NDArray[Any]] = []
    for index in range(episodes):
        with failures(f"evaluation episode {index}"):
            episode = roll_out(
                lambda observation: model.predict(observation, deterministic=True)[0],
                env,
                run_seed(seed, RunStream.EVALUATION, index),
            )
        rewards, actions = episode.rewards.tolist(), episode.actions
        assert actions is not None
        returns.append(sum(rewards))
        lengths.append(len(rewards))
        known = len(rewards) if episode.terminated else len(rewards) - _cut_steps(gamma)
        if known > 0:
            values.append(_action_values(model, episode.observations[:known], actions[:known]))
            futures.append(following_returns(rewards, gamma)[:known])
    env.close()
    row = {"eval_return": np.mean(returns), "eval_deviation": np.std(returns)}
    row["eval_length"] = np.mean(lengths)
    if values:
        row["eval_value"] = np.concatenate(values).mean()
        row["eval_discounted"] = np.concatenate(futures).mean()
    return {name: float(value) for name, value in row.items()}


def _action_values(
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


def _cut_steps(gamma: float) -> int:
    """Steps before a time limit whose return it cuts by more than a hundredth."""
    if gamma == 1:
        return 2**62
    return math.ceil(math.log(_FORGOTTEN) / math.log(gamma)) - 1 if gamma > _FORGOTTEN else 0
