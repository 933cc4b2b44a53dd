"""Every example runs as it is written, with shorter fits, and leaves what it says."""

import runpy
import sys
from pathlib import Path

import pytest
from recordings import short_fits

import tightrope

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with short_fits():
        yield tmp_path


def test_certify_my_sb3_policy(place, capsys):
    names = runpy.run_path(str(EXAMPLES / "certify_my_sb3_policy.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert out.startswith("Risk certificate for PPO in Pendulum-v1\n")
    assert out.splitlines()[-1] in ("deploy it", "do not deploy it")
    assert names["gate"].open == (out.splitlines()[-1] == "deploy it")
    found = tightrope.load_certificate(place / "certificate")
    assert found.statements == names["certificate"].statements
    assert (found.episodes.validation, found.episodes.test) == (40, 0)


def test_watch_a_robot_drift(place, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["watch_a_robot_drift.py", "--quick"])
    with short_fits(regression_steps=60):
        runpy.run_path(str(EXAMPLES / "watch_a_robot_drift.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("False alarms in at most ")
    said = [line for line in lines if line.startswith("motor at ")]
    assert len(said) == 8
    assert all(line.endswith("no alarm") or "ALARM at step" in line for line in said)
    assert "ALARM at step" in said[-1]
    assert list(place.iterdir()) == []
