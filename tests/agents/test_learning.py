"""Each agent learns: seeded, small, and far better than a random policy."""

import numpy as np
import pytest

from tightrope.agents import read_log, train
from tightrope.environments import recipe

BALANCE = "InvertedPendulum-v5"  # one reward per step upright, 1000 at most


def random_return(env_id, episodes=50):
    env = recipe(env_id).make()
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


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        ("redq", {"steps": 1500, "warmup": 500, "critics": 5, "hidden": (64, 64)}),
        ("sac", {"steps": 2500, "warmup": 500, "hidden": (64, 64)}),
        ("ppo", {"steps": 16_384, "rollout": 1024, "hidden": (64, 64)}),
    ],
)
def test_an_agent_learns_to_balance(agent, options, tmp_path):
    train(
        agent,
        BALANCE,
        tmp_path / "run",
        learning_rate=1e-3,
        evaluation_episodes=5,
        evaluate_every=options["steps"] // 4,
        **options,
    )
    best = max(row.get("eval_return", 0) for row in read_log(tmp_path / "run" / "log.csv"))
    assert best > 20 * random_return(BALANCE)


@pytest.mark.validity
def test_redq_learns_to_hop(tmp_path):
    """About half an hour: Hopper-v4 beyond standing still (a return of about 1,000)."""
    train("redq", "Hopper-v4", tmp_path / "run", steps=40_000, warmup=5_000)
    best = max(row.get("eval_return", 0) for row in read_log(tmp_path / "run" / "log.csv"))
    assert best > 1_000
