"""`tightrope report`: the page of a certificate or a study, drawn anew, or the index of many."""

import os
import shutil
from pathlib import Path

import pytest
from command import run
from study_folders import study_folder
from study_tables import study_table


def test_the_page_is_drawn_anew_byte_for_byte_the_same(certificate, capfd):
    page = certificate / "report.html"
    first = page.read_bytes()
    others = {path: path.read_bytes() for path in certificate.iterdir() if path != page}
    for before in (lambda: None, page.unlink, lambda: page.write_text("all is well")):
        before()
        assert run(capfd, "report", certificate) == (0, f"Written to {page}\n", [])
        assert page.read_bytes() == first
    assert {path: path.read_bytes() for path in certificate.iterdir() if path != page} == others


@pytest.mark.parametrize(
    "name", ["certificate.json", "predictor.safetensors", "rollouts.safetensors"]
)
def test_a_folder_that_was_tampered_with_is_refused_and_its_page_left(name, certificate, capfd):
    """A promise made twice as good, a weight or a reward changed: in each, one byte."""
    page = certificate / "report.html"
    before = page.read_bytes()
    content = bytearray((certificate / name).read_bytes())
    place = content.index(b'"bound": 0.') + 11 if name.endswith("json") else len(content) // 2
    content[place] ^= 1
    (certificate / name).write_bytes(content)
    code, out, said = run(capfd, "report", certificate)
    assert (code, out) == (2, "")
    (line,) = said
    assert line.startswith("tightrope: expected the certificate as it was written in 'certificate'")
    assert name in line
    assert page.read_bytes() == before
    (certificate / name).unlink()
    assert run(capfd, "report", certificate)[0] == 2
    assert page.read_bytes() == before


def test_a_folder_of_certificates_gets_an_index_and_nothing_else_is_touched(certificate, capfd):
    Path("broken").mkdir()
    Path("broken/certificate.json").write_text("{")
    before = {path: path.read_bytes() for path in certificate.iterdir()}
    code, out, said = run(capfd, "report", ".")
    assert (code, said) == (0, [])
    assert out == "Written to index.html (2 certificates, 1 of them unreadable)\n"
    assert "./certificate/report.html" in Path("index.html").read_text(encoding="utf-8")
    assert {path: path.read_bytes() for path in certificate.iterdir()} == before
    assert sorted(os.listdir()) == ["broken", "certificate", "index.html"]


ONE = {"environments": ("Hopper-v4",), "levels": ("expert",), "schemes": ("rec-2",),
       "presets": ("paper",), "repetitions": 1}  # fmt: skip


def test_a_study_gets_its_results_and_page_from_its_jobs_or_from_its_table_alone(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    study_folder(Path("s"), study_table(**ONE))
    said = (0, "Written to s/report.html (3 certificates)\n", [])
    assert run(capfd, "report", "s") == said
    found = {path.relative_to("s"): path.read_bytes() for path in Path("s").rglob("*.*")}
    assert run(capfd, "report", "s") == said
    assert found == {path.relative_to("s"): path.read_bytes() for path in Path("s").rglob("*.*")}

    Path("kept").mkdir()
    shutil.copy("s/results/table.csv", "kept")
    Path("kept/README.md").write_text("mine")
    assert run(capfd, "report", "kept")[0] == 0
    again = {path.relative_to("kept") for path in Path("kept").rglob("*.*")}
    assert {path.relative_to("results") for path in found if "results" in path.parts} < again
    for name in again - {Path("report.html"), Path("README.md")}:
        assert (Path("kept") / name).read_bytes() == found["results" / name]
    assert Path("kept/README.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["study.json", "table.csv"])
def test_a_study_with_nothing_to_show_is_one_line_and_exit_code_2(
    name, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("{")
    code, out, said = run(capfd, "report", ".")
    assert (code, out, len(said)) == (2, "", 1)
    assert "expected a" in said[0]
    assert os.listdir() == [name]
