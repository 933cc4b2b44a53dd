"""How tight are certificates? Every scheme, preset and unit, on episodes of several real policies.

    python benchmarks/tightness.py                      # all policies, all schemes: about an hour
    python benchmarks/tightness.py --policies hopper --schemes auto holdout --presets tight

Policies stand in benchmarks/policies (how they were trained: benchmarks/README.md); episodes are
collected anew from fixed seeds. `held` policies were never looked at while settings were chosen.
Rows go to a CSV file; what exists there is not computed again.
"""

import csv
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import tyro

from tightrope import demo
from tightrope.bounds import risk_floor
from tightrope.certificates.issue import certify_many
from tightrope.certificates.options import Options
from tightrope.rollouts import collect

HERE = Path(__file__).parent
SCHEMES = ("auto", "holdout", "nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")
COLUMNS = (
    *("policy", "held", "preset", "scheme", "unit", "n", "bound", "loss", "test", "constant"),
    *("per_step", "rms", "width", "to_test", "to_floor", "to_holdout", "tolerance", "seconds"),
)


@dataclass(frozen=True)
class Subject:
    """A policy, its environment, the root seed of its episodes, and whether it was held back."""

    name: str
    env: str
    seed: int
    held: bool = False

    @property
    def path(self) -> Path:
        """Its weights."""
        return (
            demo.policy_path()
            if self.name == "hopper"
            else HERE / f"policies/{self.name}.safetensors"
        )


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("hopper", "Hopper-v4", 101),
        Subject("cheetah", "HalfCheetah-v4", 102),
        Subject("walker", "Walker2d-v4", 103),
        Subject("pendulum", "Pendulum-v1", 104),
        Subject("dm-walker", "dm_control/walker-walk-v0", 105, held=True),
        Subject("reach", "reach-v3", 106, held=True),
    )
}


@dataclass(frozen=True)
class Args:
    """What to measure."""

    policies: tuple[str, ...] = tuple(SUBJECTS)
    """Names among those above."""
    schemes: tuple[str, ...] = SCHEMES
    """Schemes."""
    presets: tuple[str, ...] = ("tight", "paper")
    """Presets; scheme auto is measured with tight only."""
    units: tuple[str, ...] = ("step", "episode")
    """Units."""
    out: Path = HERE / "tightness.csv"
    """Rows are added here."""
    seed: int = 1
    """Of the fits."""
    threads: int = field(default_factory=torch.get_num_threads)
    """Of torch."""


def main(args: Args) -> None:
    torch.set_num_threads(args.threads)
    done = read(args.out)
    for name in args.policies:
        subject = SUBJECTS[name]
        wanted = [
            (preset, scheme, unit)
            for preset in args.presets
            for scheme in args.schemes
            for unit in args.units
            if (scheme, preset) != ("auto", "paper") and (name, preset, scheme, unit) not in done
        ]
        if not wanted:
            continue
        episodes = collect(subject.path, subject.env, 210, subject.seed, progress=True)
        for preset, scheme, unit in wanted:
            if (name, preset, scheme, unit) in done:
                continue
            for row in measure(subject, episodes, preset, scheme, unit, args.seed):
                done[name, preset, scheme, row["unit"]] = row
                holdout = done.get((name, preset, "holdout", row["unit"]))
                if holdout is not None:
                    row["to_holdout"] = f"{float(row['bound']) / float(holdout['bound']):.3g}"
                shown = {key: value for key, value in row.items() if value != ""}
                print(" ".join(f"{key}={value}" for key, value in shown.items()), flush=True)
            write(args.out, list(done.values()))


def measure(subject: Subject, episodes, preset: str, scheme: str, unit: str, seed: int) -> list:
    """A row; for a predictor that is fixed beforehand, which has no unit of its own, two rows."""
    options = Options(
        scheme=scheme,
        preset=preset,
        unit=unit,
        pilot_episodes=10,
        episodes=100,
        test_episodes=100,
        seed=seed,
    )
    begun = time.perf_counter()
    certificate = certify_many(episodes, [options], [seed])[0][0]
    seconds = time.perf_counter() - begun
    rows = [row_of(subject, certificate, unit, certificate.portions, seconds)]
    if options.division.fixed:
        other = "episode" if unit == "step" else "step"
        rows.append(row_of(subject, certificate, other, certificate.other_portions, seconds))
    return rows


def row_of(subject: Subject, certificate, unit: str, portions, seconds: float) -> dict:
    last, bound = portions[-1], min(portions[-1].bound, 1.0)
    floor = float(risk_floor(min(last.loss, 1.0), n=last.n, delta=certificate.delta))
    promised = [s for s in certificate.statements if s.kind == "tolerance"]
    test = certificate.test_error
    values = {
        "policy": subject.name,
        "held": subject.held,
        "preset": certificate.preset,
        "scheme": certificate.scheme,
        "unit": unit,
        "n": last.n,
        "bound": bound,
        "loss": last.loss,
        "test": test,
        "constant": certificate.constant_error,
        "per_step": certificate.per_step_error,
        "rms": bound**0.5 * certificate.width,
        "width": certificate.width,
        "to_test": bound / test,
        "to_floor": bound / floor,
        "tolerance": "; ".join(f"{s.share:.3f}: {s.value_raw:.4g}" for s in promised),
        "seconds": seconds,
    }
    shown = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in values.items()}
    return {name: shown.get(name, "") for name in COLUMNS}


def read(path: Path) -> dict:
    if not path.exists():
        return {}
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {(r["policy"], r["preset"], r["scheme"], r["unit"]): r for r in rows}


def write(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(tyro.cli(Args))
