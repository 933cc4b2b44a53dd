"""Data frames and dictionaries of columns, one row per step.

No library is imported: a frame of pandas or polars is known by what it can do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.logs.columns import Chosen, Given
from tightrope.rollouts.logs.tables import Batch, Table, episodes_of

__all__ = ["import_frame", "is_frame"]


def is_frame(source: Any) -> bool:
    """Whether an object has named columns that become arrays, as data frames do."""
    return hasattr(source, "columns") and hasattr(source, "to_numpy")


def import_frame(frame: Any, columns: Given = None) -> Episodes:
    """Episodes from a data frame, or a dictionary of columns, with one row per step.

    Args:
        frame: of pandas or polars, or arrays by name.
        columns: which column is what, such as ``"obs=joint_*,reward=r,episode=run"`` or
            ``{"obs": ["x", "y"], "reward": "r"}``. Roles that are not named go by usual names:
            columns that start with ``obs`` are the observation, in their order; ``reward``;
            ``episode``, any label that is the same in all rows of an episode, which must stand
            together; ``terminated`` and ``truncated``, or ``done``, true in the last row of an
            episode at most; ``step`` and ``success`` if there are such columns. docs/formats.md
            has the whole rule.

    Other columns are left alone. A last episode without an end is dropped with a warning.

    Raises:
        InputError: a column is missing or holds other than numbers, or the episodes are not whole.
    """
    if isinstance(frame, Mapping):
        return episodes_of(_table("the dictionary", list(frame), lambda name: frame[name]), columns)
    get: Callable[[Any], Any] = lambda name: frame[name].to_numpy()  # noqa: E731
    return episodes_of(_table("the data frame", list(frame.columns), get), columns)


def _table(where: str, names: Sequence[Any], get: Callable[[Any], Any]) -> Table:
    own = {str(name): name for name in names}  # pandas allows numbers as names

    def read(chosen: Chosen) -> Iterator[Batch]:
        batch = {name: _array(get(own[name]), name, where) for name in chosen.names}
        rows = len(batch[chosen.episode])
        for name, values in batch.items():
            if len(values) != rows:
                raise InputError(f"expected {rows} rows of {name}, found {len(values)} in {where}")
        yield batch

    kind = where.removeprefix("the ")
    return Table(where, where, kind, tuple(str(name) for name in names), read)


def _array(values: Any, name: str, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype == object:  # numbers that may be missing, as pandas keeps them, or lists
            array = np.array(array.tolist())
    except ValueError as error:  # ragged lists
        raise InputError(
            f"expected numbers in the column {name}, found {one_line(error)} in {where}"
        ) from None
    if array.ndim == 0:
        raise InputError(f"expected a column of numbers in {name}, found {array} in {where}")
    return array
