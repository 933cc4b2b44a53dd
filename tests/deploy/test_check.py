"""A check says yes exactly if the statement that it names is good enough."""

import dataclasses
import math

import numpy as np
import pytest
from constructed import certificate as constructed
from constructed import made_up, recorded
from recordings import recording, short

from tightrope.certificates import as_text, to_document
from tightrope.certificates.certify import certify
from tightrope.certificates.folder import document_digest
from tightrope.deploy import Conditions
from tightrope.deploy.check import check
from tightrope.errors import InputError


def issue(count=200, **options):
    """A certificate whose predictions are off by as much as we say."""
    rewards, errors = made_up(seed=3, episodes=count)
    return constructed(recorded(rewards, errors, terminated=np.arange(count) % 9 == 0), **options)


@pytest.fixture(scope="module")
def certificate():
    """With every kind of statement."""
    return issue(fail_below=20.0, return_floor=0.0, discounted_floor=-5.0, termination="failure")


def only(report):
    (condition,) = report.conditions
    return condition


def yes(source, **conditions):
    return check(source, Conditions(**conditions)).passed


# --- the number itself, and the next one inside ---------------------------------------------------

NUMBERS = {  # of each condition: its statement, further conditions, the way to be stricter
    "max_rms": ("tolerance", {}, -1),
    "max_rms by steps": ("mean over steps", {"unit": "step", "allow_clipped": 1.0}, -1),
    "max_rms by unit": ("mean over episodes", {"unit": "episode", "allow_clipped": 1.0}, -1),
    "min_return": ("undiscounted return", {}, 1),
    "min_return discounted": ("discounted return", {"discounted": True}, 1),
    "min_mean_return": ("expected undiscounted return", {}, 1),
    "min_mean_return discounted": ("expected discounted return", {"discounted": True}, 1),
    "max_failure of early": ("early termination", {"failure": "early"}, -1),
    "max_failure of return": ("low return", {"failure": "return"}, -1),
}


def test_the_number_itself_passes_and_the_next_one_inside_does_not(certificate):
    for condition, (name, extra, inside) in NUMBERS.items():
        condition = condition.split()[0]
        stated = certificate.statement(name)
        if name == "tolerance":
            stated = certificate.statements[certificate.headline]
            assert stated.share == 0.95
        found = only(check(certificate, Conditions(**{condition: stated.limit}, **extra)))
        index = certificate.statements.index(stated)
        assert (found.passed, found.statement, found.found) == (True, index, stated.limit)
        stricter = math.nextafter(stated.limit, inside * math.inf)
        assert not yes(certificate, **{condition: stricter}, **extra)


def test_every_failure_counts_unless_one_is_named_and_success_counts_from_below(certificate):
    failures = [s for s in certificate.statements if s.kind == "failure"]
    assert [s.target for s in failures] == ["early-termination", "low-return"]
    report = check(certificate, Conditions(max_failure=max(s.value for s in failures)))
    assert report.passed
    assert [each.found for each in report.conditions] == [s.value for s in failures]
    assert not yes(certificate, max_failure=min(s.value for s in failures))
    made = issue(40, termination="success")
    stated = made.statement("success").value
    assert yes(made, min_success=stated, max_failure=1.0 - stated)
    assert not yes(made, min_success=math.nextafter(stated, 1.0))
    assert not yes(made, max_failure=math.nextafter(1.0 - stated, 0.0))


# --- levels of new episodes: 12.11 ----------------------------------------------------------------


def test_a_share_takes_the_smallest_level_that_is_large_enough(certificate):
    levels = [s for s in certificate.statements if s.kind == "tolerance"]
    assert [s.share for s in levels[:-1]] == [0.8, 0.9, 0.95]
    for share, expected in ((0.0, 0), (0.8, 0), (0.8 + 1e-9, 1), (levels[-1].share, -1)):
        found = only(check(certificate, Conditions(max_rms=1e9, share=share)))
        assert (found.passed, found.found) == (True, levels[expected].rms_raw)
    beyond = only(check(certificate, Conditions(max_rms=1e9, share=0.9999)))
    assert (beyond.passed, beyond.found) == (False, None)
    assert "it is stated for at most 9" in beyond.reason


