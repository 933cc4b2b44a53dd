"""Roll-outs of one's own: functions of a seed, as objects and by the name of their file."""

import hashlib
import os
import re

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.rollouts import (
    CollectionError,
    Episode,
    collect,
    episode_seeds,
    load,
    policy_source,
    save,
)
from tightrope.rollouts.stepping import own_rollout

FILE = """
import numpy as np

def roll_out(seed):
    return {"observations": np.full((3, 2), seed % 7), "rewards": [1.0, 2, 3], "terminated": True}

def act(observations):
    return observations
"""


def recurrent(seed):
    """Observations are the memory of a policy; the last step is a time limit for odd seeds."""
    rng = np.random.default_rng(seed)
    memory, memories, rewards = np.zeros(2), [], []
    for _ in range(2 + seed % 4):
        memory = np.tanh(0.5 * memory + rng.normal(size=2))
        memories.append(memory)
        rewards.append(memory.sum())
    return {
        "observations": memories,
        "rewards": rewards,
        "terminated": seed % 2 == 0,
        "final_observation": memory,
        "success": np.bool_(seed % 3 == 0),
    }


@pytest.mark.parametrize("workers", [1, 3])
def test_episodes_are_what_the_function_returns_for_each_seed_whatever_the_workers(workers):
    found = collect(rollout=recurrent, episodes=8, seed=5, workers=workers)
    assert found.seeds.tolist() == episode_seeds(5, 8)
    for episode in found:
        expected = recurrent(episode.seed)
        np.testing.assert_array_equal(episode.observations, np.float32(expected["observations"]))
        np.testing.assert_array_equal(episode.rewards, expected["rewards"])
        np.testing.assert_array_equal(episode.final_observation, episode.observations[-1])
        assert episode.terminated == (episode.seed % 2 == 0) != episode.truncated
        assert episode.success == (episode.seed % 3 == 0)


def test_an_episode_may_be_returned_as_one_and_goes_on_record(tmp_path):
    def roll_out(seed):
        return Episode(np.zeros((2, 3), np.float32), np.ones(2), terminated=False, truncated=True)

    found = collect(roll_out, episodes=3, seed=0)
    assert found.truncated.all()
    assert found.seeds.tolist() == episode_seeds(0, 3)
    assert found.subject["environment"]["id"] == "its own environment"
    policy = found.subject["policy"]
    assert policy["name"].endswith("roll_out")
    assert (policy["digest"], policy["actions"]) == (None, "as the roll-out chooses them")
    assert "repeatable" not in found.subject
    save(found, tmp_path / "own.safetensors")
    assert load(tmp_path / "own.safetensors").subject == found.subject


def test_a_function_of_a_file_is_a_roll_out_if_its_parameter_is_a_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.py").write_text(FILE)
    source = policy_source("arm.py:roll_out")
    for policy, env in ((source.policy, source.environment), ("arm.py:roll_out", None)):
        found = collect(policy, env, 4, 1, workers=2)
        assert found.lengths.tolist() == [3] * 4
        assert found.observations[::3, 0].tolist() == [seed % 7 for seed in found.seeds]
    assert found.subject["policy"]["name"] == "arm.py:roll_out"
    assert found.subject["policy"]["digest"] == hashlib.sha256(FILE.encode()).hexdigest()
    with pytest.raises(InputError, match="expected `env`"):
        policy_source("arm.py:act")  # of observations: a policy


def test_a_function_that_gives_another_episode_when_called_again_is_told():
    calls = []

    def forgetful(seed):
        calls.append(seed)
        return {"observations": [[len(calls)]], "rewards": [1.0]}

    with pytest.warns(UserWarning, match=r"gives another episode for seed .* when called again"):
        found = collect(rollout=forgetful, episodes=3, seed=0, workers=1)
    assert found.subject["repeatable"] is False
    assert found.observations[:, 0].tolist() == [1, 2, 3]


BAD = {
    "nothing": (
        lambda seed: None,
        "an Episode or a dictionary with observations, rewards .*found NoneType",
    ),
    "no rewards": (lambda seed: {"observations": [[1.0]]}, "found dict of observations"),
    "another key": (
        lambda seed: {"observations": [[1.0]], "rewards": [1.0], "reward": 1},
        "found dict of observations, rewards, reward",
    ),
    "words": (lambda seed: {"observations": [["a"]], "rewards": [1.0]}, "numbers in observations"),
    "other lengths": (
        lambda seed: {"observations": [[1.0]] * 2, "rewards": [1.0]},
        r"observations of shape \(1, 1\) .*found \(2, 1\)",
    ),
    "no step": (lambda seed: {"observations": [], "rewards": []}, "at least one"),
    "NaN": (lambda seed: {"observations": [[np.nan]], "rewards": [1.0]}, "found NaN"),
    "an error": (lambda seed: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize(("function", "words"), BAD.values(), ids=BAD)
def test_what_is_no_episode_is_one_line_with_its_seed(function, words):
    with pytest.raises(CollectionError, match=words) as failure:
        collect(rollout=function, episodes=2, seed=0, workers=1)
    assert re.search(rf"the episode with seed {episode_seeds(0, 1)[0]}", str(failure.value))
    assert "\n" not in str(failure.value)


def test_options_of_policies_are_refused():
    options = {"env": "Pendulum-v1", "sample": True, "normalize": "x.pkl", "policy": "x.zip"}
    for name, value in options.items():
        with pytest.raises(InputError, match=f"expected no `{name}` with a roll-out of your own"):
            collect(rollout=recurrent, episodes=2, **{name: value})
    with pytest.raises(InputError, match="expected no `env`"):
        policy_source(recurrent, "Pendulum-v1")


def test_no_function_is_no_roll_out():
    with pytest.raises(InputError, match=r"a function of a seed as `rollout`, found 3"):
        collect(rollout=3, episodes=2)


def test_a_pipe_is_not_read_to_see_whether_it_is_a_roll_out(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")  # would never end
    assert own_rollout(f"{tmp_path / 'pipe.py'}:function") is None
