"""Claims that are planted in a table are found: true, false and undecidable ones."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study_tables import GAPS, study_table, with_bounds, without_tests

from tightrope.errors import InputError
from tightrope.studies.claims import CLAIMS, EVERYTHING, claims, claims_markdown, judge
from tightrope.studies.correlation import mean_correlation
from tightrope.studies.metrics import pearson
from tightrope.studies.pairing import PAIRINGS, student_interval

TIGHTENING = [claim for claim in CLAIMS if claim != "correlation"]
FULL = {"sampling": ("local", "weights"), "episodes": (25, 100), "presets": ("tight",)}


def generator(seed=0):
    return np.random.default_rng(seed)


def verdicts(table):
    """The verdict over everything, by claim."""
    found = claims(table, generator=generator())
    return found[found["preset"] == EVERYTHING].set_index("claim")


@pytest.fixture(scope="module")
def full():
    return study_table(**FULL, repetitions=3)


@pytest.fixture(scope="module")
def judged(full):
    return verdicts(full)


def planted(effect, **axes):
    """A table in which only `effect(row)` makes a difference to the gap, apart from noise."""
    return study_table(**{**FULL, "repetitions": 2, **axes}, gap=lambda row: 0.1 * effect(row))


FACTORS = {  # of the gap, on the claimed side
    "informed-prior": lambda row: row["scheme"] == "nonrec-inf",
    "recursion": lambda row: row["scheme"] == "rec-2",
    "deeper-recursion": lambda row: row["scheme"] == "rec-6",
    "validation-size": lambda row: row["episodes"] == 100,
    "local-reparameterisation": lambda row: row["sampling"] == "local",
    "expertise": lambda row: row["level"] == "expert",
}


def test_a_table_made_as_the_paper_claims_supports_all_seven(judged):
    found = judged
    assert found["verdict"].tolist() == ["supported"] * 7
    assert found.index.tolist() == list(CLAIMS)
    assert (found.loc[TIGHTENING, "high"] < 0).all()
    assert found.loc["correlation", "low"] > 0
    assert (found["low"] <= found["value"]).all()
    assert (found["value"] <= found["high"]).all()


@pytest.mark.parametrize("claim", TIGHTENING)
def test_a_planted_effect_supports_its_claim(claim):
    table = planted(lambda row: 0.5 if FACTORS[claim](row) else 1.0)
    assert verdicts(table).loc[claim, "verdict"] == "supported"


@pytest.mark.parametrize("claim", TIGHTENING)
def test_the_opposite_effect_is_reported_as_a_failed_claim(claim):
    found = verdicts(planted(lambda row: 2.0 if FACTORS[claim](row) else 1.0)).loc[claim]
    assert found["verdict"] == "not supported"
    assert found["low"] > 0
    assert "the data say the opposite" in found["words"]


@pytest.mark.parametrize("claim", TIGHTENING)
def test_effects_that_differ_between_runs_are_undecided(claim):
    """Half of the runs gain as much as the others lose."""
    change = {str(run): 0.05 * (-1) ** run for run in range(6)}
    table = study_table(
        **{**FULL, "repetitions": 1, "environments": ("A",), "instances": tuple(change)},
        gap=lambda row: 0.2 + FACTORS[claim](row) * change[row["instance"]],
        noise=0.01,
    )
    found = verdicts(table).loc[claim]
    assert found["verdict"] == "not supported"
    assert found["low"] < 0 < found["high"]
    assert "undecided" in found["words"]


def test_bounds_that_fall_as_test_errors_rise_contradict_their_correlation(full):
    found = verdicts(with_bounds(full, 0.5 - 5 * full["test_error"])).loc["correlation"]
    assert found["verdict"] == "not supported"
    assert found["high"] < 0
    assert "the data say the opposite" in found["words"]


def test_bounds_that_have_nothing_to_do_with_test_errors_do_not_correlate(full):
    bound = generator(4).uniform(0.3, 0.6, len(full))
    found = verdicts(with_bounds(full, bound)).loc["correlation"]
    assert found["verdict"] == "not supported"
    assert found["low"] < 0 < found["high"]
    assert "undecided" in found["words"]


def test_the_change_and_its_interval_are_those_of_a_plain_loop(full, judged):
    """Repetitions first, then levels, then Student's interval of scipy over training runs."""
    rows = full[(full["sampling"] == "local") & (full["episodes"] == 100)].to_dict("records")
    runs = []
    for environment in sorted({row["environment"] for row in rows}):
        for instance in "012":
            changes = []
            for level in ("starter", "intermediate", "expert"):
                mean = {
                    scheme: np.mean(
                        [
                            row["bound"] - row["test_error"]
                            for row in rows
                            if (row["environment"], row["instance"]) == (environment, instance)
                            and (row["level"], row["scheme"]) == (level, scheme)
                        ]
                    )
                    for scheme in ("nonrec-noninf", "nonrec-inf")
                }
                changes.append(mean["nonrec-inf"] - mean["nonrec-noninf"])
            runs.append(np.mean(changes))
    expected = stats.ttest_1samp(runs, 0).confidence_interval(0.95)
    found = judged.loc["informed-prior"]
    assert found["value"] == pytest.approx(np.mean(runs))
    assert (found["low"], found["high"]) == pytest.approx(tuple(expected))
    assert (found["policies"], found["runs"]) == (18, 6)


