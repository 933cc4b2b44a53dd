"""What is printed bounds what was computed; its words are the event; warnings come first."""

import dataclasses
import re
import sys
from decimal import Decimal

import numpy as np
import pytest
from constructed import certificate as constructed
from constructed import made_up, recorded
from matplotlib.figure import Figure
from recordings import certified, recording

from tightrope.certificates import Property, Statement, load_certificate
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.text import (
    details,
    headline,
    limit_text,
    outcome_sentence,
    percent,
    rounded,
    rows_of,
    sentence,
    summary,
)
from tightrope.errors import InputError, printable

OPTIONS = {
    "test_episodes": 3, "thin": 1, "gamma": 0.5, "mc_passes": 2, "fail_below": 0.5,
    "return_floor": -30.0, "seed": 2,
}  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "holdout", "nonrec-inf", "rec-2"])
def certificate(request):
    return certified(recording(47, seed=1), scheme=request.param, **OPTIONS)


# --- rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (8.86918, "8.87"), (0.0301869, "0.0302"), (77.9, "77.9"), (0.1, "0.100"), (1.0, "1.00"),
        (0.0, "0"), (123456, "123,500"), (1234.0000004, "1,235"), (9999.6, "10,000"),
        (-3.00001, "-3.00"), (254.12, "254.2"), (99.96, "100"), (1e-7, "1e-07"), (1e20, "1e+20"),
    ],
)  # fmt: skip
def test_upper_bounds_are_rounded_up(value, printed):
    assert rounded(value) == printed
    assert float(printed.replace(",", "")) >= value


def statement(direction="at-most", value=0.5, **changes):
    given = {
        "name": "undiscounted return", "kind": "return", "target": "undiscounted-return",
        "quantity": "x", "unit": "episode", "direction": direction, "value": value,
        "value_raw": value, "rms_raw": None, "estimate": value, "share": None, "n": 100,
        "assumes": "independent episodes", "confidence": 0.975, "joint_confidence": 0.9,
    }  # fmt: skip
    return Statement(**{**given, **changes})


def test_every_float_is_rounded_to_its_safe_side_and_by_less_than_a_hundredth():
    """As a decimal number, exactly: what a reader sees bounds what was computed."""
    rng = np.random.default_rng(1)
    sizes = 10.0 ** rng.uniform(-12, 12, 500)
    for value in [*sizes.tolist(), *(-sizes).tolist(), *np.round(sizes, 2).tolist()]:
        above, below = (
            Decimal(limit_text(statement(side, value)).replace(",", ""))
            for side in ("at-most", "at-least")
        )
        exact = Decimal(repr(value))
        assert below <= exact <= above
        assert above - below <= abs(exact) / 99 + Decimal("1e-30")


def test_shares_are_rounded_down_and_probabilities_to_a_tenth_on_their_safe_side():
    for share, printed in (
        (0.965, "96.5 %"), (0.9996, "99.9 %"), (0.9, "90 %"), (0.96499, "96.4 %"), (1.0, "100 %")
    ):  # fmt: skip
        assert percent(share) == printed
    for side, value, printed in (
        ("at-most", 0.22001, "22.1 %"), ("at-most", 0.22, "22.0 %"), ("at-least", 0.9999, "99.9 %")
    ):  # fmt: skip
        assert limit_text(statement(side, value, kind="failure")) == printed


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", text.replace(",", ""))]


def test_every_bound_that_is_printed_is_on_its_safe_side(certificate):
    text = details(certificate)
    for each in certificate.statements:
        said = sentence(each)
        assert said in text
        value = each.limit if each.kind != "failure" else 100 * each.value
        promised = numbers(re.split(r" is at (?:most|least) ", said)[-1])[0]
        sign = 1 if each.direction == "at-most" else -1
        assert 0 <= sign * (promised - value) <= max(abs(value) / 99, 0.1)
        if each.share is not None:
            assert said.startswith(f"In at least {percent(each.share)} of new episodes")
            assert each.share - 0.0011 <= numbers(said)[0] / 100 <= each.share + 1e-9
        if each.note:
            assert each.note in text
    for t, portion in enumerate(certificate.portions, start=1):
        (row,) = [line.split() for line in text.splitlines() if line[:7] == f"  {t:>4} "]
        assert (int(row[1]), float(row[3])) == (portion.episodes, round(portion.kl, 2))


# --- the summary --------------------------------------------------------------------------------


