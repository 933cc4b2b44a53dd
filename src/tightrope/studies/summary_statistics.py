"""Which certificates may be compared, their means, correlations and intervals."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from tightrope.studies.certificate_records import CERTIFICATE, SLICE, STRATUM

__all__ = ["CONFIDENCE", "FEWEST_POINTS", "Interval", "conditions", "correlations",
           "in_order", "instance_means", "main_comparison", "mean_interval"]  # fmt: skip

CONFIDENCE = 0.95  # of every interval, each by itself
FEWEST_POINTS = 3  # of a correlation: two points always lie on a line
LEVELS = ("starter", "intermediate", "expert")
SCHEMES = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "auto")
CONDITION = [name for name in CERTIFICATE if name not in ("instance", "repetition")]
_FLAT = 1e-12  # a spread below this share of the size is rounding


@dataclass(frozen=True)
class Interval:
    """A mean over n independent values, with Student's interval."""

    low: float
    mean: float
    high: float
    n: int


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Mean and Student's interval; its ends are NaN for fewer than two values.

    >>> found = mean_interval([1.0, 2.0, 3.0], 0.5)
    >>> [round(end, 3) for end in (found.low, found.mean, found.high)], found.n
    ([1.529, 2.0, 2.471], 3)
    """
    found = np.asarray(values, float)
    n, mean = len(found), float(found.mean()) if len(found) else np.nan
    if n < 2:
        return Interval(np.nan, mean, np.nan, n)
    reach = float(stdtrit(n - 1, 0.5 + confidence / 2) * found.std(ddof=1) / np.sqrt(n))
    return Interval(mean - reach, mean, mean + reach, n)


def main_comparison(table: pd.DataFrame) -> pd.DataFrame:
    """Certificates with local sampling and the largest validation set.

    The largest is that of the agent in the environment, per preset and unit, so that schemes,
    levels and instances are compared at one size.
    """
    local = table[table["sampling"] == "local"]
    largest = local.groupby([*SLICE, *STRATUM])["episodes"].transform("max")
    return local[local["episodes"] == largest]


def instance_means(table: pd.DataFrame) -> pd.DataFrame:
    """Train error, test error, bound and tightness of every policy, averaged over repetitions."""
    groups = table.groupby([name for name in CERTIFICATE if name != "repetition"])
    means = groups[["train_error", "test_error", "bound", "tightness"]].mean()
    return means.assign(repetitions=groups.size(), void=groups["void"].sum()).reset_index()


def correlations(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Pearson's r of bound and test error in every group, with the number of its points.

    Points are certificates, all instances and repetitions; void ones and those without a test
    error are left out. With fewer than three points, or where one side does not vary, r is NaN.
    """
    sound = table[~table["void"] & table["test_error"].notna()]
    groups = sound.groupby(list(by))
    pairs = groups[["bound", "test_error"]]
    found = groups.agg(points=("bound", "size"), instances=("instance", "nunique"))
    flat = (pairs.std() <= _FLAT * pairs.max()).any(axis=1) | (found["points"] < FEWEST_POINTS)
    r = pairs.corr().xs("test_error", level=-1)["bound"] if len(found) else found["points"]
    found.insert(0, "r", r.mask(flat))
    return found


def conditions(table: pd.DataFrame) -> pd.DataFrame:
    """One row for everything that was certified: means over its certificates, and r."""
    groups = table.groupby(CONDITION)
    values = ["bound", "test_error", "train_error", "constant_error", "tightness", "mean_return"]
    means = groups[values].mean()
    counts = {
        "certificates": groups.size(),
        "vacuous": groups["bound"].apply(lambda bound: int((bound >= 1).sum())),
        "void": groups["void"].sum(),
    }
    return means.assign(**counts).join(correlations(table, CONDITION)).reset_index()


def in_order(column: str, names: Iterable[str]) -> list[str]:
    """Distinct names as a reader expects them: by expertise or depth, and numbers by size.

    >>> in_order("scheme", ["auto", "rec-12", "rec-2", "nonrec-inf"])
    ['nonrec-inf', 'rec-2', 'rec-12', 'auto']
    >>> in_order("instance", ["10", "9", "mine"])
    ['9', '10', 'mine']
    """
    known = {"level": LEVELS, "scheme": SCHEMES}.get(column, ())

    def place(name: str) -> tuple[float, int, str]:
        if column == "scheme" and (depth := re.fullmatch(r"rec-([0-9]+)", name)):
            return SCHEMES.index("rec-2"), int(depth[1]), name
        if name in known:
            return known.index(name), 0, name
        return len(known) + (not name.isdecimal()), int(name) if name.isdecimal() else 0, name

    return sorted(set(names), key=place)
