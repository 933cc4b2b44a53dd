"""The certificates of a study for the page and its script: columns, dots, and rows of tables."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tightrope.certificates.text import rounded as up
from tightrope.reports.charts import Axis, Chart, Series, number, plain
from tightrope.studies.slices import in_order
from tightrope.studies.wording import MINUS, NONE

__all__ = ["FILTERS", "HOLLOW", "Certificates", "Column", "Condition"]

FILTERS = ("agent", "environment", "level", "scheme", "preset", "unit", "sampling", "episodes")
_ALWAYS = FILTERS[:4]  # shown even where there is only one
_NAMES = {"episodes": "validation episodes"}
LOOKS = 6  # of dots: after the sixth name they begin again
HOLLOW = (1, 3)  # looks that are open: shapes, not colours alone
_KNOWN = {"starter": 0, "intermediate": 1, "expert": 2}  # colours as in the figures
_DECADES = 5.0  # a factor from which on logarithmic axes read better
_STATIC = 100  # rows that are there without script
_CONDITIONS = 400  # rows at most


@dataclass(frozen=True)
class Column:
    """A column of the table of certificates.

    Attributes:
        key: of the values.
        name: in the head.
        text: whether it is text rather than numbers.
    """

    key: str
    name: str
    text: bool = False


@dataclass(frozen=True)
class Condition:
    """A row of the table of conditions: what filters know it by, and its cells with their order."""

    codes: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Certificates:
    """The table of a study, as its page needs it."""

    table: pd.DataFrame
    folder: Path

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The distinct values of every column that is named, in the order of a reader."""
        columns = (*FILTERS, "instance")
        return {name: in_order(name, self.table[name].astype(str)) for name in columns}

    @property
    def filters(self) -> dict[str, list[str]]:
        """The columns that tell certificates apart."""
        return {name: self.names[name] for name in FILTERS if len(self.names[name]) > 1}

    @staticmethod
    def title(column: str) -> str:
        """What a column is called."""
        return _NAMES.get(column, column)

    def code(self, column: str, value: Any) -> int:
        """Place of a value among the names of its column."""
        return self.names[column].index(str(value))

    @cached_property
    def links(self) -> list[str]:
        """To the document of each certificate; empty where it is not there, or not in here."""
        found = []
        for path in self.table["certificate"]:
            parts = PurePosixPath(path).parts
            inside = bool(parts) and ".." not in parts and not PurePosixPath(path).is_absolute()
            there = inside and (self.folder / path).is_file()
            found.append(f"./{quote(path)}" if there else "")  # never a scheme
        return found

    @property
    def columns(self) -> list[Column]:
        """Of the table of certificates; what is the same everywhere is left out."""
        shown = [*_ALWAYS, "instance", *FILTERS[4:]]
        named = [
            Column(name, self.title(name), text=name != "episodes")
            for name in shown
            if name in (*_ALWAYS, "instance") or name in self.filters
        ]
        numbers = [
            Column("repetition", "repetition"),
            Column("bound", "bound"),
            Column("test_error", "test error"),
            Column("tightness", f"bound {MINUS} test error"),
            Column("rms_raw", "certified RMS"),
            Column("mean_return", "mean return"),
        ]
        return [*named, *numbers]

    def data(self) -> dict[str, Any]:
        """The columns for the script: names once, and where each row has which."""
        t = self.table
        named = {}
        for column, names in self.names.items():
            place = {name: code for code, name in enumerate(names)}
            codes = t[column].astype(str).map(place).tolist()
            named[column] = {"names": names, "codes": codes, "looks": _looks(names)}
        numbers: dict[str, list[Any]] = {
            "repetition": t["repetition"].tolist(),
            "bound": [float(up(value)) for value in t["bound"]],
            "rms_raw": [None if math.isnan(value) else float(up(value)) for value in t["rms_raw"]],
            **{name: _plain(t[name]) for name in ("test_error", "tightness", "mean_return")},
            "void": t["void"].astype(int).tolist(),
        }
        places = [link.rpartition("/") for link in self.links]
        folders = sorted({folder for folder, _, _ in places})
        files = sorted({file for _, _, file in places})
        at = {name: code for code, name in enumerate(folders)}, {n: c for c, n in enumerate(files)}
        return {
            "count": len(t),
            "named": named,
            "numbers": numbers,
            "folders": {"names": folders, "codes": [at[0][place] for place, _, _ in places]},
            "files": {"names": files, "codes": [at[1][file] for _, _, file in places]},
            "filters": list(self.filters),
            "titles": {name: self.title(name) for name in FILTERS},
            "columns": [[each.key, each.name, each.text] for each in self.columns],
            "hollow": list(HOLLOW),
        }

    @cached_property
    def dots(self) -> NDArray[np.int64]:
        """Rows that have a dot: with a test error, and not void."""
        there = self.table["test_error"].notna() & ~self.table["void"]
        return np.flatnonzero(there.to_numpy())

    def scatter(self) -> Chart | None:
        """Bound against test error of all that is chosen; None if nothing has a test error."""
        if not len(self.dots):
            return None
        t = self.table.iloc[self.dots]
        bound, error = t["bound"].to_numpy(float), t["test_error"].to_numpy(float)
        positive = bool((bound > 0).all() and (error > 0).all())
        wide = positive and max(np.ptp(np.log(bound)), np.ptp(np.log(error))) > np.log(_DECADES)
        axis = Axis.logarithmic if wide else Axis.around
        x, y = axis("bound (normalised)", bound), axis("test error (normalised)", error)
        series = [_equal(x, y)]
        for level, look in zip(self.names["level"], _looks(self.names["level"]), strict=True):
            rows = np.flatnonzero((t["level"] == level).to_numpy())
            rows = rows[np.argsort(bound[rows], kind="stable")]
            series.append(Series(level, f"look-{look}", "dots", bound[rows], error[rows],
                                 read=False, hollow=look in HOLLOW))  # fmt: skip
        above = int((error > bound).sum())
        without = len(self.table) - len(t)
        missing = f" {without:,} that are void or have no test error are not drawn." * bool(without)
        return Chart(
            key="scatter",
            title="Every certificate: bound and test error",
            reading="One dot per certificate. On the dashed line the test error equals the bound: "
            "the further right of it, the more is paid for being sure; left of it, test episodes "
            "had a larger error than was certified. Point at a dot to see which policy it is, and "
            "all certificates of that policy; a click keeps it. The axes stay the same under every "
            f"filter{', and are logarithmic' if wide else ''}.{missing}",
            says=f"{len(t):,} certificates: bounds from {up(bound.min())} to {up(bound.max())}, "
            f"test errors from {number(error.min())} to {number(error.max())}; the test error is "
            f"above the bound in {above:,}.",
            x=x,
            y=y,
            series=tuple(series),
            table=None,
            nearest="point",
        )

    def static_rows(self) -> list[list[tuple[str, str]]]:
        """The first rows of the table of certificates: text and order of every cell."""
        return [
            [self._cell(column, row) for column in self.columns]
            for _, row in self.table.head(_STATIC).iterrows()
        ]

    def _cell(self, column: Column, row: "pd.Series[Any]") -> tuple[str, str]:
        value = row[column.key]
        if column.key in ("bound", "rms_raw") and row["void"]:
            return "void", ""
        if isinstance(value, float):
            if math.isnan(value):
                return NONE, ""
            shown = up(value) if column.key in ("bound", "rms_raw") else number(value)
            return shown, f"{value:.6g}"
        return str(value), str(value)

    def conditions(self, metrics: pd.DataFrame) -> tuple[list[str], list[Condition]]:
        """Head and rows of the table of conditions, the main slice first.

        Args:
            metrics: as :func:`tightrope.studies.metrics.metrics` gives them.
        """
        named = [name for name in FILTERS if name in _ALWAYS or name in self.filters]
        flaws = [name for name in ("vacuous", "void") if metrics[name].any()]
        head = [*(self.title(name) for name in named), "certificates (instances)", "mean bound",
                "mean test error", f"bound {MINUS} test error, median", "r (95 % interval)",
                *flaws]  # fmt: skip
        place = {
            name: {value: code for code, value in enumerate(self.names[name])} for name in FILTERS
        }
        rows = []
        for each in metrics.to_dict("records"):
            codes = [place[name][str(each[name])] for name in FILTERS]
            cells = [(str(each[name]), str(each[name])) for name in named]
            count = int(each["certificates"])
            cells.append((f"{count:,} ({int(each['instances']):,})", str(count)))
            cells += [
                _number(each[name])
                for name in ("bound_mean", "test_error_mean", "tightness_median")
            ]
            cells += [_correlation(each), *(_count(each[name]) for name in flaws)]
            rows.append((not each["main"], codes, cells))
        rows.sort(key=lambda row: (row[0], row[1]))
        return head, [
            Condition(",".join(map(str, codes)), tuple(cells))
            for _, codes, cells in rows[:_CONDITIONS]
        ]


