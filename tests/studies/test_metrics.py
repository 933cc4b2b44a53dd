"""Metrics of a study, against scipy, plain loops and a simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study_tables import study_table, with_bounds, without_tests

from tightrope.errors import InputError
from tightrope.studies.metrics import (
    correlate,
    expanded_percentiles,
    metrics,
    normalised_bound,
    pearson,
    resampled_pearson,
    tightness,
)


def generator(seed=0):
    return np.random.default_rng(seed)


def clustered(rng, instances, repetitions=5, between=0.8, within=0.3, share=0.7):
    """Pairs of unit variance: a part is common to all repetitions of an instance."""
    common = rng.multivariate_normal([0, 0], [[1, between], [between, 1]], size=(instances, 1))
    own = rng.multivariate_normal([0, 0], [[1, within], [within, 1]], size=(instances, repetitions))
    pairs = np.sqrt(share) * common + np.sqrt(1 - share) * own
    member = np.repeat(np.arange(instances), repetitions)
    return *pairs.reshape(-1, 2).T, member, share * between + (1 - share) * within


def test_the_normalised_bound_is_that_of_the_table():
    table = study_table(repetitions=1)
    again = normalised_bound(table["bound_raw"], table["return_low"], table["return_high"])
    np.testing.assert_allclose(again, table["bound"], rtol=1e-12)
    assert normalised_bound(900.0, 0.0, 10.0) == 1  # a bound above the range is vacuous


def test_a_return_range_without_width_is_refused():
    with pytest.raises(InputError, match="return_high"):
        normalised_bound([1.0, 1.0], [0.0, 0.0], [1.0, 0.0])


def test_tightness_is_the_distance_from_test_error_to_bound():
    np.testing.assert_array_equal(tightness([0.5, 0.25], [0.125, 0.5]), [0.375, -0.25])


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_the_correlation_is_that_of_scipy(offset, scale):
    x, y, _, _ = clustered(generator(), 4)
    x, y = offset * scale + scale * x, y * 1e-3
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, rel=1e-6)


def test_incomplete_pairs_do_not_count():
    x, y, _, _ = clustered(generator(), 4)
    holes_x, holes_y = x.copy(), y.copy()
    holes_x[3], holes_y[7] = np.nan, np.nan
    kept = np.delete(np.arange(len(x)), [3, 7])
    expected = stats.pearsonr(x[kept], y[kept]).statistic
    assert pearson(holes_x, holes_y) == pytest.approx(expected, rel=1e-12)


def test_a_resample_is_the_correlation_of_the_instances_drawn_with_all_their_repetitions():
    x, y, member, _ = clustered(generator(), 4)
    weights = np.array([[1, 1, 1, 1], [2, 0, 1, 1], [0, 4, 0, 0]], float)
    found = resampled_pearson(x, y, member, weights)
    for row, value in zip(weights, found, strict=True):
        rows = [
            place
            for instance, times in enumerate(row)
            for _ in range(int(times))
            for place in np.flatnonzero(member == instance)
        ]
        assert value == pytest.approx(stats.pearsonr(x[rows], y[rows]).statistic, rel=1e-9)


def test_the_interval_is_that_of_a_plain_loop_over_the_same_draws():
    x, y, member, _ = clustered(generator(1), 5)
    found = correlate(x, y, member, generator=generator(7), resamples=300)
    counts = generator(7).multinomial(5, [0.2] * 5, size=300)
    values = []
    for row in counts:
        rows = np.concatenate([np.flatnonzero(member == i) for i in np.repeat(range(5), row)])
        values.append(stats.pearsonr(x[rows], y[rows]).statistic)
    student = stats.t.ppf(0.975, 4)
    tail = stats.norm.cdf(-np.sqrt(5 / 4) * student)
    assert found.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (found.certificates, found.instances, found.note) == (25, 5, "")
    expected = np.quantile(values, [tail, 1 - tail])
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-9)


def test_expanded_percentiles_give_a_mean_the_width_of_students_interval():
    values = generator(3).normal(size=8)
    draws = generator(4).choice(values, size=(200_000, 8)).mean(axis=1)
    low, high = np.quantile(draws, expanded_percentiles(8))
    width = 2 * stats.t.ppf(0.975, 7) * values.std(ddof=1) / np.sqrt(8)
    assert high - low == pytest.approx(width, rel=0.05)


def test_more_repetitions_of_the_same_instances_do_not_shorten_the_interval_to_nothing():
    """Repetitions that only repeat leave the interval as it was."""
    x, y, member, _ = clustered(generator(5), 5, repetitions=2)
    once = correlate(x, y, member, generator=generator())
    often = correlate(np.tile(x, 20), np.tile(y, 20), np.tile(member, 20), generator=generator())
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=1e-6)


@pytest.mark.parametrize("instances", [5, 10])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(instances):
    """95 % less an allowance of 5 points: what a bootstrap of few clusters may fall short by."""
    trials, covered, rng = 250, 0, generator(11)
    for _ in range(trials):
        x, y, member, truth = clustered(rng, instances)
        found = correlate(x, y, member, generator=rng, resamples=1000)
        covered += found.low <= truth <= found.high
    assert covered >= stats.binom.ppf(1e-3, trials, 0.90)


@pytest.mark.parametrize("instances", [1, 2])
def test_fewer_than_three_instances_have_a_value_but_no_interval(instances):
    x, y, member, _ = clustered(generator(), instances)
    found = correlate(x, y, member, generator=generator())
    assert np.isfinite(found.value)
    assert np.isnan([found.low, found.high]).all()
    assert found.note == f"no interval: {instances} of at least 3 instances"


@pytest.mark.parametrize(
    ("bound", "test_error", "why"),
    [
        ([1.0] * 6, range(6), "every bound is 1"),
        ([0.3] * 6, range(6), "the bound is the same"),
        ([0.1 + 0.2, 0.3] * 3, range(6), "the bound is the same"),  # but for rounding
        (range(6), [0.3] * 6, "the test error is the same"),
        (range(6), [np.nan] * 6, "0 certificates with a test error"),
        (range(6), [0.1] + [np.nan] * 5, "1 certificates with a test error"),
    ],
)
def test_an_undefined_correlation_says_why(bound, test_error, why):
    found = correlate(list(bound), list(test_error), list("aabbcc"), generator=generator())
    assert np.isnan([found.value, found.low, found.high]).all()
    assert why in found.note


def test_the_same_seed_gives_the_same_interval_and_the_order_of_rows_does_not_matter():
    table = study_table(environments=("Hopper-v4",), schemes=("rec-2",), presets=("paper",))
    first = metrics(table, generator=generator(1))
    again = metrics(table.sample(frac=1, random_state=0), generator=generator(1))
    pd.testing.assert_frame_equal(first, again)


def test_metrics_of_a_cell_are_those_of_its_rows():
    table = study_table(episodes=(50, 100), schemes=("rec-2", "holdout"), repetitions=3)
    found = metrics(table, generator=generator())
    assert len(found) == 2 * 2 * 3 * 2 * 2  # environments, sizes, levels, schemes, presets
    assert found["main"].sum() == len(found) / 2
    row = found[(found["environment"] == "Hopper-v4") & (found["episodes"] == 50)].iloc[0]
    same = [
        each
        for each in table.to_dict("records")
        if all(each[name] == row[name] for name in ("environment", "episodes", "level", "scheme"))
        and each["preset"] == row["preset"]
    ]
    assert row["certificates"] == len(same) == 9
    assert not row["main"]
    assert row["bound_mean"] == pytest.approx(np.mean([each["bound"] for each in same]))
    assert row["tightness_median"] == pytest.approx(np.median([each["tightness"] for each in same]))
    x, y = ([each[name] for each in same] for name in ("bound", "test_error"))
    assert row["correlation"] == pytest.approx(stats.pearsonr(x, y).statistic)


def test_void_certificates_are_counted_but_not_correlated():
    table = study_table(
        environments=("A",), levels=("expert",), schemes=("rec-2",), presets=("paper",)
    )
    void = np.arange(len(table)) % 4 == 0
    table = with_bounds(table, np.where(void, 1.0, table["bound"])).assign(void=void)
    found = metrics(table, generator=generator()).iloc[0]
    sound = table[~table["void"]]
    assert (found["void"], found["vacuous"], found["certificates"]) == (4, 4, 15)
    expected = stats.pearsonr(sound["bound"], sound["test_error"]).statistic
    assert found["correlation"] == pytest.approx(expected)
    assert found["bound_mean"] == pytest.approx(table["bound"].mean())


def test_without_test_errors_there_are_bounds_but_no_correlations():
    found = metrics(without_tests(study_table(repetitions=1)), generator=generator())
    assert found["bound_mean"].notna().all()
    assert found[["tightness_mean", "correlation", "correlation_low"]].isna().all(axis=None)


def test_an_empty_table_has_no_metrics():
    assert metrics(study_table(repetitions=1)[:0], generator=generator()).empty
