"""The index of a folder: every certificate that is in it, the worst first."""

import dataclasses
import json
import os

import pytest
from pages import HOSTILE, Page
from tightrope.certificates.words import outward

from tightrope.certificates import as_text, to_document, write
from tightrope.certificates.document import document_digest
from tightrope.errors import InputError
from tightrope.reports import write_index, write_page
from tightrope.reports.index import certificate_folders, entries


@pytest.fixture(scope="module")
def fleet(certificate, issue, tmp_path_factory):
    """A good certificate, a worse one without a page, a vacuous one, and two that are broken."""
    folder = tmp_path_factory.mktemp("fleet")
    write(certificate, folder / "a good one", beside=write_page)
    write(issue(scheme="holdout", test_episodes=0), folder / "deeper" / "held out")
    document = {**to_document(certificate), "vacuous": True}
    document["digests"]["certificate"] = document_digest(document)
    (folder / "vacuous").mkdir()
    (folder / "vacuous" / "certificate.json").write_text(as_text(document))
    for name, text in (("broken", "{"), ("changed", as_text({**document, "bound": 1e-9}))):
        (folder / name).mkdir()
        (folder / name / "certificate.json").write_text(text)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "certificate.json").write_text("{")
    return folder


def test_all_certificates_are_listed_the_worst_first_and_the_broken_ones_before(fleet):
    found = entries(fleet)
    assert [entry.name for entry in found] == [
        *("broken", "changed", "vacuous", "deeper/held out", "a good one")
    ]
    keys = [entry.stamp.key for entry in found]
    assert keys[:3] == ["unreadable", "unreadable", "vacuous"]
    assert keys[-1] == "certified"
    assert "expected a certificate" in found[0].problem
    assert "digest" in found[1].problem


def test_among_the_same_stamps_the_larger_number_comes_first(certificate, tmp_path):
    first = certificate.statements[certificate.headline]
    for name, factor in (("small", 0.5), ("large", 0.9), ("middle", 0.7)):
        value = factor * certificate.width
        told = dataclasses.replace(first, value=factor, value_raw=value, rms_raw=value)
        made = dataclasses.replace(certificate, statements=(told,), headline=0)
        write(made, tmp_path / name)
    assert [entry.name for entry in entries(tmp_path)] == ["large", "middle", "small"]


def test_the_page_has_a_row_for_each_with_its_numbers_and_a_link(fleet, certificate):
    assert len(write_index(fleet)) == 5
    text = (fleet / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    rows = page.found["tr"][1:]
    assert len(rows) == 5
    first = certificate.statements[certificate.headline]
    assert f"≤ {outward(first)}" in rows[-1]
    links = [value for name, value in page.attributes if name == "href" and value != "#content"]
    assert links == [
        *(f"./{name}/certificate.json" for name in ("broken", "changed", "vacuous")),
        "./deeper/held%20out/certificate.json",
        "./a%20good%20one/report.html",
    ]
    for link in links:
        assert (fleet / link.replace("%20", " ")).is_file()
    assert page.open == []


@pytest.mark.skipif(os.name == "nt", reason="no such names")
def test_hostile_names_of_folders_and_policies_are_text(hostile, certificate, tmp_path):
    named = dataclasses.replace(hostile, statements=certificate.statements)
    for name in ("javascript:alert(1)", '"><img src=x onerror=alert(1)>'):
        write(named, tmp_path / name)
    write_index(tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    links = [value for name, value in page.attributes if name == "href"]
    assert "./javascript%3Aalert%281%29/certificate.json" in links
    assert all(link.startswith(("./", "#")) for link in links)
    assert HOSTILE in page.found["td"]


def test_a_folder_without_certificates_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match=r"expected a certificate's folder.*found no certificate"):
        write_index(tmp_path)
    assert os.listdir(tmp_path) == ["notes"]


def test_folders_inside_a_certificate_are_not_looked_into(tmp_path):
    for name in ("a", "a/b", "c/d"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "certificate.json").write_text(json.dumps({}))
    assert certificate_folders(tmp_path) == [tmp_path / "a", tmp_path / "c" / "d"]
