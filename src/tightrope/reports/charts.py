"""A chart as numbers become geometry: scales, ticks and paths in a box of 1000 by 1000.

The page stretches the box to the room that there is and writes the ticks beside it as text, so that
a chart reads the same on a phone, on a desk and on paper. Colours are the style sheet's, by role.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Axis", "Chart", "Series", "number", "plain", "short", "spread", "typeset"]

_SIDE = 1000  # of the box, in its own units
_ROWS = {"x": 40, "point": 1000}  # of a table, for each series


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
        return np.asarray(np.clip(share, 0.0, 1.0) * _SIDE)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """About five round values: their place in per cent, and as text."""
        raw = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return [(float(self.place(value)) / _SIDE * 100, short(value)) for value in values]


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
        read: whether read-out and table have it.
    """

    name: str
    role: str
    shape: Literal["line", "steps", "dots", "area", "bars", "rule", "targets"]
    x: NDArray[Any]
    y: NDArray[Any]
    lower: NDArray[Any] | None = None
    more: dict[str, Sequence[Any]] = field(default_factory=dict)
    read: bool = True


@dataclass(frozen=True)
class Chart:
    """A chart, and what to see in it.

    Attributes:
        key: its name in the page.
        says: what one would see, as a text alternative.
        x: across.
        y: up.
        series: from back to front.
        nearest: the read-out goes to the nearest point, or to the nearest along x.
    """

    key: str
    says: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    nearest: Literal["x", "point"] = "x"

    @property
    def paths(self) -> list[tuple[Series, str]]:
        """Every series with its path, from back to front."""
        return [(each, self._path(each)) for each in self.series]

    @property
    def table(self) -> list[list[str]]:
        """The numbers behind it, the head first: along a common x, or else point by point."""
        read = [s for s in self.series if s.read]
        at = [np.linspace(0, len(s.x) - 1, min(len(s.x), _ROWS[self.nearest])) for s in read]
        kept = [np.unique(each.astype(np.int64)).tolist() for each in at]
        columns = [[plain(s.x), plain(s.y), *s.more.values()] for s in read]
        if all(s.x is read[0].x for s in read):
            head = [self.x.name, *(s.name for s in read)]
            rows = [[columns[0][0][k], *(own[1][k] for own in columns)] for k in kept[0]]
        else:
            head = ["", self.x.name, self.y.name, *read[0].more]
            rows = [
                [s.name, *(column[k] for column in own)]
                for s, own, points in zip(read, columns, kept, strict=True)
                for k in points
            ]
        return [head, *([number(v) if isinstance(v, float) else str(v) for v in r] for r in rows)]

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
        x, y = self.x.place(series.x), _SIDE - self.y.place(series.y)
        if series.lower is not None:
            lower = _SIDE - self.y.place(series.lower)
            return f"{_line(x, y)}L{_line(x[::-1], lower[::-1])[1:]}Z"
        if series.shape == "steps":  # the value from each point on
            return _line(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1])
        if series.shape in ("dots", "targets"):  # caps on lines of next to no length
            return "".join(f"M{_u(a)} {_u(b)}h.1" for a, b in zip(x, y, strict=True))
        if series.shape == "rule":
            return "".join(f"M0 {_u(b)}H{_SIDE}" for b in y)
        if series.shape == "bars":  # as wide as the way to the next one
            wide = float(np.diff(x).min()) if len(x) > 1 else 10.0
            floor = _u(_SIDE - float(self.y.place(0.0)))
            bar = f"V{{}}h{_u(wide)}V{floor}Z"
            return "".join(
                f"M{_u(a - wide / 2)} {floor}{bar.format(_u(b))}" for a, b in zip(x, y, strict=True)
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
    return typeset(f"{float(f'{value:.4g}'):,.10g}")


def short(value: float) -> str:
    """A tick."""
    small = value != 0 and not 1e-3 <= abs(value) < 1e7
    return typeset(f"{value:.3g}" if small else f"{float(f'{value:.6g}'):,.10g}")


def spread(values: NDArray[Any], most: int) -> NDArray[np.int64]:
    """At most so many indices, in order: evenly by rank, the smallest and the largest included."""
    if len(values) <= most:
        return np.arange(len(values))
    ranks = np.linspace(0, len(values) - 1, most).round().astype(np.int64)
    return np.sort(np.argsort(values, kind="stable")[ranks])


def typeset(text: str) -> str:
    """A text with minus signs in front of its negative numbers."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "\N{MINUS SIGN}", text)


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    return "M" + "L".join(f"{_u(a)} {_u(b)}" for a, b in zip(x, y, strict=True))


def _u(value: float) -> str:
    """A coordinate: a tenth of a unit is less than a pixel."""
    return f"{value:.1f}".removesuffix(".0")
