"""`verify` catches every changed number and byte, and nothing where nothing was changed.

Each leaf of a certificate is changed; once as it is, when the document's own digest gives it away,
and once with that digest computed anew, when only recomputation can.
"""

import json
import math
import re
import shutil

import numpy as np
import pytest
import torch
from recordings import recording, short_fits
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tightrope.certificates.assess import assess
from tightrope.certificates.beforehand import Beforehand
from tightrope.certificates.checks import LEVEL
from tightrope.certificates.data import prepare, view
from tightrope.certificates.issue import Fitted, record

from tightrope.certificates import Options, as_text, certify, certify_many, write
from tightrope.certificates.document import document_digest, schema_problem
from tightrope.certificates.folder import FILES, read
from tightrope.certificates.verify import _PRIOR_NATS, verify
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.posteriors import Chain, Gaussians, Network, Scaling, kl_divergence

SUBJECT = {
    "policy": {"name": "perceptron", "digest": "0" * 64, "actions": "deterministic"},
    "environment": {"id": "Toy-v0", "suite": "gymnasium", "thin": 1, "fixed_length": True},
    "seed": 17,
    "versions": {"python": "3.11.0", "torch": "2.13.0"},
}
OPTIONS = {
    "scheme": "rec-2",
    "pilot_episodes": 3,
    "test_episodes": 2,
    "gamma": 0.5,
    "mc_passes": 2,
    "fail_below": 0.5,
    "return_floor": -30.0,
    "delta": 0.1,
    "seed": 5,
}


def episodes():
    return recording(17, seed=1, subject=SUBJECT)


def issue(folder, recorded=None, training=None, **changes):
    options = Options(**{**OPTIONS, **changes})
    ((made,),) = certify_many(recorded or episodes(), [options], [options.seed], training=training)
    return write(made, folder)


@pytest.fixture(scope="module", autouse=True)
def _short_fits():
    """Here as there: the first prior is fitted again by `verify`."""
    with short_fits():
        yield


