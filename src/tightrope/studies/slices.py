"""Slices of a study's table: what figures, tables and claims may put side by side."""

import re
from collections.abc import Iterable

import pandas as pd

from tightrope.studies.columns import CERTIFICATE, SLICE, check

__all__ = ["depth", "in_order", "main", "ordered", "validation_sizes"]

LEVELS = ("starter", "intermediate", "expert")
SCHEMES = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "auto")


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    """The checked table in one order, so that the order of its rows changes no result.

    Raises:
        InputError: it is no table of a study.
    """
    check(table)
    return table.sort_values(CERTIFICATE, kind="stable").reset_index(drop=True)


def main(table: pd.DataFrame) -> pd.DataFrame:
    """The main slice: local sampling and the largest number of validation episodes.

    The largest is that of the agent in the environment, per preset and unit, so that schemes,
    levels and instances are compared at one size; other values are ablations.
    """
    local = table[table["sampling"] == "local"]
    largest = local.groupby([*SLICE, "agent", "environment"])["episodes"].transform("max")
    return local[local["episodes"] == largest]


def validation_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of agents in environments that were certified from several numbers of episodes."""
    local = table[table["sampling"] == "local"]
    sizes = local.groupby([*SLICE, "agent", "environment"])["episodes"].transform("nunique")
    return local[sizes > 1]


def depth(scheme: str) -> int | None:
    """T of a recursion rec-T; None for another scheme.

    >>> depth("rec-6"), depth("nonrec-inf")
    (6, None)
    """
    found = re.fullmatch(r"rec-([1-9][0-9]*)", scheme)
    return int(found[1]) if found else None


def in_order(column: str, names: Iterable[str]) -> list[str]:
    """Distinct names as a reader expects them: by expertise or depth, and numbers by size.

    >>> in_order("scheme", ["auto", "rec-12", "rec-2", "nonrec-inf"])
    ['nonrec-inf', 'rec-2', 'rec-12', 'auto']
    >>> in_order("instance", ["10", "9", "mine"])
    ['9', '10', 'mine']
    """
    known = {"level": LEVELS, "scheme": SCHEMES}.get(column, ())

    def place(name: str) -> tuple[float, int, str]:
        if column == "scheme" and (deep := depth(name)):
            return SCHEMES.index("rec-2"), deep, name
        if name in known:
            return known.index(name), 0, name
        if name.isdecimal():
            return len(known), int(name), name
        return len(known) + 1, 0, name

    return sorted(set(names), key=place)
