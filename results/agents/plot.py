"""Learning curves from the logs beside this file: python results/agents/plot.py.

A curve is the mean over its seeds of evaluations at the same steps; each seed is a thin line.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tightrope.agents import read_log

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"  # colour-blind safe
# Panels, their curves, and the logs of each.
PANELS = {
    "REDQ, Hopper-v4, squared loss: return": {
        "scaled observations": (BLUE, "hopper-scaled-*.csv"),
        "plain observations": (ORANGE, "hopper-plain-1.csv"),
        "plain, target entropy -1": (PINK, "hopper-entropy-1.csv"),
    },
    "REDQ, Hopper-v4: value - discounted return": {
        "scaled, squared loss": (BLUE, "hopper-scaled-*.csv"),
        "plain, squared loss": (ORANGE, "hopper-plain-1.csv"),
        "plain, Huber's loss": (GREEN, "redq-minimum.csv"),
    },
    "REDQ, HalfCheetah-v4, squared loss: return": {
        "scaled observations": (BLUE, "cheetah-scaled-0.csv"),
        "plain observations": (ORANGE, "redq-cheetah-square.csv"),
    },
    "SAC, Hopper-v4: return": {
        "scaled observations, seed 1": (BLUE, "sac-scaled.csv"),
        "plain observations, seed 1": (ORANGE, "sac-plain.csv"),
        "plain, learned norms, seed 0": (GREEN, "sac.csv"),
    },
    "PPO, Hopper-v4: return": {"defaults": (GREEN, "ppo.csv")},
}


def evaluations(path, overestimation):
    """Thousands of steps and what is drawn, of the rows with an evaluation after the warm-up."""
    rows = [row for row in read_log(path) if "eval_return" in row and row["step"] > 10_000]
    if overestimation:
        rows = [row for row in rows if "eval_value" in row]
        return {row["step"] / 1000: row["eval_value"] - row["eval_discounted"] for row in rows}
    return {row["step"] / 1000: row["eval_return"] for row in rows}


def draw(axes, title, curves):
    """One panel."""
    for label, (colour, pattern) in curves.items():
        seeds = [evaluations(path, "value" in title) for path in sorted(HERE.glob(pattern))]
        for seed in seeds:
            axes.plot(seed.keys(), seed.values(), color=colour, linewidth=0.6, alpha=0.6)
        common = sorted(set.intersection(*map(set, seeds)))
        means = [np.mean([seed[step] for seed in seeds]) for step in common]
        count = f", mean of {len(seeds)} seeds" if len(seeds) > 1 else ""
        axes.plot(common, means, color=colour, label=label + count)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("thousand steps")
    axes.legend(frameon=False, fontsize=7, loc="upper left")


def main():
    """Draw all panels."""
    figure, panels = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
    panels[1, 2].axis("off")
    for axes, (title, curves) in zip(panels.flat, PANELS.items(), strict=False):
        draw(axes, title, curves)
    figure.savefig(HERE / "curves.png", dpi=110)


if __name__ == "__main__":
    main()
