"""The paper's seven claims, tested on a study's own certificates.

Six claims compare two conditions. The certificates of a policy under both are paired, their change
of tightness (bound - test error) is averaged within each training run and over the runs of each
agent in each environment: a stratum. Student's interval over strata decides. Runs of one stratum
share an agent and an environment, so they are averaged first; strata that share an environment are
counted as independent. Presets and units are never pooled.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import pandas as pd

from tightrope.studies.certificate_records import RUN, SLICE, STRATUM
from tightrope.studies.summary_statistics import correlations, main_comparison, mean_interval

__all__ = ["CLAIMS", "PAPER", "ClaimResult", "Comparison", "judge_claims"]

Verdict = Literal["supported", "contradicted", "undecided", "too little data"]
FEWEST_STRATA = 3
# Of each claim: what the paper `reports`, and how it `differs` here and to what effect.
PAPER: dict[str, dict[str, str]] = tomllib.loads(
    files("tightrope.studies").joinpath("paper_reports.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class Comparison:
    """`after` is claimed to be tighter than `before`; both are row filters of the table."""

    before: str
    after: str
    what: str
    same: tuple[str, ...] = ("level",)  # beside agent, environment and instance
    ablation: bool = False  # of all certificates, not of the main comparison alone


CLAIMS: dict[str, tuple[str, Comparison | None]] = {
    "correlation": ("Bounds correlate with test errors.", None),
    "informed-prior": (
        "Informed priors tighten the bound.",
        Comparison("scheme == 'nonrec-noninf'", "scheme == 'nonrec-inf'",
                   "nonrec-inf minus nonrec-noninf"),
    ),
    "recursion": (
        "Recursion tightens the bound.",
        Comparison("scheme == 'nonrec-inf'", "scheme == 'rec-2'", "rec-2 minus nonrec-inf"),
    ),
    "deeper-recursion": (
        "Deeper recursion tightens it more.",
        Comparison("scheme == 'rec-2'", "scheme == 'rec-6'", "rec-6 minus rec-2"),
    ),
    "validation-size": (
        "Larger validation sets tighten the bound.",
        Comparison("episodes == smallest < largest and sampling == 'local'",
                   "episodes == largest > smallest and sampling == 'local'",
                   "largest minus smallest validation set", ("level", "scheme"), ablation=True),
    ),
    "local-reparameterisation": (
        "Local reparameterisation tightens the bound.",
        Comparison("sampling == 'weights'", "sampling == 'local'", "local minus weight sampling",
                   ("level", "scheme", "episodes"), ablation=True),
    ),
    "expertise": (
        "Experts are certified more tightly than starters.",
        Comparison("level == 'starter'", "level == 'expert'", "expert minus starter", ("scheme",)),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ClaimResult:
    """What the certificates of one preset and unit say of one claim.

    Attributes:
        claim: its short name.
        sentence: what it says.
        preset: of the certificates.
        unit: of the certificates.
        statistic: the effect, in words.
        effect: mean over strata; NaN without any.
        low: lower end of its 95 % interval; NaN under two strata.
        high: upper end of the interval.
        strata: agents in environments, behind the interval.
        runs: trainings behind them.
        points: pairs of certificates (means over repetitions) behind them; for the correlation,
            certificates.
        verdict: by the interval; ``too little data`` under three strata.
        note: what else to know.
    """

    claim: str
    sentence: str
    preset: str
    unit: str
    statistic: str
    effect: float
    low: float
    high: float
    strata: int
    runs: int
    points: int
    verdict: Verdict
    note: str


def judge_claims(table: pd.DataFrame) -> list[ClaimResult]:
    """Judge every claim for every preset and unit.

    Args:
        table: of a study.
    """
    return [
        _judged(claim, str(preset), str(unit), part)
        for (preset, unit), part in table.groupby(SLICE, sort=True)
        for claim in CLAIMS
    ]


def _judged(claim: str, preset: str, unit: str, table: pd.DataFrame) -> ClaimResult:
    sentence, comparison = CLAIMS[claim]
    if comparison is None:
        statistic = "mean Pearson's r of bound and test error within each level and scheme"
        strata, runs, points, notes = _correlation(table)
    else:
        statistic = f"mean change of bound - test error, {comparison.what}"
        strata, runs, points, notes = _change(table, comparison)
    found = mean_interval(strata)
    low, high = found.low, found.high
    if comparison is None:  # no r is outside [-1, 1]
        low, high = max(low, -1.0), min(high, 1.0)
    towards, away = (high < 0, low > 0) if comparison else (low > 0, high < 0)
    verdict: Verdict = (
        "too little data" if found.n < FEWEST_STRATA
        else "supported" if towards else "contradicted" if away else "undecided"
    )  # fmt: skip
    return ClaimResult(claim=claim, sentence=sentence, preset=preset, unit=unit,
                       statistic=statistic, effect=found.mean, low=low, high=high,
                       strata=found.n, runs=runs, points=points, verdict=verdict,
                       note="; ".join(notes))  # fmt: skip


Evidence = tuple[pd.Series, int, int, list[str]]  # value of each stratum, runs, points, notes


def _correlation(table: pd.DataFrame) -> Evidence:
    main = main_comparison(table)
    groups = correlations(main, [*STRATUM, "level", "scheme"]).dropna()
    if groups.empty:
        return pd.Series(dtype=float), 0, 0, ["no group with three certificates that differ"]
    strata = groups["r"].groupby(STRATUM).mean()
    used = main.set_index(STRATUM).loc[list(strata.index)].reset_index()
    low, high = groups["points"].min(), groups["points"].max()
    each = f"{low}" if low == high else f"{low} to {high}"
    notes = [
        f"each r is from {each} points",
        f"above 0 in {(groups['r'] > 0).sum()} of {len(groups)}",
    ]
    return strata, len(used.drop_duplicates(RUN)), int(groups["points"].sum()), notes


def _change(table: pd.DataFrame, comparison: Comparison) -> Evidence:
    """The mean change of tightness in every stratum."""
    sizes = table[table["sampling"] == "local"].groupby(STRATUM)["episodes"]
    table = table.join(sizes.agg(smallest="min", largest="max"), on=STRATUM)
    table = (table if comparison.ablation else main_comparison(table)).dropna(subset="tightness")
    keys = [*RUN, *comparison.same]
    before, after = (
        table.query(rows).groupby(keys)[["tightness", "bound", "void"]].mean()
        for rows in (comparison.before, comparison.after)
    )
    ends = ("_before", "_after")
    pairs = before.merge(after, left_index=True, right_index=True, suffixes=ends)
    # Where both bounds are vacuous nothing is certified: 1 - test error would praise the worse.
    vacuous = (pairs["bound_before"] >= 1) & (pairs["bound_after"] >= 1)
    change = (pairs["tightness_after"] - pairs["tightness_before"]).mask(vacuous, 0.0)
    runs = change.groupby(RUN).mean()
    return runs.groupby(STRATUM).mean(), len(runs), len(pairs), [*_notes(runs, pairs, vacuous)]


def _notes(runs: pd.Series, pairs: pd.DataFrame, vacuous: pd.Series) -> Iterator[str]:
    if not len(pairs):
        yield "no pair of certificates"
        return
    yield f"tighter in {int((runs < 0).sum())} of {len(runs)} runs"
    if vacuous.any():
        yield f"{int(vacuous.sum())} of {len(pairs)} pairs vacuous on both sides count as no change"
    void = int(((pairs["void_before"] > 0) | (pairs["void_after"] > 0)).sum())
    if void:
        yield f"{void} pairs with void certificates, which count as bounds of 1"
