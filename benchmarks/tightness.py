"""How tight is the default certificate? Medians over seeds, with their range, never a lucky seed.

    python benchmarks/tightness.py                       # the shipped policy, ten seeds
    python benchmarks/tightness.py --policies hopper cheetah --seeds 10 --out tightness.csv
    python benchmarks/tightness.py --keep FOLDER         # episodes are kept there and used again

Every seed rolls out fresh episodes and fits its own predictor. Policies stand in
benchmarks/policies (how they were trained: benchmarks/README.md). Seconds are processor seconds on
one thread, so that other work on the machine does not count.
"""

import csv
import time
from dataclasses import dataclass
from pathlib import Path

import cyclopts
import numpy as np
import torch

import tightrope as tr
from tightrope import demo
from tightrope.bounds import clopper_pearson_upper
from tightrope.rollouts import collect, save

HERE = Path(__file__).parent
ENVIRONMENTS = {
    "hopper": "Hopper-v4",
    "cheetah": "HalfCheetah-v4",
    "walker": "Walker2d-v4",
    "pendulum": "Pendulum-v1",
    "dm-walker": "dm_control/walker-walk-v0",
    "reach": "reach-v3",
}
# Name of a statement, its share, and what it is called in the table.
SHOWN = (
    ("tolerance", 0.8, "80 %"),
    ("tolerance", 0.9, "90 %"),
    ("tolerance", 0.95, "95 %"),
    ("mean over episodes", None, "mean over episodes"),
    ("mean over steps", None, "mean over steps"),
    ("band", 0.9, "band, 90 %"),
    ("monitor", 0.9, "monitor, 90 %"),
    ("early termination", None, "terminates early"),
    ("undiscounted return", 0.9, "undiscounted return"),
)


@cyclopts.Parameter(name="*")
@dataclass(frozen=True)
class Args:
    """What to measure."""

    policies: tuple[str, ...] = ("hopper",)
    """Names among hopper, cheetah, walker, pendulum, dm-walker, reach."""
    seeds: int = 10
    """How many fresh sets of episodes."""
    episodes: int = 200
    """Roll-outs of each: a quarter fits, the others calibrate."""
    out: Path = Path("tightness.csv")
    """A row per policy and seed."""
    keep: Path | None = None
    """Folder of recorded episodes, to be used again."""


_DEFAULTS = Args()


def main(args: Args = _DEFAULTS) -> None:
    torch.set_num_threads(1)
    rows = []
    for name in args.policies:
        for seed in range(1, args.seeds + 1):
            episodes = rolled_out(name, seed, args)
            begun = time.process_time()
            certificate = tr.certify(episodes, seed=seed)
            row = {"policy": name, "seed": seed, "seconds": time.process_time() - begun}
            for statement, share, label in SHOWN:
                row[label] = certificate.statement(statement, share).limit
            rows.append(row)
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
        own = [row for row in rows if row["policy"] == name]
        print(f"\n{name}: median of {len(own)} seeds, smallest to largest, largest / smallest")
        for label in [label for *_, label in SHOWN] + ["seconds"]:
            values = np.array([row[label] for row in own])
            low, high = values.min(), values.max()
            print(f"  {label:<22} {np.median(values):9.4g}   {low:9.4g} to {high:9.4g}", end="")
            print(f"   {high / low:6.3g}")
    with args.out.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    count = certificate.episodes.calibration
    delta = next(e.failure for e in certificate.ledger if e.statement == "early termination")
    none = float(clopper_pearson_upper(0, n=count, delta=delta))
    print(f"\nnone of {count} fails: at most {100 * none:.2f} %")


def rolled_out(name: str, seed: int, args: Args) -> "tr.Episodes":
    """Fresh episodes, or those that were kept."""
    path = demo.policy_path() if name == "hopper" else HERE / f"policies/{name}.safetensors"
    kept = None if args.keep is None else args.keep / f"{name}-{args.episodes}-{seed}.safetensors"
    if kept is not None and kept.exists():
        return tr.load_episodes(kept)
    episodes = collect(path, ENVIRONMENTS[name], args.episodes, 1000 + seed, progress=True)
    if kept is not None:
        save(episodes, kept)
    return episodes


if __name__ == "__main__":
    cyclopts.run(main)