def test_the_mean_correlation_is_that_of_a_plain_loop_over_groups(full):
    rows = full[(full["sampling"] == "local") & (full["episodes"] == 100)]
    values = [
        stats.pearsonr(part["bound"], part["test_error"]).statistic
        for _, part in rows.groupby(["environment", "level", "scheme"])
    ]
    found = mean_correlation(full, generator=generator())
    assert found.value == pytest.approx(np.mean(values))
    assert (found.groups, found.policies, found.runs) == (30, 18, 6)
    assert found.positive == sum(value > 0 for value in values)


@pytest.mark.parametrize("spread", [[1.0] * 3, [1.0, 1.0, 1.0, 0.02, 0.02, 0.02]])
def test_no_effect_is_called_support_no_more_often_than_the_interval_allows(spread):
    """Also where the runs of two environments differ fiftyfold in spread."""
    trials, rng = 4000, generator(5)
    values = rng.normal(size=(trials, len(spread))) * spread
    supported = sum(student_interval(row)[2] < 0 for row in values)
    assert supported <= stats.binom.ppf(1 - 1e-3, trials, 0.025)


def test_levels_and_repetitions_are_no_further_runs():
    few = verdicts(study_table(environments=("A",), repetitions=2, presets=("tight",)))
    many = verdicts(study_table(environments=("A",), repetitions=9, presets=("tight",)))
    assert few["runs"].tolist() == many["runs"].tolist() == [3, 3, 3, 3, 0, 0, 3]


@pytest.mark.parametrize("instances", [1, 2])
def test_fewer_than_three_runs_are_too_little_data_whatever_they_say(instances):
    table = study_table(
        **{**FULL, "environments": ("A",), "instances": tuple("01"[:instances])}, repetitions=2
    )
    found = verdicts(table)
    assert found["verdict"].tolist() == ["too little data"] * 7
    assert found[["low", "high"]].isna().all(axis=None)
    assert found.loc["recursion", "words"].startswith(f"{instances} of at least 3 training runs")
    assert "fewer than 3 instances" in found.loc["correlation", "words"]


def test_what_a_table_lacks_is_said():
    table = study_table(schemes=("nonrec-inf", "rec-2"), levels=("expert",), presets=("tight",))
    found = verdicts(table)
    missing = found[found["verdict"] == "too little data"]["words"]
    assert missing.str.partition(";")[0].to_dict() == {
        "informed-prior": "no certificates by nonrec-noninf",
        "deeper-recursion": "one depth of recursion",
        "validation-size": "one number of validation episodes",
        "local-reparameterisation": "one way of sampling",
        "expertise": "no run with both levels, starter and expert",
    }
    assert found.loc["recursion", "verdict"] == "supported"


def test_without_test_errors_nothing_is_decided(full):
    found = verdicts(without_tests(full))
    assert found["verdict"].tolist() == ["too little data"] * 7
    assert found["words"].str.contains("no test errors").all()


def test_some_missing_test_errors_cost_only_their_repetitions(full):
    found = verdicts(without_tests(full, slice(0, len(full), 7)))
    assert found["verdict"].tolist() == ["supported"] * 7


def test_vacuous_bounds_decide_nothing(full):
    """Tightness would be 1 - test error, and praise whichever predictor is worse."""
    found = verdicts(with_bounds(full, 1.0))
    assert found["verdict"].tolist() == ["too little data"] * 7
    assert found.loc["recursion", "words"].startswith("both bounds of every pair are vacuous")
    assert "every bound is vacuous" in found.loc["correlation", "words"]


