"""Every example runs, with fewer episodes and shorter fits, and does what it says."""

import json
import runpy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from recordings import short_fits

import tightrope as tr
from tightrope.rollouts import Episode

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    """Names of an example; its functions travel to workers by value."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="an_example")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # one worker: starting them takes longest
    with short_fits():
        yield tmp_path


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert len(path.read_text("utf-8").splitlines()) < 40


def test_two_checkpoints_are_compared(capsys):
    example("compare_checkpoints")["main"](steps=512, episodes=20)
    assert "A: " in capsys.readouterr().out


def test_a_gate_passes_or_fails_a_build(place, capsys):
    names = example("gate_in_ci")
    (place / "still.py").write_text(
        "import numpy as np\ndef act(x): return np.zeros((len(x), 1))\n"
    )

    def gate(**conditions):
        folder = tr.Conditions(**conditions)
        return names["main"]("still.py:act", "Pendulum-v1", folder, episodes=24)

    assert gate(min_return=0.0) == 1
    assert "FAILS  `min_return`" in capsys.readouterr().out
    (place / "certificate").rename(place / "before")
    assert gate(max_failure=0.9, min_confidence=0.9) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["holds", "holds"]


def test_a_robot_log_is_written_and_certified(place, capsys):
    example("certify_robot_log")["main"]()
    out = capsys.readouterr().out
    assert out.startswith("Risk certificate for runs")
    assert "was not checked" in out


def test_a_property_is_certified(capsys):
    example("property_of_your_own")["main"](episodes=24)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("property limit: energy, probability: ")
    assert all("property: energy, " in line for line in lines[:-1])


def test_a_drifting_robot_is_watched(capsys):
    example("watch_a_robot_drift")["main"](episodes=40)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("false alarms in at most ")
    assert len(lines) == 8
    assert all(line.endswith("no alarm") or "ALARM at step" in line for line in lines)


class Drawn(gym.Env):
    """Counts to ten; its picture is as bright as its count."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.float32([self.count]), 0.0, False, self.count == 10, {}

    def render(self):
        return np.full((8, 8, 3), 25 * self.count, np.uint8)


def test_the_worst_episode_becomes_a_video(place, capsys):
    iio = pytest.importorskip("imageio.v3")
    gym.register("Drawn-v0", Drawn)
    rewards = np.random.default_rng(0).uniform(size=(16, 10))
    counts, actions = np.arange(10, dtype=np.float32)[:, None], np.zeros((10, 1), np.float32)
    recorded = [
        Episode(counts, each, False, True, seed=seed, actions=actions)
        for seed, each in enumerate(rewards)
    ]
    certificate = tr.certify(recorded)
    certificate.save("certificate")
    example("replay_worst_episode")["main"]("certificate", "Drawn-v0", every=3)
    frames = iio.imread("worst.gif")
    assert frames.mean(axis=(1, 2, 3)).tolist() == [0, 25, 100, 175, 250]
    worst = rewards.sum(axis=1)
    printed = f"seed {worst.argmin()}, return {worst.min():.6g}, 5 frames\n"
    assert capsys.readouterr().out == f"worst.gif: {printed}"


def test_a_run_folder_of_rl_zoo_is_certified(place, sb3_model, capsys):
    run = place / "logs/ppo/Pendulum-v1_1"
    (run / "Pendulum-v1").mkdir(parents=True)
    sb3_model("PPO", "Pendulum-v1").save(run / "Pendulum-v1.zip")
    (run / "Pendulum-v1/args.yml").write_text("algo: ppo\nenv: Pendulum-v1\n")
    (run / "Pendulum-v1/config.yml").write_text("policy: MlpPolicy\nnormalize: false\n")
    example("certify_rl_zoo_policy")["main"](str(run), "episodes=16")
    assert "in Pendulum-v1\n" in capsys.readouterr().out
    assert tr.verify("certificate") == []


def test_a_recurrent_policy_in_a_simulator_of_ones_own_is_certified(capsys):
    names = example("your_simulator")
    names["main"](episodes=24)
    out = capsys.readouterr().out
    assert out.startswith("Risk certificate for an_example.roll_out in its own environment")


def test_the_notebook_runs_and_its_outputs_are_of_its_cells(capsys):
    """What hosted services show: format 4, executed in order, small, no error, nothing stale."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    text = (EXAMPLES / "tour.ipynb").read_text("utf-8")
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert len(text) < 100_000
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    names = {"__name__": "a_notebook"}  # no module of this name: functions travel by value
    for cell in cells:
        exec("".join(cell["source"]), names)
        printed = capsys.readouterr().out.splitlines()
        shown = "".join(text for each in cell["outputs"] for text in each.get("text", []))
        shown = shown.splitlines()
        assert [line.split(":")[0] for line in printed] == [line.split(":")[0] for line in shown]
        assert all(each["output_type"] != "error" for each in cell["outputs"])
        assert not {each.get("name") for each in cell["outputs"]} - {"stdout", None}
    (summary,) = (each for cell in cells for each in cell["outputs"] if "execution_count" in each)
    html = "".join(summary["data"]["text/html"])
    assert names["certificate"]._repr_html_().splitlines()[0] == html.splitlines()[0]
    pyplot.close("all")
