"""The page of a study, taken apart: everything the folder holds is on it, and nothing else runs."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from pages import HOSTILE, Page

from tightrope.errors import InputError
from tightrope.reports import write_study_page
from tightrope.reports.judgements import claims_shown
from tightrope.reports.rows import Certificates
from tightrope.studies.claims import CLAIMS
from tightrope.studies.figures import CHARTS
from tightrope.studies.findings import load_findings


def text_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(text):
    start = text.index('id="data">') + 10
    return json.loads(text[start : text.index("</script>", start)])


def test_claims_figures_counts_and_links_are_all_there(study):
    shown = write_study_page(study)
    text = text_of(study)
    page = Page(text)
    assert page.open == []
    assert page.found["h1"] == ["Study synthetic"]
    cards = page.found[".card"]
    assert len(cards) == len(CLAIMS) == 7
    for sentence, card in zip(CLAIMS.values(), cards, strict=True):
        row = shown.claims[shown.claims["sentence"] == sentence].iloc[-1]
        assert sentence in card
        assert row["verdict"] in card
        assert row["words"][1:] in card
    assert page.tags.count("img") == len(shown.pictures) > 3
    images = [value for name, value in page.attributes if name == "src"]
    assert all(image.startswith("data:image/") for image in images)
    for picture in shown.pictures:
        assert picture.shown.chart.reading in page.found["p"]
    links = [value for name, value in page.attributes if name == "href"]
    files = [link for link in links if link.startswith("./")]
    assert all((study / link).is_file() for link in files)
    assert sum("jobs/certify-" in link for link in files) == len(shown.table)
    numbers = page.found[".numbers"][0]
    assert f"{len(shown.table)}" in numbers
    assert "All 6 jobs are done." in text


def test_the_columns_of_the_script_are_the_table(study):
    table = load_findings(study).table
    write_study_page(study)
    data = data_of(text_of(study))
    assert data["count"] == len(table)
    for name in ("agent", "environment", "level", "scheme", "instance", "episodes"):
        names, codes = data["named"][name]["names"], data["named"][name]["codes"]
        assert [names[code] for code in codes] == table[name].astype(str).tolist()
    shown = np.array(data["numbers"]["bound"])
    assert (shown >= table["bound"]).all()  # rounded up, by less than a thousandth
    assert np.allclose(shown, table["bound"], rtol=1e-3)
    assert np.allclose(data["numbers"]["test_error"], table["test_error"], rtol=1e-4)
    folders, files = data["folders"], data["files"]
    for row, path in enumerate(table["certificate"]):
        place = folders["names"][folders["codes"][row]]
        assert f"{place}/{files['names'][files['codes'][row]]}" == f"./{path}"
    assert data["filters"] == ["level", "scheme", "episodes"]


def test_conditions_have_the_means_of_their_certificates(study):
    found = load_findings(study)
    head, rows = Certificates(found.table, study).conditions(found.metrics)
    place = head.index("mean bound")
    groups = found.table.groupby(["level", "scheme", "episodes"])["bound"].mean()
    assert len(rows) == len(groups)
    for row in rows:
        level, scheme = row.cells[2][0], row.cells[3][0]
        episodes = int(row.cells[head.index("validation episodes")][0])
        assert float(row.cells[place][1]) == pytest.approx(
            groups[level, scheme, episodes], rel=1e-5
        )


def test_every_figure_says_how_to_read_it():
    readings = [chart.reading for chart in CHARTS]
    assert len(set(readings)) == len(CHARTS)
    assert all(reading.endswith(".") and len(reading) > 60 for reading in readings)


def test_the_room_of_an_interval_is_shared_so_that_effects_can_be_compared():
    names = ("claim", "sentence", "preset", "unit", "statistic", "verdict", "words")
    rows = [
        (*(("correlation", "A."), ("informed-prior", "B."), ("recursion", "C."))[k], "all", "all",
         "mean", verdict, words, value, low, high, 6, 3)
        for k, (value, low, high, verdict, words) in enumerate([
            (0.5, 0.25, 0.75, "supported", ""),
            (-0.2, -0.4, 0.0, "not supported", "undecided"),
            (0.05, 0.04, 0.06, "not supported", "the data say the opposite"),
        ])
    ]  # fmt: skip
    judged = pd.DataFrame(rows, columns=[*names, "value", "low", "high", "policies", "runs"])
    one, two, three = claims_shown(judged)
    assert (one.drawn.left, one.drawn.width, one.drawn.point) == (62.5, 25.0, 75.0)
    assert (two.drawn.left, two.drawn.width) == (0.0, 50.0)
    assert three.drawn.point == pytest.approx(50 + 50 * 0.05 / 0.4)
    assert [each.overall.tone for each in (one, two, three)] == [
        *("supported", "unsupported", "opposed")
    ]


def copied(folder, path):
    return shutil.copytree(folder, path, ignore=shutil.ignore_patterns("*.html"))


def test_a_half_finished_study_shows_what_there_is_and_how_far_it_is(study, tmp_path):
    """Its results are not those of its jobs: they are made anew, and only the page is written."""
    folder = copied(study, tmp_path / "half")
    for place in sorted((folder / "jobs").iterdir())[1:]:
        shutil.rmtree(place)
    plan = {"jobs": {"train": 3, "collect": 6, "certify": 6}, "certificates": 48}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "failures").mkdir()
    reason = {"label": "redq Hopper-v4 2 expert", "reason": "the disk is <full>"}
    (folder / "failures" / f"certify-{'a' * 20}.json").write_text(json.dumps(reason))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shown = write_study_page(folder)
    assert shown.results is None
    assert len(shown.table) == 8
    assert set(shown.claims["verdict"]) == {"too little data"}
    text = text_of(folder)
    (folder / "report.html").unlink()
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before
    said = "1 of 15 jobs are done, 1 failed: everything below is from 8 of 48 certificates."
    assert said in text
    assert "failed: certify redq Hopper-v4 2 expert</strong>: the disk is &lt;full&gt;" in text
    links = [str(value) for name, value in Page(text).attributes if name == "href"]
    assert not any("results/" in link for link in links)


def test_results_alone_give_a_page(study, tmp_path):
    folder = copied(study / "results", tmp_path / "kept")
    (folder / "table.parquet").unlink()  # the CSV has it all
    shown = write_study_page(folder)
    assert shown.results == folder
    page = Page(text_of(folder))
    assert page.found["h1"] == ["Study kept"]
    assert not any("jobs/" in str(value) for name, value in page.attributes if name == "href")


def test_hostile_names_and_paths_are_text(hostile_study):
    text = text_of(hostile_study)
    page = Page(text)
    assert page.open == []
    assert page.tags.count("script") == 2
    assert page.found["h1"] == [f"Study {HOSTILE}"]
    links = [str(value) for name, value in page.attributes if name == "href"]
    assert all(link.startswith(("./", "#")) for link in links)
    assert not any("secret" in link or "javascript" in link for link in links)
    assert "\u2028" not in text[text.index('id="data">') :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: shutil.rmtree(f / "jobs"), None),
        (lambda f: (f / "study.json").write_text("{"), "is damaged"),
        (lambda f: (f / "study.json").write_text('{"format": "other/1"}'), "not the folder of a"),
        (lambda f: (f / "plan.json").write_text("[]"), "is damaged"),
        (lambda f: next((f / "jobs").glob("*/job.json")).unlink(), "expected a finished job"),
        (lambda f: next((f / "jobs").glob("*/rows.json")).write_text("[{}]"), "expected the rows"),
    ],
)
def test_a_damaged_folder_is_one_line_and_nothing_is_written(damage, words, study, tmp_path):
    folder = copied(study, tmp_path / "damaged")
    damage(folder)
    before = sorted(os.listdir(folder))
    if words is None:  # without its jobs the results are still there
        assert write_study_page(folder).results == folder / "results"
        return
    with pytest.raises(InputError, match=words) as error:
        write_study_page(folder)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(folder)) == before


def test_a_study_without_a_certificate_is_refused_with_how_far_it_is(study, tmp_path):
    folder = tmp_path / "begun"
    folder.mkdir()
    for name in ("study.json", "plan.json"):
        shutil.copy(study / name, folder)
    with pytest.raises(InputError, match=r"found none yet \(0 of 6 jobs are done\)"):
        write_study_page(folder)
    assert sorted(os.listdir(folder)) == ["plan.json", "study.json"]
