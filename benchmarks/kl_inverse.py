"""A million kl inversions against a loop of scipy.optimize.brentq, in one run.

    python benchmarks/kl_inverse.py [--count 1000000] [--loop 20000] [--repeats 5]

Prints nanoseconds per inversion of each side and their ratio; the loop runs on a subset of the
same problems. Both sides solve to full double precision.
"""

import argparse
import math
import statistics
import time

import numpy as np
from scipy.optimize import brentq

from tightrope.bounds import kl_inverse_lower, kl_inverse_upper


def brentq_upper(q: float, budget: float) -> float:
    # The plain scalar code a user would write, on math.log, which is faster here than numpy.
    rest = 1.0 - q

    def excess(p: float) -> float:
        return q * math.log(q / p) + rest * math.log(rest / (1.0 - p)) - budget

    last = math.nextafter(1.0, 0.0)
    return brentq(excess, q, last, xtol=1e-15) if excess(last) > 0 else 1.0


def seconds(function, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--loop", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    q = rng.random(options.count)
    budget = 10 ** rng.uniform(-6, 1, options.count)
    subset = list(zip(q[: options.loop].tolist(), budget[: options.loop].tolist(), strict=True))

    kl_inverse_upper(q, budget)  # warm-up
    upper = seconds(lambda: kl_inverse_upper(q, budget), options.repeats) / options.count
    lower = seconds(lambda: kl_inverse_lower(q, budget), options.repeats) / options.count
    loop = seconds(lambda: [brentq_upper(*pair) for pair in subset], options.repeats) / options.loop

    ours = kl_inverse_upper(q[: options.loop], budget[: options.loop])
    theirs = np.array([brentq_upper(*pair) for pair in subset])
    print(f"kl_inverse_upper   {upper * 1e9:10.0f} ns per inversion")
    print(f"kl_inverse_lower   {lower * 1e9:10.0f} ns per inversion")
    print(f"brentq loop        {loop * 1e9:10.0f} ns per inversion")
    print(f"ratio              {loop / upper:10.0f} x (upper), {loop / lower:.0f} x (lower)")
    print(f"largest difference {np.abs(ours - theirs).max():10.1e}")


if __name__ == "__main__":
    main()
