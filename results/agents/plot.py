"""Learning curves from the logs beside this file: python results/agents/plot.py.

Thick: mean return of the last 100 training episodes. Thin: evaluations. A line for each seed. The
panel of averages has evaluations only.
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
    "REDQ, Hopper-v4: return": {
        "default": (BLUE, "hopper-[012].csv"),
        "critics with layer norm": (ORANGE, "hopper-scaled-[01].csv"),
        "Huber's loss": (GREEN, "huber-[01].csv"),
        "the paper's recipe": (PINK, "paper-[012].csv"),
    },
    "REDQ, Hopper-v4: value - discounted return": {
        "default": (BLUE, "hopper-[012].csv"),
        "critics with layer norm": (ORANGE, "hopper-scaled-[01].csv"),
        "Huber's loss": (GREEN, "huber-[01].csv"),
        "the paper's recipe": (PINK, "paper-[012].csv"),
    },
    "REDQ, HalfCheetah-v4: return": {
        "default": (BLUE, "cheetah-[01].csv"),
        "critics with layer norm": (ORANGE, "cheetah-scaled-0.csv"),
    },
    "two critics, Hopper-v4: return": {
        "layer norm in the actor": (BLUE, "sac-actor-norms.csv"),
        "in critics": (GREEN, "sac-critic-norms.csv"),
        "in both": (ORANGE, "sac-norms.csv"),
        "in none: SB3's own SAC": (PINK, "sac-sb3.csv"),
    },
    "SB3's SAC, Hopper-v4: return of the actor": {
        "of single steps": (ORANGE, "sac-sb3.csv", "eval_return"),
        "average, share 0.001": (GREEN, "sac-sb3.csv", "eval_average_1e-3"),
        "average, share 0.0003": (BLUE, "sac-sb3.csv", "eval_average_3e-4"),
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
    for label, (colour, pattern, *name) in curves.items():
        paths = sorted(HERE.glob(pattern))
        for index, path in enumerate(paths):
            rows = read_log(path)
            several = f", {len(paths)} seeds" if len(paths) > 1 else ""
            shown = {"color": colour, "label": None if index else label + several}
            if "value" in title:
                axes.plot(*column(rows, overestimation), **shown)
            elif name:
                axes.plot(*column(rows, lambda row, name=name: row.get(*name)), **shown)
            else:
                axes.plot(*column(rows, lambda row: row.get("train_return")), **shown)
                thin = {"color": colour, "linewidth": 0.5, "alpha": 0.7}
                axes.plot(*column(rows, lambda row: row.get("eval_return")), **thin)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))  # room for the legend
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("thousand steps")
    axes.legend(frameon=False, fontsize=7, loc="upper left")


def main():
    """Draw all panels."""
    figure, panels = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
    for axes, (title, curves) in zip(panels.flat, PANELS.items(), strict=True):
        draw(axes, title, curves)
    figure.savefig(HERE / "curves.png", dpi=110)


if __name__ == "__main__":
    main()