def test_the_summary_is_line_by_line_that_of_the_design():
    """First what the policy does, then how well it is predicted; marks where they are due."""
    rewards, errors = made_up(episodes=200, shortest=4)
    found = constructed(
        recorded(rewards, errors, terminated=[True, False] * 100), thin=3, gamma=0.5
    )
    lines = summary(found).splitlines()
    number = r"(-?[\d,]+(\.\d+)?)"
    patterns = [
        r"Risk certificate for constructed in an unnamed environment",
        r"",
        rf"In at least 90 % of new episodes it returns at least {number}, and at most \d+\.\d % "
        r"terminate early\.",
        rf"In at least 95 % its predicted return is off by at most {number} \(RMS over every third "
        r"step\)\.",
        r"All rows but \* hold together with confidence 96\.5 %, for this policy in this "
        r"environment, if episodes are independent and alike\.",
        r".*",
        r"  a new episode +certified +in sample   n",
        r"    terminates early +≤ \d+\.\d % +50\.0 %   150 episodes",
        rf"    undiscounted return, 90 % of episodes +≥ {number} +{number}   150",
        rf"    discounted return, 90 % +≥ {number} +{number}   150",
        r"  its predicted return is off by \(RMS over every third step\)",
        rf"    80 % of episodes +≤ {number} +{number}   150",
        rf"    90 % +≤ {number} +{number}   150",
        rf"    95 % +≤ {number} +{number}   150",
        rf"    mean over episodes, clipped to \[.*\] +≤ {number} +{number}   150",
        rf"    mean over steps \*, clipped +≤ {number} +{number}   \d+ steps",
        rf"    at every third step at once, 90 % +≤ {number} +{number}   150",
        rf"  alarm of the monitor, 90 % +≤ {number} +{number}   150",
        r"\* needs independent steps.*\.",
        r"(A constant prediction|The mean of a step) is off by .*\. 100 of 200 episodes were cut "
        r"by a time limit\. Discount 0\.5, seed 1\.",
        r"Fitted to 50 episodes, calibrated on 150 others: hold-out bounds, no PAC-Bayes\.",
    ]
    assert len(lines) == len(patterns) == 21  # and one of the command
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)
    starts = {
        len(re.match(r".*[≤≥] +\S+( %)?", line)[0]) for line in lines if re.search("[≤≥]", line)
    }
    assert len(starts) == 1  # limits end in one column


def test_rows_have_all_statements_and_details_the_largest_score(certificate):
    rows = rows_of(certificate)
    assert sorted(row.index for row in rows) == list(range(len(certificate.statements)))
    hidden = [certificate.statements[row.index] for row in rows if not row.shown]
    assert [s.kind for s in hidden] == ["tolerance"] * (len(hidden) > 0)
    for row in rows:
        one = certificate.statements[row.index]
        assert row.certified.endswith(limit_text(one))
        assert row.marked is (one.unit == "step")
        assert limit_text(one) in details(certificate)
        if row.shown:
            assert limit_text(one) in summary(certificate)


def test_the_same_numbers_stand_in_a_notebook_and_names_of_others_are_escaped(certificate):
    assert summary(certificate) == str(certificate)
    for line in summary(certificate).splitlines():
        assert line.replace("'", "&#x27;") in certificate._repr_html_().replace("&quot;", '"')
    hostile = "<script>alert(1)</script>\x1b[2J\nAll rows hold"
    named = dataclasses.replace(certificate, subject={"log": hostile})
    assert "<script" not in named._repr_html_()
    assert "\x1b" not in str(named)
    assert str(named).splitlines()[0].endswith("\\x1b[2J\\nAll rows hold in an unnamed environment")
    assert printable("\x1b\n\u202e") == "\\x1b\\n\\u202e"


def test_details_say_who_what_how_sure_and_from_what(certificate):
    c, text = certificate, details(certificate)
    fixed = c.scheme in ("auto", "holdout")
    assert c.pac_bayes is not fixed
    assert ("hold-out bounds, no PAC-Bayes." in text) is fixed
    assert (f"PAC-Bayes bound, scheme {c.scheme}" in text) is not fixed
    for words in (
        *summary(c).splitlines()[:5],
        f"{c.episodes.calibration} calibration, 3 test",
        f"worth {c.effective_n:,.0f} independent ones",
        "time limit of 6 steps",
        "test ",
        *(f"  - {each}" for each in c.assumptions),
        *(f"{entry.source:<12} x {entry.share}" for entry in c.ledger),
    ):
        assert words in text


# --- words that are the event -------------------------------------------------------------------


