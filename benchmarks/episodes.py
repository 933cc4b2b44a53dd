"""How many episodes are needed? What stopping early saves, and how good forecasts are.

    python benchmarks/episodes.py                         # all of it: about half an hour
    python benchmarks/episodes.py --policies pendulum --what stop

`stop`: searches for a few targets show where they stop, of 500 episodes at the most; targets are
multiples of what 200 episodes certify for the mean over episodes.
`forecast`: a certificate of scheme auto with 200 episodes forecasts the one with more; then the
episodes are rolled out, and the two are compared.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cyclopts
import torch

import tightrope as tr
from tightrope import demo
from tightrope.deploy.plan import forecast
from tightrope.rollouts import collect

HERE = Path(__file__).parent
SUBJECTS = {
    "hopper": (demo.policy_path(), "Hopper-v4"),
    "pendulum": (HERE / "policies/pendulum.safetensors", "Pendulum-v1"),
    "reach": (HERE / "policies/reach.safetensors", "reach-v3"),
}
FACTORS = (1.2, 1.5, 2.0)
MOST = 500


@cyclopts.Parameter(name="*")
@dataclass(frozen=True)
class Args:
    """What to measure."""

    policies: tuple[str, ...] = tuple(SUBJECTS)
    """Names among those above."""
    what: tuple[Literal["stop", "forecast"], ...] = ("stop", "forecast")
    """Early stops, forecasts, or both."""
    ahead: int = 500
    """Episodes to forecast for, from 200."""
    workers: int = 1
    """Processes of the roll-outs."""


_DEFAULTS = Args()


def main(args: Args = _DEFAULTS) -> None:
    torch.set_num_threads(1)
    for name in args.policies:
        path, env = SUBJECTS[name]
        if "stop" in args.what:
            stop(name, path, env, args)
        if "forecast" in args.what:
            ahead(name, path, env, args)


def stop(name: str, path: Path, env: str, args: Args) -> None:
    episodes = collect(path, env, 200, 301, workers=args.workers)
    fixed = tr.certify(episodes, scheme="holdout", seed=1)
    print(f"{name}: 200 episodes certify rms {fixed.rms_raw:.4g}", flush=True)
    for seed, factor in enumerate(FACTORS, start=302):
        target = float(f"{factor * fixed.rms_raw:.3g}")
        found = tr.certify(
            *(path, env),
            until=f"rms<={target:g}",
            max_episodes=MOST,
            seed=seed,
            rollout=tr.Rollout(workers=args.workers),
        )
        count = found.episodes.validation
        print(
            f"| {name} | {target:g} | {factor:g} | {count} | {MOST - count} | "
            f"{found.rms_raw:.4g} |",
            flush=True,
        )


def ahead(name: str, path: Path, env: str, args: Args) -> None:
    episodes = collect(path, env, args.ahead, 401, workers=args.workers)
    now = tr.certify(episodes.span(0, 200), fit_episodes=50, seed=1)
    later = tr.certify(episodes, fit_episodes=50, seed=1)
    print(f"{name}: forecast from 200 for {args.ahead} episodes, and what came", flush=True)
    foreseen = forecast(now, args.ahead)
    for kind in ("tolerance", "mean-risk", "band", "monitor", "return", "failure"):
        pairs = zip(
            [s for s in foreseen if s.kind == kind],
            [s for s in later.statements if s.kind == kind],
            strict=False,
        )
        for one, other in pairs:
            guess, true = one.limit, other.limit
            share = "" if one.share is None else f"{one.share:.1%} / {other.share:.1%}"
            print(
                f"| {name} | {kind}, {one.unit} | {share} | {guess:.4g} | {true:.4g} | "
                f"{guess / true - 1:+.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    cyclopts.run(main)
