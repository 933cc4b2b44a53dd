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
from recordings import certified, recording, short
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tightrope.certificates import Options, Property, as_text, settle, write
from tightrope.certificates.certificate import DERIVED
from tightrope.certificates.certify import issue as issue_settled
from tightrope.certificates.diagnostics import LEVEL
from tightrope.certificates.fitting import FittedPredictor
from tightrope.certificates.folder import (
    FILES,
    document_digest,
    load_certificate,
    read_record,
)
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.recompute import choices, recompute
from tightrope.certificates.split import split_episodes
from tightrope.certificates.verify import _PRIOR_NATS, _agree, verify
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.posteriors import Gaussians, Scaling, kl_divergence, posterior_predictor

SUBJECT = {
    "policy": {"name": "perceptron", "digest": "0" * 64, "actions": "deterministic"},
    "environment": {"id": "Toy-v0", "suite": "gymnasium", "thin": 1, "fixed_length": True},
    "seed": 17,
    "versions": {"python": "3.11.0", "torch": "2.13.0"},
}
OPTIONS = {
    "test_episodes": 2, "gamma": 0.5, "mc_passes": 2, "fail_below": 0.5, "return_floor": -30.0,
    "delta": 0.1, "seed": 5,
}  # fmt: skip
FIXED = ("auto", "holdout")


def asked(scheme, **changes):
    """Fitting or pilot episodes, as the scheme has them."""
    own = {"fit_episodes": 5} if scheme in FIXED else {"pilot_episodes": 3}
    return {**OPTIONS, **own, "scheme": scheme, **changes}


def episodes():
    return recording(17, seed=1, subject=SUBJECT)


def issue(folder, recorded=None, scheme="rec-2", training=None, properties=None, **changes):
    options, own = Options(**asked(scheme, **changes)), properties_of(properties)
    recorded = measure_properties(recorded or episodes(), own)
    settings = settle(
        options, recorded, preset=short(options.preset), training=training, properties=own
    )
    return write(issue_settled(recorded, settings, options=options, training=training), folder)


def depth(episode):
    """A number below 0, to be certified from below."""
    return -abs(float(episode.rewards[0])) - 1


PROPERTIES = {
    "depth": Property(depth, "at-least", limit=-1.5),
    "leak": Property(lambda episode: 1e-11 * len(episode.rewards)),
    "nothing": Property(lambda episode: 0.0),
}


