"""How tight is the default certificate? Medians over seeds with their range, as Markdown tables.

    python benchmarks/tightness.py                       # the shipped policy, ten seeds
    python benchmarks/tightness.py --policies hopper cheetah --seeds 10 --out tightness.csv
    python benchmarks/tightness.py --policies runs/redq/expert --paper  # beside the paper's
    python benchmarks/tightness.py --keep FOLDER         # episodes are kept there and used again

Every seed rolls out fresh episodes and fits its own predictor. Named policies are in
benchmarks/policies (how they were trained: benchmarks/README.md); others are folders of `tightrope
train`. Seconds are processor seconds on one thread, so that other work on the machine does not
count.
"""

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cyclopts
import numpy as np
import torch

import tightrope as tr
from tightrope import demo
from tightrope.policies.record import load_record
from tightrope.rollouts import collect, save

HERE = Path(__file__).parent
PAPER = 210  # pilot, validation and test episodes of --paper
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
    """Names among hopper, cheetah, walker, pendulum, dm-walker, reach, or folders of train."""
    seeds: int = 10
    """How many fresh sets of episodes."""
    episodes: int = 200
    """Roll-outs of each: a quarter fits, the others calibrate."""
    paper: bool = False
    """Also issue the paper's certificate: 10 pilot, 100 validation and 100 test episodes."""
    out: Path = Path("tightness.csv")
    """A row per policy and seed."""
    keep: Path | None = None
    """Folder of recorded episodes, to be used again."""


_DEFAULTS = Args()


def main(args: Args = _DEFAULTS) -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in args.policies:
        rows += [measured(name, seed, args) for seed in range(1, args.seeds + 1)]
        print(table(name, [row for row in rows if row["policy"] == name]), flush=True)
    with args.out.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def measured(name: str, seed: int, args: Args) -> dict[str, Any]:
    """The limits of one seed, in return units."""
    episodes = rolled_out(name, seed, args)
    begun = time.process_time()
    certificate = tr.certify(episodes[: args.episodes], seed=seed)
    row: dict[str, Any] = {"policy": name, "seed": seed}
    row["seconds"] = time.process_time() - begun
    for statement, share, label in SHOWN:
        row[label] = certificate.statement(statement, share).limit
    row["constant prediction"] = certificate.constant_error**0.5 * certificate.width
    if args.paper:
        paper = tr.certify(episodes[:PAPER], paper=True, seed=seed)
        row["paper: mean over steps"] = paper.rms_raw
        row["paper: test error"] = paper.test_error**0.5 * paper.width
    return row


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """Median, smallest and largest over the seeds of one policy."""
    lines = [f"\n**{name}**, {len(rows)} seeds:\n", "| | median | smallest | largest |"]
    lines.append("|---|---|---|---|")
    for label in [key for key in rows[0] if key not in ("policy", "seed")]:
        values = np.array([row[label] for row in rows])
        cells = (np.median(values), values.min(), values.max())
        lines.append(f"| {label} | " + " | ".join(f"{value:.4g}" for value in cells) + " |")
    return "\n".join(lines)


def rolled_out(name: str, seed: int, args: Args) -> "tr.Episodes":
    """Fresh episodes, or those that were kept."""
    count = max(args.episodes, PAPER if args.paper else 0)
    kept = None
    if args.keep is not None:
        kept = args.keep / f"{name.replace('/', '-')}-{count}-{seed}.safetensors"
        if kept.exists():
            return tr.load_episodes(kept)
    if name in ENVIRONMENTS:
        path = demo.policy_path() if name == "hopper" else HERE / f"policies/{name}.safetensors"
        env = ENVIRONMENTS[name]
    else:
        path, env = Path(name), load_record(Path(name) / "policy.json").environment["id"]
    episodes = collect(path, env, count, 1000 + seed, progress=True)
    if kept is not None:
        save(episodes, kept)
    return episodes


if __name__ == "__main__":
    cyclopts.run(main)