@pytest.fixture(scope="module", params=["rec-2", "auto"])
def original(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates") / "original"
    issue(folder, scheme=request.param)
    return folder


@pytest.fixture(scope="module")
def document(original):
    return json.loads((original / "certificate.json").read_text())


@pytest.fixture
def folder(original, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(original, tmp_path / "copy")


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def name(path):
    """As `verify` writes it: portions[0].kl"""
    said = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return said.removeprefix(".")


ELSE = {
    "independent steps": "independent episodes",
    "independent episodes": "independent steps",  # another value that the schema allows
    "step": "episode",
    "episode": "step",
    "local": "weights",
    "weights": "local",
    "risk": "excess",
    "excess": "holdout",
    "holdout": "risk",
    "tolerance": "band",
    "band": "tolerance",
    "mean-risk": "return",
    "return": "failure",
    "failure": "monitor",
    "monitor": "band",
    "regression": "posterior",
    "posterior": "regression",
    "paper": "tight",
    "at-least": "at-most",
    "at-most": "at-least",
    "on": "off",
    "off": 3.5,
    "auto": "rec-1",
    "delta": "delta_prime",
    "delta_prime": "delta",
    "1/2": "1/3",
    "1/4": "1/5",
    "1": "1/2",
    "tight": "paper",
    "pilot": "user",
    "user": "pilot",
    "rec-2": "rec-1",
}


def another(value, path=()):
    if path and path[0].endswith("portions") and value == "tolerance":
        return "holdout"
    if path and path[0] == "checks":  # what matters is on which side of the level a p-value is
        return 1e-3 if value > LEVEL else 0.5
    if path and path[-1] == "target":
        return "no-success" if value != "no-success" else "error"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.999 + 1e-6
    if value is None:
        return 0.25
    if re.fullmatch(r"[0-9a-f]{64}", value):
        return value[::-1] if value != value[::-1] else "f" * 64
    return ELSE.get(value, f"{value}x")


def with_leaf(document, path, value):
    copy = json.loads(json.dumps(document))
    place = copy
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return copy


def store(folder, document, *, signed):
    """Write a document; `signed`: with its own digest computed anew."""
    if signed:
        document["digests"]["certificate"] = document_digest(document)
    (folder / "certificate.json").write_text(as_text(document))


def resign(folder):
    """Make all digests fit the files as they are now."""
    document = json.loads((folder / "certificate.json").read_text())
    for key, file in FILES.items():
        document["digests"][key] = sha256(folder / file)
    store(folder, document, signed=True)


# --- nothing changed ----------------------------------------------------------------------------


def test_a_fresh_certificate_verifies(original):
    assert verify(original) == []
    assert verify(str(original)) == []


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("sampling", ["local", "weights"])
@pytest.mark.parametrize("scheme", ["auto", "nonrec-noninf", "nonrec-inf", "rec-3", "holdout"])
def test_every_kind_of_certificate_verifies(scheme, sampling, unit, tmp_path):
    issue(tmp_path / "c", scheme=scheme, sampling=sampling, unit=unit)
    assert verify(tmp_path / "c") == []


TRAINING = Scaling(-5.0, 5.0, "training", np.zeros(3, np.float32), np.ones(3, np.float32))
OTHERS = {
    "a range of the user": {"return_range": (-4.0, 4.5)},
    "no pilot": {"return_range": (-4.0, 4.5), "pilot_episodes": 0},
    "no test": {"test_episodes": 0},
    "some of the episodes": {"episodes": 6},
    "thinned": {"thin": 2},
    "another kappa and preset": {"kappa": 0.8, "preset": "paper"},
    "undiscounted": {"gamma": 1.0, "fail_below": "off", "return_floor": "off"},
    "a whole number for a fraction": {"gamma": 1, "return_range": (-9, 9), "fail_below": 1},
    "no clock": {"clock": "off"},
    "another clock": {"clock": "on", "time_limit": 60},
    "candidates": {"candidates": 7},
    "a training record": {"pilot_episodes": 0, "training": TRAINING},
    "a training record and a pilot": {"pilot_episodes": 2, "training": TRAINING},
}


@pytest.mark.parametrize("scheme", ["rec-2", "auto"])
@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_certificates_with_other_options_verify(changes, scheme, tmp_path):
    issue(tmp_path / "c", scheme=scheme, **changes)
    assert verify(tmp_path / "c") == []


def test_a_log_without_a_recipe_verifies(tmp_path):
    uneven = recording(17, np.arange(17) % 4 + 3, seed=1, subject={"log": "flight.npz"})
    issue(tmp_path / "c", uneven)
    assert verify(tmp_path / "c") == []


def test_another_number_of_threads_verifies(original):
    torch.set_num_threads(2)
    try:
        assert verify(original) == []
    finally:
        torch.set_num_threads(1)


# --- a changed leaf, the digest as it was --------------------------------------------------------


def test_the_documents_digest_notices_every_leaf(document):
    """Numbers, words and flags alike; all that it does not cover is itself."""
    stated = document["digests"]["certificate"]
    assert document_digest(document) == stated
    unnoticed = [
        name(path)
        for path, value in leaves(document)
        if document_digest(with_leaf(document, path, another(value))) == stated
    ]
    assert unnoticed == ["digests.certificate"]


def test_the_documents_digest_notices_the_smallest_change_of_every_number(document):
    stated = document["digests"]["certificate"]
    numbers = [(p, v) for p, v in leaves(document) if isinstance(v, float) and v]
    assert len(numbers) > 100
    for path, value in numbers:
        changed = with_leaf(document, path, float(np.nextafter(value, 1e9)))
        assert document_digest(changed) != stated, name(path)


def test_verify_reports_a_digest_that_does_not_fit(folder, document):
    paths = [*[path for path, _ in leaves(document)][::25], ("digests", "certificate")]
    for path, value in leaves(document):
        if path in paths:
            store(folder, with_leaf(document, path, another(value)), signed=False)
            found = verify(folder)
            assert any("digest" in line or "schema" in line for line in found), name(path)


def test_a_changed_digit_anywhere_in_the_text_is_reported(folder):
    """Sampled digits of certificate.json, wherever they stand."""
    text = (folder / "certificate.json").read_text()
    places = [match.start() for match in re.finditer(r"\d", text)]
    document = json.loads(text)
    for place in places[:: len(places) // 15]:
        digit = str((int(text[place]) + 3) % 10)
        changed = text[:place] + digit + text[place + 1 :]
        try:
            if json.loads(changed) == document:
                continue  # a digit too many to matter: the number is the same
        except ValueError:
            pass
        (folder / "certificate.json").write_text(changed)
        assert verify(folder), text[place - 30 : place + 10]


def test_a_changed_byte_that_changes_no_number_is_reported_too(folder):
    text = (folder / "certificate.json").read_text()
    changed = re.sub(r'("bound": 0\.\d+)', r"\g<1>0", text, count=1)
    assert changed != text
    (folder / "certificate.json").write_text(changed)
    assert verify(folder)


# --- a changed leaf, and a digest to match -------------------------------------------------------

# What the recomputation starts from, so that a change moves other numbers.
ASKED = ("schema_version", "options", "digests")
# Only a new fit could tell; and what a regression on the first portion, which is free, planned.
UNRECOMPUTED = {
    "rec-2": r"fits\[\d\]\.(loss|kl|objective|updates)\[\d\]|fits\[0\]\.converged",
    "auto": r"fits\[0\]\.(loss|updates)\[\d\]|fits\[0\]\.converged|beforehand\..*",
}
CHAINED = ("beforehand", "fits")  # from which others are recomputed: changed one at a time


def test_every_recomputed_leaf_is_named_although_the_digest_fits(folder, document):
    """All of them changed at once: the list names each, but for the curves of the fits."""
    changed, paths = json.loads(json.dumps(document)), []
    for path, value in leaves(document):
        if path[0] not in (*ASKED, *CHAINED):
            changed = with_leaf(changed, path, another(value, path))
            paths.append(name(path))
    assert schema_problem(changed) is None
    store(folder, changed, signed=True)
    named = {line.partition(": ")[0] for line in verify(folder)}
    assert {path for path in paths if path not in named} == set()
    assert len(paths) > 150


def test_what_was_fitted_on_a_gpu_is_verified_without_one(folder, document):
    assert document["options"]["device"] in ("cpu", "cuda")
    options = {**document["options"], "device": "cuda:7"}
    store(folder, {**document, "options": options}, signed=True)
    assert verify(folder) == []


def test_what_fits_and_plans_state_is_checked_as_far_as_it_can_be(folder, document):
    """One at a time: a number of rows, a bet, a record too many."""
    for path, value in leaves(document):
        if path[0] not in CHAINED or (isinstance(path[-1], int) and path[-1] > 0):
            continue  # of curves and portfolios the first entry will do
        store(folder, with_leaf(document, path, another(value)), signed=True)
        found = verify(folder)
        if not re.fullmatch(UNRECOMPUTED[document["scheme"]], name(path)):
            assert found, name(path)


FORGED = {
    "a wide profile": {"profile": [1e6]},
    "a profile below zero": {"profile": [1.0, -1.0]},
    "a profile of nothing": {"profile": []},
    "bets of too much weight": {"bets": [0.5, 0.5], "weights": [0.9, 0.9]},
    "a bet too large": {"bets": [1.5], "weights": [1.0]},
}


@pytest.mark.parametrize("original", ["auto"], indirect=True)
@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_plan_that_no_plan_can_be_is_reported(change, folder, document):
    """Whatever else fits: with a wide profile any band would be narrow."""
    store(folder, {**document, "beforehand": {**document["beforehand"], **change}}, signed=True)
    assert verify(folder)


def test_a_bet_that_was_chosen_afterwards_is_reported_where_it_can_be(tmp_path):
    """A forger with the whole package: the bet that turns out best, all numbers made anew."""
    honest = certify(episodes(), **{**OPTIONS, "scheme": "nonrec-noninf"})
    data = prepare(episodes(), honest.options)
    seen = view(data, honest.options)
    for bet in (0.999, 0.3, None):
        chosen = Beforehand(bet=bet)
        if chosen == honest.beforehand:
            continue
        found = assess(honest.chain, data, seen, honest.options, chosen)
        fitted = Fitted(honest.chain, honest.fits, chosen)
        write(record(found, fitted, data, seen, honest.options), tmp_path / str(bet))
        assert any(line.startswith("beforehand.bet") for line in verify(tmp_path / str(bet)))


def test_the_rows_and_the_convergence_of_fits_are_compared(folder, document):
    paths = [("fits", index, "rows") for index in range(len(document["fits"]))]
    paths += [("fits", index, "converged") for index in range(1, len(document["fits"]))]
    for path in paths:
        value = dict(leaves(document))[path]
        store(folder, with_leaf(document, path, another(value)), signed=True)
        assert any(line.startswith(name(path)) for line in verify(folder))


def test_everything_asked_for_is_noticed_if_changed_although_the_digest_fits(folder, document):
    """One at a time: each moves a number, the prior or a file."""
    unnoticed = []
    for path, value in leaves(document):
        if path[0] in ASKED and path != ("digests", "certificate"):
            store(folder, with_leaf(document, path, another(value)), signed=True)
            if not verify(folder):
                unnoticed.append(name(path))
    # Nothing is drawn and nothing recurs in auto, and its regression is not repeated: its seed
    # shows only where it moves a p-value.
    spare = {"mc_passes", "sampling", "kappa"} if document["scheme"] == "auto" else set()
    shown = {"options.seed"} if document["scheme"] == "auto" else set()
    assert set(unnoticed) - shown == {f"options.{option}" for option in spare}


SMALL = {
    "confidence": ("confidence", lambda value: value * (1 + 5e-6)),
    "a failure probability": ("ledger.0.failure", lambda value: value * (1 + 5e-6)),
}


@pytest.mark.parametrize(("path", "change"), SMALL.values(), ids=SMALL)
def test_a_confidence_that_differs_a_little_from_its_ledger_is_noticed(
    path, change, folder, document
):
    path = tuple(int(part) if part.isdigit() else part for part in path.split("."))
    store(folder, with_leaf(document, path, change(dict(leaves(document))[path])), signed=True)
    assert verify(folder)


def test_a_large_count_that_is_one_too_many_is_noticed(tmp_path):
    issue(tmp_path / "c", mc_passes=1400)
    document = json.loads((tmp_path / "c" / "certificate.json").read_text())
    assert document["portions"][0]["draws"] == 1400 * 12 * 6
    document["portions"][0]["draws"] += 1
    store(tmp_path / "c", document, signed=True)
    assert verify(tmp_path / "c")


LIES = {
    "more confidence": {"confidence": 0.99},
    "a bound out of thin air": {"bound": 0.001},
    "no test error": {"test_error": None, "tightness": None},
    "no failure": {"vacuous": False, "failed_fit": False, "train_error": 0.0},
    "no assumptions": {"assumptions": ["None."]},
    "no ledger": {"ledger": [{"statement": "x", "source": "delta", "share": "1", "failure": 0.1}]},
    "no statements": {"statements": []},
    "another headline": {"headline": 1},
    "not void": {"void": True},
    "another subject": {"subject": {}},
}


@pytest.mark.parametrize("lies", LIES.values(), ids=LIES)
def test_a_signed_lie_is_reported_under_its_name(lies, folder, document):
    store(folder, {**document, **lies}, signed=True)
    named = {re.split(r"[.\[:]", line)[0] for line in verify(folder)}
    told = {key for key, value in lies.items() if document[key] != value}
    assert told
    assert told <= named


def test_a_confidence_that_fits_its_deltas_but_not_its_bounds_is_reported(folder, document):
    """delta, the ledger and the confidence changed consistently: the bounds give it away."""
    changed = json.loads(json.dumps(document))
    changed["delta"] /= 2
    changed["options"]["delta"] /= 2
    changed["confidence"] = 1 - changed["delta"] - changed["delta_prime"]
    for entry in changed["ledger"]:
        if entry["source"] == "delta":
            entry["failure"] /= 2
    store(folder, changed, signed=True)
    named = {line.partition(":")[0] for line in verify(folder)}
    assert "bound" in named
    assert "confidence" not in named


def test_missing_and_additional_entries_are_reported(folder, document):
    for change in (
        lambda d: d.pop("ledger"),
        lambda d: d["portions"].pop(),
        lambda d: d["portions"].append(d["portions"][-1]),
        lambda d: d["statements"].pop(),
        lambda d: d["statements"].append(d["statements"][-1]),
        lambda d: d["ledger"].pop(),
        lambda d: d["subject"].pop("seed"),
        lambda d: d["subject"].update(endorsed=True),
        lambda d: d.update(note="trust me"),
        lambda d: d["digests"].pop("rollouts"),
        lambda d: d["fits"].clear(),
    ):
        changed = json.loads(json.dumps(document))
        change(changed)
        store(folder, changed, signed=True)
        assert verify(folder)


# --- the files beside it ------------------------------------------------------------------------


def header_size(path):
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that became huge
@pytest.mark.parametrize("file", FILES.values())
def test_a_flipped_bit_in_the_files_is_reported(file, folder):
    path = folder / file
    content, rng = path.read_bytes(), np.random.default_rng(4)
    data = header_size(path)
    places = [*rng.integers(8, data, 5), *rng.integers(data, len(content), 7), len(content) - 1]
    for place in map(int, places):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(spoilt))
        assert verify(folder), place
    path.write_bytes(content)
    assert verify(folder) == []


def test_a_flipped_type_in_the_predictors_header_is_reported(folder):
    """F32 -> I32: one byte, a well-formed file, and weights that cannot be multiplied."""
    path = folder / FILES["predictor"]
    content = path.read_bytes()
    array = b'"1.1.mean"' if b'"1.1.mean"' in content else b'"network.1"'
    place = content.index(b'"F32"', content.index(array)) + 1
    path.write_bytes(content[:place] + b"I" + content[place + 1 :])
    assert any("predictor.safetensors" in line for line in verify(folder))


def test_a_number_of_passes_that_no_machine_can_draw_is_reported(folder, document):
    options = {**document["options"], "mc_passes": 10**13}
    store(folder, {**document, "options": options}, signed=True)
    assert verify(folder) or document["scheme"] == "auto"  # which draws nothing


def tensors(folder, file):
    with safe_open(folder / file, framework="np") as archive:
        return load_file(folder / file), archive.metadata()


ROLLOUTS = {
    "a reward": ("rollouts", "rewards", lambda a: a.__setitem__(70, a[70] + 0.05), "bound"),
    "an observation": ("rollouts", "observations", lambda a: a.__setitem__(70, -a[70]), "other_"),
    "an end": ("rollouts", "terminated", lambda a: a.__setitem__(10, True), "statements"),
}
SCALING = {
    "the range": ("predictor", "scaling.range", lambda a: a.__imul__(1.01), "predictor"),
    "the scaling's mean": ("predictor", "scaling.mean", lambda a: a.__iadd__(0.01), "predictor"),
    "its deviation": ("predictor", "scaling.deviation", lambda a: a.__imul__(1.01), "predictor"),
}
FORGERIES = {
    "rec-2": {
        **ROLLOUTS,
        **SCALING,
        "the prior's mean": (
            "predictor",
            "0.1.mean",
            lambda a: a.__imul__(1.001),
            "portions[0].kl",
        ),
        "the prior's variance": (
            "predictor",
            "0.1.log_variance",
            lambda a: a.__iadd__(0.01),
            "portions[0].kl",
        ),
        "a posterior's mean": ("predictor", "1.2.mean", lambda a: a.__iadd__(0.01), "portions[0]"),
        "the last posterior": ("predictor", "2.2.mean", lambda a: a.__iadd__(0.01), "portions[1]"),
    },
    "auto": {
        **ROLLOUTS,
        **SCALING,
        "a weight": ("predictor", "network.2", lambda a: a.__iadd__(0.01), "statements[0]"),
    },
}


def test_changed_files_with_new_digests_are_given_away_by_the_numbers(original, document, tmp_path):
    for label, (key, array, change, named) in FORGERIES[document["scheme"]].items():
        folder = shutil.copytree(original, tmp_path / label)
        arrays, header = tensors(folder, FILES[key])
        change(arrays[array])
        save_file(arrays, folder / FILES[key], metadata=header)
        resign(folder)
        found = verify(folder)
        assert not any("digest" in line for line in found), label
        assert any(line.startswith(named) for line in found), (label, found)


def test_another_clock_in_the_predictor_is_reported(folder):
    arrays, header = tensors(folder, FILES["predictor"])
    inner = json.loads(header["tightrope"])
    assert inner["clock"]["limit"] == 6
    inner["clock"]["limit"] = 7
    save_file(arrays, folder / FILES["predictor"], metadata={"tightrope": json.dumps(inner)})
    resign(folder)
    assert any("the episodes give Clock(limit=6" in line for line in verify(folder))


def test_a_predictor_of_another_certificate_is_reported(folder, tmp_path):
    scheme = json.loads((folder / "certificate.json").read_text())["scheme"]
    issue(tmp_path / "other", scheme=scheme, seed=6)
    shutil.copy(tmp_path / "other" / FILES["predictor"], folder / FILES["predictor"])
    assert any("predictor.safetensors: digest" in line for line in verify(folder))
    resign(folder)
    first = "portions[0].kl" if scheme == "rec-2" else "statements[0].value"
    assert any(line.startswith(first) for line in verify(folder))


def forge(tmp_path, prior, **changes):
    """A forger with the whole package: another first prior, and all numbers made anew.

    `prior` gets the honest prior and the posterior; the file is consistent in itself.
    """
    given = {**OPTIONS, "scheme": "nonrec-noninf", **changes}
    honest = certify(episodes(), **given)
    moved = prior(*honest.chain.gaussians)
    last = honest.chain.gaussians[-1]
    chain = Chain((moved, last), Network(last.means), honest.chain.scaling)
    data = prepare(episodes(), honest.options)
    seen = view(data, honest.options)
    found = assess(chain, data, seen, honest.options, honest.beforehand)
    fitted = Fitted(chain, honest.fits, honest.beforehand)
    forged = record(found, fitted, data, seen, honest.options)
    write(forged, tmp_path / "c")
    return honest, forged


def towards(share):
    """A prior on the way to the posterior, with its own variances."""

    def move(prior, posterior):
        pairs = zip(prior.means, posterior.means, strict=True)
        return Gaussians(tuple(torch.lerp(a, b, share) for a, b in pairs), prior.log_variances)

    return move


NOT_FROM_THE_SEED = "predictor.safetensors: the first prior's means do not follow"
WITHOUT_PILOT = {"pilot_episodes": 0, "return_range": (-4.0, 4.5)}


@pytest.mark.parametrize("changes", [{}, {"preset": "paper"}, WITHOUT_PILOT])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_first_prior_that_was_moved_onto_the_posterior_is_reported(share, changes, tmp_path):
    honest, forged = forge(tmp_path, towards(share), **changes)
    assert forged.portions[0].kl < honest.portions[0].kl
    assert [line for line in verify(tmp_path / "c") if line.startswith(NOT_FROM_THE_SEED)]


@pytest.mark.parametrize("changes", [{}, WITHOUT_PILOT])
def test_a_first_prior_that_was_moved_somewhere_is_reported(changes, tmp_path):
    """By much less than its standard deviation, e^-8 or e^-4.5."""

    def move(prior, _):
        return Gaussians(tuple(mean + 1e-5 for mean in prior.means), prior.log_variances)

    forge(tmp_path, move, **changes)
    assert [line for line in verify(tmp_path / "c") if line.startswith(NOT_FROM_THE_SEED)]


def test_a_drawn_prior_must_be_the_seeds_to_the_last_bit(tmp_path):
    def move(prior, _):
        means = [mean.clone() for mean in prior.means]
        means[0][0, 0, 0] = torch.nextafter(means[0][0, 0, 0], torch.tensor(9.0))
        return Gaussians(tuple(means), prior.log_variances)

    forge(tmp_path, move, **WITHOUT_PILOT)
    assert [line for line in verify(tmp_path / "c") if line.startswith(NOT_FROM_THE_SEED)]


def test_what_verify_grants_the_first_prior_gains_a_forger_next_to_nothing():
    """Within d nats of the prior, a KL of K falls by at most 2 sqrt(d K): here for K = 100."""
    prior = Gaussians((torch.zeros(1, 3, 1),), (torch.full((1, 3, 1), -14.0),))
    unit = math.exp(-7.0)

    def shifted(nats):
        mean = torch.zeros(1, 3, 1)
        mean[0, 0, 0] = math.sqrt(2 * nats) * unit
        return Gaussians((mean,), prior.log_variances)

    posterior, granted = shifted(100.0), shifted(_PRIOR_NATS)
    assert kl_divergence(granted, prior)[0] == pytest.approx(_PRIOR_NATS, rel=1e-3)
    gained = kl_divergence(posterior, prior)[0] - kl_divergence(posterior, granted)[0]
    assert gained == pytest.approx(2 * math.sqrt(100 * _PRIOR_NATS), rel=1e-2)
    assert gained < 0.03


def test_a_certificate_made_beside_others_is_verified_alone(tmp_path):
    """Members of one batch are fitted in products of another shape, which round differently."""
    options = Options(**OPTIONS)
    (made,) = certify_many(episodes(), [options], [5, 6, 7])
    for index, certificate in enumerate(made):
        write(certificate, tmp_path / str(index))
        assert verify(tmp_path / str(index)) == []


@pytest.mark.parametrize("file", FILES.values())
def test_a_missing_file_is_reported_with_its_name(file, folder):
    (folder / file).unlink()
    assert any(file in line for line in verify(folder))


@pytest.mark.parametrize("file", [*FILES.values(), "certificate.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_reported_with_its_name(file, share, folder):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: int(share * len(content))])
    found = verify(folder)
    assert any(file in line for line in found)
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "not json", '{"digests": 3}', "\ufeff{}", "\x00", "[" * 99999, "NaN"],
)
def test_a_document_that_is_none_is_reported(text, folder):
    (folder / "certificate.json").write_text(text)
    (found,) = verify(folder)
    assert "certificate.json" in found
    assert "\n" not in found


def test_a_page_beside_the_certificate_is_not_looked_at(folder):
    (folder / "report.html").write_text("anything")
    assert verify(folder) == []


def test_where_there_is_no_certificate_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="folder of a certificate"):
        verify(tmp_path / "nowhere")
    with pytest.raises(InputError, match="expected a certificate"):
        verify(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder of a certificate"):
        verify(tmp_path / "file")


def test_verifying_changes_nothing(original):
    before = {path.name: path.read_bytes() for path in original.iterdir()}
    verify(original)
    assert {path.name: path.read_bytes() for path in original.iterdir()} == before
    assert len(read(original)) == 3
