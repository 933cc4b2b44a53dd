"""Time and memory of `tightrope certify` on logs of 10^5 and 10^6 steps.

``python benchmarks/steps.py`` writes logs of 100 and 1,000 episodes of 1,000 steps with small
observations, certifies each in a process of its own with a short fit (the part that does not depend
on the length of the log), and prints seconds of one core, the peak of the memory that the process
holds itself (without pages of the mapped log), and how many bytes of it each further step takes,
beside the bytes that a step has in the log. Linux only.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_LENGTH = 1000
_PROGRAM = """
import sys, torch
from tightrope.cli import main
from tightrope.posteriors.presets import PRESETS, shortened
torch.set_num_threads(1)
PRESETS.update({name: shortened(each, updates=200) for name, each in PRESETS.items()})
sys.exit(main(sys.argv[1:]))
"""


def write_log(path, episodes, features):
    """Rewards that depend on the observation, and on a factor of each episode."""
    from tightrope.rollouts import Episodes, save

    rng = np.random.default_rng(0)
    steps = episodes * _LENGTH
    observations = rng.normal(size=(steps, features)).astype(np.float32)
    rewards = observations[:, 0] + np.repeat(rng.normal(size=episodes), _LENGTH)
    whole = Episodes(
        observations=observations,
        rewards=rewards,
        offsets=np.arange(episodes + 1) * _LENGTH,
        terminated=np.zeros(episodes, bool),
        truncated=np.ones(episodes, bool),
        seeds=np.arange(episodes),
        subject={"log": "synthetic"},
    )
    save(whole, path)


def measured(words):
    """Seconds of one core, seconds, and the peak of the bytes that a process holds itself."""
    begun, held = time.monotonic(), 0
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execve(sys.executable, [sys.executable, "-c", _PROGRAM, *words], os.environ)
    status = Path(f"/proc/{pid}/status")  # the system keeps a peak of all pages, mapped ones too
    while not (ended := os.wait4(pid, os.WNOHANG))[0]:
        anonymous = status.read_text().partition("RssAnon:")[2].split()
        held = max(held, int(anonymous[0]) * 1024 if anonymous else 0)
        time.sleep(0.02)
    _, code, used = ended
    if code:
        sys.exit(f"certify ended with {code}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begun, held


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--features", type=int, default=4)
    parser.add_argument("--scheme", default="holdout")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for episodes in given.episodes:
            log, out = Path(folder) / f"{episodes}.safetensors", Path(folder) / f"out-{episodes}"
            write_log(log, episodes, given.features)
            words = ["certify", str(log), "--out", str(out), "--seed", "1"]
            core, wall, peak = measured([*words, "--scheme", given.scheme])
            rows.append((episodes * _LENGTH, log.stat().st_size, core, wall, peak))
            print(
                f"{rows[-1][0]:>9,} steps, log {rows[-1][1] / 1e6:.1f} MB: {core:.1f} s of one core"
                f" ({wall:.1f} s), peak {peak / 1e6:.0f} MB",
                flush=True,
            )
    if len(rows) > 1:
        (few, small, *_, low), (many, large, *_, high) = rows[0], rows[-1]
        more = many - few
        print(f"each further step: {(high - low) / more:.0f} bytes of memory, "
              f"{(large - small) / more:.0f} in the log")  # fmt: skip


if __name__ == "__main__":
    main()
