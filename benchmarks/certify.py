"""Seconds for certificates of recorded episodes: one, two at once, and every scheme.

    python benchmarks/certify.py

Synthetic episodes of the size of Ant's: 200 of 1,000 steps, 27 features, thinned by 5. All rows of
the table come from one run, so that their ratios mean something.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tightrope as tr
from tightrope.rollouts import Episode, Episodes, join, save

SCHEMES = ("auto", "nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")


def recording(episodes: int, steps: int, features: int, seed: int = 0) -> Episodes:
    """Smooth observations; rewards that depend on them."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(episodes):
        noise = rng.normal(size=(steps, features)).astype(np.float32)
        observations = np.cumsum(noise, axis=0, dtype=np.float32) / np.float32(steps**0.5)
        rewards = 1.0 + 0.2 * observations[:, 0].astype(float) + 0.1 * rng.normal(size=steps)
        made.append(Episode(observations, rewards, False, True, seed=index))
    return join(made, {"log": "synthetic"})


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    episodes = recording(200, 1000, 27)
    folder = Path(tempfile.mkdtemp())
    save(episodes, folder / "episodes.safetensors")

    def command(out: str) -> list[str]:
        source = str(folder / "episodes.safetensors")
        options = ["--thin", "5", "--seed", "1", "--quiet", "--out", str(folder / out)]
        return [sys.executable, "-m", "tightrope", "certify", source, *options]

    alone = seconds(lambda: subprocess.run(command("alone"), check=True))

    def both() -> None:
        for process in [subprocess.Popen(command(out)) for out in ("first", "second")]:
            assert process.wait() == 0

    print(f"one command, scheme auto            {alone:7.1f} s")
    print(f"two at once                         {seconds(both):7.1f} s", flush=True)
    for scheme in SCHEMES:
        for preset in ("tight", "paper"):
            took = seconds(
                lambda s=scheme, p=preset: tr.certify(episodes, scheme=s, preset=p, thin=5, seed=1)
            )
            print(f"{scheme + ', ' + preset:<34}  {took:7.1f} s", flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Wall time."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
