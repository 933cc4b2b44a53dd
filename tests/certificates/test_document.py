"""The certificate as a JSON document: what goes in comes out, and nothing else is let in."""

import dataclasses
import json

import jsonschema
import pytest
from recordings import recording, short_fits

from tightrope.certificates import Certificate, as_text, certify, schema, to_document
from tightrope.certificates.document import (
    SCHEMA_VERSION,
    document_digest,
    fields_of,
    read_document,
    schema_problem,
)
from tightrope.errors import InputError

OPTIONS = {
    "pilot_episodes": 4,
    "test_episodes": 3,
    "thin": 1,
    "gamma": 0.5,
    "mc_passes": 2,
    "fail_below": 0.5,
    "seed": 2,
}
KINDS = {
    "auto": {"scheme": "auto"},
    "auto, unit episode, paper": {"scheme": "auto", "unit": "episode", "preset": "paper"},
    "holdout": {"scheme": "holdout", "test_episodes": 0},
    "nonrec-inf": {"scheme": "nonrec-inf", "clock": "off", "sampling": "weights"},
    "rec-3": {"scheme": "rec-3", "return_range": (-9, 9), "return_floor": -20, "candidates": 2},
    "nonrec-noninf": {"scheme": "nonrec-noninf", "preset": "paper", "gamma": 1, "fail_below": 1},
    "portions": {"scheme": "1,2,3", "unit": "episode"},
}


@pytest.fixture(scope="module")
def episodes():
    return recording(25, seed=1)


