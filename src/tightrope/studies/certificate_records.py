"""The table of a study: one row per certificate, what every column means, and how it is read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args, get_type_hints

import numpy as np
import pandas as pd

from tightrope.errors import InputError, one_line

if TYPE_CHECKING:
    from tightrope.certificates import Certificate

__all__ = ["CERTIFICATE", "DTYPES", "POLICY", "RUN", "SLICE", "STRATUM", "CertificateRecord",
           "checked_table", "read_table", "record_of"]  # fmt: skip


class CertificateRecord(TypedDict):
    """One row: a certificate of a study.

    Attributes:
        agent: what the policy was trained with.
        environment: its id.
        instance: the training seed, or the name of a policy of your own.
        level: starter, intermediate, expert, or a name of your own.
        repetition: number of the certificate among those with the same options.
        scheme: how episodes were divided, and the bound that follows from it.
        preset: recipe of the fit, and whether the predictor does without layer norm.
        unit: what counts as independent.
        sampling: how predictors were drawn.
        episodes: validation episodes: those to fit and those to calibrate, together.
        bound: certified mean squared error, normalised: in [0, 1].
        bound_raw: the same in squared return units.
        rms_raw: certified root mean squared error in return units.
        train_error: error of the predictor on the calibration episodes, normalised.
        test_error: error on the test episodes, normalised; missing without any.
        tightness: bound - test_error.
        constant_error: error of a constant prediction on the test episodes, normalised.
        confidence: 1 - delta - delta'.
        n: independent units behind the bound.
        effective_n: number of independent steps that would carry the same information on the loss.
        kl: divergence of posteriors from priors, summed over the portions.
        clipped_share: share of the calibration returns outside the return range.
        return_low: lower end of the return range.
        return_high: upper end of the return range.
        mean_return: mean undiscounted return of the test episodes.
        void: whether the recursion contradicts itself: the bound of 1 stands for nothing.
        seed: seed of the certificate.
        certificate: relative path of the certificate's document; may be empty.
    """

    agent: str
    environment: str
    instance: str
    level: str
    repetition: int
    scheme: str
    preset: Literal["paper", "tight", "paper-without-layer-norm", "tight-without-layer-norm"]
    unit: Literal["step", "episode"]
    sampling: Literal["local", "weights"]
    episodes: int
    bound: float
    bound_raw: float
    rms_raw: float
    train_error: float
    test_error: float
    tightness: float
    constant_error: float
    confidence: float
    n: int
    effective_n: float
    kl: float
    clipped_share: float
    return_low: float
    return_high: float
    mean_return: float
    void: bool
    seed: int
    certificate: str


# What a certificate calls by the same name.
_SAME = ("scheme", "unit", "bound", "bound_raw", "rms_raw", "train_error", "test_error",
         "tightness", "constant_error", "confidence", "n", "effective_n", "clipped_share",
         "void")  # fmt: skip
_KINDS = get_type_hints(CertificateRecord)
DTYPES: dict[str, str] = {  # of the columns; the seed of a training is a name, not a number
    name: {int: "int64", float: "float64", bool: "bool"}.get(kind, "str")
    for name, kind in _KINDS.items()
}

SLICE = ["preset", "unit"]  # never mixed in a figure or a claim
STRATUM = ["agent", "environment"]
RUN = [*STRATUM, "instance"]  # one training
POLICY = [*RUN, "level"]  # one stage of it
CERTIFICATE = [*SLICE, *POLICY, "scheme", "sampling", "episodes", "repetition"]

_ROUNDING = 1e-6  # tightness may have been computed in another order, or read from rounded text


def record_of(certificate: "Certificate") -> dict[str, Any]:
    """The row of a certificate that was issued with a predictor, without what a study knows."""
    c, total = certificate, len(certificate.rollouts)
    test = c.rollouts.span(total - c.episodes.test, total)
    norm = "" if c.settings.preset.layer_norm else "-without-layer-norm"
    return {name: getattr(c, name) for name in _SAME} | {
        "preset": f"{c.preset}{norm}",
        "sampling": c.settings.sampling,
        "episodes": c.episodes.validation,
        "kl": sum(portion.kl for portion in c.portions),
        "return_low": c.limits[0],
        "return_high": c.limits[1],
        "mean_return": float(test.returns(1.0).mean()) if len(test) else float("nan"),
        "seed": c.settings.seed,
    }


def read_table(folder: Path) -> pd.DataFrame:
    """The table of a study, from its finished jobs or, where only results are kept, table.csv.

    Args:
        folder: of a study, or of its results.

    Raises:
        InputError: there is no certificate yet, or something is damaged.
    """
    jobs = sorted((folder / "jobs").glob("certify-*/rows.json"))
    files = [folder / "table.csv", folder / "results" / "table.csv"]
    numbers = [name for name, kind in DTYPES.items() if kind != "str"]
    try:
        if jobs:  # paths of certificates become relative to the study's folder
            places = [path.parent.relative_to(folder).as_posix() for path in jobs]
            table = pd.DataFrame(
                {**row, "certificate": f"{place}/{row['certificate']}"}
                for place, path in zip(places, jobs, strict=True)
                for row in json.loads(path.read_text("utf-8"))
            )
        elif kept := [path for path in files if path.is_file()]:
            missing: Any = {name: [""] for name in numbers}
            table = pd.read_csv(
                kept[0],
                dtype={name: kind for name, kind in DTYPES.items() if kind == "str"},
                keep_default_na=False,
                na_values=missing,
            )
        else:
            raise InputError(
                f"expected a study with certificates in {str(folder)!r}, found none: run "
                "`tightrope study`"
            )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"expected the table of a study in {str(folder)!r}, found something else: "
            f"{one_line(error)}"
        ) from None
    return checked_table(table)


def checked_table(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of a study in their order and types, rows in one order.

    Raises:
        InputError: a column is missing or of another type, a value is outside its set, or two rows
            are of one certificate.
    """
    missing = [name for name in DTYPES if name not in table]
    if missing:
        raise InputError(
            f"expected a table with the columns of a study, found none named {missing[0]!r} "
            f"({len(missing)} missing): make it with `tightrope study`"
        )
    for name, kind in DTYPES.items():
        try:
            table = table.astype({name: kind})
        except (ValueError, TypeError) as error:
            raise InputError(
                f"expected column {name!r} of type {kind}: {one_line(error)}"
            ) from None
        allowed = get_args(_KINDS[name]) or table[name].array
        if len(wrong := table[name][~table[name].isin(allowed)]):
            raise InputError(
                f"expected {name!r} among {', '.join(allowed)}, found {wrong.iloc[0]!r}"
            )
    if len(outside := table["bound"][~table["bound"].between(0, 1)]):
        raise InputError(f"expected a normalised bound in [0, 1], found {outside.iloc[0]}")
    difference = table["bound"] - table["test_error"]
    if not np.allclose(table["tightness"], difference, rtol=0, atol=_ROUNDING, equal_nan=True):
        raise InputError("expected 'tightness' to be bound - test_error, found another number")
    if len(twice := table[table.duplicated(CERTIFICATE)]):
        names = ", ".join(f"{name} {twice.iloc[0][name]}" for name in CERTIFICATE)
        raise InputError(f"expected one row per certificate, found two of {names}")
    return table[list(DTYPES)].sort_values(CERTIFICATE, kind="stable", ignore_index=True)
