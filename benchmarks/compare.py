"""How soon and how often wrongly do comparisons decide? Ours beside what people use.

    python benchmarks/compare.py                  # about two minutes of one core
    python benchmarks/compare.py --runs 200

Two policies are run in pairs, all methods look at the same results after every ten pairs, and the
first look that says *different* ends a run. Printed for each method: the median number of pairs
until then, and of two equal policies the share of runs that ended at all, up to `--pairs` pairs.
The failure probability is 0.05, two-sided, for every method.

Binary outcomes: (D.1) on the differences of a pair and (D.7) on the counts, as `compare` has them;
the safe test of Turner, Ly and Grünwald (2024), valid at every number; Fisher's exact test and the
intervals of Newcombe, at every look. Returns: (D.1) on signs, and on differences in a known range,
Welch's t-test, and the paired t-test, at every look.
"""

from collections.abc import Callable

import cyclopts
import numpy as np
from scipy import stats
from scipy.special import betaln, xlog1py, xlogy

from tightrope.bounds.difference import fixed_bets

DELTA, EVERY = 0.05, 10
RANGE = 12.0  # deviations between the smallest and the largest return that the user states
NEVER = -1

# Success of A and of B; and the mean of A less that of B in deviations, and what pairs share of the
# variance.
RATES = [(0.1, 0.1), (0.5, 0.5), (0.95, 0.95), (0.5, 0.65), (0.5, 0.8), (0.7, 0.9), (0.9, 0.98)]
SHARED = [0.0, 0.8]
SHIFTS = [0.0, 0.2, 0.5, 1.0]

Array = np.ndarray


def first_look(decided: Array) -> Array:
    """(runs,) pairs at the first look that decides; NEVER without one."""
    return np.where(decided.any(axis=1), (decided.argmax(axis=1) + 1) * EVERY, NEVER)


def at_looks(values: Array) -> Array:
    return values[:, EVERY - 1 :: EVERY]


