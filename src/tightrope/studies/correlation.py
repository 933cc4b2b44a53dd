"""The mean of many groups' correlations, with a bootstrap over the training runs behind them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tightrope.studies.columns import POLICY
from tightrope.studies.metrics import (
    CELL,
    FEWEST_INSTANCES,
    RESAMPLES,
    expanded_percentiles,
    pearson,
    resampled_pearson,
    resampled_weights,
)
from tightrope.studies.slices import main

__all__ = ["MeanCorrelation", "mean_correlation"]


@dataclass(frozen=True)
class MeanCorrelation:
    """The mean over groups of the correlation within each.

    Attributes:
        value: NaN where there is none.
        low: lower end of the interval.
        high: upper end of the interval.
        groups: that have a correlation.
        positive: of these, above 0.
        policies: behind them.
        runs: training runs behind them.
        note: what was left out, or why there is no value.
    """

    value: float
    low: float
    high: float
    groups: int
    positive: int
    policies: int
    runs: int
    note: str


def mean_correlation(
    table: pd.DataFrame, *, generator: np.random.Generator, resamples: int = RESAMPLES
) -> MeanCorrelation:
    """Correlate bound and test error in every group of the main slice, and average.

    Instances of an agent in an environment are drawn together for all its levels, schemes,
    presets and units: whatever is particular to a training run is particular in all of them.
    Groups with fewer than three instances, or whose bounds are all vacuous, are left out.
    """
    sound = main(table)
    sound = sound[~sound["void"] & sound["test_error"].notna()]
    values, draws, kept, flat, small, runs = [], [], [], 0, 0, []
    for _, stratum in sound.groupby(["agent", "environment"], sort=True):
        names = np.unique(stratum["instance"].to_numpy(dtype=str))
        weights = resampled_weights(len(names), generator=generator, resamples=resamples)
        used: set[str] = set()
        for _, cell in stratum.groupby(CELL, sort=True):
            x, y = (cell[name].to_numpy(dtype=float) for name in ("bound", "test_error"))
            instance = cell["instance"].to_numpy(dtype=str)
            value = pearson(x, y)
            if np.isnan(value):
                flat += 1
            elif len(set(instance)) < FEWEST_INSTANCES:
                small += 1
            else:
                member = np.searchsorted(names, instance)
                values.append(value)
                draws.append(resampled_pearson(x, y, member, weights))
                kept.append(cell[POLICY])
                used |= set(instance)
        runs.append(len(used))
    note = _note(len(sound), flat, small, len(values))
    if not values:
        return MeanCorrelation(np.nan, np.nan, np.nan, 0, 0, 0, 0, note)
    value = float(np.mean(values))
    drawn = np.stack(draws)  # (groups, resamples)
    defined = np.isfinite(drawn)
    counted = defined.sum(axis=0)
    means = np.where(defined, drawn, 0.0).sum(axis=0)[counted > 0] / counted[counted > 0]
    freedom = sum(count - 1 for count in runs if count)
    low, high = np.quantile(means, expanded_percentiles(freedom + 1))
    return MeanCorrelation(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        groups=len(values),
        positive=sum(each > 0 for each in values),
        policies=len(pd.concat(kept).drop_duplicates()),
        runs=sum(runs),
        note=note,
    )


def _note(rows: int, flat: int, small: int, kept: int) -> str:
    if not rows:
        return "no test errors of certificates that are not void"
    notes = []
    if small:
        notes.append(f"{small} groups with fewer than {FEWEST_INSTANCES} instances left out")
    if flat:
        notes.append(f"{flat} groups without spread left out, as where every bound is vacuous")
    return "; ".join(notes) if notes or kept else "no groups"
