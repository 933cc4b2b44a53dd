"""A gate says yes exactly if the statement that it names is good enough."""

import dataclasses
import json
import math

import pytest
from recordings import recording, short_fits

from tightrope.certificates import Conditions, certify, check, write
from tightrope.certificates.document import as_text, document_digest, to_document
from tightrope.errors import InputError

GIVEN = {"pilot_episodes": 4, "mc_passes": 2, "thin": 2, "seed": 0}


def issue(count=40, **options):
    with short_fits():
        return certify(recording(count, seed=1), **{**GIVEN, **options})


@pytest.fixture(scope="module")
def certificate():
    """With every kind of statement."""
    return issue(count=90, fail_below=-5.0, return_floor=-90.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, certificate):
    place = tmp_path_factory.mktemp("gates") / "c"
    write(certificate, place)
    return place


def only(gate):
    (outcome,) = gate.outcomes
    return outcome


def statement(certificate, **fields):
    """The one statement with these fields, and its index."""
    ((index, found),) = [
        (index, each)
        for index, each in enumerate(certificate.statements)
        if all(getattr(each, name) == value for name, value in fields.items())
    ]
    return index, found


def named(certificate, condition):
    """By the condition's words: the statement in the document that is meant, and its number."""
    c = certificate
    if condition == "headline":
        return c.headline, c.statements[c.headline].rms_raw
    if condition == "step":
        index, found = statement(certificate, kind="mean-risk", unit="step")
        return index, found.rms_raw
    mean = condition.startswith("expected")
    total = condition.removeprefix("expected ")
    matching = [
        (index, each.value_raw)
        for index, each in enumerate(c.statements)
        if each.quantity == f"{'expected ' if mean else ''}{total} of a new episode"
    ]
    return matching[0]


NUMBERS = {
    "headline": ("max_rms", {}, 1),
    "step": ("max_rms", {"unit": "step"}, 1),
    "undiscounted return": ("min_return", {}, -1),
    "discounted return": ("min_return", {"discounted": True}, -1),
    "expected undiscounted return": ("min_mean_return", {}, -1),
    "expected discounted return": ("min_mean_return", {"discounted": True}, -1),
}


@pytest.mark.parametrize("condition", NUMBERS)
def test_the_number_itself_passes_and_the_next_one_inside_does_not(condition, certificate, folder):
    name, extra, inside = NUMBERS[condition]
    index, value = named(certificate, condition)
    outcome = only(check(folder, Conditions(**{name: value}, **extra)))
    assert (outcome.holds, outcome.statement, outcome.found) == (True, index, value)
    stricter = math.nextafter(value, -inside * math.inf)
    assert not check(folder, Conditions(**{name: stricter}, **extra)).open


def test_a_share_takes_the_smallest_that_is_large_enough(certificate, folder):
    stated = [s for s in certificate.statements if s.kind == "tolerance"]
    assert len(stated) >= 2
    low, high = stated[0], stated[-1]
    for share, expected in ((0.0, low), (low.share, low), (low.share + 1e-9, stated[1])):
        outcome = only(check(folder, Conditions(max_rms=1e9, share=share)))
        assert outcome.found == expected.rms_raw
    with pytest.raises(InputError, match=r"at least 0\.9999 of new episodes for `max_rms`.* more"):
        check(folder, Conditions(max_rms=1.0, share=0.9999))
    assert only(check(folder, Conditions(max_rms=1e9, share=high.share))).found == high.rms_raw


def test_every_failure_counts_unless_one_is_named(certificate, folder):
    failures = [s for s in certificate.statements if s.kind == "failure"]
    assert [s.target for s in failures] == ["early-termination", "low-return"]
    gate = check(folder, Conditions(max_failure=max(s.value for s in failures)))
    assert gate.open
    assert [outcome.found for outcome in gate.outcomes] == [s.value for s in failures]
    for name, each in zip(("early", "return"), failures, strict=True):
        outcome = only(check(folder, Conditions(max_failure=each.value, failure=name)))
        assert (outcome.holds, outcome.found) == (True, each.value)
    with pytest.raises(InputError, match=r"`failure` success .* do not record success"):
        check(folder, Conditions(max_failure=0.5, failure="success"))


