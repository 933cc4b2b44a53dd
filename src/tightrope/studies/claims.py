"""The paper's seven claims, each judged by the study's own data.

Six claims say that something *tightens*: they are judged by the change of the tightness
(bound − test error) between certificates that differ in that one thing. Changes are averaged over
repetitions, schemes and levels, until each training run gives one number; the interval is
Student's over these. Why this one:

- Runs are what is independent. Levels are stages of one training, schemes use the same episodes.
- Runs of several environments have different spreads. Student's test with α at most 5 % remains
  valid for independent normal values of unequal variances, from two values on (R. Ibragimov and
  U. K. Müller, *t-statistic based correlation and heterogeneity robust inference*, Journal of
  Business & Economic Statistics 28, 2010), and a mean over repetitions, schemes and levels is
  nearer to normal than a single certificate.
- A study has three to a dozen runs. Sign flips cannot reach 95 % below six, and a percentile
  bootstrap of five falls well short of its confidence.

Where both bounds of a pair are vacuous, the change counts as 0: tightness would be 1 − test error
there, and praise the worse predictor. A void certificate counts as the bound of 1 that it is.

That bounds correlate with test errors is judged by the mean of the correlations within each group
(agent, environment, level, scheme), with the bootstrap over training runs of :mod:`.metrics`.

Every interval holds with 95 % for itself. Thirty-five verdicts together do not.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

import numpy as np
import pandas as pd

from tightrope.studies.columns import POLICY, SLICE
from tightrope.studies.correlation import mean_correlation
from tightrope.studies.metrics import CONFIDENCE, FEWEST_INSTANCES
from tightrope.studies.pairing import PAIRINGS, Pairs, run_changes, student_interval
from tightrope.studies.slices import ordered
from tightrope.studies.wording import NONE, rounded

__all__ = ["CLAIMS", "EVERYTHING", "LEGEND", "Judgement", "claims", "claims_markdown", "judge"]

Verdict = Literal["supported", "not supported", "too little data"]

EVERYTHING = "all"  # presets, or units, together

CLAIMS = {
    "correlation": "Bounds correlate with test errors.",
    "informed-prior": "Informed priors tighten the bound.",
    "recursion": "Recursion tightens the bound.",
    "deeper-recursion": "Deeper recursion tightens it more.",
    "validation-size": "Larger validation sets tighten the bound.",
    "local-reparameterisation": "Local reparameterisation tightens the bound.",
    "expertise": "Experts are certified more tightly than starters.",
}


@dataclass(frozen=True)
class Judgement:
    """What the data say of one claim.

    Attributes:
        claim: its short name.
        sentence: what it says.
        preset: of the certificates; ``all`` for every preset together.
        unit: of the certificates; ``all`` for every unit together.
        statistic: that it is judged by.
        value: of the statistic.
        low: lower end of its interval.
        high: upper end of its interval.
        policies: behind the value.
        runs: independent trainings behind the interval.
        verdict: ``supported`` if the whole interval lies on the claimed side of 0.
        words: what else to know, such as why there is too little data.
    """

    claim: str
    sentence: str
    preset: str
    unit: str
    statistic: str
    value: float
    low: float
    high: float
    policies: int
    runs: int
    verdict: Verdict
    words: str


def claims(table: pd.DataFrame, *, generator: np.random.Generator) -> pd.DataFrame:
    """Every judgement, one row each: per preset and unit, and over all of them.

    Raises:
        InputError: it is no table of a study.
    """
    names = [field.name for field in fields(Judgement)]
    return pd.DataFrame([asdict(each) for each in judge(table, generator=generator)], columns=names)


def judge(table: pd.DataFrame, *, generator: np.random.Generator) -> list[Judgement]:
    """Judge every claim, per preset and unit and over all of them.

    Args:
        table: of a study.
        generator: of the bootstrap for correlations.

    Raises:
        InputError: it is no table of a study.
    """
    table = ordered(table)
    parts: list[tuple[str, str, pd.DataFrame]] = [
        (str(preset), str(unit), part) for (preset, unit), part in table.groupby(SLICE, sort=True)
    ]
    if len(parts) != 1:  # else everything is that one part
        parts.append((EVERYTHING, EVERYTHING, table))
    found = []
    for claim in CLAIMS:
        judged: list[Judgement] = []
        for preset, unit, part in parts:
            if claim == "correlation":
                judged.append(_correlation(part, preset, unit, generator))
            else:
                judged.append(_tightening(claim, PAIRINGS[claim](part), part, preset, unit))
        found += _with_overall(judged)
    return found


def claims_markdown(judged: pd.DataFrame) -> str:
    """The judgements as Markdown: a table per claim, the verdict over everything beside its name.

    Args:
        judged: as :func:`claims` gives it.
    """
    blocks = ["# Claims", LEGEND]
    for sentence, rows in judged.groupby("sentence", sort=False):
        last = rows.iloc[-1]
        blocks.append(f"## {sentence} {last['verdict'].capitalize()}.")
        blocks.append(f"Judged by: {last['statistic']}.")
        lines = [
            "| preset | unit | value | 95 % interval | policies | runs | verdict | |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for _, row in rows.iterrows():
            cells = [row["preset"], row["unit"], rounded(row["value"], ".3g"), _interval(row)]
            cells += [str(row["policies"]), str(row["runs"]), row["verdict"], row["words"]]
            lines.append(f"| {' | '.join(cells)} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


LEGEND = f"""\
A claim is *supported* if the whole {CONFIDENCE:.0%} interval of its statistic lies on the claimed
side of 0, *not supported* if it does not, and there is *too little data* with fewer than
{FEWEST_INSTANCES} independent training runs or only vacuous bounds. Each interval holds for
itself, not all of them at once. Errors and bounds are normalised: 1 is the squared width of the
return range.""".replace("%", " %")


def _tightening(claim: str, pairs: Pairs, part: pd.DataFrame, preset: str, unit: str) -> Judgement:
    rows = pairs.rows
    runs = run_changes(rows).to_numpy(dtype=float) if len(rows) else np.empty(0)
    policies = len(rows.drop_duplicates(POLICY)) * (2 if claim == "expertise" else 1)
    value, low, high = float(runs.mean()) if len(runs) else np.nan, np.nan, np.nan
    verdict: Verdict = "too little data"
    if pairs.missing:
        words = [pairs.missing]
    elif rows["vacuous"].all():
        words = ["both bounds of every pair are vacuous"]
    elif len(runs) < FEWEST_INSTANCES:
        words = [_few(len(runs))]
    else:
        value, low, high = student_interval(runs)
        verdict = "supported" if high < 0 else "not supported"
        words = [f"tighter in {int((runs < 0).sum())} of {len(runs)} runs"]
        words += _doubt(low, high, against=low > 0)
        if some := int(rows["vacuous"].sum()):
            words.append(f"{some} of {len(rows)} pairs vacuous on both sides")
    if len(rows):
        words += _void(part)
    return Judgement(
        claim=claim,
        sentence=CLAIMS[claim],
        preset=preset,
        unit=unit,
        statistic=f"mean change of bound - test error, {pairs.what}; below 0 is tighter",
        value=value,
        low=low,
        high=high,
        policies=policies,
        runs=len(runs),
        verdict=verdict,
        words="; ".join(words),
    )


def _correlation(
    part: pd.DataFrame, preset: str, unit: str, generator: np.random.Generator
) -> Judgement:
    found = mean_correlation(part, generator=generator)
    verdict: Verdict = "too little data"
    if np.isnan(found.low):
        words = [found.note]
    else:
        verdict = "supported" if found.low > 0 else "not supported"
        words = [f"above 0 in {found.positive} of {found.groups} groups"]
        words += _doubt(found.low, found.high, against=found.high < 0)
        if found.note:
            words.append(found.note)
    return Judgement(
        claim="correlation",
        sentence=CLAIMS["correlation"],
        preset=preset,
        unit=unit,
        statistic="mean Pearson correlation of bound and test error over instances and repetitions"
        " within each agent, environment, level and scheme",
        value=found.value,
        low=found.low,
        high=found.high,
        policies=found.policies,
        runs=found.runs,
        verdict=verdict,
        words="; ".join(words),
    )


def _with_overall(judged: Sequence[Judgement]) -> list[Judgement]:
    """The last one over everything, with how many of the others support the claim."""
    if len(judged) == 1:
        overall = replace(judged[0], preset=EVERYTHING, unit=EVERYTHING)
        return [overall] if judged[0].preset == EVERYTHING else [judged[0], overall]
    *parts, last = judged
    support = sum(each.verdict == "supported" for each in parts)
    words = f"{last.words}; supported in {support} of {len(parts)} presets and units"
    return [*parts, replace(last, words=words)]


def _doubt(low: float, high: float, *, against: bool) -> list[str]:
    if against:
        return ["the data say the opposite"]
    return ["undecided"] if low <= 0 <= high else []


def _void(part: pd.DataFrame) -> list[str]:
    void = int(part["void"].sum())
    return [f"{void} void certificates count as bounds of 1"] if void else []


def _few(runs: int) -> str:
    return f"{runs} of at least {FEWEST_INSTANCES} training runs"


def _interval(row: pd.Series) -> str:
    if np.isnan(row["low"]):
        return NONE
    return f"{rounded(row['low'], '.3g')} to {rounded(row['high'], '.3g')}"
