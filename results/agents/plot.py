"""Learning curves on Hopper-v4 from the logs beside this file: python results/agents/plot.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tightrope.agents import read_log

HERE = Path(__file__).parent
COLOURS = {"redq": "#0072B2", "sac": "#D55E00", "ppo": "#009E73"}  # colour-blind safe
CONTROLS = {
    "redq": {"redq-square": "redq, squared loss"},
    "sac": {"sac-fast": "sac, learning rate 1e-3"},
}


def draw(axes, agent):
    """Evaluations of a run and of its controls."""
    rows = [row for row in read_log(HERE / f"{agent}.csv") if "eval_return" in row]
    steps = [row["step"] / 1000 for row in rows]
    returns = [row["eval_return"] for row in rows]
    axes.plot(steps, returns, color=COLOURS[agent], label=f"{agent}, one seed")
    for control, words in CONTROLS.get(agent, {}).items():
        rows = [row for row in read_log(HERE / f"{control}.csv") if "eval_return" in row]
        at, values = zip(*((row["step"] / 1000, row["eval_return"]) for row in rows), strict=True)
        axes.plot(at, values, color=COLOURS[agent], linestyle=":", label=words)
    axes.set(title=agent.upper(), xlabel="thousand steps")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def main():
    """Draw all three."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
    for axes, agent in zip(panels, COLOURS, strict=True):
        draw(axes, agent)
    panels[0].set_ylabel("undiscounted return, Hopper-v4")
    figure.savefig(HERE / "curves.png", dpi=130)


if __name__ == "__main__":
    main()
