"""A chart as numbers become geometry: scales, ticks and paths in a box of 1000 by 1000.

The page stretches the box to the room that there is and writes the ticks beside it as text, so that
a chart reads the same on a phone, on a desk and on paper. Colours are the style sheet's, by role.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SIDE", "Axis", "Chart", "Series", "Table", "number", "short", "spread"]

SIDE = 1000  # of the box, in its own units

Shape = Literal["line", "steps", "dots", "area", "bars", "rule", "targets"]


@dataclass(frozen=True)
class Axis:
    """One direction of a chart: what it measures, from where to where."""

    name: str
    low: float
    high: float

    @classmethod
    def around(cls, name: str, *values: ArrayLike, zero: bool = False) -> "Axis":
        """An axis that has room for all values, and for 0 if asked."""
        every = np.concatenate([np.ravel(np.asarray(each, float)) for each in values])
        low, high = float(every.min()), float(every.max())
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(name, low if zero and low == 0 else low - room, high + room)

    def place(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where values are, in units of the box; what lies outside stays on its edge."""
        share = (np.asarray(values, float) - self.low) / (self.high - self.low)
        return np.asarray(np.clip(share, 0.0, 1.0) * SIDE)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """About five round values: their place in per cent, and as text."""
        return [(float(self.place(value)) / SIDE * 100, short(value)) for value in self._round()]

    def _round(self) -> list[float]:
        raw = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


@dataclass(frozen=True)
class Series:
    """Something drawn.

    Attributes:
        name: in the legend and the read-out.
        role: of the colour, by the style sheet.
        shape: how it is drawn; an area between `y` and `lower`, a rule across at each `y`.
        x: of the points.
        y: of the points.
        lower: of an area.
        more: further columns of numbers for the read-out, by name.
        read: whether the read-out follows it.
    """

    name: str
    role: str
    shape: Shape
    x: NDArray[Any]
    y: NDArray[Any]
    lower: NDArray[Any] | None = None
    more: dict[str, Sequence[Any]] = field(default_factory=dict)
    read: bool = True


@dataclass(frozen=True)
class Table:
    """The numbers behind a chart, as text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """A chart, what to read from it, and the numbers behind it.

    Attributes:
        key: its name in the page.
        title: what is shown.
        reading: how to read it.
        says: the same as a text alternative: what one would see.
        x: across.
        y: up.
        series: from back to front.
        table: behind it.
        nearest: the read-out goes to the nearest point, or to the nearest along x.
    """

    key: str
    title: str
    reading: str
    says: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    table: Table
    nearest: Literal["x", "point"] = "x"

    @property
    def paths(self) -> list[tuple[Series, str]]:
        """Every series with its path, from back to front."""
        return [(each, self._path(each)) for each in self.series]

    def data(self) -> dict[str, Any]:
        """What the script needs for the read-out."""
        return {
            "x": [self.x.low, self.x.high, self.x.name],
            "y": [self.y.low, self.y.high, self.y.name],
            "nearest": self.nearest,
            "series": [
                {"name": s.name, "role": s.role, "x": plain(s.x), "y": plain(s.y), "more": s.more}
                for s in self.series
                if s.read
            ],
        }

    def _path(self, series: Series) -> str:
        x, y = self.x.place(series.x), SIDE - self.y.place(series.y)
        if series.shape == "area":
            assert series.lower is not None
            lower = SIDE - self.y.place(series.lower)
            return f"{_line(x, y)}L{_line(x[::-1], lower[::-1])[1:]}Z"
        if series.shape == "steps":  # the value from each point on
            return _line(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1])
        if series.shape in ("dots", "targets"):  # caps on lines of next to no length
            return "".join(f"M{_u(a)} {_u(b)}h.1" for a, b in zip(x, y, strict=True))
        if series.shape == "rule":
            return "".join(f"M0 {_u(b)}H{SIDE}" for b in y)
        if series.shape == "bars":  # as wide as the way to the next one
            wide = float(np.diff(x).min()) if len(x) > 1 else 10.0
            floor = SIDE - float(self.y.place(0.0))
            return "".join(
                f"M{_u(a - wide / 2)} {_u(floor)}V{_u(b)}h{_u(wide)}V{_u(floor)}Z"
                for a, b in zip(x, y, strict=True)
            )
        return _line(x, y)


def plain(values: NDArray[Any]) -> list[Any]:
    """Numbers for a page: five digits, whole ones without a point."""
    if values.dtype.kind in "iub":
        return [int(value) for value in values]
    found = [float(f"{value:.5g}") for value in values]
    return [int(value) if value == int(value) else value for value in found]


def number(value: float) -> str:
    """Four digits, for reading only; what is promised is rounded outward elsewhere."""
    return _signed(f"{float(f'{value:.4g}'):,.10g}")


def short(value: float) -> str:
    """A tick."""
    small = value != 0 and not 1e-3 <= abs(value) < 1e7
    return _signed(f"{value:.3g}" if small else f"{float(f'{value:.6g}'):,.10g}")


def spread(values: NDArray[Any], most: int) -> NDArray[np.int64]:
    """At most so many indices, in order: evenly by rank, the smallest and the largest included."""
    if len(values) <= most:
        return np.arange(len(values))
    ranks = np.linspace(0, len(values) - 1, most).round().astype(np.int64)
    return np.sort(np.argsort(values, kind="stable")[ranks])


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    return (
        "" if not len(x) else "M" + "L".join(f"{_u(a)} {_u(b)}" for a, b in zip(x, y, strict=True))
    )


def _u(value: float) -> str:
    """A coordinate: a tenth of a unit is less than a pixel."""
    return f"{value:.1f}".removesuffix(".0")
