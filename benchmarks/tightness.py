"""How tight are certificates? Every scheme, preset and unit, on episodes of several real policies.

    python benchmarks/tightness.py                      # all policies, all schemes: about an hour
    python benchmarks/tightness.py --policies hopper --schemes auto holdout --presets tight
    python benchmarks/tightness.py --markdown           # the rows that exist, as docs/tightness.md

Policies stand in benchmarks/policies (how they were trained: benchmarks/README.md); episodes are
collected anew from fixed seeds. `held` policies were never looked at while settings were chosen.
Rows go to a CSV file; what exists there is not computed again. Seconds are processor seconds on one
thread, so that other work on the machine does not count.
"""

import csv
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from tightrope import demo
from tightrope.bounds import risk_floor
from tightrope.certificates.issue import certify_many
from tightrope.certificates.options import Options
from tightrope.rollouts import collect

HERE = Path(__file__).parent
DELTA = 0.025
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
    markdown: bool = False
    """Measure nothing; print the table of docs/tightness.md."""


def main(args: Args) -> None:
    torch.set_num_threads(1)
    done = read(args.out)
    relate(done)
    if args.markdown:
        print(markdown(done, args))
        return
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
                shown = {key: value for key, value in row.items() if value != ""}
                print(" ".join(f"{key}={value}" for key, value in shown.items()), flush=True)
            relate(done)
            write(args.out, list(done.values()))


def measure(subject: Subject, episodes, preset: str, scheme: str, unit: str, seed: int) -> list:
    """A row; two where one certificate serves both units.

    A predictor that is fixed beforehand has no unit of its own. In preset paper the fit minimises
    the bound of the step unit, and the certificate's other unit is reported with it.
    """
    options = Options(
        scheme=scheme,
        preset=preset,
        unit="step" if preset == "paper" else unit,
        pilot_episodes=10,
        episodes=100,
        test_episodes=100,
        seed=seed,
    )
    begun = time.process_time()
    certificate = certify_many(episodes, [options], [seed])[0][0]
    seconds = time.process_time() - begun
    rows = [row_of(subject, certificate, options.unit, certificate.portions, seconds)]
    if options.division.fixed or preset == "paper":
        other = "episode" if options.unit == "step" else "step"
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


def relate(done: dict) -> None:
    """Ratio of each bound to that of the hold-out, where it has been measured."""
    for (name, preset, _, unit), row in done.items():
        holdout = done.get((name, preset, "holdout", unit))
        if holdout is not None:
            row["to_holdout"] = f"{float(row['bound']) / float(holdout['bound']):.3g}"


def markdown(done: dict, args: Args) -> str:
    """A table per policy, both units of a certificate in one line."""
    ratios = ("to (loss + ln(1/δ)/n)", "to floor", "to test", "to `holdout`")
    head = ["preset, scheme", "test"]
    head += [f"{unit}: {what}" for unit in ("step", "episode") for what in ("bound", *ratios)]
    head.append("seconds")
    lines = []
    for name in args.policies:
        some = done[name, "tight", "auto", "step"]
        held = ", held back" if some["held"] == "True" else ""
        about = f"constant {some['constant']}, mean of each step {some['per_step']}"
        lines += ["", f"**{name}**{held}: {about}, range {float(some['width']):.0f}.", ""]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for preset in args.presets:
            for scheme in args.schemes:
                if (name, preset, scheme, "step") in done:
                    rows = [done[name, preset, scheme, unit] for unit in ("step", "episode")]
                    cells = [f"{preset}, {scheme}", rows[0]["test"]]
                    for row in rows:
                        plain = float(row["loss"]) + math.log(1 / DELTA) / int(row["n"])
                        to_plain = f"{float(row['bound']) / plain:.2f}"
                        others = (row["to_floor"], row["to_test"], row["to_holdout"])
                        cells += [row["bound"], to_plain, *(f"{float(r):.3g}" for r in others)]
                    cells.append(f"{float(rows[0]['seconds']):.0f}")
                    lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines[1:])


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
