"""Domain checks shared by the bounds: the name, the allowed set, the value found."""

from fractions import Fraction
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Bound",
    "FloatArray",
    "counts",
    "failure_probability",
    "fractions",
    "inside",
    "proper_share",
    "scalar_or_array",
]

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


def proper_share(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64, or a ValueError unless all of it lies in the open (0, 1)."""
    array = _as_float(name, value)
    _require(name, array, (array > 0) & (array < 1), "in (0, 1)")
    return array


def failure_probability(name: str, value: ArrayLike) -> FloatArray:
    """A failure probability as float64: in the open (0, 1), since 0 and 1 promise nothing."""
    return proper_share(name, value)


def counts(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64, or a ValueError unless all of it is a whole number of at least 1."""
    array = _as_float(name, value)
    whole = np.isfinite(array) & (array == np.floor(array))
    _require(name, array, whole & (array >= 1), "a whole number of at least 1")
    return array


def fractions(name: str, value: object) -> list[Fraction]:
    """A list of floats or fractions without rounding; a ValueError unless all are in (0, 1]."""
    array = np.asarray(value)
    numbers = (array.astype(np.float64) if array.dtype.kind in "biuf" else array).ravel().tolist()
    if not numbers or not all(isinstance(number, Real) for number in numbers):
        raise ValueError(f"{name} must be one or more real numbers, found {value!r}")
    for number in numbers:
        if not 0 < number <= 1:  # True for NaN
            raise ValueError(f"{name} must be in (0, 1], found {number!r}")
    return [Fraction(number) for number in numbers]


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
