"""The page of a certificate says what the certificate says, in one file that fetches nothing."""

import base64
import dataclasses
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from pages import HOSTILE, Page
from recordings import recording
from tightrope.certificates.words import headline, outward, percent, title, up

from tightrope.certificates import load_certificate, write
from tightrope.certificates.options import Options
from tightrope.cli.app import parse
from tightrope.errors import InputError
from tightrope.reports import certificate_page, write_page


@pytest.fixture(scope="module")
def page(certificate):
    return Page(certificate_page(certificate))


def words(text):
    return " ".join(text.replace("\N{MINUS SIGN}", "-").split())


def data_of(text):
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(block)


def test_the_page_begins_with_who_was_certified_the_stamp_and_the_headline(page, certificate):
    assert page.found["title"] == page.found["h1"] == [title(certificate)]
    (hero,) = page.found[".hero"]
    assert words(hero).startswith("Certified The headline needs only that episodes are independent")
    assert words(page.found[".claim"][0]) == words(headline(certificate))
    first = certificate.statements[certificate.headline]
    assert f"≤ {outward(first)}" in words(hero)
    assert page.open == []  # every element was closed


def test_every_statement_is_a_card_with_its_numbers_and_the_headline_comes_first(page, certificate):
    cards = [words(card) for card in page.found[".card"]]
    first = certificate.statements[certificate.headline]
    others = [s for s in certificate.statements if s is not first]
    assert len(others) >= 6
    for card, s in zip(cards, [first, *others], strict=True):
        sign = "≤" if s.direction == "at-most" else "≥"
        assert f"{sign} {outward(s)} " in card
        assert re.search(rf"assumes\s*{s.assumes}\s*n\s*{s.n:,}\s*confidence", card)
        assert percent(s.joint_confidence) in card
        assert words(s.note) in card
        assert "What would break it" in card
        if s.share is not None:
            assert f"at least {percent(s.share)} of new episodes" in card


def test_every_portion_has_a_bar_and_a_row_in_both_units(page, certificate):
    rows = [words(row) for row in page.found["tr"]]
    portions = [*certificate.portions, *certificate.other_portions]
    assert len(page.found[".stack"]) == len(portions)
    for portion in portions:
        assert any(portion.kind in row and up(portion.bound) in row for row in rows)


def test_ledger_assumptions_and_the_words_are_there_in_full(page, certificate):
    (items,) = page.found[".assumptions"]
    for each in certificate.assumptions:
        assert each in items
    assert str(certificate) in page.found["pre"]
    rows = page.found["tr"]
    for entry in certificate.ledger:
        assert any(entry.statement in row and f"{entry.failure:.3g}" in row for row in rows)
    assert f"{certificate.effective_n:,.0f} independent ones" in words(" ".join(page.found["p"]))


def test_it_is_read_without_script(page):
    """Curves, ticks and tables are in the file; what needs the script is hidden until it runs."""
    assert page.tags.count("svg") >= 5
    assert len(page.found[".chart"]) == len([t for t in page.found["summary"] if "table" in t]) == 5
    hidden = [name for name, _ in page.attributes].count("hidden")
    assert hidden == 2  # the choice of an episode, and of a colour scheme
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert any(label.startswith("Predicted against observed return. In the") for label in labels)


