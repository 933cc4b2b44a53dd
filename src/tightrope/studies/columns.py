"""The columns of a study's table: one row per certificate, and what every column means."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tightrope.errors import InputError

__all__ = ["CERTIFICATE", "COLUMNS", "DTYPES", "POLICY", "RUN", "SLICE", "Column", "check"]

Kind = Literal["str", "int", "float", "bool"]


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: of the column.
        kind: of its values; numbers of kind ``float`` may be missing unless `needed`.
        meaning: in one line.
        allowed: the only values there are; empty if any will do.
        needed: whether a missing number is a mistake.
    """

    name: str
    kind: Kind
    meaning: str
    allowed: tuple[str, ...] = ()
    needed: bool = False


PRESET_LABELS = (
    *("paper", "tight"),
    *("paper-without-layer-norm", "tight-without-layer-norm"),
)

COLUMNS = (
    Column("agent", "str", "what the policy was trained with"),
    Column("environment", "str", "id of the environment"),
    Column("instance", "str", "training seed, or name of a policy of one's own"),
    Column("level", "str", "starter, intermediate, expert, or a name of one's own"),
    Column("repetition", "int", "number of the certificate among those of the same request"),
    Column("scheme", "str", "how episodes were divided and which bound came of it"),
    Column("preset", "str", "recipe of the fit", PRESET_LABELS),
    Column("unit", "str", "what counts as independent", ("step", "episode")),
    Column("sampling", "str", "how predictors were drawn", ("local", "weights")),
    Column("episodes", "int", "to fit and to calibrate, together: the validation episodes"),
    Column("bound", "float", "certified mean squared error, normalised: in [0, 1]", needed=True),
    Column("bound_raw", "float", "the same in squared return units"),
    Column("rms_raw", "float", "certified root mean squared error in return units"),
    Column("train_error", "float", "of the predictor on the calibration episodes, normalised"),
    Column("test_error", "float", "on the test episodes, normalised; missing without any"),
    Column("tightness", "float", "bound - test_error"),
    Column(
        "constant_error", "float", "of predicting one constant, on the test episodes, normalised"
    ),
    Column("confidence", "float", "1 - delta - delta', of a whole budget of the ledger"),
    Column("n", "int", "independent units behind the bound"),
    Column("effective_n", "float", "steps worth of information on the loss"),
    Column("kl", "float", "divergence of posteriors from priors, summed over the portions"),
    Column("clipped_share", "float", "of the calibration returns, outside the return range"),
    Column("return_low", "float", "lower end of the return range"),
    Column("return_high", "float", "upper end of the return range"),
    Column("mean_return", "float", "mean undiscounted return of the test episodes"),
    Column("void", "bool", "the recursion contradicts itself: the bound of 1 stands for nothing"),
    Column("seed", "int", "of the certificate"),
    Column("certificate", "str", "relative path of certificate.json; may be empty"),
)

# For DataFrame.astype and read_csv: the seed of a training run is a name, not a number.
DTYPES: dict[str, str] = {
    column.name: {"int": "int64", "float": "float64"}.get(column.kind, column.kind)
    for column in COLUMNS
}

SLICE = ["preset", "unit"]  # never mixed in a figure or table
RUN = ["agent", "environment", "instance"]  # one training: what is independent of the others
POLICY = [*RUN, "level"]  # one stage of it
CERTIFICATE = [*SLICE, *POLICY, "scheme", "sampling", "episodes", "repetition"]

_ROUNDING = 1e-6  # tightness may have been computed in another order, or read from rounded text


def check(table: pd.DataFrame) -> None:
    """Raise unless the table has every column with values that it can have.

    Further columns may be there, and a table without rows is a table.

    Raises:
        InputError: the first mistake: a column that is missing or of another type, a value out of
            its range, or two rows for one certificate.
    """
    missing = [column.name for column in COLUMNS if column.name not in table.columns]
    if missing:
        raise InputError(
            f"expected a table with the columns of a study, found none named {missing[0]!r}"
            f" ({len(missing)} missing): make it with `tightrope study`"
        )
    if len(table):
        for column in COLUMNS:
            _check_column(column, table[column.name])
        _check_rows(table)


def _check_column(column: Column, values: pd.Series) -> None:
    kinds = pd.api.types
    right = {
        "str": kinds.is_string_dtype(values) and not values.isna().any(),
        "int": kinds.is_integer_dtype(values),
        "float": kinds.is_numeric_dtype(values) and not kinds.is_bool_dtype(values),
        "bool": kinds.is_bool_dtype(values),
    }[column.kind]
    if not right:
        raise InputError(
            f"expected {column.name!r} of type {column.kind}, found {values.dtype}"
            f" such as {values.iloc[0]!r}: convert it with astype(DTYPES)"
        )
    if column.allowed and not values.isin(column.allowed).all():
        found = values[~values.isin(column.allowed)].iloc[0]
        raise InputError(
            f"expected {column.name!r} among {', '.join(column.allowed)}, found {found!r}"
        )
    if column.needed and values.isna().any():
        raise InputError(f"expected a number in every row of {column.name!r}, found none in some")


def _check_rows(table: pd.DataFrame) -> None:
    outside = table["bound"][~table["bound"].between(0, 1)]
    if len(outside):
        raise InputError(f"expected a normalised bound in [0, 1], found {outside.iloc[0]}")
    bound, test_error, given = (
        table[name].to_numpy(dtype=float) for name in ("bound", "test_error", "tightness")
    )
    if not np.allclose(given, bound - test_error, rtol=0, atol=_ROUNDING, equal_nan=True):
        raise InputError("expected 'tightness' to be bound - test_error, found another number")
    twice = table[table.duplicated(CERTIFICATE)]
    if len(twice):
        named = ", ".join(f"{name} {twice.iloc[0][name]}" for name in CERTIFICATE)
        raise InputError(f"expected one row per certificate, found two of {named}")
