"""Certify what a robot recorded, one row per step: python examples/certify_robot_log.py runs.csv.

Without a file, the made-up log of a cart that is pushed to the middle is written first.
"""

import sys
from pathlib import Path

import numpy as np

import tightrope as tr

COLUMNS = "obs=position,speed,reward=r,episode=run,truncated=timeout"


def record(path: Path, runs: int = 80, steps: int = 60) -> None:
    """Write a made-up log."""
    rng, rows = np.random.default_rng(0), []
    for run in range(runs):
        position, speed = rng.normal(), 0.0
        for step in range(steps):
            rows.append((run, position, speed, -(position**2), step == steps - 1))
            speed = 0.8 * speed - 0.1 * position + 0.02 * rng.normal()
            position += speed
    np.savetxt(path, rows, delimiter=",", header="run,position,speed,r,timeout", comments="")


def main(path: str = "runs.csv") -> None:
    """Certify, and print what could not be checked."""
    if not Path(path).exists():
        record(Path(path))
    certificate = tr.certify(path, columns=COLUMNS)
    print(certificate, *certificate.assumptions, sep="\n- ")


if __name__ == "__main__":
    main(*sys.argv[1:])
