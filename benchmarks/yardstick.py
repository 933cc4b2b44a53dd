"""The default certificate of trained policies, beside a constant and the mean of each step.

    python benchmarks/yardstick.py results/reproduction/trained --out yardstick.csv

For every policy: 200 fresh episodes, 50 to fit and 150 to calibrate. All three predictors are fixed
on the same fitting set and certified on the same calibration episodes, with the ranks and the
failure probability of the certificate. A policy that has its row is skipped.
"""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import cyclopts
import numpy as np
import torch

import tightrope as tr
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.statements.tolerance import Tolerance
from tightrope.rollouts import pairs

SUITES = {"dm_control": "DM-Control", "v3": "Meta-World", "v4": "MuJoCo"}
COLUMNS = ("predictor", "constant", "mean of each step")


@cyclopts.Parameter(name="*")
@dataclass(frozen=True)
class Args:
    """What to measure."""

    trained: Path = Path("results/reproduction/trained")
    """Folder of training runs, each with its levels."""
    out: Path = Path("yardstick.csv")
    """A row per policy, the certified 95 % level of each predictor in return units."""
    seed: int = 1
    """Of the episodes and the fits."""
    workers: int | None = None
    """Processes that roll out; by default as many as there are cores."""


_DEFAULTS = Args()


def main(args: Args = _DEFAULTS) -> None:
    torch.set_num_threads(1)
    rows = list(csv.DictReader(args.out.open())) if args.out.exists() else []
    done = {(row["run"], row["level"]) for row in rows}
    for record in sorted(args.trained.glob("*/*/policy.json")):
        level, run = record.parent.name, record.parent.parent.name
        if (run, level) in done:
            continue
        environment = json.loads(record.read_text())["environment"]["id"]
        row = {"run": run, "level": level, "environment": environment}
        row |= measured(record.with_name("policy.safetensors"), environment, args)
        rows.append(row)
        print(row, flush=True)
        with args.out.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(row))
            writer.writeheader()
            writer.writerows(rows)
    summary(rows)


def measured(policy: Path, environment: str, args: Args) -> dict[str, float]:
    """The certified 95 % level of three predictors, and the bound of the mean over episodes."""
    rollout = tr.Rollout() if args.workers is None else tr.Rollout(workers=args.workers)
    certificate = tr.certify(policy, environment, seed=args.seed, rollout=rollout)
    fit = certificate.rollouts.span(0, certificate.episodes.fit)
    calibration = certificate.rollouts.span(certificate.episodes.fit, 200)
    gamma, thin = certificate.settings.gamma, certificate.thin
    seen = Evidence.of(certificate.predictor, calibration, gamma=gamma, thin=thin, everywhere=False)
    known = pairs(fit, gamma=gamma, thin=thin)
    counts = np.bincount(known.step)
    curve = np.bincount(known.step, weights=known.returns) / np.maximum(counts, 1)
    curve = np.where(counts > 0, curve, known.returns.mean())
    steps = np.concatenate([np.arange(n) for n in np.diff(calibration.offsets)])
    constant = np.full(len(calibration.rewards), known.returns.mean())
    found = {
        "predictor": seen,
        "constant": replace(seen, predicted=constant),
        "mean of each step": replace(seen, predicted=curve[np.minimum(steps, len(curve) - 1)]),
    }
    delta = next(e.failure for e in certificate.ledger if e.statement == "tolerance")
    family = Tolerance()
    limits = {}
    for name, evidence in found.items():
        levels = family.limits(family.scores(evidence, {}), delta=delta, chosen={})
        limits[name] = family.outward(next(x.value for x in levels if x.share == 0.95))
    assert limits["predictor"] == certificate.statement("tolerance", 0.95).limit
    returns = calibration.returns(1.0)
    return {
        **{name: round(value, 4) for name, value in limits.items()},
        "range": round(certificate.return_range.high - certificate.return_range.low, 2),
        "median return": round(float(np.median(returns)), 2),
    }


def summary(rows: list[dict]) -> None:
    """Medians per suite, as shares of the constant's level."""
    print("\n| suite | policies | predictor / constant | mean of each step / constant |")
    print("|---|---|---|---|")
    for suite in sorted(set(SUITES.values())):
        own = [row for row in rows if suite_of(row["environment"]) == suite]
        if own:
            ratio = [
                np.median([float(row[name]) / float(row["constant"]) for row in own])
                for name in (COLUMNS[0], COLUMNS[2])
            ]
            print(f"| {suite} | {len(own)} | {ratio[0]:.3f} | {ratio[1]:.3f} |")


def suite_of(environment: str) -> str:
    """By the prefix or the version of an environment's id."""
    return next(suite for mark, suite in SUITES.items() if mark in environment)


if __name__ == "__main__":
    cyclopts.run(main)