@pytest.fixture(scope="module", params=["rec-2", "auto"])
def original(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates") / "original"
    own = PROPERTIES if request.param == "auto" else None
    issue(folder, scheme=request.param, properties=own)
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


ELSE = {  # another value that the schema allows
    "independent steps": "independent episodes", "independent episodes": "independent steps",
    "step": "episode", "episode": "step", "local": "weights", "weights": "local",
    "risk": "excess", "excess": "fixed", "fixed": "risk", "tolerance": "band",
    "band": "tolerance", "mean-risk": "return", "return": "failure", "failure": "monitor",
    "monitor": "band", "regression": "posterior", "posterior": "regression", "paper": "tight",
    "tight": "paper", "at-least": "at-most", "at-most": "at-least", "on": "off", "off": 3.5,
    "auto": "rec-1", "rec-2": "rec-1", "delta": "delta_prime", "both": "delta",
    "delta_prime": "delta", "1/2": "1/3", "1/4": "1/5", "1": "1/2", "joint": "bound",
    "bound": "joint", "recursive": "informed", "neutral": "failure",
    "inverse-kl": "mcallester", "pilot": "user", "fit": "user", "user": "pilot",
}  # fmt: skip


def another(value, path=()):
    if path and path[0] == "checks":  # what matters is on which side of the level a p-value is
        return 1e-3 if value > LEVEL else 0.5
    if path and path[-1] == "target":
        return "success" if value != "success" else "error"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.998 + 1.5e-6
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


def test_a_fresh_certificate_verifies_and_verifying_changes_nothing(original):
    before = {path.name: path.read_bytes() for path in original.iterdir()}
    assert verify(original) == []
    torch.set_num_threads(2)
    try:
        assert verify(str(original)) == []
    finally:
        torch.set_num_threads(1)
    assert {path.name: path.read_bytes() for path in original.iterdir()} == before


TRAINING = Scaling(-5.0, 5.0, "training", np.zeros(3, np.float32), np.ones(3, np.float32))
UNEVEN = recording(17, np.arange(17) % 4 + 3, seed=1, subject={"log": "flight.npz"})
KINDS = {
    "rec-3, weights": {"scheme": "rec-3", "sampling": "weights"},
    "rec-3, episodes": {"scheme": "rec-3", "unit": "episode"},
    "nonrec-noninf": {"scheme": "nonrec-noninf"},
    "nonrec-inf, paper": {"scheme": "nonrec-inf", "preset": "paper", "unit": "episode"},
    "nonrec-inf, no pilot": {
        "scheme": "nonrec-inf", "return_range": (-4.0, 4.5), "pilot_episodes": 0
    },
    "holdout, steps, paper": {"scheme": "holdout", "unit": "step", "preset": "paper"},
    "auto, a range of the user, no test": {
        "scheme": "auto", "return_range": (-4.0, 4.5), "test_episodes": 0, "unit": "step"
    },
    "auto, thinned": {"scheme": "auto", "thin": 2, "candidates": 7},
    "auto, undiscounted, no clock": {"scheme": "auto", "gamma": 1.0, "clock": "off"},
    "some of the episodes": {"episodes": 6, "return_range": (-9, 9), "fail_below": 1},
    "another kappa and preset": {"kappa": 0.8, "preset": "paper", "clock": "on", "time_limit": 60},
    "a training record": {"pilot_episodes": 0, "training": TRAINING},
    "a training record and a pilot": {"pilot_episodes": 2, "training": TRAINING},
    "an uneven log without a recipe": {"recorded": UNEVEN},
    "an uneven log": {"recorded": UNEVEN, "scheme": "auto"},
}  # fmt: skip


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_every_kind_of_certificate_verifies(changes, tmp_path):
    issue(tmp_path / "c", **changes)
    assert verify(tmp_path / "c") == []


# --- a changed leaf, the digest as it was --------------------------------------------------------


def test_the_documents_digest_notices_every_leaf_and_the_smallest_change_of_a_number(document):
    """Numbers, words and flags alike; all that it does not cover is itself."""
    stated = document["digests"]["certificate"]
    assert document_digest(document) == stated
    unnoticed = [
        name(path)
        for path, value in leaves(document)
        if document_digest(with_leaf(document, path, another(value))) == stated
    ]
    assert unnoticed == ["digests.certificate"]
    paths = {p: v for p, v in leaves(document) if isinstance(v, float) and v}
    for path, value in list(paths.items())[::7]:
        changed = with_leaf(document, path, float(np.nextafter(value, 1e9)))
        assert document_digest(changed) != stated, name(path)


def test_a_changed_digit_anywhere_in_the_text_is_reported(folder):
    """Sampled digits of certificate.json, and a zero more that changes no number."""
    text = (folder / "certificate.json").read_text()
    places = [match.start() for match in re.finditer(r"\d", text)]
    texts = [re.sub(r'("bound": 0\.\d+)', r"\g<1>0", text, count=1)]
    for place in places[:: len(places) // 12]:
        digit = str((int(text[place]) + 3) % 10)
        texts.append(text[:place] + digit + text[place + 1 :])
    for changed in texts:
        assert changed != text
        (folder / "certificate.json").write_text(changed)
        assert verify(folder)


# --- a changed leaf, and a digest to match -------------------------------------------------------

# Only a new fit could tell; and what a regression on the fitting set chose.
UNRECOMPUTED = {
    "rec-2": r"fits\[\d\]\.(loss|kl|objective|updates)\[\d+\]|.*\.chosen\..*",
    "auto": r"fits\[0\]\.(loss|updates)\[\d+\]|.*\.chosen\.(profile|widths|window|bets|weights).*",
}


# What was chosen must fit these.
NAMED = (("statements", "kind"), ("statements", "name"))


def test_every_recomputed_leaf_is_named_although_the_digest_fits(folder, document):
    """All of them changed at once: the list names each, but for what the fits alone would show."""
    changed, paths = json.loads(json.dumps(document)), []
    for path, value in leaves(document):
        if path[0] in ("schema_version", "options", "settings", "digests", "fits"):
            continue
        if "chosen" in path or path[-1] == "headline" or (path[0], path[-1]) in NAMED:
            continue
        changed = with_leaf(changed, path, another(value, path))
        paths.append(name(path))
    read_record(json.dumps(changed), "here")
    store(folder, changed, signed=True)
    found = verify(folder)
    assert not any("failed" in line for line in found), found
    named = {line.partition(": ")[0] for line in found}
    assert {path for path in paths if path not in named} - set(DERIVED) == set()
    assert any("its text is not" in line for line in found)  # what is derived does not fit
    assert len(paths) > 150


def test_everything_asked_for_and_done_is_noticed_if_changed_although_the_digest_fits(
    folder, document
):
    """One at a time: options, settings, and what was fitted and chosen."""
    unnoticed = []
    for path, value in leaves(document):
        first = not (isinstance(path[-1], int) and path[-1] > 0)  # of a list one will do
        alone = path[0] in ("options", "settings", "fits", "headline") or "chosen" in path
        if alone or (path[0], path[-1]) in NAMED:
            if not first or re.fullmatch(UNRECOMPUTED[document["scheme"]], name(path)):
                continue
            store(folder, with_leaf(document, path, another(value)), signed=True)
            if not verify(folder):
                unnoticed.append(name(path))
    # A preset may be of the issuer's own; nothing is drawn in auto, and its fit is not repeated.
    spare = r"settings\.(device|preset\..*)"
    assert [each for each in unnoticed if not re.fullmatch(spare, each)] == []


def test_what_was_fitted_on_a_gpu_is_verified_without_one(folder, document):
    changed = json.loads(json.dumps(document))
    changed["options"]["device"] = changed["settings"]["device"] = "cuda:7"
    store(folder, changed, signed=True)
    assert verify(folder) == []
    changed["options"]["device"] = "cpu"
    store(folder, changed, signed=True)
    assert "settings.device: stated 'cuda:7', recomputed 'cpu'" in verify(folder)


@pytest.mark.parametrize("original", ["rec-2"], indirect=True)
def test_a_certificate_that_has_lost_its_predictor_is_reported(original, tmp_path):
    """Only a table has none; all the rest would be recomputed as stated."""
    whole = load_certificate(original)
    split = split_episodes(whole.rollouts, whole.settings)
    write(recompute(split, None, options=whole.options), tmp_path / "forged")
    (problem,) = verify(tmp_path / "forged")
    assert problem.startswith("bound: ")


CHOSEN = {
    "a wide profile": ("band", {"profile": [1e6]}),
    "a profile below zero": ("band", {"profile": [1.0, -1.0]}),
    "a profile of nothing": ("band", {"profile": []}),
    "no profile": ("band", {}),
    "widths of a word": ("monitor", {"window": 3, "widths": "wide"}),
    "no window": ("monitor", {"window": 0, "widths": [1.0]}),
    "bets of too much weight": ("mean over steps", {"bets": [0.5, 0.5], "weights": [0.9, 0.9]}),
    "a bet too large": ("mean over steps", {"bets": [1.5], "weights": [1.0]}),
    "too many bets": ("mean over steps", {"bets": [0.5] * 1001, "weights": [1e-3] * 1001}),
    "a top below the floor": ("expected undiscounted return", {"top": -31.0}),
    "another top": ("expected undiscounted return", {"top": 5.0}),
    "an entry more": ("band", {"profile": [1.0], "audited": 1}),
    "a choice where nothing is chosen": ("mean over episodes", {"audited": 1}),
}


@pytest.mark.parametrize("original", ["auto"], indirect=True)
@pytest.mark.parametrize(("name", "chosen"), CHOSEN.values(), ids=CHOSEN)
def test_a_choice_that_no_choice_can_be_is_reported(name, chosen, folder, document):
    """Whatever else fits: with a wide profile any band would be narrow."""
    changed = json.loads(json.dumps(document))
    (each,) = [s for s in changed["statements"] if s["name"] == name]
    each["chosen"] = chosen
    store(folder, changed, signed=True)
    assert verify(folder)


LIES = {
    "a bound out of thin air": {"bound": 0.001},
    "no test error": {"test_error": None},
    "no assumptions": {"assumptions": ["None."]},
    "no statements": {"statements": []},
    "another subject": {"subject": {}},
    "no ledger": {"ledger": []},
    "no fits": {"fits": []},
    "checks that are no p-values": {"checks": {"dependence": -0.5, "drift": 1.0}},
}


@pytest.mark.parametrize("lies", LIES.values(), ids=LIES)
def test_a_signed_lie_is_reported_under_its_name(lies, folder, document):
    store(folder, {**document, **lies}, signed=True)
    found = verify(folder)
    (key,) = lies
    assert any(line.startswith(key) or "certificate.json" in line for line in found)


def test_a_confidence_that_fits_its_deltas_but_not_its_bounds_is_reported(folder, document):
    """delta, the ledger and the confidence changed consistently: the bounds give it away."""
    changed = json.loads(json.dumps(document))
    changed["delta"] = changed["options"]["delta"] = changed["settings"]["delta"] = 0.05
    changed["confidence"] = 1 - 0.05 - changed["delta_prime"]
    store(folder, changed, signed=True)
    named = {line.partition(":")[0] for line in verify(folder)}
    assert "bound" in named
    assert "confidence" not in named


# --- one side only ------------------------------------------------------------------------------


def shifted(document, part):
    """Every limit moved outward by a part of what its rounding is relative to; which these are."""
    changed, moved = json.loads(json.dumps(document)), set()
    low, high = (document["return_range"][end] for end in ("low", "high"))
    for index, each in enumerate(changed["statements"]):
        sign = 1 if each["direction"] == "at-most" else -1
        for key in ("value", "value_raw", "rms_raw"):
            if not each[key] or each["vacuous"]:
                continue
            size = abs(each[key])
            if each["kind"] == "return" and key == "value":
                size = abs(document["statements"][index]["value_raw"]) / (high - low)
            if each["kind"] == "mean-risk" and key == "rms_raw":
                size /= 2  # the root of what was rounded
            each[key] += sign * part * size
            moved.add(f"statements[{index}].{key}")
    if document["bound"] < 1:
        changed["bound"] *= 1 + part
        moved.add("bound")
    return changed, moved


@pytest.mark.parametrize(
    ("part", "accepted"),
    [(-1.1e-5, False), (-0.4e-5, True), (0.0, True), (1.9e-5, True), (2.2e-5, False)],
    ids=["better by a hair", "within the rounding", "itself", "worse", "worse than rounding"],
)
def test_limits_are_granted_the_rounding_of_processors_on_one_side_only(
    part, accepted, folder, document
):
    """Stated is 1e-5 of itself outside of the limit; limit <= stated <= limit (1 + 3e-5).

    Of every kind: tiny limits, and lower limits below 0, among them.
    """
    kinds = {each["kind"] for each in document["statements"] if not each["vacuous"]}
    assert {"mean-risk", "return", "failure"} <= kinds
    if document["scheme"] == "auto":
        assert {"tolerance", "band", "monitor", "property"} <= kinds
        sizes = {each["name"]: each["value"] for each in document["statements"]}
        assert sizes["property: depth"] < 0 < sizes["property: leak"] < 1e-9
        assert sizes["property: nothing"] == 0
    changed, moved = shifted(document, part)
    store(folder, changed, signed=True)
    named = {line.partition(":")[0] for line in verify(folder)}
    assert {each for each in named if each in moved} == (set() if accepted else moved)


ULP, TINY, ONE = (lambda v: v * (1 + 1e-12)), (lambda v: v + 1e-8), (lambda v: v + 1)
EXACT = {
    ("confidence",): ULP, ("joint_confidence",): ULP, ("statements", 0, "confidence"): ULP,
    ("statements", -1, "joint_confidence"): ULP, ("ledger", 0, "failure"): ULP,
    ("clipped_share",): TINY, ("statements", 3, "share"): TINY, ("statements", 0, "n"): ONE,
    ("episodes", "calibration"): ONE,
}  # fmt: skip


def test_confidences_and_counts_agree_exactly_and_shares_to_1e_9(folder, document):
    for (first, *rest), change in EXACT.items():
        count = len(document[first]) if isinstance(document[first], list) else 0
        path = (first, *(part % count if isinstance(part, int) else part for part in rest))
        value = dict(leaves(document))[path]
        store(folder, with_leaf(document, path, change(value)), signed=True)
        assert any(line.startswith(name(path)) for line in verify(folder)), path
    assert not _agree("portions[0].draws", 10**9, 10**9 + 1, None)


# --- documents that ask for too much ------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mc_passes",), 2_000_000), (("candidates",), 10**9), (("validation",), 10**12),
        (("thin",), 0), (("delta",), 0.0), (("kappa",), 1.5), (("gamma",), 2.0),
        (("scheme", "weights"), [1] * 1000), (("preset", "hidden"), [10**6]),
        (("preset", "regression", "exact_steps"), 10**9), (("preset", "fit", "epochs"), 10**9),
        (("preset", "regression", "exact_batch"), 10**9),
        (("preset", "regression", "folds"), 10**6), (("device",), "cpu; audited"),
    ],
    ids=str,
)  # fmt: skip
def test_what_would_keep_a_verifier_busy_is_refused_by_the_schema(path, value, folder, document):
    for part in ("settings", "options") if path == ("mc_passes",) else ("settings",):
        store(folder, with_leaf(document, (part, *path), value), signed=True)
        (found,) = verify(folder)
        assert "does not follow the schema" in found or "mc_passes" in found
        assert "\n" not in found


