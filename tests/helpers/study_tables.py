"""Synthetic tables of studies whose claims are planted: what is true is known."""

from itertools import product

import numpy as np
import pandas as pd

from tightrope.studies.certificate_records import DTYPES

LEVELS = ("starter", "intermediate", "expert")
SCHEMES = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout")
ERRORS = {"starter": 0.02, "intermediate": 0.012, "expert": 0.008}
GAPS = {"nonrec-noninf": 0.2, "nonrec-inf": 0.1, "rec-2": 0.07, "rec-6": 0.05, "holdout": 0.04}
SIZE = 100


def study_table(
    *,
    agents=("redq",),
    environments=("Hopper-v4", "dm_control/reacher-easy-v0"),
    instances=("0", "1", "2"),
    levels=LEVELS,
    repetitions=5,
    schemes=SCHEMES,
    presets=("paper", "tight"),
    units=("step",),
    sampling=("local",),
    episodes=(SIZE,),
    seed=0,
    noise=0.1,
    gap=None,
):
    """One row per certificate; the bound is the test error times a factor, plus a gap.

    The test error depends on the environment, the instance and the level, and slightly on the
    repetition; `gap(row)` overrides GAPS, which shrinks with larger sets and with local sampling.
    """
    rng = np.random.default_rng(seed)
    axes = {
        "agent": agents,
        "environment": environments,
        "instance": instances,
        "level": levels,
        "repetition": range(repetitions),
        "scheme": schemes,
        "preset": presets,
        "unit": units,
        "sampling": sampling,
        "episodes": episodes,
    }
    talent = {key: rng.lognormal(0, 0.4) for key in product(agents, environments, instances)}
    rows = []
    for values in product(*axes.values()):
        row = dict(zip(axes, values, strict=True))
        gifted = talent[row["agent"], row["environment"], row["instance"]]
        error = ERRORS.get(row["level"], 0.01) * gifted * rng.lognormal(0, 0.1)
        error *= 0.3 if row["preset"] == "tight" else 1.0
        width = (gap or _gap)(row) * gifted**0.5 * rng.lognormal(0, noise)
        bound = min(1.5 * error + width, 1.0)
        low, high = -10.0, 40.0
        rows.append(
            {
                **row,
                "bound": bound,
                "bound_raw": bound * (high - low) ** 2,
                "rms_raw": bound**0.5 * (high - low),
                "train_error": 0.9 * error,
                "test_error": error,
                "tightness": bound - error,
                "constant_error": 0.05,
                "confidence": 0.965,
                "n": row["episodes"] * (20 if row["unit"] == "step" else 1),
                "effective_n": 1.5 * row["episodes"],
                "kl": 12.0,
                "clipped_share": 0.0,
                "return_low": low,
                "return_high": high,
                "mean_return": 300.0 / gifted,
                "void": False,
                "seed": len(rows),
                "certificate": f"certificates/{len(rows)}/certificate.json",
            }
        )
    table = pd.DataFrame(rows, columns=list(DTYPES))
    return table.astype(DTYPES)


def _gap(row):
    gap = GAPS.get(row["scheme"], 0.1) * (SIZE / row["episodes"]) ** 0.5
    gap *= {"starter": 1.3, "expert": 0.8}.get(row["level"], 1.0)
    gap *= 0.15 if row["preset"] == "tight" else 1.0
    gap *= 1.6 if row["unit"] == "episode" else 1.0
    return gap * (2.5 if row["sampling"] == "weights" else 1.0)


def with_bounds(table, bound):
    """The same table with other bounds and what follows from them."""
    bound = np.broadcast_to(bound, len(table))
    width = table["return_high"] - table["return_low"]
    return table.assign(
        bound=bound,
        bound_raw=bound * width**2,
        rms_raw=np.sqrt(bound) * width,
        tightness=bound - table["test_error"],
    )


def without_tests(table, rows=slice(None)):
    """The same table in which some certificates had no test episodes."""
    table = table.copy()
    table.loc[table.index[rows], ["test_error", "tightness", "mean_return"]] = np.nan
    return table
