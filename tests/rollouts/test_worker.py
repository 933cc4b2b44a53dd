"""Workers: environments that are Python objects reach them, and they end with their parent."""

import functools
import os
import signal
import subprocess
import sys
import threading

import custom_environments
import gymnasium as gym
import numpy as np
import pytest
from waiting import children_of, ended, wait_until

from tightrope.errors import InputError
from tightrope.rollouts import collect

# --- environments that are Python objects -----------------------------------------------------


def test_an_environment_is_rolled_out_as_its_id_is_and_with_its_arguments(small_policy):
    expected = collect(custom_environments.leaning, "Counting-v0", 3, 0, workers=1)
    found = collect(custom_environments.leaning, gym.make("Counting-v0"), 3, 0, workers=2)
    for name in ("observations", "rewards", "seeds"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.subject == expected.subject
    env = gym.make("Pendulum-v1", g=1.0, max_episode_steps=5)
    policy = small_policy(3, 1, bound=2.0)
    found = collect(policy, env, 2, 0, workers=1)
    plain = collect(policy, "Pendulum-v1", 2, 0, workers=1)
    assert found.lengths.tolist() == [5, 5]
    np.testing.assert_array_equal(found.observations[0], plain.observations[0])
    assert not np.array_equal(found.observations[4], plain.observations[4])  # another gravity
    recorded = found.subject["environment"]
    assert (recorded["id"], recorded["suite"]) == ("Pendulum-v1(g=1.0)", "custom")
    assert recorded["time_limit"] == 5


def test_what_a_function_returns_is_rolled_out(tmp_path):
    offset = 5.0

    class Shifted(custom_environments.Counting):
        def observation(self, action):
            return super().observation(action) + offset

    expected = collect(custom_environments.still, "Counting-v0", 3, 0, workers=1)
    for factory, name in ((lambda: Shifted(), "<lambda>"), (functools.partial(Shifted), "Shifted")):
        found = collect(custom_environments.still, factory, 3, 0, workers=1)
        np.testing.assert_array_equal(found.observations, expected.observations + np.float32(5))
        recorded = found.subject["environment"]
        assert recorded["suite"] == "custom"
        assert recorded["id"].endswith(name)


def test_what_cannot_travel_to_a_worker_is_an_input_error_of_one_line():
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot send the environment to worker") as refusal:
        collect(custom_environments.still, lambda: lock and custom_environments.Counting(), 1)
    assert "\n" not in str(refusal.value)


# --- modules of the user's own ----------------------------------------------------------------

YARD = """
import gymnasium as gym
import numpy as np

class Forklift(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}

def still(observations):
    return np.zeros((len(observations), 1), np.float32)

gym.register("Forklift-v0", Forklift, max_episode_steps=3)
"""


def test_a_module_of_the_working_directory_gives_environment_and_policy_without_a_word(tmp_path):
    """It is imported, or run, more than once: Gymnasium would complain each time."""
    (tmp_path / "yard.py").write_text(YARD)
    code = (
        "from tightrope.environments import EnvInfo\n"
        "from tightrope.rollouts import collect\n"
        "made = EnvInfo.from_json(EnvInfo.of('yard:Forklift-v0').to_json())\n"
        "for policy in ('yard:still', 'yard.py:still'):\n"
        "    found = collect(policy, made, 2, 0, workers=1)\n"
        "    assert found.lengths.tolist() == [3, 3]\n"
        "    assert found.subject['environment']['id'] == 'yard:Forklift-v0'\n"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""


SCRIPT = f"""
import sys
from tightrope.rollouts import collect
{YARD}
def build():
    return gym.wrappers.TimeLimit(gym.make("Forklift-v0").unwrapped, 4)

for env in ("Forklift-v0", build):
    found = collect(still, env, 2, 0, workers=2)
    print(*found.lengths, found.subject["environment"]["time_limit"], file=sys.stderr)
"""


def test_a_plain_script_needs_no_main_guard_and_its_environments_reach_the_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert answer.stderr.splitlines() == ["3 3 3", "4 4 4"]  # once: it was not run again
    assert (answer.returncode, answer.stdout) == (0, "")


# --- the end of the parent --------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        pytest.param("Counting-v0", id="busy sending episodes"),
        pytest.param("Hangs-v0", id="hanging in a step"),
    ],
)
def test_workers_end_silently_when_their_parent_is_killed(env, tmp_path, helpers):
    script, marker = tmp_path / "script.py", tmp_path / "marker"
    script.write_text(
        "import os, custom_environments\n"
        "from tightrope.rollouts import collect\n"
        "steps = []\n"
        "def policy(observations):\n"
        "    steps.append(1)\n"
        "    if len(steps) == 1000 and 'Counting' in os.environ['ENV']:\n"
        "        open(os.environ['HANGING_MARKER'], 'w').close()\n"
        "    return custom_environments.still(observations)\n"
        "collect(policy, os.environ['ENV'], 300_000, 0, workers=2, batch=1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(helpers), os.environ.get("PYTHONPATH", "")]),
            "HANGING_MARKER": str(marker),
            "ENV": env,
        },
    )
    wait_until(lambda: len(children_of(process.pid)) >= 2 and marker.exists())
    workers = children_of(process.pid)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)  # returns when the workers' end is closed, too
    assert process.returncode == -signal.SIGTERM
    assert (out, err) == ("", "")
    for worker in workers:
        wait_until(lambda pid=worker: ended(pid), seconds=120)
