"""Learning curves from the logs beside this file: python results/agents/plot.py.

Thick: mean return of the last 100 training episodes. Thin: evaluations. A line for each seed.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tightrope.agents import read_log

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"  # colour-blind safe
# Panels, their curves, and the logs of each.
PANELS = {
    "REDQ, Hopper-v4, squared loss: return": {
        "scaled observations": (BLUE, "hopper-scaled-[01].csv"),
        "plain observations": (ORANGE, "hopper-plain-1.csv"),
        "plain, target entropy -1": (PINK, "hopper-entropy-1.csv"),
    },
    "REDQ, Hopper-v4: value - discounted return": {
        "scaled, squared loss": (BLUE, "hopper-scaled-[01].csv"),
        "plain, squared loss": (ORANGE, "hopper-plain-1.csv"),
        "scaled, Huber's loss": (GREEN, "hopper-scaled-huber-1.csv"),
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


def column(rows, value):
    """Thousands of steps and what is drawn, of the rows after the warm-up that have it."""
    pairs = [(row["step"] / 1000, value(row)) for row in rows if row["step"] > 10_000]
    pairs = [pair for pair in pairs if pair[1] is not None]
    return zip(*pairs, strict=True)


def overestimation(row):
    """What the critics say too much."""
    return row["eval_value"] - row["eval_discounted"] if "eval_value" in row else None


def draw(axes, title, curves):
    """One panel."""
    for label, (colour, pattern) in curves.items():
        paths = sorted(HERE.glob(pattern))
        for index, path in enumerate(paths):
            rows = read_log(path)
            several = f", {len(paths)} seeds" if len(paths) > 1 else ""
            shown = {"color": colour, "label": None if index else label + several}
            if "value" in title:
                axes.plot(*column(rows, overestimation), **shown)
                continue
            axes.plot(*column(rows, lambda row: row.get("train_return")), **shown)
            thin = {"color": colour, "linewidth": 0.5, "alpha": 0.7}
            axes.plot(*column(rows, lambda row: row.get("eval_return")), **thin)
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
