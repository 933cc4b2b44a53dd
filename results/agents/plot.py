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
# Tianshou, examples/mujoco/benchmark/Hopper-v3/{sac,ppo}/test_rew_10seeds.csv: step, mean over ten
# seeds, their standard deviation.
PUBLISHED = {
    "sac": (
        *((10_000, 282, 47), (20_000, 351, 59), (30_000, 493, 206), (40_000, 1030, 794)),
        *((50_000, 851, 373), (60_000, 930, 400), (70_000, 1387, 1089), (80_000, 1523, 812)),
        *((90_000, 1766, 1036), (100_000, 2613, 991)),
    ),
    "ppo": (
        *((30_720, 258, 21), (122_880, 399, 43), (215_040, 556, 145), (307_200, 884, 298)),
        *((399_360, 1301, 436), (491_520, 1976, 705), (614_400, 2312, 732), (706_560, 2253, 724)),
        *((798_720, 2331, 660), (890_880, 2609, 701), (983_040, 2370, 696), (1_013_760, 2483, 852)),
    ),
}


def draw(axes, agent):
    """Evaluations of our run, and the published mean and deviation at the same steps."""
    rows = [row for row in read_log(HERE / f"{agent}.csv") if "eval_return" in row]
    steps = [row["step"] / 1000 for row in rows]
    returns = [row["eval_return"] for row in rows]
    axes.plot(steps, returns, color=COLOURS[agent], label=f"{agent}, ours, one seed")
    for control, words in CONTROLS.get(agent, {}).items():
        rows = [row for row in read_log(HERE / f"{control}.csv") if "eval_return" in row]
        at, values = zip(*((row["step"] / 1000, row["eval_return"]) for row in rows), strict=True)
        axes.plot(at, values, color=COLOURS[agent], linestyle=":", label=words)
    if agent in PUBLISHED:
        at, mean, spread = zip(*PUBLISHED[agent], strict=True)
        at = [step / 1000 for step in at]
        low = [m - s for m, s in zip(mean, spread, strict=True)]
        high = [m + s for m, s in zip(mean, spread, strict=True)]
        axes.plot(at, mean, "k--", linewidth=1, label="Tianshou, ten seeds")
        axes.fill_between(at, low, high, color="k", alpha=0.1, linewidth=0)
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
