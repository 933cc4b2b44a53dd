"""Each agent learns: seeded, small, and far better than a random policy. By default only REDQ."""

import numpy as np
import pytest

from tightrope.agents import read_log, train
from tightrope.environments import make_env


def random_return(env_id, episodes=50):
    env = make_env(env_id)
    env.action_space.seed(0)
    returns = []
    for seed in range(episodes):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


OFF_POLICY = {"steps": 3000, "warmup": 500, "evaluate_every": 500}
ON_POLICY = {"steps": 16_384, "rollout": 1024, "evaluate_every": 4096}


@pytest.mark.parametrize(
    ("agent", "env", "least", "options"),
    [
        ("redq", "Pendulum-v1", 1 / 2, {**OFF_POLICY, "critics": 5}),  # -1,200, solved at -150
        pytest.param("sac", "Pendulum-v1", 1 / 2, OFF_POLICY, marks=pytest.mark.validity),
        # one reward per step upright, at most 1,000
        pytest.param("ppo", "InvertedPendulum-v5", 20, ON_POLICY, marks=pytest.mark.validity),
    ],
)
def test_an_agent_is_far_better_than_a_random_policy(agent, env, least, options, tmp_path):
    options = {**options, "hidden": (64, 64), "learning_rate": 1e-3, "evaluation_episodes": 5}
    train(agent, env, tmp_path / "run", **options)
    rows = read_log(tmp_path / "run" / "log.csv")
    best = max(row["eval_return"] for row in rows if "eval_return" in row)
    assert best > least * random_return(env)