def test_a_pair_of_vacuous_bounds_counts_as_no_change():
    table = study_table(repetitions=1, levels=("expert",), presets=("tight",))
    vacuous = table["environment"] == "Hopper-v4"
    table = with_bounds(table, np.where(vacuous, 1.0, table["bound"]))
    pairs = PAIRINGS["recursion"](table).rows
    assert pairs["vacuous"].sum() == 3
    assert (pairs["change"][pairs["vacuous"]] == 0).all()
    assert (pairs["change"][~pairs["vacuous"]] < 0).all()
    words = verdicts(table).loc["recursion", "words"]
    assert "3 of 6 pairs vacuous on both sides" in words


def test_a_void_certificate_counts_as_the_bound_of_one_that_it_is():
    """Leaving it out would flatter the scheme that failed."""
    table = study_table(repetitions=2, levels=("expert",), presets=("tight",))
    void = (table["scheme"] == "rec-6") & (table["repetition"] == 0)
    table = with_bounds(table, np.where(void, 1.0, table["bound"])).assign(void=void)
    found = verdicts(table)
    assert found.loc["deeper-recursion", "verdict"] == "not supported"
    assert found.loc["deeper-recursion", "value"] > 0.3
    assert "6 void certificates count as bounds of 1" in found.loc["deeper-recursion", "words"]
    sound = table[~void]
    expected = [pearson(part["bound"], part["test_error"]) for _, part in
                sound.groupby(["environment", "scheme"])]  # fmt: skip
    assert found.loc["correlation", "value"] == pytest.approx(np.mean(expected))


def test_ablations_do_not_enter_the_main_claims(full, judged):
    main = full[(full["sampling"] == "local") & (full["episodes"] == 100)]
    ablations = ["validation-size", "local-reparameterisation"]
    columns = ["value", "low", "high", "policies", "runs", "verdict"]
    whole = judged.drop(ablations)[columns]
    pd.testing.assert_frame_equal(whole, verdicts(main).drop(ablations)[columns])


def test_every_preset_and_unit_is_judged_for_itself_and_all_of_them_together():
    def gap(row):
        deep = row["scheme"] == "rec-6" and row["unit"] == "episode"
        return GAPS[row["scheme"]] * (4.0 if deep else 1.0)

    table = study_table(units=("step", "episode"), repetitions=2, levels=("expert",), gap=gap)
    found = claims(table, generator=generator())
    deeper = found[found["claim"] == "deeper-recursion"]
    slices = deeper[["preset", "unit", "verdict"]].to_numpy().tolist()
    assert slices == [
        ["paper", "episode", "not supported"],
        ["paper", "step", "supported"],
        ["tight", "episode", "not supported"],
        ["tight", "step", "supported"],
        ["all", "all", "not supported"],
    ]
    assert deeper["words"].iloc[-1].endswith("supported in 2 of 4 presets and units")
    assert deeper["value"].iloc[-1] == pytest.approx(deeper["value"].iloc[:-1].mean())
    assert len(found) == 5 * 7


def test_the_schemes_compared_are_named_also_where_depths_are_others():
    table = study_table(schemes=("nonrec-inf", "rec-3", "rec-10"), presets=("tight",))
    found = verdicts(table)
    assert "rec-3 minus nonrec-inf" in found.loc["recursion", "statistic"]
    assert "rec-10 minus rec-3" in found.loc["deeper-recursion", "statistic"]


def test_an_empty_table_gives_seven_verdicts_of_too_little_data():
    found = judge(study_table(repetitions=1)[:0], generator=generator())
    assert [each.verdict for each in found] == ["too little data"] * 7


def test_the_same_seed_gives_the_same_verdicts_in_any_order_of_rows(full, judged):
    shuffled = full.sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(judged, verdicts(shuffled))


def test_markdown_shows_every_judgement_with_its_interval(full):
    found = claims(full, generator=generator())
    text = claims_markdown(found)
    for sentence in CLAIMS.values():
        assert f"## {sentence} Supported." in text
    assert text.count("| supported |") == len(found)
    row = found[found["claim"] == "expertise"].iloc[-1]
    numbers = [f"{row[name]:.3g}".replace("-", "\u2212") for name in ("value", "low", "high")]
    assert f"| {numbers[0]} | {numbers[1]} to {numbers[2]} | 12 | 6 | supported |" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {9}


def test_a_table_of_something_else_is_refused():
    with pytest.raises(InputError, match="columns of a study"):
        claims(pd.DataFrame({"bound": [0.1]}), generator=generator())