def test_nothing_is_fetched_and_only_the_page_s_own_script_may_run(certificate):
    text = certificate_page(certificate)
    shown = Page(text)
    assert not {"img", "iframe", "link", "object", "embed", "form"} & set(shown.tags)
    for name, value in shown.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "xlink:href", "src"):
            assert value.startswith("#"), value
    assert not re.search(r"url\(|@import", "".join(shown.found["style"]))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = (v for _, v in shown.attributes if v and v.startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy


def test_hostile_names_are_text_and_no_elements(hostile, page):
    text = certificate_page(hostile)
    shown = Page(text)
    assert "<script>window" not in text
    assert "<img" not in text
    assert set(shown.tags) == set(page.tags)
    assert shown.tags.count("script") == page.tags.count("script") == 2
    assert shown.found["h1"] == [f"Risk certificate for {HOSTILE} in </pre>{HOSTILE}"]
    assert f"</ul>{HOSTILE}" in shown.found["li"]
    assert any(HOSTILE in card for card in shown.found[".card"])  # a kind that nobody knows


def test_the_name_of_a_log_is_escaped_on_the_way_from_the_file(issue):
    made = issue(recording(40, seed=1, subject={"log": "<b>log</b>.npz"}), scheme="holdout")
    assert "<b>" not in certificate_page(made)
    assert "<b>log</b>.npz" in Page(certificate_page(made)).found["h1"][0]


@pytest.mark.parametrize(
    ("changes", "stamp"),
    [
        ({"bound": 1.0}, "Vacuous"),
        ({"test_error": 1.0}, "Predictor no better than a constant"),
    ],
    ids=["vacuous", "failed fit"],
)
def test_the_stamp_says_what_is_wrong(changes, stamp, certificate):
    made = dataclasses.replace(certificate, **changes)
    assert Page(certificate_page(made)).found[".stamp"] == [stamp]


def test_a_headline_on_independent_steps_is_stamped_as_such(certificate):
    kinds = [(s.kind, s.assumes) for s in certificate.statements]
    headline = kinds.index(("mean-risk", "independent steps"))
    shown = Page(certificate_page(dataclasses.replace(certificate, headline=headline)))
    assert shown.found[".stamp"] == ["Rests on independent steps"]


def test_a_void_recursion_is_stamped_void_and_draws_its_negative_parts(issue):
    made = issue(scheme="rec-2")
    below = dataclasses.replace(
        made.portions[-1], value=-0.9, bound=-0.5, mean=-0.4, mean_plus=0.0, mean_minus=0.4
    )
    portions = (*made.portions[:-1], below)
    shown = Page(certificate_page(dataclasses.replace(made, portions=portions, bound=1.0)))
    assert shown.found[".stamp"][0] == "Void"
    assert "void" in words(shown.found[".stacks"][0])
    widths = [v for n, v in shown.attributes if n == "style" and v.startswith("left:")]
    assert all(float(w) >= 0 for style in widths for w in re.findall(r"([-\d.]+)%", style))


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "rec-6", "preset": "paper"},
        {"scheme": "nonrec-inf"},
        {"scheme": "holdout", "test_episodes": 0, "clock": "off"},
        {"scheme": "auto", "test_episodes": 1},
        {"gamma": 1.0, "fail_below": 0.0, "return_floor": -90.0, "unit": "episode"},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_every_kind_of_certificate_has_a_page(options, issue):
    made = issue(**options)
    shown = Page(certificate_page(made))
    assert len(shown.found[".card"]) == len(made.statements)
    assert len(shown.found[".stack"]) == len(made.portions) + len(made.other_portions)
    kept = [text for text in shown.found["td"] if text in ("kept", "within chance")]
    assert bool(kept) == (made.episodes.test > 0)


def test_episodes_of_one_step_have_a_page(issue):
    made = issue(recording(40, steps=[1, 2] * 20, seed=1, terminated=True), thin=1, clock="off")
    assert Page(certificate_page(made)).tags.count("svg") >= 5


def test_long_names_and_many_assumptions_have_a_page(certificate):
    many = tuple(f"Assumption {k} of a long list." for k in range(60))
    subject = {"policy": {"name": "x" * 500}, "environment": {"id": "y" * 300}}
    made = dataclasses.replace(certificate, assumptions=many, subject=subject)
    assert "Assumption 59 of a long list." in certificate_page(made)


