"""The README is short, and its Python runs on objects of the kinds that it names."""

import re
from pathlib import Path

import pytest
from custom_environments import leaning
from recordings import short_fits

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def module():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


@pytest.mark.parametrize("kind", ["SB3", "torch", "function"])
def test_certify_a_model_a_module_and_a_function(kind, sb3_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # one worker: starting them takes longest
    made = {
        "SB3": lambda: sb3_model("PPO", "Pendulum-v1"),
        "torch": module,
        "function": lambda: leaning,
    }
    (block,) = BLOCKS
    small = block.replace('"Pendulum-v1")', '"Pendulum-v1", episodes=10)')
    assert small != block
    with short_fits():
        exec(compile(small, str(README), "exec"), {"model": made[kind]()})
    assert (tmp_path / "certificate/certificate.json").is_file()


def test_it_can_be_read_in_two_minutes():
    assert len(README.read_text("utf-8").split()) <= 1100
