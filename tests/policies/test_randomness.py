"""Episodes are independent resets only if the policy has neither memory nor dice of its own."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO, TD3

from tightrope.errors import InputError
from tightrope.policies import as_policy, check_fit
from tightrope.rollouts import collect


@pytest.fixture
def env():
    return gym.make("Pendulum-v1")


def test_a_policy_with_a_generator_of_its_own_is_refused(env):
    """Pickled to two workers, it would draw the same numbers in both."""
    dice = np.random.default_rng(0)
    policy = as_policy(lambda rows: dice.uniform(-1, 1, (len(rows), 1)), name="dice")
    with pytest.raises(InputError, match=r"same actions.*dice.*not be independent"):
        check_fit(policy, env)


def test_a_policy_that_remembers_is_refused(env):
    class Recurrent:
        def predict(self, rows, state=None, deterministic=True):
            return np.zeros((len(rows), 1), np.float32), (np.ones(3),)

    with pytest.raises(InputError, match="without memory"):
        check_fit(as_policy(Recurrent()), env)


def test_what_cannot_sample_is_not_recorded_as_sampled(env):
    model = TD3("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, buffer_size=10, device="cpu")
    with pytest.raises(InputError, match="can sample"):
        check_fit(as_policy(model, sample=True), env)


def test_workers_of_a_policy_that_samples_by_itself_draw_different_numbers(env):
    """torch's generator starts alike in every process; here 2 workers, episodes 0 and 1."""
    model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, device="cpu")
    found = collect(model, "Pendulum-v1", 2, 0, workers=2, sample=True)
    first, second = (episode.actions.ravel() for episode in found)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5