def test_the_command_of_the_page_asks_for_the_same_certificate(issue):
    made = issue(scheme="rec-2", unit="episode", return_range=(-9.5, 20.0), delta=0.05)
    (shown,) = (t for t in Page(certificate_page(made)).found["pre"] if "certify LOG" in t)
    _, line = shown.splitlines()
    _, given = parse(shlex.split(line)[1:])
    names = Options.__dataclass_fields__
    asked = Options(**{name: value for name, value in given.kwargs.items() if name in names})
    kept = dataclasses.replace(made.options, device="auto")
    assert dataclasses.replace(asked, device="auto") == kept


def test_the_curves_in_the_page_are_those_of_the_test_episodes(certificate):
    """Against a plain loop over the rewards."""
    data = data_of(certificate_page(certificate))
    assert [each["episode"] for each in data["episodes"]] == list(range(35, 40))
    for each in data["episodes"]:
        episode = list(certificate.rollouts)[each["episode"]]
        total, returns = 0.0, []
        for reward in reversed(episode.rewards):
            total = reward + certificate.options.gamma * total
            returns.insert(0, total)
        steps = np.arange(0, len(returns), certificate.thin)
        predicted = certificate.predictor(episode.observations[steps], elapsed=steps).mean
        assert each["step"] == steps.tolist()
        np.testing.assert_allclose(each["observed"], np.array(returns)[steps], rtol=1e-4, atol=1e-9)
        np.testing.assert_allclose(each["predicted"], predicted, rtol=2e-4, atol=1e-5)
    worst = max(data["episodes"], key=lambda each: each["rms"])
    assert data["episodes"][data["shown"]] == worst


def test_the_page_of_many_long_episodes_stays_small_and_keeps_the_largest_errors(
    certificate, monkeypatch
):
    """The points of an episode become fewer; its largest error is always among them."""
    from tightrope.reports import figures

    monkeypatch.setattr(figures, "_POINTS", 10)
    monkeypatch.setattr(figures, "_LEAST", 2)
    data = data_of(certificate_page(certificate))
    full = figures.Seen.of(certificate).curves
    for index, each in enumerate(data["episodes"]):
        errors = full.errors[full.episode == index]
        assert len(each["step"]) == 2 < len(errors)
        drawn = np.abs(np.subtract(each["predicted"], each["observed"]))
        assert drawn.max() == pytest.approx(np.abs(errors).max(), rel=1e-3)
    monkeypatch.setattr(figures, "_POINTS", 6)  # three of the five episodes
    data = data_of(certificate_page(certificate))
    rms = [each["rms"] for each in data["episodes"]]
    assert len(rms) == 3
    assert max(rms) == pytest.approx(full.rms.max(), rel=1e-4)
    assert min(rms) == pytest.approx(full.rms.min(), rel=1e-4)


def test_the_same_certificate_has_the_same_page(certificate, tmp_path):
    text = certificate_page(certificate)
    assert certificate_page(certificate) == text
    written = write(certificate, tmp_path / "c")
    write_page(load_certificate(tmp_path / "c"), tmp_path / "c")
    assert (tmp_path / "c" / "report.html").read_text() == certificate_page(written)


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
    monkeypatch.setattr("tightrope.reports.render._write", full)
    with pytest.raises(InputError, match=r"cannot write .*report\.html.*No space left on device"):
        write_page(certificate, tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_drift_is_the_verdict_and_dependent_steps_are_said(certificate):
    quiet = dataclasses.replace(certificate.checks, dependence=1.0, drift=1.0)
    for checks, stamp, said in (
        (quiet, False, False),
        (dataclasses.replace(quiet, drift=1e-3), True, False),
        (dataclasses.replace(quiet, dependence=1e-3), False, True),
    ):
        text = certificate_page(dataclasses.replace(certificate, checks=checks))
        verdict = text[text.index('aria-label="Verdict"') : text.index("</section>")]
        assert ("Episodes drift" in verdict) is stamp
        assert ("do not rely on what assumes independent steps" in verdict) is said
