"""What is printed bounds what was computed, and warnings come first."""

import dataclasses
import re
from decimal import Decimal

import numpy as np
import pytest
from recordings import recording, short_fits
from tightrope.certificates.words import headline, in_words, outward, percent, sentence, title, up

from tightrope.certificates import Statement, certify

OPTIONS = {
    "pilot_episodes": 4,
    "test_episodes": 3,
    "thin": 1,
    "gamma": 0.5,
    "mc_passes": 2,
    "fail_below": 0.5,
    "return_floor": -30.0,
    "seed": 2,
}


def issue(scheme, episodes=None, **changes):
    with short_fits():
        recorded = recording(47, seed=1) if episodes is None else episodes
        return certify(recorded, scheme=scheme, **{**OPTIONS, **changes})


@pytest.fixture(scope="module", params=["auto", "holdout", "nonrec-inf", "rec-2"])
def certificate(request):
    return issue(request.param)


# --- rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (8.86918, "8.87"),
        (0.0301869, "0.03019"),
        (77.9, "77.9"),
        (0.1, "0.1"),
        (1.0, "1"),
        (0.0, "0"),
        (123456, "1.235e+05"),
        (1234.0000004, "1235"),  # a little above is above
        (9999.6, "1e+04"),
        (-3.00001, "-3"),
    ],
)
def test_upper_bounds_are_rounded_up(value, printed):
    assert up(value) == printed
    assert float(printed) >= value


def statement(direction="at-most", value=0.5, **changes):
    given = {
        "kind": "return",
        "quantity": "x",
        "unit": "episode",
        "direction": direction,
        "value": value,
        "value_raw": value,
        "rms_raw": None,
        "estimate": value,
        "share": None,
        "n": 100,
        "assumes": "independent episodes",
        "confidence": 0.975,
        "joint_confidence": 0.9,
    }
    return Statement(**{**given, **changes})


def test_every_float_is_rounded_to_its_safe_side_and_by_less_than_a_thousandth():
    """As a decimal number, exactly: what a reader sees bounds what was computed."""
    rng = np.random.default_rng(1)
    sizes = 10.0 ** rng.uniform(-12, 12, 500)
    for value in [*sizes.tolist(), *(-sizes).tolist(), *np.round(sizes, 2).tolist()]:
        above = Decimal(outward(statement("at-most", value)))
        below = Decimal(outward(statement("at-least", value)))
        exact = Decimal(repr(value))
        assert below <= exact <= above
        assert above - below <= abs(exact) / 1000 + Decimal("1e-30")


@pytest.mark.parametrize(
    ("confidence", "printed"),
    [(0.965, "96.5 %"), (0.9996, "99.9 %"), (0.9, "90.0 %"), (0.96499, "96.4 %"), (1.0, "100.0 %")],
)
def test_confidences_and_shares_are_rounded_down(confidence, printed):
    assert percent(confidence) == printed


@pytest.mark.parametrize(
    ("side", "value", "printed"),
    [
        ("at-least", 241.4999, "241.4"),
        ("at-least", -3.00001, "-3.001"),
        ("at-most", 0.20011, "0.2002"),
    ],
)
def test_statements_are_rounded_to_their_safe_side(side, value, printed):
    assert outward(statement(side, value)) == printed
    assert sentence(statement(side, value)) == f"X: {side.replace('-', ' ')} {printed}"


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", text)]


def test_every_bound_that_is_printed_is_on_its_safe_side(certificate):
    for each in certificate.statements:
        said = sentence(each)
        assert said in str(certificate)
        value = each.value_raw if each.rms_raw is None else each.rms_raw
        promised = numbers(re.split(r"at (?:most|least) (?!\d+\.\d %)", said)[-1])[0]
        if each.direction == "at-most":
            assert value <= promised <= value + abs(value) / 999
        else:
            assert value - abs(value) / 999 <= promised <= value
        if each.share is not None:
            assert f"At least {percent(each.share)} of new episodes" in said
            assert each.share - 0.0011 <= numbers(said)[0] / 100 <= each.share + 1e-9
    for t, portion in enumerate(certificate.portions, start=1):
        (row,) = [
            line.split() for line in str(certificate).splitlines() if line[:7] == f"  {t:>4} "
        ]
        assert (int(row[1]), float(row[3])) == (portion.episodes, round(portion.kl, 2))
        for printed, exact in ((row[-1], portion.bound), (row[-2], portion.value)):
            assert exact <= float(printed) <= exact + abs(exact) / 999


