"""Episodes under a monitor: the same as collected ones, wrapped or watched; a line for each."""

import gymnasium as gym
import numpy as np
import pytest
from command import run

from tightrope.deploy import Monitor, MonitorWrapper
from tightrope.deploy.watch import summary, watch
from tightrope.errors import InputError
from tightrope.policies import load_mlp
from tightrope.rollouts import collect


@pytest.fixture
def monitor(pendulum):
    return Monitor(pendulum / "certificate")


def taxed():
    """Pendulum that pays 20 less in every step."""
    env = gym.make("Pendulum-v1", disable_env_checker=True)
    return gym.wrappers.TransformReward(env, lambda reward: reward - 20.0)


def test_watched_episodes_are_those_that_would_be_collected(pendulum, monitor):
    """The same seeds, actions and rewards; what the monitor said follows from them."""
    policy = pendulum / "policy.safetensors"
    found = list(watch(monitor, policy, episodes=2, seed=11))
    collected = collect(policy, "Pendulum-v1", 2, 11, workers=1)
    for one, episode in zip(found, collected, strict=True):
        assert one.seed == episode.seed
        monitor.reset(episode.observations[0])
        later = [*episode.observations[1:], episode.final_observation]
        for t, (said, reward) in enumerate(zip(one.statuses, episode.rewards, strict=True)):
            status = monitor.step(reward, later[t], False, t == 199)
            assert said.value == pytest.approx(status.value, abs=1e-9)
            assert said.threshold == status.threshold
        assert one.since == status.since


def test_an_environment_that_pays_less_is_noticed_and_another_policy_is_a_warning(
    pendulum, monitor
):
    found = list(watch(monitor, pendulum / "policy.safetensors", taxed, episodes=3, seed=2))
    assert all(one.since is not None and one.largest > 1 for one in found)
    assert summary(monitor, found).startswith("3 of 3 episodes raised an alarm, the first after ")
    with pytest.warns(UserWarning, match="is not the policy that was certified"):
        next(watch(monitor, pendulum / "other.safetensors", episodes=1, seed=0))


def test_a_wrapped_environment_is_the_environment_with_a_status(pendulum, monitor):
    policy = load_mlp(pendulum / "policy.safetensors")
    plain, wrapped = gym.make("Pendulum-v1"), MonitorWrapper(gym.make("Pendulum-v1"), monitor)
    expected, _ = plain.reset(seed=3)
    found, info = wrapped.reset(seed=3)
    for _ in range(200):
        assert info["monitor"] == wrapped.status
        np.testing.assert_array_equal(found, expected)
        action = policy.act(found[None].astype(np.float32), np.zeros((1, 0), np.float32))[0]
        expected, *outcome, _ = plain.step(action)
        found, *watched, info = wrapped.step(action)
        assert outcome == watched
    assert outcome[2]  # truncated
    assert wrapped.status.step == 200
    with pytest.raises(InputError, match=r"an observation of 3 finite numbers.* of shape \(4,\)"):
        MonitorWrapper(gym.make("CartPole-v1"), monitor).reset()


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def command(pendulum, capsys):
    def call(*arguments, certificate=pendulum / "certificate"):
        policy = ("--policy", pendulum / "policy.safetensors")
        return run(capsys, "monitor", certificate, *policy, *arguments)

    return call


def test_the_command_shows_episodes_and_a_summary(command, tmp_path):
    save = tmp_path / "m.safetensors"
    code, out, said = command("--episodes", 2, "--seed", 11, "--save", save)
    assert (code, said) == (0, [])
    lines = out.splitlines()
    assert sum(": 200 steps, largest departure " in line for line in lines) == 2
    assert "of 2 episodes raised an alarm" in lines[-2]
    assert lines[-1] == f"Written to {save}"
    assert Monitor(save).features == 3


def test_wrong_options_are_one_line_and_exit_code_2(command, tmp_path):
    for arguments, message in (
        (["--env", "CartPole-v1"], "is it for another environment?"),
        (["--save", "monitor.npz"], "expected a name ending in .safetensors, found 'monitor.npz'"),
        (["--no-normalize", "--normalize", "a.npz"], "expected --normalize or --no-normalize"),
    ):
        code, out, said = command(*arguments)
        assert (code, out, len(said)) == (2, "", 1)
        assert message in said[0]
    code, out, said = command(certificate=tmp_path)
    assert (code, out, "expected a certificate at" in said[0]) == (2, "", True)
