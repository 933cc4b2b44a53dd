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
    found = list(watch(monitor, pendulum / "policy.safetensors", episodes=2, seed=11))
    collected = collect(pendulum / "policy.safetensors", "Pendulum-v1", 2, 11, workers=1)
    for one, episode in zip(found, collected, strict=True):
        assert one.seed == episode.seed
        monitor.reset(episode.observations[0])
        for t, reward in enumerate(episode.rewards):
            end = t == len(episode.rewards) - 1
            later = episode.final_observation if end else episode.observations[t + 1]
            status = monitor.step(reward, later, False, end)
            assert one.statuses[t].value == pytest.approx(status.value, abs=1e-9)
            assert one.statuses[t].threshold == status.threshold
        assert one.since == status.since
        assert len(one.statuses) == 200


def test_an_environment_that_pays_less_is_noticed(pendulum, monitor):
    found = list(watch(monitor, pendulum / "policy.safetensors", taxed, episodes=3, seed=2))
    assert all(one.since is not None and one.largest > 1 for one in found)
    text = summary(monitor, found)
    assert text.startswith("3 of 3 episodes raised an alarm, the first after ")
    assert "at most" in text


def test_a_wrapped_environment_is_the_environment_with_a_status(pendulum, monitor):
    policy = load_mlp(pendulum / "policy.safetensors")
    plain = gym.make("Pendulum-v1")
    wrapped = MonitorWrapper(gym.make("Pendulum-v1"), monitor)
    expected, _ = plain.reset(seed=3)
    found, info = wrapped.reset(seed=3)
    assert info["monitor"] == wrapped.status
    for _ in range(200):
        np.testing.assert_array_equal(found, expected)
        action = policy.act(found[None].astype(np.float32), np.zeros((1, 0), np.float32))[0]
        expected, *outcome, _ = plain.step(action)
        found, *watched, info = wrapped.step(action)
        assert outcome == watched
        assert info["monitor"] == wrapped.status
    assert outcome[2]  # truncated
    assert wrapped.status.step == 200


def test_an_environment_with_other_observations_is_refused(pendulum, monitor):
    with pytest.raises(InputError, match="expected an environment with 3 numbers in an obs"):
        MonitorWrapper(gym.make("CartPole-v1"), monitor)


def test_another_policy_is_watched_with_a_warning(pendulum, monitor):
    with pytest.warns(UserWarning, match="is not the policy that was certified"):
        list(watch(monitor, pendulum / "other.safetensors", episodes=1, seed=0))


# --- the command --------------------------------------------------------------------------------


def test_the_command_shows_episodes_and_a_summary(pendulum, capsys, tmp_path):
    code, out, said = run(
        capsys,
        *("monitor", pendulum / "certificate", "--policy", pendulum / "policy.safetensors"),
        *("--episodes", 2, "--seed", 11, "--save", tmp_path / "m.safetensors"),
    )
    assert (code, said) == (0, [])
    lines = out.splitlines()
    assert sum(": 200 steps, largest departure " in line for line in lines) == 2
    assert "of 2 episodes raised an alarm" in lines[-2]
    assert lines[-1] == f"Written to {tmp_path / 'm.safetensors'}"
    assert Monitor(tmp_path / "m.safetensors").features == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "CartPole-v1"], "is it for another environment?"),
        (["--env", "Pendulun-v1"], "did you mean Pendulum-v1"),
        (["--episodes", "0"], "--episodes must be a whole number of at least 1, found 0"),
        (["--save", "monitor.npz"], "expected a name ending in .safetensors, found 'monitor.npz'"),
        (["--no-normalize", "--normalize", "a.npz"], "expected --normalize or --no-normalize"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(pendulum, capsys, arguments, message):
    code, out, said = run(
        capsys,
        *("monitor", pendulum / "certificate", "--policy", pendulum / "policy.safetensors"),
        *arguments,
    )
    assert (code, out, len(said)) == (2, "", 1)
    assert message in said[0]


def test_what_is_no_certificate_is_one_line(pendulum, capsys, tmp_path):
    policy = pendulum / "policy.safetensors"
    code, out, said = run(capsys, "monitor", tmp_path, "--policy", policy)
    assert (code, out, len(said)) == (2, "", 1)
    assert "expected a certificate at" in said[0]
