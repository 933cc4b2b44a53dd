"""What is logged of evaluation episodes, against plain loops."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from tightrope.agents import REDQ, SACPolicy
from tightrope.agents.evaluation import evaluate
from tightrope.environments import EnvInfo, make_env
from tightrope.seeds import RunStream, run_seed

SMALL = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}


def agent(kind, env):
    made = make_env(env)
    if kind == "ppo":
        return PPO("MlpPolicy", made, **SMALL)
    return REDQ(SACPolicy, made, critics=3, buffer_size=10, **SMALL)


def by_hand(model, env, episodes, gamma, seed, keep):
    """Returns, lengths, values and discounted returns, one step after the other."""
    made = make_env(env)
    returns, lengths, values, futures = [], [], [], []
    for index in range(episodes):
        observation, _ = made.reset(seed=run_seed(seed, RunStream.EVALUATION, index))
        rewards, said, over = [], [], False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            row = torch.as_tensor(np.array(observation))[None].float()
            with torch.no_grad():
                if isinstance(model, PPO):
                    said.append(float(model.policy.predict_values(row)))
                else:
                    low, high = made.action_space.low, made.action_space.high
                    scaled = torch.as_tensor(2 * (action - low) / (high - low) - 1)[None]
                    said.append(np.mean([float(v) for v in model.critic(row, scaled.float())]))
            observation, reward, terminated, truncated, _ = made.step(action)
            rewards.append(float(reward))
            over = terminated or truncated
        returns.append(sum(rewards))
        lengths.append(len(rewards))
        for step in range(len(rewards)):
            if terminated or keep(len(rewards) - step):
                values.append(said[step])
                futures.append(sum(gamma**k * r for k, r in enumerate(rewards[step:])))
    return returns, lengths, np.mean(values), np.mean(futures)


@pytest.mark.parametrize("kind", ["redq", "ppo"])
@pytest.mark.parametrize("env", ["Pendulum-v1", "InvertedPendulum-v5"])
def test_values_are_compared_with_the_returns_that_follow(kind, env):
    """Pendulum is always cut, InvertedPendulum falls; what a time limit cuts by 1 % is left out."""
    model, gamma = agent(kind, env), 0.9
    seen = evaluate(model, EnvInfo.of(env), episodes=2, gamma=gamma, seed=5)
    returns, lengths, value, discounted = by_hand(
        model, env, 2, gamma, 5, keep=lambda left: gamma**left <= 0.01
    )
    assert seen["eval_return"] == pytest.approx(np.mean(returns))
    assert seen["eval_deviation"] == pytest.approx(np.std(returns))
    assert seen["eval_length"] == np.mean(lengths)
    assert seen["eval_value"] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert seen["eval_discounted"] == pytest.approx(discounted, rel=1e-9)


def test_without_a_step_whose_return_is_known_there_is_no_number(monkeypatch):
    """And the environment is closed."""
    closed = []
    monkeypatch.setattr(gym.Wrapper, "close", lambda self: closed.append(self))
    model = agent("redq", "Pendulum-v1")
    for gamma in (0.999, 1.0):
        seen = evaluate(model, EnvInfo.of("Pendulum-v1"), episodes=1, gamma=gamma, seed=0)
        assert seen.keys() == {"eval_return", "eval_deviation", "eval_length"}
        assert closed