# --- the files beside it ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that became huge
@pytest.mark.parametrize("file", FILES.values())
def test_a_flipped_bit_in_the_files_is_reported(file, folder):
    path = folder / file
    content, rng = path.read_bytes(), np.random.default_rng(4)
    data = 8 + int.from_bytes(content[:8], "little")
    places = [*rng.integers(8, data, 3), *rng.integers(data, len(content), 3), len(content) - 1]
    for place in map(int, places):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(spoilt))
        assert verify(folder), place


def tensors(folder, file):
    with safe_open(folder / file, framework="np") as archive:
        return load_file(folder / file), archive.metadata()


ROLLOUTS = {
    "a reward": ("rollouts", "rewards", lambda a: a.__setitem__(70, a[70] + 0.05), "train_error"),
    "an observation": (
        "rollouts", "observations", lambda a: a.__setitem__(70, -a[70]), "train_error"
    ),
    "an end": ("rollouts", "terminated", lambda a: a.__setitem__(10, True), "statements"),
}  # fmt: skip
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
            "predictor", "0.1.mean", lambda a: a.__imul__(1.001), "predictor.safetensors: the first"
        ),
        "the prior's variance": (
            "predictor", "0.1.log_variance", lambda a: a.__iadd__(0.01), "portions[0].kl"
        ),
        "a posterior's mean": ("predictor", "1.2.mean", lambda a: a.__iadd__(0.01), "portions[0]"),
        "the last posterior": ("predictor", "2.2.mean", lambda a: a.__iadd__(0.01), "portions[1]"),
    },
    "auto": {
        **ROLLOUTS,
        **SCALING,
        "a weight": ("predictor", "network.2", lambda a: a.__iadd__(0.01), "statements[0]"),
    },
}  # fmt: skip


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


