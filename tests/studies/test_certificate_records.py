"""A study's table is read as it was written, from jobs or from its file, or refused."""

import numpy as np
import pandas as pd
import pytest
from study_folders import study_folder
from study_tables import study_table, without_tests

from tightrope.errors import InputError
from tightrope.studies.certificate_records import DTYPES, CertificateRecord, read_table
from tightrope.studies.summary_statistics import conditions, correlations, main_comparison


@pytest.fixture(scope="module")
def table():
    return study_table(environments=("A",), repetitions=1)


def test_jobs_and_the_file_of_results_give_the_same_table(table, tmp_path):
    mixed = without_tests(table, slice(0, 3)).sample(frac=1, random_state=0)
    folder = study_folder(tmp_path / "s", mixed)
    found = read_table(folder)
    assert list(found.columns) == list(DTYPES) == list(CertificateRecord.__annotations__)
    assert len(found) == len(table)
    assert found["certificate"].str.match(r"jobs/certify-[0-9a-f]{20}/\d{4}\.json").all()
    for place in (tmp_path, tmp_path / "whole" / "results"):
        place.mkdir(parents=True, exist_ok=True)
        found.to_csv(place / "table.csv", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path), found)
    pd.testing.assert_frame_equal(read_table(tmp_path / "whole"), found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns=["kl", "void"]), "found none named 'kl' (2 missing)"),
        (lambda t: t.assign(n="many"), "expected column 'n' of type int64"),
        (lambda t: t.assign(unit="hour"), "expected 'unit' among step, episode, found 'hour'"),
        (lambda t: t.assign(bound=1.5), "expected a normalised bound in [0, 1], found 1.5"),
        (lambda t: t.assign(bound=np.nan), "expected a normalised bound in [0, 1], found nan"),
        (lambda t: t.assign(tightness=0.0), "expected 'tightness' to be bound - test_error"),
        (lambda t: pd.concat([t, t[:1]]), "expected one row per certificate, found two of preset"),
        (lambda t: t[:0].drop(columns="n"), "found none named 'n'"),
    ],
)
def test_what_is_no_table_of_a_study_is_refused_with_the_first_mistake(
    table, tmp_path, change, words
):
    change(table).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(InputError) as refused:
        read_table(tmp_path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "bound\n1,2,3\n"])
def test_a_damaged_table_or_row_and_an_empty_folder_are_refused(tmp_path, text):
    with pytest.raises(InputError, match="found none: run `tightrope study`"):
        read_table(tmp_path)
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InputError, match="expected"):
        read_table(tmp_path)
    job = tmp_path / "jobs" / f"certify-{'0' * 20}"
    job.mkdir(parents=True)
    (job / "rows.json").write_text(text or "[{}]")
    with pytest.raises(InputError, match="expected the table of a study in"):
        read_table(tmp_path)


def test_only_certificates_of_one_size_and_sampling_are_compared():
    """The largest set is that of the agent in the environment, and weight sampling is another."""
    table = study_table(sampling=("local", "weights"), episodes=(25, 100), repetitions=1)
    small = table["environment"] == "Hopper-v4"
    some = main_comparison(table[~(small & (table["episodes"] == 100))])
    assert set(some["sampling"]) == {"local"}
    assert some.groupby("environment")["episodes"].unique().map(list).to_dict() == {
        "Hopper-v4": [25],
        "dm_control/reacher-easy-v0": [100],
    }


def test_every_r_has_its_number_of_points_and_few_or_equal_values_have_none(table):
    points = study_table(environments=("A",), levels=("expert",), schemes=("rec-2",),
                         presets=("paper",), repetitions=4)  # fmt: skip
    found = conditions(points).iloc[0]
    assert (found["points"], found["instances"], found["certificates"]) == (12, 3, 12)
    assert found["r"] == pytest.approx(np.corrcoef(points["bound"], points["test_error"])[0, 1])
    assert found["bound"] == pytest.approx(points["bound"].mean())
    by = ["scheme"]
    assert correlations(points[:2], by)["r"].isna().all()
    assert correlations(points.assign(bound=0.5), by)["r"].isna().all()
    assert correlations(points.assign(bound=0.5 + 1e-16), by)["r"].isna().all()
    assert correlations(points.assign(void=True), by).empty
    assert correlations(without_tests(points, slice(0, 5)), by)["points"].tolist() == [7]
