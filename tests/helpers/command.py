"""The command, in this process or in one of its own, what it is given and what it says."""

import os
import subprocess
import sys
from pathlib import Path

from tightrope.cli import main

POLICY = """
import numpy as np

def act(observations):
    return np.tanh(observations[:, :1])

def wild(observations):
    return np.full((len(observations), 1), 9.0)

def wide(observations):
    return np.zeros((len(observations), 3))
"""
STUDY = """
name = "small"
test_episodes = 3
updates = 20
width = 16
[[train]]
agent = "ppo"
environments = ["Pendulum-v1"]
instances = [0, 1]
levels = [256, 512, 768]
settings = { hidden = [8], rollout = 256, batch = 32, epochs = 1 }
[[certify]]
schemes = ["rec-2"]
repetitions = 2
episodes = [6]
"""
_BARS = ("rolling out", "fitting", "evaluating", "training")


def words(*arguments, short=False):
    """A command line for a process of its own; short: with short fits."""
    command = [Path(__file__).parent / "shortened.py"] if short else ["-m", "tightrope"]
    return [sys.executable, *map(str, [*command, *arguments])]


def tightrope(*arguments, cwd=None, env=None, short=False):
    """One thread: several would wait for each other where tests run side by side."""
    return subprocess.run(
        words(*arguments, short=short),
        capture_output=True,
        text=True,
        timeout=900,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )


def lines(stderr):
    """What was said on standard error, progress bars left out."""
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith(_BARS)]


def run(capture, *arguments):
    """Exit code, standard output and lines on standard error, in this process."""
    code = main([str(argument) for argument in arguments])
    out, err = capture.readouterr()
    return code, out, lines(err)


def options(changes, **defaults):
    """Command-line words of `defaults` with `changes`; None leaves an option out."""
    for name, value in {**defaults, **changes}.items():
        if value is not None:
            yield name
            yield from [value] if isinstance(value, str | int | float) else value
