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


def best_return(agent, env, folder, **options):
    train(agent, env, folder, evaluation_episodes=5, **options)
    return max(row["eval_return"] for row in read_log(folder / "log.csv") if "eval_return" in row)


@pytest.mark.parametrize(
    ("agent", "more"),
    [("redq", {"critics": 5}), pytest.param("sac", {}, marks=pytest.mark.validity)],
)
def test_an_off_policy_agent_learns_to_swing_up(agent, more, tmp_path):
    """Pendulum-v1: about -1,200 at random, -150 when solved."""
    options = {"steps": 3000, "warmup": 500, "hidden": (64, 64), "evaluate_every": 500, **more}
    best = best_return(agent, "Pendulum-v1", tmp_path / "run", learning_rate=1e-3, **options)
    assert best > random_return("Pendulum-v1") / 2


@pytest.mark.validity
def test_ppo_learns_to_balance(tmp_path):
    """InvertedPendulum-v5: one reward per step upright, at most 1,000."""
    options = {"steps": 16_384, "rollout": 1024, "hidden": (64, 64), "evaluate_every": 4096}
    best = best_return(
        "ppo", "InvertedPendulum-v5", tmp_path / "run", learning_rate=1e-3, **options
    )
    assert best > 20 * random_return("InvertedPendulum-v5")


@pytest.mark.validity
def test_redq_learns_to_hop(tmp_path):
    """Half an hour: Hopper-v4, far beyond a random policy (18) and the first lunge (about 200)."""
    assert best_return("redq", "Hopper-v4", tmp_path / "run", steps=40_000) > 270