def differences(x: Array) -> Array:
    """(runs, looks) whether (D.1) excludes a mean of 0 of differences in [-1, 1]."""
    found = np.zeros((len(x), x.shape[1] // EVERY), bool)
    for side in (1.0, -1.0):
        capital = np.full(found.shape, -np.inf)
        for bet, weight in zip(*fixed_bets(), strict=True):
            with np.errstate(divide="ignore"):
                grown = at_looks(np.cumsum(np.log1p(bet * side * x), axis=1))
            capital = np.logaddexp(capital, np.log(weight) + grown)
        found |= np.maximum.accumulate(capital, axis=1) >= np.log(2.0 / DELTA)
    return found


def sequences(first: Array, second: Array) -> Array:
    """Whether two intervals of (D.7), half the failure probability each, are apart."""
    n = EVERY * np.arange(1, first.shape[1] // EVERY + 1)
    ends = []
    for outcomes in (first, second):
        count = at_looks(np.cumsum(outcomes, axis=1))
        mixture = betaln(count + 0.5, n - count + 0.5) - betaln(0.5, 0.5)
        sides = []
        for outside in (0.0, 1.0):
            low, high = np.full(count.shape, outside), count / n
            for _ in range(30):
                middle = (low + high) / 2
                inside = mixture - xlogy(count, middle) - xlog1py(n - count, -middle)
                excluded = inside >= np.log(2.0 / DELTA)
                low, high = np.where(excluded, middle, low), np.where(excluded, high, middle)
            sides.append(low)
        ends.append(sides)
    return (ends[0][0] > ends[1][1]) | (ends[1][0] > ends[0][1])


def safe(first: Array, second: Array) -> Array:
    """Turner, Ly and Grünwald: rates estimated from the pairs before, against their mean."""
    prior, n = 0.18, np.arange(first.shape[1])
    rates = [(np.cumsum(x, axis=1) - x + prior) / (n + 2 * prior) for x in (first, second)]
    equal = (rates[0] + rates[1]) / 2
    gained = sum(
        np.log(np.where(x == 1, p, 1 - p)) - np.log(np.where(x == 1, equal, 1 - equal))
        for x, p in zip((first, second), rates, strict=True)
    )
    return at_looks(np.maximum.accumulate(np.cumsum(gained, axis=1), axis=1)) >= np.log(1 / DELTA)


def counts(first: Array, second: Array) -> tuple[Array, Array, Array]:
    n = EVERY * np.arange(1, first.shape[1] // EVERY + 1)
    return at_looks(np.cumsum(first, axis=1)), at_looks(np.cumsum(second, axis=1)), n


def fisher(first: Array, second: Array) -> Array:
    x, y, n = counts(first, second)
    tail = np.minimum(
        stats.hypergeom.sf(x - 1, 2 * n, x + y, n), stats.hypergeom.cdf(x, 2 * n, x + y, n)
    )
    return 2 * tail <= DELTA


def newcombe(first: Array, second: Array) -> Array:
    z = stats.norm.isf(DELTA / 2)
    x, y, n = counts(first, second)
    p, low, high = [], [], []
    for k in (x, y):
        centre = (k + z**2 / 2) / (n + z**2)
        half = z / (n + z**2) * np.sqrt(k * (n - k) / n + z**2 / 4)
        p.append(k / n)
        low.append(centre - half)
        high.append(centre + half)
    gap = p[0] - p[1]
    below = gap - np.sqrt((p[0] - low[0]) ** 2 + (high[1] - p[1]) ** 2)
    above = gap + np.sqrt((high[0] - p[0]) ** 2 + (p[1] - low[1]) ** 2)
    return (below > 0) | (above < 0)


def moments(x: Array) -> tuple[Array, Array, Array]:
    n = EVERY * np.arange(1, x.shape[1] // EVERY + 1)
    mean = at_looks(np.cumsum(x, axis=1)) / n
    return mean, (at_looks(np.cumsum(x**2, axis=1)) - n * mean**2) / (n - 1), n


def welch(first: Array, second: Array) -> Array:
    (a, v, n), (b, w, _) = moments(first), moments(second)
    freedom = (v + w) ** 2 * (n - 1) / (v**2 + w**2)
    return 2 * stats.t.sf(np.abs(a - b) / np.sqrt((v + w) / n), freedom) <= DELTA


def paired_t(first: Array, second: Array) -> Array:
    mean, variance, n = moments(first - second)
    return 2 * stats.t.sf(np.abs(mean) / np.sqrt(variance / n), n - 1) <= DELTA


def in_range(first: Array, second: Array) -> Array:
    return differences(np.clip((first - second) / RANGE, -1, 1))


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "`compare`, tables (D.1)": lambda a, b: differences(a - b),
    "`compare`, counts (D.7)": sequences,
    "safe test": safe,
    "Fisher, repeated": fisher,
    "Newcombe, repeated": newcombe,
}
RETURNS: dict[str, Callable[[Array, Array], Array]] = {
    "`compare`, signs (D.1)": lambda a, b: differences(np.sign(a - b)),
    "`compare`, means in a range (D.1)": in_range,
    "Welch t, repeated": welch,
    "paired t, repeated": paired_t,
}


def cell(looks: Array, equal: bool) -> str:
    decided = looks != NEVER
    if equal:
        return f"{decided.mean():.1%}"
    return (
        f"{np.median(looks[decided]):.0f}"
        if decided.mean() > 0.99
        else (
            f"{np.quantile(np.where(decided, looks, np.inf), 0.5):.0f}"
            if decided.mean() > 0.5
            else "-"
        )
    )


def table(head: list[str], columns: list[list[Array]], equal: list[bool], names: list[str]) -> None:
    print("|  | " + " | ".join(head) + " |")
    print("|---" * (len(head) + 1) + "|")
    for row, name in enumerate(names):
        cells = [cell(column[row], same) for column, same in zip(columns, equal, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def main(runs: int = 1000, pairs: int = 1000, seed: int = 0) -> None:
    """Simulate, and print the tables.

    Args:
        runs: of every setting.
        pairs: of episodes at the most.
        seed: of the simulation.
    """
    rng = np.random.default_rng(seed)
    found, names = [], [*BINARY]
    for p, q in RATES:
        first, second = ((rng.random((runs, pairs)) < rate).astype(float) for rate in (p, q))
        found.append([first_look(method(first, second)) for method in BINARY.values()])
    table([f"{p:g}, {q:g}" for p, q in RATES], found, [p == q for p, q in RATES], names)
    for share in SHARED:
        found = []
        for shift in SHIFTS:
            common = np.sqrt(share) * rng.normal(size=(runs, pairs))
            own = np.sqrt(1 - share) * rng.normal(size=(2, runs, pairs))
            returns = common + own[0] + shift, common + own[1]
            found.append([first_look(method(*returns)) for method in RETURNS.values()])
        head = [f"{shift:g} deviations" for shift in SHIFTS]
        print(f"pairs share {share:.0%} of the variance\n")
        table(head, found, [shift == 0 for shift in SHIFTS], [*RETURNS])


if __name__ == "__main__":
    cyclopts.run(main)