def issue(episodes, **changes):
    with short_fits():
        return certify(episodes, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def certificates(episodes):
    return {name: issue(episodes, **changes) for name, changes in KINDS.items()}


@pytest.fixture(scope="module")
def certificate(certificates):
    return certificates["auto"]


@pytest.fixture(scope="module")
def document(certificate):
    return to_document(certificate)


# --- round trip ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_certificate_comes_back_from_its_text(name, certificates):
    made = certificates[name]
    document = to_document(made)
    jsonschema.Draft202012Validator(schema()).validate(document)
    read = read_document(as_text(document), "here")
    assert read == document
    back = Certificate(**fields_of(read), chain=made.chain, rollouts=made.rollouts)
    assert back == made
    assert to_document(back) == document
    assert str(back) == str(made)


ALIKE = (
    *("bound", "confidence", "clipped_share", "train_error", "test_error"),
    *("constant_error", "per_step_error", "effective_n"),
)


def test_fields_that_are_alike_are_not_mixed_up(certificate):
    """Every number of the record made different from all others, and from what it was."""
    numbers = {name: (index + 1) / 1000 for index, name in enumerate(ALIKE)}
    counts = {"n": 11, "thin": 12, "time_limit": 13, "steps": 14, "truncated_episodes": 15}
    marked = dataclasses.replace(certificate, **numbers, **counts)
    read = fields_of(read_document(as_text(to_document(marked)), "here"))
    for name, value in {**numbers, **counts}.items():
        assert read[name] == value, name
    own = to_document(marked)
    for name, value in {**numbers, **counts}.items():
        assert own[name] == value, name


def test_the_document_has_every_key_that_the_design_names(document):
    names = (
        *("schema_version", "scheme", "unit", "preset", "bound", "bound_raw", "rms_raw"),
        *("confidence", "delta", "delta_prime", "n", "effective_n", "return_range"),
        *("clipped_share", "train_error", "test_error", "tightness", "portions", "statements"),
        *("headline", "ledger", "beforehand", "void", "assumptions", "subject", "digests"),
    )
    assert set(names) <= set(document)
    assert document["schema_version"] == SCHEMA_VERSION == 4
    assert document["return_range"]["source"] == "pilot"
    assert document["options"]["seed"] == 2


def test_what_is_derived_agrees_with_the_record(certificate, document):
    for name in ("scheme", "unit", "preset", "delta", "delta_prime", "bound_raw", "rms_raw"):
        assert document[name] == getattr(certificate, name)
    for name in ("tightness", "vacuous", "void", "failed_fit"):
        assert document[name] == getattr(certificate, name)


def test_the_document_is_what_json_gives_back(document):
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_digest_covers_everything_but_itself(document):
    assert document["digests"]["certificate"] == document_digest(document)
    assert document_digest({**document, "n": document["n"] + 1}) != document_digest(document)
    reordered = dict(reversed(document.items()))
    assert document_digest(reordered) == document_digest(document)


# --- the schema ---------------------------------------------------------------------------------


def test_the_schema_is_itself_a_schema_and_closed():
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["additionalProperties"] is False
    assert set(schema()["required"]) == set(schema()["properties"])


def places(document):
    """Every object of the document that has a fixed set of names."""
    yield (), document
    for name in ("options", "return_range", "episodes", "beforehand"):
        yield (name,), document[name]
    for name in ("portions", "statements", "ledger", "fits"):
        yield (name, 0), document[name][0]


def at(document, path, change):
    copy = json.loads(json.dumps(document))
    place = copy
    for part in path:
        place = place[part]
    change(place)
    return copy


def test_a_missing_field_is_refused_wherever_it_was(document):
    assert schema_problem(document) is None
    checked = 0
    for path, inner in places(document):
        for name in inner:
            without = at(document, path, lambda place, name=name: place.pop(name))
            assert schema_problem(without), (path, name)
            checked += 1
    assert checked > 100


def test_an_additional_field_is_refused_wherever_it_is(document):
    for path, _ in places(document):
        assert schema_problem(at(document, path, lambda place: place.update(endorsed=True))), path


def test_a_value_of_another_type_is_refused_wherever_it_is(document):
    """A word for a number, a flag for a word, a list for anything."""
    for path, inner in places(document):
        for name, value in inner.items():
            if name in ("subject", "digests"):
                continue
            for other in ([[1]], {"a": 1}, True if isinstance(value, str) else "word"):
                wrong = at(document, path, lambda place, n=name, o=other: place.update({n: o}))
                assert schema_problem(wrong), (path, name, other)


@pytest.mark.parametrize(
    "change",
    [
        {"bound": 1.5},
        {"bound": -0.1},
        {"bound": None},
        {"bound": True},
        {"confidence": 1.01},
        {"train_error": -1e-9},
        {"clipped_share": 2},
        {"n": -1},
        {"n": 2.5},
        {"unit": "row"},
        {"schema_version": 5},
        {"vacuous": "no"},
        {"digests": {"predictor": "0" * 63}},
        {"digests": {"predictor": "G" * 64}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_no_certificate_says(change, document):
    assert schema_problem({**document, **change}) is not None


def test_an_older_version_is_refused_in_a_sentence(document):
    words = "version 1 is no longer read: issue the certificate anew"
    assert schema_problem({**document, "schema_version": 1}) == words
    with pytest.raises(InputError, match=words):
        read_document(json.dumps({"schema_version": 1}), "here")


# --- texts that are no certificate --------------------------------------------------------------


def with_number(document, text):
    return as_text(document).replace(
        f'"effective_n": {json.dumps(document["effective_n"])}', f'"effective_n": {text}'
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000])
def test_a_number_that_is_none_is_refused_in_one_line(number, document):
    text = with_number(document, number)
    assert text != as_text(document)
    with pytest.raises(InputError, match="expected a certificate at 'here'") as error:
        read_document(text, "here")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [300, 900, 950, 980, 1000, 100_000])
@pytest.mark.parametrize("inside", [False, True])
def test_deep_nesting_is_one_line_and_no_traceback(inside, depth, opening, document):
    closing = "]" if opening == "[" else "}"
    nested = opening * depth + "1" + closing * depth
    text = nested
    if inside:  # where the schema lets anything stand
        text = as_text(document).replace('"log": "synthetic"', f'"log": {nested}')
        assert text != as_text(document)
    said = ""
    try:  # what is shallow enough, in a place where anything may stand, is read
        read_document(text, "here")
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 500
    assert said or (inside and depth < 1000)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "3", "not json", "\ufeff{}", "\x00"])
def test_a_text_that_is_no_certificate_is_refused_in_one_line(text):
    with pytest.raises(InputError, match="'here'") as error:
        read_document(text, "here")
    assert "\n" not in str(error.value)


def test_a_name_that_appears_twice_is_refused(document):
    text = as_text(document).replace('"bound": ', '"bound": 0.5,\n "bound": ', 1)
    with pytest.raises(InputError, match="a key appears twice"):
        read_document(text, "here")
