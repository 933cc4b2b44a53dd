"""The index of a folder: every certificate that is in it, the worst first."""

import dataclasses
import json
import os

import pytest
from pages import HOSTILE, Page

from tightrope.certificates import write
from tightrope.certificates.text import rows_of
from tightrope.errors import InputError
from tightrope.reports import write_index, write_page
from tightrope.reports.index import certificate_folders, entries


@pytest.fixture(scope="module")
def fleet(certificate, recursive, tmp_path_factory):
    """Two certificates, one with a page, a vacuous one, and two that are broken."""
    folder = tmp_path_factory.mktemp("fleet")
    sound = dataclasses.replace(certificate, clipped_share=0.0, test_error=1e-4, per_step_error=1.0)
    write(sound, folder / "a good one", page=write_page)
    write(recursive, folder / "deeper" / "recursion")
    write(dataclasses.replace(certificate, bound=1.0), folder / "vacuous")
    text = (folder / "vacuous" / "certificate.json").read_text()
    for name, broken in (("broken", "{"), ("changed", text.replace('"seed": 1', '"seed": 2'))):
        (folder / name).mkdir()
        (folder / name / "certificate.json").write_text(broken)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "certificate.json").write_text("{")
    return folder


def test_the_worst_certificate_comes_first_and_each_row_has_its_numbers_and_link(
    fleet, certificate
):
    found = entries(fleet)
    names = [entry.name for entry in found]
    assert names == ["broken", "changed", "vacuous", "deeper/recursion", "a good one"]
    assert [entry.status.key for entry in found[:3]] == ["unreadable", "unreadable", "vacuous"]
    assert "expected a certificate" in found[0].problem
    assert "digest" in found[1].problem
    assert write_index(fleet) == found
    page = Page((fleet / "index.html").read_text(encoding="utf-8"))
    assert page.open == []
    rows = page.found["tr"][1:]
    first = next(row for row in rows_of(certificate) if row.index == certificate.headline)
    assert first.certified in rows[-1]
    links = [value for name, value in page.attributes if name == "href" and value != "#content"]
    assert links[-2:] == ["./deeper/recursion/certificate.json", "./a%20good%20one/report.html"]
    assert all((fleet / link.replace("%20", " ")).is_file() for link in links)


@pytest.mark.skipif(os.name == "nt", reason="no such names")
def test_hostile_names_of_folders_and_policies_are_text(hostile, tmp_path):
    for name in ("javascript:alert(1)", '"><img src=x onerror=alert(1)>'):
        write(hostile, tmp_path / name)
    write_index(tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    links = [value for name, value in page.attributes if name == "href"]
    assert "./javascript%3Aalert%281%29/certificate.json" in links
    assert all(link.startswith(("./", "#")) for link in links)
    assert HOSTILE.replace("\u2028", "\\u2028") in page.found["td"]


def test_a_folder_without_certificates_is_refused_and_inside_of_one_nothing_is_sought(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match=r"expected a certificate's folder.*found no certificate"):
        write_index(tmp_path)
    assert os.listdir(tmp_path) == ["notes"]
    for name in ("a", "a/b", "c/d"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "certificate.json").write_text(json.dumps({}))
    assert certificate_folders(tmp_path) == [tmp_path / "a", tmp_path / "c" / "d"]
