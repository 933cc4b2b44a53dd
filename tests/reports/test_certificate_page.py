"""The page of a certificate says what the terminal says, in one file that fetches nothing."""

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pytest
from constructed import certificate as constructed
from constructed import made_up, plain_returns, recorded
from pages import HOSTILE, Page

from tightrope.certificates import load_certificate, write
from tightrope.certificates.certify import certify
from tightrope.certificates.text import claims, rows_of, sentence, summary, title
from tightrope.reports import certificate_page, write_page
from tightrope.rollouts.results_table import ResultsTable


@pytest.fixture(scope="module", params=["default", "recursive"])
def one(request):
    return request.getfixturevalue("certificate" if request.param == "default" else "recursive")


@pytest.fixture(scope="module")
def page(one):
    return Page(certificate_page(one))


def words(text):
    return " ".join(text.replace("\N{MINUS SIGN}", "-").split())


def tight(*parts):
    """Without any space: cells of a table touch each other."""
    return words("".join(parts)).replace(" ", "")


def data_of(text):
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(block)


def test_page_terminal_and_notebook_have_the_same_groups_rows_and_digits(page, one):
    hero, told = words(page.found[".hero"][0]), words(summary(one))
    assert page.found["title"] == page.found["h1"] == [title(one)]
    for claim in claims(one):
        assert words(claim) in told
        assert words(claim) in hero
    rows = [tight(row) for row in page.found["tr"]]
    for row in (row for row in rows_of(one) if row.shown):
        cells = (row.label, " *" if row.marked else "", row.certified, row.estimate, row.n)
        marks = "Stepsaredependent" if row.marked else ""
        assert any(tight(*cells) == text.replace(marks, "").replace("Returnsclipped", "")
                   for text in rows), cells  # fmt: skip
        assert f"{words(row.certified)} {words(row.estimate)}" in told
        if row.group:
            assert any(text.startswith(tight(row.group)) for text in rows)
            assert words(row.group) in told
    assert words(one._repr_html_().replace("&#x27;", "'")) == f"<pre>{told}</pre>"
    assert page.open == []  # every element was closed


def test_every_statement_has_a_card_and_every_portion_a_bar(page, one):
    cards = [words(card) for card in page.found[".card"]]
    assert len(cards) == len(one.statements)
    for s in one.statements:
        (card,) = [card for card in cards if words(sentence(s)) in card]
        assert tight("assumes", s.assumes, "confidence") in tight(card)
        assert ("jointlyoutside" in tight(card)) is (s.joint_confidence is None)
    assert len(page.found[".stack"]) == len(one.portions) + len(one.other_portions)
    for assumption in one.assumptions:
        assert words(assumption) in words(page.found[".assumptions"][0])
    kept = {text for text in page.found["td"] if text in ("held", "violated", "inconclusive")}
    assert kept


@pytest.mark.parametrize(
    ("change", "word", "tone"),
    [
        ({}, "Statements hold jointly", "neutral"),
        ({"per_step_error": 0.0}, "Predictor no better than a mean", "warning"),
        ({"checks": {"drift": 1e-3}}, "Episodes drift", "bad"),
        ({"checks": {"dependence": 1e-3}}, "Steps are dependent", "warning"),
        ({"clipped_share": 0.02}, "Returns clipped", "warning"),
        ({"bound": 1.0}, "Vacuous", "bad"),
    ],
)
def test_marks_say_what_is_wrong_and_nothing_is_green(certificate, change, word, tone):
    quiet = dataclasses.replace(certificate.checks, dependence=1.0, drift=1.0)
    still = {"test_error": 1e-4, "constant_error": 1.0, "per_step_error": 1.0}
    changes = {**still, "clipped_share": 0.0, **change}
    changes["checks"] = dataclasses.replace(quiet, **change.get("checks", {}))
    text = certificate_page(dataclasses.replace(certificate, **changes))
    page = Page(text)
    (hero,) = page.found[".hero"]
    assert word in words(hero)
    others = {"Predictor no better than a mean", "Episodes drift", "Steps are dependent",
              "Returns clipped", "Vacuous"} - {word}  # fmt: skip
    assert not any(other in words(hero) for other in others)
    stamps = re.findall(r'class="stamp tone-(\w+)"[^>]*>([^<]*)<', text)
    assert (tone, word) in stamps
    assert not any(shown in ("good", "certified") for shown, _ in stamps)


