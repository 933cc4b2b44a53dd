"""Claims that are planted in a table are found: true, false and undecidable ones."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study_tables import study_table, with_bounds, without_tests

from tightrope.studies.claims import CLAIMS, PAPER, judge_claims
from tightrope.studies.summary_statistics import mean_interval

TIGHTENING = [claim for claim in CLAIMS if claim != "correlation"]
FULL = {
    "sampling": ("local", "weights"),
    "episodes": (25, 100),
    "presets": ("tight",),
    "environments": ("A", "B", "C"),
    "repetitions": 2,
}
FACTORS = {  # of the gap, on the claimed side
    "informed-prior": lambda row: row["scheme"] == "nonrec-inf",
    "recursion": lambda row: row["scheme"] == "rec-2",
    "deeper-recursion": lambda row: row["scheme"] == "rec-6",
    "validation-size": lambda row: row["episodes"] == 100,
    "local-reparameterisation": lambda row: row["sampling"] == "local",
    "expertise": lambda row: row["level"] == "expert",
}


def judged(table, preset="tight", unit="step"):
    return {
        found.claim: found
        for found in judge_claims(table)
        if (found.preset, found.unit) == (preset, unit)
    }


@pytest.fixture(scope="module")
def full():
    return study_table(**FULL)


def test_a_table_made_as_the_paper_claims_supports_all_seven(full):
    found = judged(full)
    assert [each.verdict for each in found.values()] == ["supported"] * 7
    assert list(found) == list(CLAIMS) == list(PAPER)
    assert all(found[claim].high < 0 for claim in TIGHTENING)
    assert 0 < found["correlation"].low <= found["correlation"].effect <= 1


@pytest.mark.parametrize("claim", TIGHTENING)
def test_a_planted_effect_is_found_and_so_are_its_opposite_and_none(claim):
    """None: two strata gain as much as the others lose."""

    def verdict(factor, **axes):
        table = study_table(
            **{**FULL, **axes},
            gap=lambda row: 0.1 * (factor(row) if FACTORS[claim](row) else 1.0),
            noise=0.01,
        )
        return judged(table)[claim].verdict

    assert verdict(lambda row: 0.5) == "supported"
    assert verdict(lambda row: 2.0) == "contradicted"
    four = {"environments": ("A", "B", "C", "D"), "repetitions": 1}
    both = {"A": 0.5, "B": 0.5, "C": 1.5, "D": 1.5}
    assert verdict(lambda row: both[row["environment"]], **four) == "undecided"


def test_correlation_is_contradicted_by_opposite_bounds_and_undecided_by_unrelated_ones(full):
    falling = judged(with_bounds(full, 0.5 - 5 * full["test_error"]))["correlation"]
    assert falling.verdict == "contradicted"
    assert -1 <= falling.low <= falling.high < 0
    noise = np.random.default_rng(5).uniform(0.3, 0.6, len(full))
    assert judged(with_bounds(full, noise))["correlation"].verdict == "undecided"


def test_verdicts_never_pool_presets_or_units():
    """Preset paper planted for recursion, preset tight against it: pooled, paper would win."""
    table = study_table(
        environments=("A", "B", "C"),
        units=("step", "episode"),
        schemes=("nonrec-inf", "rec-2"),
        repetitions=1,
        gap=lambda row: (
            {"paper": 0.3, "tight": 0.1}[row["preset"]]
            * ({"paper": 0.5, "tight": 1.5}[row["preset"]] if row["scheme"] == "rec-2" else 1.0)
        ),
        noise=0.01,
    )
    every = judge_claims(table)
    found = [each for each in every if each.claim == "recursion"]
    assert [(each.preset, each.unit, each.verdict) for each in found] == [
        ("paper", "episode", "supported"),
        ("paper", "step", "supported"),
        ("tight", "episode", "contradicted"),
        ("tight", "step", "contradicted"),
    ]
    assert len(every) == 7 * 4
    alone = [each for _, part in table.groupby(["preset", "unit"]) for each in judge_claims(part)]
    assert list(map(str, alone)) == list(map(str, every))  # the others are not used


def test_effect_and_interval_are_those_of_a_plain_loop_over_strata(full):
    """Repetitions, then levels, then the runs of a stratum; Student's interval of scipy."""
    main = full[(full["sampling"] == "local") & (full["episodes"] == 100)]
    strata = []
    for environment in "ABC":
        runs = []
        for instance in "012":
            changes = []
            for level in ("starter", "intermediate", "expert"):
                keys = main[["environment", "instance", "level"]].agg(tuple, axis=1)
                rows = main[keys == (environment, instance, level)]
                mean = {
                    scheme: np.mean(part["bound"] - part["test_error"])
                    for scheme, part in rows.groupby("scheme")
                }
                changes.append(mean["nonrec-inf"] - mean["nonrec-noninf"])
            runs.append(np.mean(changes))
        strata.append(np.mean(runs))
    expected = stats.ttest_1samp(strata, 0).confidence_interval(0.95)
    found = judged(full)["informed-prior"]
    assert found.effect == pytest.approx(np.mean(strata))
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert (found.strata, found.runs, found.points) == (3, 9, 27)


def test_the_correlation_is_the_mean_over_strata_and_says_its_number_of_points(full):
    main = full[(full["sampling"] == "local") & (full["episodes"] == 100)]
    strata = [
        np.mean([
            stats.pearsonr(part["bound"], part["test_error"]).statistic
            for _, part in rows.groupby(["level", "scheme"])
        ])
        for _, rows in main.groupby("environment")
    ]  # fmt: skip
    found = judged(full)["correlation"]
    assert found.effect == pytest.approx(np.mean(strata))
    assert (found.strata, found.runs, found.points) == (3, 9, 3 * 3 * 5 * 6)
    assert found.note.startswith("each r is from 6 points; above 0 in ")


def test_under_three_strata_nothing_is_decided_however_many_runs_agree():
    table = study_table(environments=("A", "B"), instances=tuple(map(str, range(8))), noise=0.01)
    found = judged(table)
    assert {each.verdict for each in found.values()} == {"too little data"}
    assert found["informed-prior"].runs == 16
    assert found["informed-prior"].note.startswith("tighter in 16 of 16 runs")
    assert found["validation-size"].note == "no pair of certificates"
    assert np.isnan(found["validation-size"].effect)


def test_vacuous_pairs_count_as_no_change_and_void_ones_are_told(full):
    void = with_bounds(full, 1.0).assign(void=full["scheme"] == "rec-6")
    for found in (judged(void)[claim] for claim in TIGHTENING):
        assert (found.effect, found.verdict) == (0.0, "undecided")
        assert "pairs vacuous on both sides count as no change" in found.note
    assert "void certificates" in judged(void)["deeper-recursion"].note
    assert judged(void)["correlation"].verdict == "too little data"
    assert all(found.strata == 0 for found in judged(without_tests(full)).values())
    assert judge_claims(full[:0]) == []


def test_the_interval_misses_no_more_often_than_it_says():
    rng = np.random.default_rng(2)
    missed = sum(
        not found.low <= 1.0 <= found.high
        for found in (mean_interval(rng.normal(1.0, 2.0, 4)) for _ in range(2_000))
    )
    assert stats.binomtest(missed, 2_000, 0.05).pvalue > 1e-3
    single = mean_interval([2.0])
    assert (single.mean, single.n) == (2.0, 1)
    assert np.isnan([single.low, single.high]).all()
    assert pd.isna(mean_interval([]).mean)
