"""The Python of the README runs as it stands, on objects of the kinds that it names."""

import re
from pathlib import Path

import numpy as np
import pytest
from custom_environments import leaning
from recordings import recording, short_fits

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def arrays():
    episodes = recording(24, seed=1)
    ends = np.zeros(len(episodes.rewards), dtype=bool)
    ends[episodes.offsets[1:] - 1] = True
    return {
        "observations": episodes.observations,
        "rewards": episodes.rewards,
        "terminals": np.zeros_like(ends),
        "timeouts": ends,
    }


def module():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


@pytest.mark.parametrize("kind", ["SB3", "torch", "function"])
def test_certify_a_model_a_module_a_function_and_arrays(kind, sb3_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {
        "SB3": lambda: sb3_model("PPO", "Pendulum-v1"),
        "torch": module,
        "function": lambda: leaning,
    }
    block = next(each for each in BLOCKS if "tr.certify(model" in each)
    small = block.replace(
        '"Pendulum-v1")', '"Pendulum-v1", episodes=6, test_episodes=2, pilot_episodes=4)'
    )
    assert small != block
    with short_fits():
        exec(compile(small, str(README), "exec"), {"model": made[kind](), "arrays": arrays()})
    assert (tmp_path / "certificate/certificate.json").is_file()


def test_the_bounds_of_the_readme_are_those_that_it_prints():
    block = next(each for each in BLOCKS if "recursive_bound" in each)
    names = {}
    exec(compile(block, str(README), "exec"), names)
    printed = [float(each) for each in re.findall(r"0\.\d{4}", block.splitlines()[-1])]
    found = names["recursive_bound"](names["first"], [names["excess"]], kappa=0.5)
    assert np.round(found, 4).tolist() == printed