def test_the_confidence_is_that_of_the_statements_used_at_once(certificate, folder):
    c = certificate
    everything = only(check(folder, Conditions(min_confidence=c.confidence)))
    assert (everything.holds, everything.found) == (True, c.confidence)
    gate = check(folder, Conditions(max_rms=1e9, min_return=-1e9, min_confidence=0.98))
    used = [c.statements[each.statement] for each in gate.outcomes[:2]]
    expected = 1 - sum(1 - s.confidence for s in used)
    assert c.confidence < expected < 1
    assert gate.outcomes[-1].found == pytest.approx(expected, abs=1e-12)
    assert not check(folder, Conditions(min_confidence=0.99)).open


def test_certificate_json_alone_is_enough_and_the_folder_is_checked_for_changes(folder, tmp_path):
    alone = tmp_path / "certificate.json"
    alone.write_text((folder / "certificate.json").read_text())
    assert check(alone, Conditions(min_confidence=0.9)).open
    document = json.loads(alone.read_text())
    document["statements"][0]["rms_raw"] = 0.0
    alone.write_text(as_text(document))
    gate = check(alone, Conditions(min_confidence=0.9))
    assert [outcome.holds for outcome in gate.outcomes] == [False, True]
    assert "digest does not match" in gate.outcomes[0].says


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"vacuous": True}, "vacuous"), ({"void": True, "vacuous": True}, "void")],
    ids=["vacuous", "void"],
)
def test_a_certificate_that_says_nothing_meets_no_condition(changes, words, certificate, tmp_path):
    document = {**to_document(certificate), **changes}
    document["digests"]["certificate"] = document_digest(document)
    (tmp_path / "c.json").write_text(as_text(document))
    gate = check(tmp_path / "c.json", Conditions(max_rms=1e9))
    assert not gate.open
    assert words in gate.outcomes[0].says


def test_a_vacuous_certificate_as_issued_fails(tmp_path):
    made = issue(scheme="rec-2", unit="episode", episodes=2, preset="paper")
    assert made.vacuous
    made.save(tmp_path / "c")
    assert not check(tmp_path / "c", Conditions(max_rms=1e9)).open


def test_what_a_certificate_does_not_state_is_said_with_how_to_get_it(tmp_path):
    made = issue(scheme="holdout")
    made.save(tmp_path / "c")
    for conditions, words in (
        ({"min_mean_return": 0.0}, "`min_mean_return`, found none: issue it with `return_floor`"),
        ({"max_rms": 1.0, "share": 0.9}, "`max_rms`, found none: issue it with `scheme` auto"),
        ({"max_failure": 0.5, "failure": "return"}, "found none: issue it with `fail_below`"),
    ):
        with pytest.raises(InputError, match=words):
            check(tmp_path / "c", Conditions(**conditions))


def test_without_a_discount_both_returns_are_one(tmp_path):
    issue(scheme="holdout", gamma=1.0).save(tmp_path / "c")
    plain, discounted = (
        only(check(tmp_path / "c", Conditions(min_return=0.0, discounted=flag)))
        for flag in (False, True)
    )
    assert plain == discounted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_failure": 1.5}, r"`max_failure` must be in \[0, 1\], found 1.5"),
        ({"max_rms": -1.0}, "`max_rms` must be at least 0"),
        ({"max_rms": math.nan}, "`max_rms` must be a finite number"),
        ({"min_return": math.inf}, "`min_return` must be a finite number"),
        ({"max_failure": 0.5, "share": 0.9}, "expected `max_rms` or `min_return` with `share`"),
        ({"min_return": 0.0, "unit": "step"}, "expected `max_rms` with `unit`"),
        ({"max_rms": 1.0, "failure": "early"}, "expected `max_failure` with `failure`"),
        ({"max_rms": 1.0, "discounted": True}, "with `discounted`"),
        ({"max_rms": 1.0, "share": 0.9, "unit": "step"}, "`share` or `unit` for `max_rms`"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        Conditions(**given)


def test_no_condition_and_no_certificate_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="expected a condition among `max_rms`"):
        check(folder, Conditions())
    for place in (tmp_path, tmp_path / "nowhere.json"):
        with pytest.raises(InputError, match="expected a certificate at"):
            check(place, Conditions(min_confidence=0.5))


def test_a_headline_out_of_reach_is_one_line(certificate, tmp_path):
    document = to_document(dataclasses.replace(certificate))
    document["headline"] = 99
    (tmp_path / "c.json").write_text(as_text(document))
    with pytest.raises(InputError, match="found statement 99"):
        check(tmp_path / "c.json", Conditions(max_rms=1.0))
