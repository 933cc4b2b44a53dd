"""Means over certificates, with the range of the means of policy instances."""

from collections.abc import Sequence

import pandas as pd

__all__ = ["spread"]


def spread(table: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Per group: mean over instances of their mean over repetitions, lowest and highest of these.

    Three to five instances are too few for a deviation; their range shows all there is to see.
    """
    instances = table.groupby([*by, "instance"])[value].agg(["mean", "count"]).reset_index()
    groups = instances.groupby(list(by))
    return pd.DataFrame(
        {
            value: groups["mean"].mean(),
            "lowest_instance": groups["mean"].min(),
            "highest_instance": groups["mean"].max(),
            "instances": groups["mean"].size(),
            "certificates": groups["count"].sum(),
        }
    ).reset_index()