def test_thinned_steps_are_never_called_every_step():
    """Noise only where thinning does not look: the sentence names the steps that count."""
    rewards = [np.zeros(10) + 0.01 * i for i in range(40)]
    errors = [np.where(np.arange(10) % 5, 9.0, 0.01 * (i % 7)) for i in range(40)]
    found = constructed(recorded(rewards, errors), thin=5)
    assert found.statement("mean over steps").rms_raw < 1 < np.sqrt(np.mean(np.square(errors)))
    text = details(found)
    for each in found.statements:
        if each.target == "error" and each.kind != "monitor":
            assert "every 5th step" in sentence(each)
            assert "all steps" not in sentence(each)
    assert "every step" not in text
    assert "errors at other steps are not covered" in text
    assert "every step at once" in summary(constructed(recorded(rewards, errors), thin=1))


def test_clipping_is_in_every_sentence_that_it_concerns_and_a_mark_says_when_it_matters():
    """A range of 0.001 and an RMS of 0.0003: true of clipped returns alone."""
    rewards, errors = made_up(episodes=60)
    found = constructed(recorded(rewards, errors), return_range=(5.0, 5.001))
    assert found.clipped_share > 0.9
    for each in found.statements:
        clipped = "returns clipped to [5, 5.001]" in sentence(each)
        assert clipped is (each.kind == "mean-risk")
    assert "Returns clipped (" in summary(found)
    assert "clipped to [5, 5.001]" in summary(found)
    assert "clipped" in [status.key for status in found.statuses]


@pytest.mark.parametrize(
    ("options", "success", "words"),
    [
        ({}, None, "terminate early"),
        ({"termination": "failure"}, None, "terminate early"),
        ({"termination": "success"}, None, " % succeed."),
        ({}, [True, False] * 30, " % succeed."),
        ({}, [False] * 60, ", and at least 0.0 % succeed."),  # also where nothing does
        ({"fail_below": 3.0}, None, "return less than 3"),
        ({"fail_below": -1234567.25}, None, "return less than -1234567.25"),
    ],
)
def test_the_first_sentence_names_what_was_counted(options, success, words):
    rewards, _ = made_up(episodes=60)
    found = constructed(
        recorded(rewards, terminated=[True, False] * 30, success=success), **options
    )
    assert words in outcome_sentence(found)


def test_a_headline_on_steps_says_if_they_were_independent():
    rewards, errors = made_up(episodes=60)
    found = constructed(recorded(rewards, errors), scheme="holdout", unit="step")
    assert headline(found).startswith("If steps were independent: its predicted return")
    assert headline(found).replace(" of new episodes", "") in summary(found)
    assert not headline(constructed(recorded(rewards, errors))).startswith("If")


def test_properties_have_rows_and_sentences_of_their_own():
    rewards, errors = made_up(episodes=80)
    own = properties_of({"peak\ntorque"[:4]: Property(lambda e: float(len(e.rewards)), limit=6.0)})
    found = constructed(
        measure_properties(recorded(rewards, errors), own), properties=own, fit_episodes=20
    )
    text = summary(found)
    assert re.search(r"    peak, 80 % +≤ ", text)
    assert re.search(r"    peak is above 6 +≤ \d+\.\d % ", text)
    assert "the peak is at most" in details(found)


# --- warnings come first ------------------------------------------------------------------------


def test_a_vacuous_bound_and_a_failed_fit_are_said_before_the_rows(certificate):
    bad = dataclasses.replace(
        certificate, bound=1.0, test_error=0.3, constant_error=0.2, per_step_error=0.25
    )
    (line,) = [line for line in summary(bad).splitlines() if line.startswith("! ")]
    assert "Vacuous: " in line
    assert "Predictor no better than a mean: " in line
    fine = dataclasses.replace(certificate, bound=0.1, test_error=0.0)
    assert not any(word in summary(fine) for word in ("Vacuous", "no better", "Void"))


def test_without_test_episodes_nothing_is_said_of_them():
    text = details(certified(recording(20, seed=1), scheme="holdout", gamma=0.5, seed=2))
    assert not re.search(r"\d test|, test \d", text)


# --- as an object -------------------------------------------------------------------------------


def test_a_certificate_is_a_line_a_frame_and_a_figure(certificate, monkeypatch, tmp_path):
    assert repr(certificate).startswith(f"Certificate({certificate.scheme}, unit ")
    assert "\n" not in repr(certificate)
    frame = certificate.to_pandas()
    assert list(frame.columns) == [f.name for f in dataclasses.fields(certificate.statements[0])]
    assert frame.value_raw.tolist() == [s.value_raw for s in certificate.statements]
    axes = Figure().subplots(1, 2)
    assert certificate.plot(axes) is axes
    assert [len(ax.lines) > 0 for ax in axes] == [True, True]
    written = certificate.save(tmp_path / "c")
    assert written == load_certificate(tmp_path / "c")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install"):
        certificate.to_pandas()