def test_a_predictor_of_another_certificate_is_reported(folder, document, tmp_path):
    issue(tmp_path / "other", scheme=document["scheme"], seed=6)
    shutil.copy(tmp_path / "other" / FILES["predictor"], folder / FILES["predictor"])
    assert any("predictor.safetensors: digest" in line for line in verify(folder))
    resign(folder)
    first = "portions[0].kl" if document["scheme"] == "rec-2" else "statements[0].value"
    assert any(line.startswith(first) for line in verify(folder))


def forge(folder, prior=lambda first, last: first, bet="honest", **changes):
    """A forger with the whole package: another first prior or bet, and all numbers made anew.

    `prior` gets the honest prior and the posterior; the files are consistent in themselves.
    """
    given = asked("nonrec-noninf", **changes)
    honest = certified(episodes(), **given)
    first, last = honest.posteriors
    split = split_episodes(episodes(), honest.settings)
    moved = (prior(first, last), last)
    fitted = FittedPredictor(posterior_predictor(last, split.scaling), moved, None, honest.fits)
    chosen = {**choices(split, fitted), **{s.name: s.chosen for s in honest.statements}}
    if bet != "honest":
        chosen[f"mean over {honest.unit}s"] = {"bet": bet}
    forged = recompute(split, fitted, chosen, options=Options(**given))
    write(forged, folder)
    return honest, forged


