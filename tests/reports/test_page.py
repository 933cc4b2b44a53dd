"""The page of a certificate says what the certificate says, and runs nothing."""

import dataclasses
import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from recordings import recording

from tightrope.certificates import load_certificate, write
from tightrope.certificates.words import headline, outward, percent, sentence, title, up
from tightrope.errors import InputError
from tightrope.reports import certificate_page, write_page

VOID = {"meta", "br", "use", "path", "rect"}  # elements that nothing is in


class Page(HTMLParser):
    """The elements of a page, the text of each by the path of tags to it."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.tags, self.attributes = [], {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
            self.found.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        for tag in set(self.open):
            self.found[tag][-1] += data


@pytest.fixture(scope="module")
def page(certificate):
    return Page(certificate_page(certificate))


def words(text):
    return " ".join(text.split())


def test_the_page_begins_with_who_was_certified_and_the_headline(page, certificate):
    assert page.found["title"] == page.found["h1"] == [title(certificate)]
    assert words(page.found["p"][0]) == words(headline(certificate))
    assert page.open == []  # every element was closed


def test_every_statement_has_a_row_with_its_numbers(page, certificate):
    rows = [words(row) for row in page.found["tr"]][1 : 1 + len(certificate.statements)]
    assert len(certificate.statements) >= 6
    for row, statement in zip(rows, certificate.statements, strict=True):
        assert row.startswith(f"{sentence(statement)}assumes {statement.assumes}")
        assert outward(statement) in row
        assert statement.note in row
        cells = f"{statement.estimate:.4g} {statement.n} {percent(statement.confidence)} "
        assert (
            words(row)
            .replace(" ", "")
            .endswith(f"{cells}{percent(statement.joint_confidence)}".replace(" ", ""))
        )


def test_every_portion_has_a_row(page, certificate):
    rows = [words(row) for row in page.found["tr"]][2 + len(certificate.statements) :]
    for row, portion in zip(rows, certificate.portions, strict=True):
        assert portion.kind in row
        assert up(portion.bound) in row


def test_every_assumption_is_an_item_and_the_words_are_there_in_full(page, certificate):
    assert page.found["li"] == list(certificate.assumptions)
    assert page.found["pre"] == [str(certificate)]


def test_the_figure_is_inside_and_nothing_is_fetched_or_run(page):
    assert page.tags.count("svg") == 1
    assert page.tags.count("path") > 10
    assert not {"script", "img", "iframe", "link", "object", "embed", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "xlink:href", "src"):
            assert value.startswith("#"), value
    assert not re.search(r"url\((?!#)|@import", "".join(page.found["style"]))


HOSTILE = '<script>alert("1")</script>&amp;<img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def hostile(certificate):
    """Names that a stranger chose, wherever a certificate shows some."""
    named = dataclasses.replace(certificate.statements[0], quantity=HOSTILE, note=HOSTILE)
    return dataclasses.replace(
        certificate,
        subject={"policy": {"name": HOSTILE}, "environment": {"id": f"</pre>{HOSTILE}"}},
        assumptions=(*certificate.assumptions, f"</ul>{HOSTILE}"),
        statements=(named, *certificate.statements[1:]),
    )


def test_hostile_names_are_text_and_no_elements(hostile, certificate, page):
    text = certificate_page(hostile)
    shown = Page(text)
    assert "<script" not in text
    assert "<img" not in text
    assert sorted(set(shown.tags)) == sorted(set(page.tags))
    assert len(shown.tags) == len(page.tags) + 1  # the new assumption
    assert shown.found["h1"] == [f"Risk certificate for {HOSTILE} in </pre>{HOSTILE}"]
    assert shown.found["li"][-1] == f"</ul>{HOSTILE}"
    assert html.escape(HOSTILE, quote=False).split("(")[0] in text


def test_the_name_of_a_log_is_escaped_on_the_way_from_the_file(issue):
    made = issue(recording(40, seed=1, subject={"log": "<b>log</b>.npz"}), scheme="holdout")
    assert "<b>" not in certificate_page(made)
    assert "<b>log</b>.npz" in Page(certificate_page(made)).found["h1"][0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"bound": 1.0}, "VACUOUS"), ({"test_error": 1.0}, "FAILED FIT")],
    ids=["vacuous", "failed fit"],
)
def test_a_warning_stands_above_the_claim(changes, said, certificate, page):
    assert not any(words(each).startswith(said) for each in page.found["p"])
    shown = Page(certificate_page(dataclasses.replace(certificate, **changes)))
    assert shown.found["p"][0].startswith(said)


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "rec-2", "preset": "paper"},
        {"scheme": "nonrec-inf"},
        {"scheme": "holdout", "test_episodes": 0, "clock": "off"},
        {"gamma": 1.0, "fail_below": 0.0, "return_floor": -90.0},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_every_kind_of_certificate_has_a_page(options, issue):
    made = issue(**options)
    shown = Page(certificate_page(made))
    assert len(shown.found["li"]) == len(made.assumptions)
    assert len(shown.found["tr"]) == 2 + len(made.statements) + len(made.portions)


def test_the_same_certificate_has_the_same_page(certificate, tmp_path):
    text = certificate_page(certificate)
    assert certificate_page(certificate) == text
    write(certificate, tmp_path / "c")
    write_page(load_certificate(tmp_path / "c"), tmp_path / "c")
    assert (tmp_path / "c" / "report.html").read_text() == text


ELSEWHERE = """
import sys
from pathlib import Path
from tightrope.certificates import load_certificate
from tightrope.reports import write_page
write_page(load_certificate(sys.argv[1]), Path(sys.argv[1]))
"""


def test_another_process_with_another_locale_and_hash_seed_draws_the_same_page(
    certificate, tmp_path
):
    named = dataclasses.replace(certificate, subject={"log": "größe.npz"})
    write(named, tmp_path / "c")
    elsewhere = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "c")],
        check=True,
        env={**os.environ, **elsewhere, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
    )
    found = (tmp_path / "c" / "report.html").read_text(encoding="utf-8")
    assert found == certificate_page(load_certificate(tmp_path / "c"))
    assert "größe.npz" in found


def test_another_certificate_has_another_page(certificate, issue):
    """The comparison above can fail."""
    assert certificate_page(issue(seed=1)) != certificate_page(certificate)


def test_a_page_that_cannot_be_written_leaves_the_old_one(certificate, tmp_path, monkeypatch):
    def full(path, text):
        path.write_text(text[:100])
        raise OSError(28, "No space left on device")

    write_page(certificate, tmp_path)
    before = (tmp_path / "report.html").read_bytes()
    monkeypatch.setattr("tightrope.reports.page._write", full)
    with pytest.raises(InputError, match=r"cannot write .*report\.html.*No space left on device"):
        write_page(certificate, tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]
