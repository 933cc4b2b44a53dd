"""The tables of this page from the logs beside it: python results/agents/table.py LOG [LOG ...].

At each ten thousand steps: mean return of the last 100 training episodes; then the mean over the
evaluations of these steps of the return, of the critics' values and of the discounted returns.
"""

import argparse
from pathlib import Path

import numpy as np

from tightrope.agents import read_log

COLUMNS = ("eval_return", "eval_value", "eval_discounted")
HERE = Path(__file__).parent


def main():
    """Print a table for each log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", help="names without .csv")
    for name in parser.parse_args().logs:
        rows = [row for row in read_log(HERE / f"{name}.csv") if "eval_return" in row]
        print(f"\n{name}\n| steps | training return | evaluation | value | discounted return |")
        print("|---|---|---|---|---|")
        for end in range(20_000, int(rows[-1]["step"]) + 1, 10_000):
            recent = [row for row in rows if end - 10_000 < row["step"] <= end]
            means = [np.mean([row[column] for row in recent]) for column in COLUMNS]
            cells = (recent[-1]["train_return"], *means)
            print(f"| {end:,} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