# --- what is said -------------------------------------------------------------------------------


def test_the_words_say_who_what_how_sure_and_from_what(certificate):
    c, said = certificate, str(certificate)
    lines = said.splitlines()
    assert in_words(c) == said
    assert lines[0] == title(c) == "Risk certificate for synthetic in an unnamed environment"
    assert headline(c) in said
    joint = percent(c.statements[0].joint_confidence)
    assert f"All statements hold at once with confidence {joint}" in said
    assert f"scheme     {c.scheme}, preset tight, unit step, clock to 6 steps" in said
    free = c.episodes.free
    assert f"4 pilot, 40 validation ({free} only to fit), 3 test; seed 2" in said
    assert f"{c.effective_n:,.0f} independent ones" in said
    low, high = c.return_range.low, c.return_range.high
    assert f"[{low:.4g}, {high:.4g}]" in said
    assert f"{c.clipped_share:.2%} lie outside" in said
    assert "from pilot episodes that are in no bound" in said
    for entry in c.ledger:
        assert any(
            entry.statement in line and entry.source in line and entry.share in line
            for line in lines
        )
    for each in c.assumptions:
        assert f"  - {each}" in lines
    for each in c.statements:
        if each.note:
            assert each.note in said


def test_the_headline_says_its_confidence_and_what_it_needs(certificate):
    first = certificate.statements[certificate.headline]
    said = headline(certificate)
    if certificate.scheme == "auto":
        assert first.kind == "tolerance"
        assert "confidence 96.5 %; needs only independent episodes; gamma 0.5" in said
    else:
        assert (first.kind, first.unit) == ("mean-risk", "step")
        assert "confidence 96.5 %; assumes independent steps; gamma 0.5" in said


def test_statements_of_both_units_say_what_they_assume(certificate):
    lines = str(certificate).splitlines()
    for unit, words in (("all steps", "assumes independent steps"), ("episodes", "needs only")):
        (at,) = [
            i for i, line in enumerate(lines) if line.startswith("  RMS") and f"over {unit}" in line
        ]
        assert words in lines[at + 1]
    assert any("Statements of unit step count" in each for each in certificate.assumptions)
    assert any("Statements of unit episode count" in each for each in certificate.assumptions)


def test_thinned_steps_are_never_called_every_step():
    found = issue("auto", thin=3)
    said = str(found)
    assert "every third step of a new episode at once" in said
    assert "over every third step of a new episode" in said
    assert "every step" not in said
    assert "every step of a new episode at once" in str(issue("auto"))


def test_without_test_episodes_nothing_is_said_of_them():
    said = str(issue("holdout", recording(20, seed=1), test_episodes=0))
    assert "test error" not in said
    assert "0 test" in said


# --- warnings come first ------------------------------------------------------------------------


def test_a_certificate_without_trouble_warns_of_nothing(certificate):
    fine = dataclasses.replace(certificate, bound=0.1, test_error=0.0)
    for word in ("VACUOUS", "FAILED FIT", "VOID"):
        assert word not in str(fine)


def test_a_vacuous_bound_and_a_failed_fit_are_said_before_anything_else(certificate):
    bad = dataclasses.replace(
        certificate, bound=1.0, test_error=0.3, constant_error=0.2, per_step_error=0.25
    )
    lines = str(bad).splitlines()
    assert lines[2] == "VACUOUS: the bound is 1, the largest possible error. It says nothing."
    assert lines[3] == "FAILED FIT: the predictor is no better than a constant."
    per_step = dataclasses.replace(bad, per_step_error=0.1)
    assert "FAILED FIT: the predictor is no better than the mean of each step." in str(per_step)


def test_fits_that_have_not_settled_are_named(certificate):
    fits = [dataclasses.replace(fit, converged=t != 0) for t, fit in enumerate(certificate.fits)]
    assert "not converged: fit 1 (" in str(dataclasses.replace(certificate, fits=tuple(fits)))
    settled = tuple(dataclasses.replace(fit, converged=True) for fit in fits)
    assert "not converged" not in str(dataclasses.replace(certificate, fits=settled))


def test_the_representation_is_one_line_without_arrays(certificate):
    assert repr(certificate).startswith(f"Certificate({certificate.scheme}, unit step, bound ")
    assert "\n" not in repr(certificate)
