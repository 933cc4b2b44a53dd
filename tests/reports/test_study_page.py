"""The page of a study, taken apart: all results are on it, and nothing else runs."""

import dataclasses
import shutil

import pytest
from pages import HOSTILE, Page
from study_tables import study_table

from tightrope.reports.study import study_page, write_study_page
from tightrope.studies.claims import CLAIMS, PAPER
from tightrope.studies.paper_figures import READINGS
from tightrope.studies.results import Results, analyse, write_results
from tightrope.studies.summary_statistics import main_comparison


@pytest.fixture(scope="module")
def written(study, tmp_path_factory):
    """A copy of the study's folder with its results and its page."""
    folder = shutil.copytree(study[0], tmp_path_factory.mktemp("written") / "synthetic")
    write_results(study[1], folder / "results")
    write_study_page(study[1], folder)
    return folder


def test_claims_stand_beside_the_paper_with_a_verdict_for_each_preset_and_unit(study, written):
    page = Page((written / "report.html").read_text("utf-8"))
    assert page.open == []
    assert page.found["h1"] == ["Study synthetic"]
    beside, statistics = page.found["table"][:2]
    for key, (sentence, _) in CLAIMS.items():
        assert sentence in beside
        assert PAPER[key]["reports"] in beside
        assert PAPER[key]["differs"] in beside
    rows = [row for row in page.found["tr"] if row in statistics]
    for found in (found for found in study[1].claims if found.strata):
        assert any(
            row.startswith(f"{found.sentence}{found.preset}{found.unit}")
            and f"{found.strata}{found.runs}{found.points}{found.verdict}{found.note}" in row
            for row in rows
        ), found
    assert "Strata can share an environment" in "".join(page.found["p"])
    assert "95 % by itself, not all of them jointly" in "".join(page.found["p"])


def test_every_figure_condition_and_file_is_there(study, written):
    results, page = study[1], Page((written / "report.html").read_text("utf-8"))
    images = [value for name, value in page.attributes if name == "src"]
    assert len(images) == len(results.figures) > 6
    assert all(image.startswith("data:image/svg+xml;base64,") for image in images)
    kinds = {each.kind for each in results.figures.values()}
    assert all((READINGS[kind] in page.found["p"]) is (kind in kinds) for kind in READINGS)
    rows = sum(table.count("redq") for table in page.found["table"][2:])
    assert rows == len(main_comparison(results.conditions)) == 8
    links = [value for name, value in page.attributes if name == "href"]
    files = [link for link in links if link.startswith("./")]
    assert len(files) == 2 * len(images) + 6
    assert all((written / link).is_file() for link in files)


def test_what_failed_is_said_before_anything_else(study, tmp_path):
    failed = {"collect redq Hopper-v4 2 expert": "the disk is <full>"}
    text = study_page(study[1], tmp_path, failed=failed, blocked=1)
    assert text.index("Unfinished") < text.index("What the paper reports, what we find")
    assert "1 jobs failed, and 1 could not run for that" in text
    assert "<strong>collect redq Hopper-v4 2 expert</strong>: the disk is &lt;full&gt;" in text
    assert "Unfinished" not in study_page(study[1], tmp_path)


def test_hostile_names_are_text_and_results_without_figures_have_a_page(tmp_path):
    table = study_table(agents=(HOSTILE,), environments=(f"</script>{HOSTILE}",),
                        levels=(HOSTILE,), schemes=("rec-2",), presets=("paper",),
                        repetitions=1)  # fmt: skip
    results = analyse(table)
    assert isinstance(results, Results)
    (tmp_path / "study.json").write_text('{"name": "<b>", "about": "</p><script>"}')
    for each in (results, dataclasses.replace(results, figures={})):
        page = Page(study_page(each, tmp_path))
        assert page.open == []
        assert page.tags.count("script") == 1
        assert page.found["h1"] == ["Study <b>"]
        assert page.tags.count("img") == len(each.figures)
        links = [str(value) for name, value in page.attributes if name == "href"]
        assert all(link.startswith("#") for link in links)
