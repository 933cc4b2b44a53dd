"""The command, in this process or in one of its own, and what it says on standard error."""

import os
import subprocess
import sys
from pathlib import Path

from tightrope.cli import main

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
