"""Domain checks shared by the bounds: the name, the allowed set, the value found."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Bound", "FloatArray", "counts", "failure_probability", "inside", "scalar_or_array"]

FloatArray: TypeAlias = NDArray[np.float64]
Bound: TypeAlias = np.float64 | FloatArray  # a scalar for scalar arguments, else an array


def inside(
    name: str,
    value: ArrayLike,
    low: float | FloatArray,
    high: float | FloatArray,
    allowed: str | None = None,
) -> FloatArray:
    """`value` as float64, or a ValueError unless all of it lies in the closed [low, high].

    `allowed` says the set in words where the two ends alone would not help the reader.
    """
    array = _as_float(name, value)
    accepted = (array >= low) & (array <= high)  # False for NaN
    _require(name, array, accepted, allowed or f"in [{low}, {high}]")
    return array


def failure_probability(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64, or a ValueError unless all of it lies in the open (0, 1)."""
    array = _as_float(name, value)
    _require(name, array, (array > 0) & (array < 1), "in (0, 1)")
    return array


def counts(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64, or a ValueError unless all of it is a whole number of at least 1."""
    array = _as_float(name, value)
    whole = np.isfinite(array) & (array == np.floor(array))
    _require(name, array, whole & (array >= 1), "a whole number of at least 1")
    return array


def scalar_or_array(result: FloatArray) -> Bound:
    """A zero-dimensional result as a scalar, anything else as it is."""
    return result[()]


def _as_float(name: str, value: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be real numbers, found {value!r}") from None


def _require(name: str, array: FloatArray, accepted: NDArray[np.bool_], allowed: str) -> None:
    accepted = np.broadcast_to(accepted, np.broadcast_shapes(accepted.shape, array.shape))
    if accepted.all():
        return
    index = tuple(int(i) for i in np.argwhere(~accepted)[0])
    found = np.broadcast_to(array, accepted.shape)[index]
    place = f" at index {index if len(index) > 1 else index[0]}" if array.ndim else ""
    raise ValueError(f"{name} must be {allowed}, found {float(found)!r}{place}")
