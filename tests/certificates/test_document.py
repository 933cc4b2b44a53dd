"""The certificate as a JSON document: what goes in comes out, and nothing else is let in."""

import dataclasses
import json

import pytest
from recordings import certified, recording

from tightrope.certificates import Certificate, as_text, to_document
from tightrope.certificates.certificate import DERIVED
from tightrope.certificates.folder import (
    SCHEMA_VERSION,
    document_digest,
    read_record,
)
from tightrope.certificates.text import details
from tightrope.deploy.check import Conditions, check
from tightrope.errors import InputError
from tightrope.reports.index import entries
from tightrope.rollouts import load, save

OPTIONS = {"test_episodes": 3, "thin": 1, "gamma": 0.5, "mc_passes": 2, "fail_below": 0.5,
           "seed": 2}  # fmt: skip
KINDS = {
    "auto": {"scheme": "auto"},
    "auto, unit step, paper": {"scheme": "auto", "unit": "step", "preset": "paper"},
    "holdout": {"scheme": "holdout", "test_episodes": 0},
    "nonrec-inf": {"scheme": "nonrec-inf", "clock": "off", "sampling": "weights"},
    "rec-3": {"scheme": "rec-3", "return_range": (-9, 9), "return_floor": -20, "candidates": 2},
    "nonrec-noninf": {"scheme": "nonrec-noninf", "preset": "paper", "gamma": 1, "fail_below": 1},
    "portions": {"scheme": "1,2,3", "unit": "episode"},
}


@pytest.fixture(scope="module")
def certificates():
    episodes = recording(25, seed=1)
    return {name: certified(episodes, **{**OPTIONS, **own}) for name, own in KINDS.items()}


@pytest.fixture(scope="module")
def certificate(certificates):
    return certificates["auto"]


@pytest.fixture(scope="module")
def document(certificate):
    return to_document(certificate)


def read(document):
    return read_record(json.dumps(document), "here")


# --- round trip ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_certificate_comes_back_from_its_text(name, certificates):
    made = certificates[name]
    document = to_document(made)
    record = read_record(as_text(document), "here")
    assert to_document(record) == document == json.loads(as_text(document))
    parts = {n: getattr(made, n) for n in ("fitted", "posteriors", "rollouts")}
    back = Certificate(**vars(record), **parts)
    assert back == made
    assert str(back) == str(made)


ALIKE = """
bound confidence clipped_share train_error test_error constant_error per_step_error effective_n
"""


def test_fields_that_are_alike_are_not_mixed_up(certificate):
    """Every number of the record made different from all others, and from what it was."""
    numbers = {name: (index + 1) / 1000 for index, name in enumerate(ALIKE.split())}
    counts = {"n": 11, "thin": 12, "time_limit": 13, "steps": 14, "truncated_episodes": 15}
    own = to_document(dataclasses.replace(certificate, **numbers, **counts))
    for name, value in {**numbers, **counts}.items():
        assert getattr(read(own), name) == own[name] == value, name


CONTRACT = """
schema_version scheme unit preset bound bound_raw rms_raw confidence delta delta_prime n effective_n
return_range clipped_share train_error test_error tightness portions statements headline assumptions
options settings subject digests constant_error pac_bayes
"""
OF_A_STATEMENT = """
kind target unit direction value value_raw rms_raw estimate share assumes confidence quantity n void
joint_confidence chosen vacuous
"""


def test_the_document_has_every_key_that_the_design_names(document):
    assert set(CONTRACT.split()) <= set(document)
    assert set(OF_A_STATEMENT.split()) <= set(document["statements"][0])
    assert document["schema_version"] == SCHEMA_VERSION == 5
    assert document["return_range"]["source"] == "fit"
    assert document["pac_bayes"] is False


def test_options_are_as_asked_and_settings_as_done(document):
    """What was left to us says "auto" in one and has its number in the other."""
    asked, done = document["options"], document["settings"]
    assert (asked["fit_episodes"], asked["episodes"], asked["unit"]) == ("auto",) * 3
    assert (done["fit"], done["validation"], done["unit"]) == (6, 22, "episode")
    assert "auto" not in [v for k, v in done.items() if k != "scheme"]


def test_what_is_taken_by_habit_rests_on_independent_episodes(certificates):
    """`bound` and `rms_raw` are in unit episode unless steps, or the paper's schemes, are asked."""
    units = {name: made.unit for name, made in certificates.items()}
    assert units == {
        "auto": "episode", "auto, unit step, paper": "step", "holdout": "episode",
        "nonrec-inf": "step", "rec-3": "step", "nonrec-noninf": "step", "portions": "episode",
    }  # fmt: skip
    own = certificates["auto"]
    mean = own.statement("mean over episodes")
    assert (own.bound, own.rms_raw) == (mean.value, mean.rms_raw)
    for made in certificates.values():
        own = made.statement(f"mean over {made.unit}s")
        assert (made.bound, made.rms_raw) == (own.value, own.rms_raw)


def test_the_digest_covers_everything_but_itself(document):
    assert document["digests"]["certificate"] == document_digest(document)
    assert document_digest({**document, "n": document["n"] + 1}) != document_digest(document)
    assert document_digest(dict(reversed(document.items()))) == document_digest(document)


# --- the schema ---------------------------------------------------------------------------------


def places(document):
    """Every object of the document that has a fixed set of names."""
    yield (), {k: v for k, v in document.items() if k not in ("schema_version", *DERIVED)}
    for name in ("settings", "return_range", "episodes", "checks"):
        yield (name,), document[name]
    for path in (("settings", "scheme"), ("settings", "preset"), ("settings", "preset", "fit")):
        inner = document
        for part in path:
            inner = inner[part]
        yield path, inner
    for name in ("portions", "statements", "ledger", "fits"):
        yield (name, 0), document[name][0]