@pytest.mark.parametrize("bet", [0.999, 0.3, None])
def test_a_bet_that_was_chosen_afterwards_is_reported_where_it_can_be(bet, tmp_path):
    honest, _ = forge(tmp_path / "c", bet=bet)
    assert honest.statement("mean over steps").chosen["bet"] != bet
    assert any(".chosen" in line for line in verify(tmp_path / "c"))


def towards(share):
    """A prior on the way to the posterior, with its own variances."""

    def move(prior, posterior):
        pairs = zip(prior.means, posterior.means, strict=True)
        means = tuple((a + np.float32(share) * (b - a)) for a, b in pairs)
        return Gaussians(means, prior.log_variances, prior.layer_norm)

    return move


def by_a_hair(prior, _):
    """By much less than its standard deviation, e^-8 or e^-2.3."""
    means = tuple(mean + np.float32(1e-5) for mean in prior.means)
    return Gaussians(means, prior.log_variances, prior.layer_norm)


PRIORS = {
    "onto the posterior": (towards(1.0), {}),
    "a tenth of the way": (towards(0.1), {}),
    "onto the posterior, drawn": (towards(1.0), {"preset": "paper"}),
    "by a hair": (by_a_hair, {}),
    "by a hair, drawn": (by_a_hair, {"preset": "paper"}),
}


