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
            found = [[row[column] for row in recent if column in row] for column in COLUMNS]
            means = [f"{np.mean(values):,.0f}" if values else "" for values in found]
            cells = [f"{recent[-1]['train_return']:,.0f}", *means]
            print(f"| {end:,} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