def at(document, path, change):
    copy = json.loads(json.dumps(document))
    place = copy
    for part in path:
        place = place[part]
    change(place)
    return copy


def test_a_missing_additional_or_wrong_entry_is_refused_wherever_it_is(document):
    """A word for a number, a flag for a word, a list for anything."""
    read(document)
    checked = 0
    for path, inner in places(document):
        wrong = [at(document, path, lambda place: place.update(endorsed=True))]
        for name, value in inner.items():
            if name in ("subject", "digests", "options"):
                continue
            for other in ([[1]], {"a": 1}, True if isinstance(value, str) else "word"):
                if not (name == "chosen" and other == {"a": 1}):
                    wrong.append(at(document, path, lambda p, n=name, o=other: p.update({n: o})))
        for each in wrong:
            checked += 1
            with pytest.raises(InputError, match="does not follow the schema") as error:
                read(each)
            assert "\n" not in str(error.value)
    assert checked > 300


@pytest.mark.parametrize(
    "change",
    [
        {"bound": 1.5}, {"bound": -0.1}, {"bound": True}, {"confidence": 1.01},
        {"train_error": -1e-9}, {"clipped_share": 2}, {"n": -1}, {"n": 2.5}, {"headline": 99},
        {"headline": -1}, {"statements": []},
    ],
    ids=str,
)  # fmt: skip
def test_the_schema_refuses_what_no_certificate_says(change, document):
    with pytest.raises(InputError, match="does not follow the schema"):
        read({**document, **change})


@pytest.mark.parametrize(
    "subject",
    [
        {"policy": "one"}, {"environment": ["Hopper-v4"]}, {"versions": ["1.0"]},
        {"table": {"tasks": 5}}, {"table": {"tasks": [], "notes": 3}}, {"recording": 7},
        {"environment": {"thin": "x"}}, {"environment": {"time_limit": 0}},
    ],
    ids=str,
)  # fmt: skip
def test_a_subject_whose_parts_are_something_else_is_one_line(subject, document, tmp_path):
    """In the document, and in the file of episodes: what draws or certifies them looks into it."""
    with pytest.raises(InputError, match="of the subject, found something else"):
        read({**document, "subject": subject})
    path = tmp_path / "episodes.safetensors"
    save(recording(2, seed=1, subject=subject), path)
    with pytest.raises(InputError, match="of the subject, found something else"):
        load(path)


def test_another_version_is_refused_with_what_to_do(document):
    with pytest.raises(InputError, match=r"version 5 in 'here', found '4': issue .* again"):
        read({**document, "schema_version": 4})
    for version in (6, None, "5", True):
        with pytest.raises(InputError, match="expected schema version 5"):
            read({**document, "schema_version": version})


EXTREMES = (None, 0, -1.0, 1e308, -1e308, [], "", 10**18)


@pytest.mark.parametrize("name", ["auto", "rec-3"])
def test_an_extreme_value_in_any_place_is_read_or_one_line(name, certificates, tmp_path):
    """A thousand places and values, one after the other, by whatever reads a document."""
    whole, path = to_document(certificates[name]), tmp_path / "certificate.json"
    conditions = Conditions(max_rms=9.0, min_return=0.0, min_mean_return=0.0, max_failure=0.5)
    for number, (place, value) in enumerate((p, v) for p in spots(whole) for v in EXTREMES):
        if number % 5:
            continue
        spoilt = at(whole, place[:-1], lambda inner, p=place, v=value: inner.__setitem__(p[-1], v))
        if isinstance(spoilt["digests"], dict):
            spoilt["digests"]["certificate"] = document_digest(spoilt)
        path.write_text(json.dumps(spoilt))
        said = ""
        try:
            assert str(check(path, conditions))
            assert details(read_record(path.read_text(), "here"))
            assert len(entries(tmp_path)) == 1
        except InputError as error:
            said = str(error)
        assert "\n" not in said, (place, value)
        assert len(said) < 1000, (place, value)


def spots(value, path=()):
    """The place of every value, but of the fits and what was asked."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in ("fits", "options", "subject"):
            yield (*path, key)
            if isinstance(inner, dict | list):
                yield from spots(inner, (*path, key))


# --- texts that are no certificate --------------------------------------------------------------


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" * 5000])
def test_a_number_that_is_none_is_refused_in_one_line(number, document):
    stated = f'"effective_n": {json.dumps(document["effective_n"])}'
    text = as_text(document).replace(stated, f'"effective_n": {number}')
    assert text != as_text(document)
    with pytest.raises(InputError, match="'here'") as error:
        read_record(text, "here")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [300, 980, 100_000])
@pytest.mark.parametrize("inside", [False, True])
def test_deep_nesting_is_one_line_and_no_traceback(inside, depth, opening, document):
    nested = opening * depth + "1" + ("]" if opening == "[" else "}") * depth
    text = nested
    if inside:  # where the schema lets anything stand
        text = as_text(document).replace('"log": "synthetic"', f'"log": {nested}')
        assert text != as_text(document)
    said = ""
    try:  # what is shallow enough, in a place where anything may stand, is read
        read_record(text, "here")
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 500
    assert said or (inside and depth < 1000)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "3", "not json", "\ufeff{}", "\x00"])
def test_a_text_that_is_no_certificate_is_refused_in_one_line(text):
    with pytest.raises(InputError, match="'here'") as error:
        read_record(text, "here")
    assert "\n" not in str(error.value)