def test_below_90_per_cent_of_new_episodes_the_answer_is_no_unless_a_share_is_given():
    for count, level in ((8, None), (40, 0.8), (80, 0.9)):  # the largest that so many can cover
        made = issue(count, fit_episodes=1)
        share = made.statements[made.headline].share
        assert share == level or (level is None and share < 0.8)
        good = only(check(made, Conditions(max_rms=1e9)))
        assert good.passed is (share >= 0.9)
        assert ("a level below 90 % counts only with `share`" in good.reason) is not good.passed
        assert yes(made, max_rms=1e9, share=share)
        floor = made.statement("undiscounted return")
        assert yes(made, min_return=-1e9) is (floor.share >= 0.9)
        assert yes(made, min_return=-1e9, share=floor.share)


def test_a_catastrophe_never_makes_the_answer_better():
    """The level that is read does not depend on values: more large errors, a larger number."""
    numbers = []
    for bad in (0, 1, 4, 12):
        rewards, errors = made_up(seed=3, episodes=200)
        errors[200 - bad :] = [50.0 * np.ones_like(each) for each in errors[200 - bad :]]
        made = constructed(recorded(rewards, errors))
        found = only(check(made, Conditions(max_rms=1.0)))
        assert made.statements[found.statement].share == 0.95
        numbers.append(found.found)
    assert numbers == sorted(numbers)
    assert numbers[-1] > 4 * numbers[0]


# --- what says nothing ----------------------------------------------------------------------------


def test_errors_of_clipped_returns_do_not_count_above_one_per_cent():
    """A range of a thousandth around 20: everything is clipped, so the error is at most 0.001."""
    made = issue(scheme="holdout", return_range=(20.0, 20.001))
    assert made.clipped_share > 0.99
    for extra in ({}, {"unit": "episode"}):
        refused = only(check(made, Conditions(max_rms=0.01, **extra)))
        assert (refused.passed, refused.found) == (False, made.statements[0].rms_raw)
        assert refused.found < 0.0011
        assert "% of the returns are outside the range that it is clipped to" in refused.reason
        assert "`allow_clipped`" in refused.reason
        assert yes(made, max_rms=0.01, allow_clipped=made.clipped_share, **extra)
    honest = dataclasses.replace(made, clipped_share=0.01)
    assert yes(honest, max_rms=0.01)
    assert not yes(dataclasses.replace(made, clipped_share=0.0101), max_rms=0.01)


MISSING = [
    ({"min_mean_return": 0.0}, "it needs `return_floor`"),
    ({"max_rms": 1.0, "share": 0.9}, "it needs `scheme` auto"),
    ({"max_failure": 0.9, "failure": "return"}, "it needs `fail_below`"),
    ({"min_success": 0.1}, "it needs episodes that record success"),
]


def test_a_condition_without_a_statement_is_a_no_and_says_what_is_needed():
    made = issue(40, scheme="holdout")
    for conditions, words in MISSING:
        found = only(check(made, Conditions(**conditions)))
        assert (found.passed, found.statement, found.found) == (False, None, None)
        assert words in found.reason
        assert "on other episodes, or with `candidates`" in found.reason


def test_a_certificate_that_says_nothing_meets_no_condition(certificate, tmp_path):
    below = dataclasses.replace(certificate.portions[0], bound=-0.1)
    void = dataclasses.replace(certificate, portions=(below,), bound=1.0)
    (tmp_path / "c.json").write_text(as_text(to_document(void)))
    given = {"scheme": "rec-2", "unit": "episode", "episodes": 2, "mc_passes": 2}
    given |= {"preset_values": short("paper"), "seed": 0, "pilot_episodes": 4}
    vacuous = certify(recording(10, seed=1), **given)
    for source, word in ((tmp_path / "c.json", "void"), (vacuous, "vacuous")):
        report = check(source, Conditions(max_rms=1e9, unit="episode"))
        assert not report.passed
        assert f"the certificate is {word}" in report.conditions[0].reason