def test_it_reads_without_script_and_only_its_own_script_may_run(certificate):
    text = certificate_page(certificate)
    page = Page(text)
    assert len(page.found[".chart"]) == len([t for t in page.found["summary"] if "table" in t]) == 5
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert any(label.startswith("Predicted against observed return. In the") for label in labels)
    assert [name for name, _ in page.attributes].count("hidden") == 2  # episodes, colour scheme
    assert not {"img", "iframe", "link", "object", "embed", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "xlink:href", "src"):
            assert value.startswith("#"), value
    assert not re.search(r"url\(|@import", "".join(page.found["style"]))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = (v for _, v in page.attributes if v and v.startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy


def test_hostile_names_are_text(hostile, certificate):
    text = certificate_page(hostile)
    shown, plain = Page(text), Page(certificate_page(certificate))
    assert "<script>window" not in text
    assert "<img" not in text
    assert set(shown.tags) <= {*plain.tags, "small"}
    assert shown.tags.count("script") == 2
    assert any(f"</ul>{HOSTILE}".replace("\u2028", "\\u2028") in each for each in shown.found["li"])


def test_curves_are_those_of_the_test_episodes_by_a_plain_loop(certificate):
    data = data_of(certificate_page(certificate))
    assert [each["episode"] for each in data["episodes"]] == list(range(100, 120))
    for each in data["episodes"]:
        episode = certificate.rollouts[each["episode"]]
        steps = np.arange(0, len(episode.rewards), 3)
        returns = plain_returns(episode.rewards, 0.5)[steps]
        assert each["step"] == steps.tolist()
        np.testing.assert_allclose(each["observed"], returns, rtol=1e-4, atol=1e-9)
        np.testing.assert_allclose(each["predicted"], episode.observations[steps, 0], rtol=1e-4)
    assert data["episodes"][data["shown"]] == max(data["episodes"], key=lambda e: e["rms"])


def test_the_page_of_many_episodes_stays_small_and_keeps_the_largest_errors(
    certificate, monkeypatch
):
    from tightrope.reports import figures

    monkeypatch.setattr(figures, "_POINTS", 6)
    monkeypatch.setattr(figures, "_LEAST", 2)
    found, full = figures.Figures(certificate), data_of(certificate_page(certificate))
    rms = [each["rms"] for each in full["episodes"]]
    assert len(rms) == 3
    assert max(rms) == pytest.approx(found.seen.rms.max(), rel=1e-4)
    errors, at = np.abs(found.seen.errors), found.seen.pairs.episode
    for each in full["episodes"]:
        drawn = np.abs(np.subtract(each["predicted"], each["observed"]))
        assert len(drawn) <= 2
        assert drawn.max() == pytest.approx(errors[at == each["episode"] - 100].max(), rel=1e-2)


def test_tables_of_results_and_episodes_of_one_step_have_a_page():
    rng = np.random.default_rng(1)
    table = ResultsTable(name="r.csv", returns=rng.normal(250.0, 20.0, 60), keys=np.arange(60),
                         tasks=(("", 60),), success=None, properties={}, candidates=1,
                         ordered=True)  # fmt: skip
    made = certify(table, seed=3)
    shown = Page(certificate_page(made))
    assert len(shown.found[".card"]) == len(made.statements)
    assert ".chart" not in shown.found
    rewards, errors = made_up(episodes=60, shortest=1, longest=3)
    short = constructed(recorded(rewards, errors, terminated=True))
    assert Page(certificate_page(short)).tags.count("svg") >= 5


def test_a_certificate_has_one_page(certificate, tmp_path):
    written = write(certificate, tmp_path / "c", page=write_page)
    text = (tmp_path / "c" / "report.html").read_text("utf-8")
    assert text == certificate_page(written) == certificate_page(load_certificate(tmp_path / "c"))
    write_page(certificate, tmp_path / "c")
    assert (tmp_path / "c" / "report.html").read_text("utf-8") == certificate_page(certificate)