def _looks(names: list[str]) -> list[int]:
    return [_KNOWN.get(name, place % LOOKS) for place, name in enumerate(names)]


def _equal(x: Axis, y: Axis) -> Series:
    """Where bound and test error are the same: a straight line, both axes being alike."""
    ends = np.array([max(x.low, y.low), min(x.high, y.high)])
    if ends[0] >= ends[1]:
        ends = ends[:0]  # nowhere in this box
    return Series("test error = bound", "limit", "rule-line", ends, ends, read=False)


def _plain(values: "pd.Series[float]") -> list[Any]:
    finite = plain(values.fillna(0.0).to_numpy(float))
    return [
        None if missing else value for value, missing in zip(finite, values.isna(), strict=True)
    ]


def _number(value: float) -> tuple[str, str]:
    return (NONE, "") if pd.isna(value) else (number(value), f"{value:.6g}")


def _count(value: Any) -> tuple[str, str]:
    return f"{int(value):,}", str(int(value))


def _correlation(each: dict[Any, Any]) -> tuple[str, str]:
    value, low, high = (each[f"correlation{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return NONE, ""
    interval = "" if pd.isna(low) else f" ({low:.2f} to {high:.2f})"
    return f"{value:.2f}{interval}".replace("-", MINUS), f"{value:.6g}"