# --- confidence, files and mistakes ---------------------------------------------------------------


def test_the_confidence_is_that_of_the_statements_used_together(certificate):
    c = certificate
    everything = only(check(c, Conditions(min_confidence=c.joint_confidence)))
    assert (everything.passed, everything.found) == (True, c.joint_confidence)
    asked = {"max_rms": 1e9, "min_return": -1e9}
    report = check(c, Conditions(**asked, min_confidence=0.9))
    used = [c.statements[each.statement] for each in report.conditions[:2]]
    found = report.conditions[-1].found
    assert found == pytest.approx(1 - sum(1 - s.confidence for s in used), abs=1e-12)
    assert c.joint_confidence < found < 1
    assert not yes(c, **asked, min_confidence=found + 1e-9)
    # A statement on steps adds its failure to what holds jointly.
    found = check(c, Conditions(**asked, unit="step", min_confidence=0.5)).conditions[-1].found
    used = [c.statement(name) for name in ("mean over steps", "undiscounted return")]
    assert found == pytest.approx(1 - sum(1 - s.confidence for s in used), abs=1e-12)


def test_a_drift_is_said_beside_the_answer(certificate):
    drifting = dataclasses.replace(certificate.checks, drift=0.005)
    for checks, said in ((certificate.checks, False), (drifting, True)):
        report = check(dataclasses.replace(certificate, checks=checks), Conditions(min_return=-1e9))
        assert report.passed
        assert ("returns change over the episodes (p = 0.005)" in str(report)) is said


def test_certificate_json_alone_is_enough_and_a_change_of_a_file_is_noticed(certificate, tmp_path):
    folder, alone = tmp_path / "c", tmp_path / "certificate.json"
    certificate.save(folder)
    text = (folder / "certificate.json").read_text()
    alone.write_text(text)
    assert yes(alone, min_confidence=0.9)
    alone.write_text(text.replace('"n": 150', '"n": 151', 1))
    report = check(alone, Conditions(min_confidence=0.9))
    assert [each.passed for each in report.conditions] == [False, True]
    assert "digest does not match" in report.conditions[0].reason
    assert yes(folder, min_confidence=0.5)
    (folder / "rollouts.safetensors").write_bytes(b"others")
    assert not yes(folder, min_confidence=0.5)


def test_without_a_discount_both_returns_are_one():
    made = issue(gamma=1.0, scheme="holdout")
    found = [only(check(made, Conditions(min_return=0.0, discounted=d))) for d in (False, True)]
    assert found[0] == found[1]


SENSELESS = [
    ({"max_failure": 1.5}, r"`max_failure` must be at most 1.* found 1.5"),
    ({"max_rms": math.nan}, "`max_rms` must be"),
    ({"min_return": math.inf}, "`min_return` must be a finite number"),
    ({"max_failure": 0.5, "share": 0.9}, "expected `max_rms` or `min_return` with `share`"),
    ({"min_return": 0.0, "unit": "step"}, "expected `max_rms` with `unit`"),
    ({"max_rms": 1.0, "share": 0.9, "unit": "step"}, "`share` or `unit` for `max_rms`"),
]


def test_what_cannot_be_asked_is_one_line(certificate, tmp_path):
    for given, words in SENSELESS:
        with pytest.raises(InputError, match=words):
            Conditions(**given)
    with pytest.raises(InputError, match="expected a condition among `max_rms`"):
        check(certificate, Conditions())
    for place in (tmp_path, tmp_path / "nowhere.json"):
        with pytest.raises(InputError, match="expected a certificate at"):
            check(place, Conditions(min_confidence=0.5))
    document = {**to_document(certificate), "headline": 99}
    document["digests"] = {**document["digests"], "certificate": document_digest(document)}
    (tmp_path / "c.json").write_text(as_text(document))
    with pytest.raises(InputError, match="found 99"):
        check(tmp_path / "c.json", Conditions(max_rms=1.0))
