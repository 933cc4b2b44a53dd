"""Pairs of certificates that differ in one thing only, and the change from one to the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from tightrope.studies.columns import POLICY, RUN, SLICE
from tightrope.studies.metrics import CONFIDENCE
from tightrope.studies.slices import depth, main, validation_sizes

__all__ = ["PAIRINGS", "Pairs", "averaged", "run_changes", "student_interval"]

_REQUEST = [*SLICE, *POLICY, "scheme", "sampling", "episodes"]  # all but the repetition


@dataclass(frozen=True)
class Pairs:
    """Certificates before and after one thing was changed, averaged over their repetitions.

    Attributes:
        what: the change, as `nonrec-inf minus nonrec-noninf`.
        rows: preset, unit, agent, environment, instance, level, ``change`` of the tightness and
            whether both bounds are ``vacuous``; one row per pair.
        missing: why there is none; empty if there are some.
    """

    what: str
    rows: pd.DataFrame
    missing: str = ""


def averaged(table: pd.DataFrame) -> pd.DataFrame:
    """Mean tightness and bound of every request over those repetitions that have a test error."""
    tested = table[table["tightness"].notna()]
    return tested.groupby(_REQUEST, as_index=False)[["tightness", "bound"]].mean()


def informed_prior(table: pd.DataFrame) -> Pairs:
    """The same policy with a data-informed prior and without."""
    return _schemes(main(table), "nonrec-noninf", "nonrec-inf")


def recursion(table: pd.DataFrame) -> Pairs:
    """The same policy with the shallowest recursion, and with an informed prior alone."""
    table = main(table)
    depths = _depths(table)
    return _schemes(table, "nonrec-inf", f"rec-{min(depths, default=2)}")


def deeper_recursion(table: pd.DataFrame) -> Pairs:
    """The same policy with the deepest recursion and with the shallowest."""
    table = main(table)
    depths = _depths(table)
    if len(depths) < 2:
        return _pairs(table[:0], table[:0], POLICY, "deeper recursion", "one depth of recursion")
    return _schemes(table, f"rec-{min(depths)}", f"rec-{max(depths)}")


def validation_size(table: pd.DataFrame) -> Pairs:
    """The same policy and scheme with the largest and the smallest number of episodes."""
    table = validation_sizes(table)
    sizes = table.groupby([*SLICE, "agent", "environment"])["episodes"]
    few = table[table["episodes"] == sizes.transform("min")]
    many = table[table["episodes"] == sizes.transform("max")]
    what = f"{_sizes(many)} minus {_sizes(few)} episodes" if len(table) else "larger minus smaller"
    return _pairs(few, many, [*POLICY, "scheme"], what, "one number of validation episodes")


def local_reparameterisation(table: pd.DataFrame) -> Pairs:
    """The same policy, scheme and episodes with local sampling and with that of weights."""
    both = table.groupby([*SLICE, "agent", "environment", "episodes"])["sampling"]
    table = table[both.transform("nunique") > 1]
    largest = table.groupby([*SLICE, "agent", "environment"])["episodes"].transform("max")
    table = table[table["episodes"] == largest]
    weights, local = (table[table["sampling"] == name] for name in ("weights", "local"))
    on = [*POLICY, "scheme", "episodes"]
    return _pairs(weights, local, on, "local minus weights", "one way of sampling")


def expertise(table: pd.DataFrame) -> Pairs:
    """The same training run and scheme, at its end and at its beginning."""
    table = main(table)
    starter, expert = (table[table["level"] == name] for name in ("starter", "expert"))
    missing = "no run with both levels, starter and expert"
    return _pairs(starter, expert, [*RUN, "scheme"], "expert minus starter", missing)


PAIRINGS = {
    "informed-prior": informed_prior,
    "recursion": recursion,
    "deeper-recursion": deeper_recursion,
    "validation-size": validation_size,
    "local-reparameterisation": local_reparameterisation,
    "expertise": expertise,
}


def run_changes(rows: pd.DataFrame) -> pd.Series:
    """The mean change of every training run: over its pairs, then over presets and units.

    The stages of one training share its random numbers, and so does one policy under several
    schemes: a run counts once.
    """
    by_slice = rows.groupby([*SLICE, *RUN])["change"].mean()
    return by_slice.groupby(RUN).mean()


def student_interval(
    values: NDArray[np.float64], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Mean of independent values with Student's interval; needs two values.

    >>> [round(end, 3) for end in student_interval(np.array([1.0, 2.0, 3.0]), 0.5)]
    [2.0, 1.529, 2.471]
    """
    count = len(values)
    mean = float(values.mean())
    reach = float(stdtrit(count - 1, 0.5 + confidence / 2) * values.std(ddof=1) / np.sqrt(count))
    return mean, mean - reach, mean + reach


def _schemes(table: pd.DataFrame, before: str, after: str) -> Pairs:
    there = set(table["scheme"])
    lacking = [name for name in (before, after) if name not in there]
    missing = f"no certificates by {' or '.join(lacking)}" if lacking else "no policy with both"
    first, second = (table[table["scheme"] == name] for name in (before, after))
    return _pairs(first, second, POLICY, f"{after} minus {before}", missing)


def _pairs(
    before: pd.DataFrame, after: pd.DataFrame, on: Sequence[str], what: str, missing: str
) -> Pairs:
    if not len(before) or not len(after):
        return Pairs(what, _NO_ROWS, missing)
    before, after = averaged(before), averaged(after)
    if not len(before) or not len(after):
        return Pairs(what, _NO_ROWS, "no test errors")
    joined = before.merge(after, on=[*SLICE, *on], suffixes=("_before", "_after"))
    vacuous = (joined["bound_before"] >= 1) & (joined["bound_after"] >= 1)
    # 1 - test error is smaller for a worse predictor: where nothing is certified, nothing changed.
    change = (joined["tightness_after"] - joined["tightness_before"]).where(~vacuous, 0.0)
    rows = joined[[*SLICE, *RUN]].assign(
        level=joined.get("level", "expert, starter"), change=change, vacuous=vacuous
    )
    return Pairs(what, rows, "" if len(rows) else missing)


_NO_ROWS = pd.DataFrame(columns=[*SLICE, *POLICY, "change", "vacuous"])


def _depths(table: pd.DataFrame) -> list[int]:
    return sorted({deep for name in set(table["scheme"]) if (deep := depth(name) or 0) > 1})


def _sizes(table: pd.DataFrame) -> str:
    sizes = sorted(set(table["episodes"]))
    return " or ".join(str(size) for size in sizes)
