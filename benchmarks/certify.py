"""Seconds for certificates of recorded episodes: one, repetitions, and schemes that share fits.

    python benchmarks/certify.py

Synthetic episodes of the size of Ant's: 210 of 1,000 steps, 27 features, thinned by 5. All rows of
the table come from one run, so that their ratios mean something.
"""

import argparse
import time

import numpy as np
import torch

from tightrope.certificates import Options, certify_many
from tightrope.rollouts import Episode, Episodes, join

SCHEMES = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    episodes = recording(210, 1000, 27)
    counts = {"pilot_episodes": 10, "episodes": 100, "test_episodes": 100, "thin": 5}

    def seconds(schemes: tuple[str, ...], preset: str, repetitions: int) -> float:
        requests = [Options(scheme=s, preset=preset, **counts) for s in schemes]  # type: ignore[arg-type]
        begun = time.perf_counter()
        certify_many(episodes, requests, list(range(repetitions)))
        return time.perf_counter() - begun

    one = seconds(("auto",), "tight", 1)
    print(f"{threads} threads")
    print(f"auto, tight                         {one:7.1f} s")
    for name, schemes, preset, repetitions in (
        ("rec-6, tight", ("rec-6",), "tight", 1),
        ("rec-6, paper", ("rec-6",), "paper", 1),
        ("5 x 4 schemes, tight", SCHEMES, "tight", 5),
        ("5 x 4 schemes, paper", SCHEMES, "paper", 5),
    ):
        took = seconds(schemes, preset, repetitions)
        print(f"{name:<34}  {took:7.1f} s   {took / one:5.1f} x auto", flush=True)


if __name__ == "__main__":
    main()