@pytest.mark.parametrize(("prior", "changes"), PRIORS.values(), ids=PRIORS)
def test_a_first_prior_that_was_moved_is_reported(prior, changes, tmp_path):
    honest, forged = forge(tmp_path / "c", prior, **changes)
    if prior is not by_a_hair:
        assert forged.portions[0].kl < honest.portions[0].kl
    words = "predictor.safetensors: the first prior's means do not follow"
    assert [line for line in verify(tmp_path / "c") if line.startswith(words)]


def test_what_verify_grants_the_first_prior_gains_a_forger_next_to_nothing():
    """Within d nats of the prior, a KL of K falls by at most 2 sqrt(d K): here for K = 100."""
    variances = (np.full((3, 1), -14.0, np.float32),)

    def shifted_by(nats):
        mean = np.zeros((3, 1), np.float32)
        mean[0, 0] = math.sqrt(2 * nats) * math.exp(-7.0)
        return Gaussians((mean,), variances)

    prior, posterior, granted = shifted_by(0), shifted_by(100.0), shifted_by(_PRIOR_NATS)
    assert kl_divergence(granted, prior) == pytest.approx(_PRIOR_NATS, rel=1e-3)
    gained = kl_divergence(posterior, prior) - kl_divergence(posterior, granted)
    assert gained == pytest.approx(2 * math.sqrt(100 * _PRIOR_NATS), rel=1e-2)
    assert gained < 0.03


# --- properties ---------------------------------------------------------------------------------


@pytest.mark.parametrize("original", ["auto"], indirect=True)
def test_a_property_is_recomputed_with_its_function_and_its_limits_without(folder):
    assert verify(folder, properties=PROPERTIES) == []
    assert verify(folder, properties={"other": depth})
    (found,) = verify(folder, properties={"depth": lambda e: depth(e) + (e.seed == 3)})
    assert "1 recorded numbers are not the function's, the first in episode 3" in found


@pytest.mark.parametrize("file", [*FILES.values(), "certificate.json"])
@pytest.mark.parametrize("share", [None, 0.0, 0.3, 0.999])
def test_a_missing_or_truncated_file_is_reported_with_its_name(file, share, folder, tmp_path):
    content = (folder / file).read_bytes()
    (folder / file).unlink()
    if share is None and file == "certificate.json":
        with pytest.raises(InputError, match="expected a certificate"):
            verify(folder)
        return
    if share is not None:
        (folder / file).write_bytes(content[: int(share * len(content))])
    found = verify(folder)
    assert any(file in line for line in found)
    assert all("\n" not in line for line in found)


def test_a_page_beside_the_certificate_is_not_looked_at(folder):
    (folder / "report.html").write_text("anything")
    assert verify(folder) == []


def test_where_there_is_no_certificate_there_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "nowhere", tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match=r"expected (the folder of )?a certificate"):
            verify(place)
