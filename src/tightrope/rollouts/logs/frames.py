"""Data frames, one row per step: pandas, polars, or whatever has columns like theirs.

Neither library is imported: a frame is known by what it can do.
"""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.logs.arrays import flags, import_arrays, numbers

__all__ = ["import_frame", "is_frame"]

_WHERE = "the data frame"
_ENDS = (("terminated", "truncated"), ("terminals", "timeouts"))


def is_frame(source: Any) -> bool:
    """Whether an object has named columns that become arrays, as data frames do."""
    return hasattr(source, "columns") and hasattr(source, "to_numpy")


def import_frame(frame: Any) -> Episodes:
    """Episodes from a data frame with one row per step.

    Columns: those whose names start with ``obs`` (``obs_0``, ``observation.x``) are the
    observation, in the order of the columns; ``reward``; ``terminated`` and ``truncated``, or
    ``terminals`` and ``timeouts``, true in the last row of an episode at most; ``episode``, any
    label that is the same in all rows of an episode, which must stand together. Other columns are
    left alone. A last episode without an end is dropped with a warning.

    Raises:
        InputError: a column is missing or holds other than numbers, or the episodes are not whole.
    """
    columns = list(frame.columns)
    observed = [name for name in columns if str(name).startswith("obs")]
    ends = next((pair for pair in _ENDS if set(pair) <= set(columns)), None)
    if not observed or ends is None or not {"reward", "episode"} <= set(columns):
        raise InputError(
            "expected a data frame with the columns episode, reward, terminated and truncated (or "
            "terminals and timeouts) and observations that start with obs (such as obs_0), found "
            + (", ".join(str(name) for name in columns[:20]) or "no columns")
            + (", ..." if len(columns) > 20 else "")
        )
    if len(set(columns)) < len(columns):
        raise InputError("expected a data frame with one column of each name, found one twice")
    terminals, timeouts = (flags(_column(frame, name), name, _WHERE) for name in ends)
    _require_whole(_labels(frame), terminals | timeouts)
    return import_arrays(
        {
            "observations": np.column_stack([_column(frame, name) for name in observed]),
            "rewards": _column(frame, "reward"),
            "terminals": terminals,
            "timeouts": timeouts,
        },
        name=_WHERE,
    )


def _column(frame: Any, name: Any) -> NDArray[Any]:
    values = frame[name].to_numpy()
    if values.dtype == object:  # numbers that may be missing, as pandas keeps them
        values = np.array(values.tolist())
    return numbers(values, f"the column {name}", _WHERE)


def _labels(frame: Any) -> NDArray[Any]:
    labels = np.array(frame["episode"].to_numpy().tolist())
    if labels.dtype.kind not in "biufU" or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise InputError(f"expected a number or text in every row of episode in {_WHERE}")
    return labels


def _require_whole(labels: NDArray[Any], ended: NDArray[np.bool_]) -> None:
    """Raise InputError unless rows of one label stand together and end with a flag.

    The last episode may lack its end; it is dropped later.
    """
    if len(labels) == 0:
        return  # is refused later, too
    changes = np.flatnonzero(labels[1:] != labels[:-1])  # last rows of all episodes but the last
    runs = Counter(labels[[0, *(changes + 1)]].tolist())
    label, count = runs.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"expected the rows of an episode together, found episode {label} in {count} places "
            f"of {_WHERE}: sort by episode and step"
        )
    endless = changes[~ended[changes]]
    if len(endless):
        raise InputError(
            f"expected every episode to end terminated or truncated, found episode "
            f"{labels[endless[0]]} with neither in {_WHERE}"
        )
    last = np.zeros_like(ended)
    last[[*changes, -1]] = True
    early = np.flatnonzero(ended & ~last)
    if len(early):
        raise InputError(
            f"expected an end only in the last row of an episode, found one within episode "
            f"{labels[early[0]]} in {_WHERE}"
        )
