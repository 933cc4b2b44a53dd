"""The certificate as a record, as words, as a document and as files."""

import dataclasses
import json
import math
import os
import re
import shutil
import warnings

import jsonschema
import numpy as np
import pytest
from recordings import changed, recording, short_fits

import tightrope
from tightrope.certificates import certify, read, schema, write
from tightrope.certificates.certificate import document_digest, schema_problem
from tightrope.errors import InputError
from tightrope.posteriors import ReturnPredictor, Scaling
from tightrope.rollouts import join, load

OPTIONS = {
    "scheme": "rec-2",
    "pilot_episodes": 4,
    "test_episodes": 3,
    "thin": 1,
    "gamma": 0.5,
    "mc_passes": 2,
    "seed": 2,
}


@pytest.fixture(autouse=True)
def _short_fits():
    with short_fits():
        yield


@pytest.fixture(scope="module")
def episodes():
    return recording(47, seed=1)


def issue(recorded, /, **changes):
    return certify(recorded, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def certificate(episodes):
    with short_fits():
        return issue(episodes, fail_below=0.5)


@pytest.fixture(scope="module")
def document(certificate):
    return certificate.to_json()


# --- the document -------------------------------------------------------------------------------

DESIGN = (
    *("schema_version", "scheme", "unit", "preset", "bound", "bound_raw", "rms_raw", "confidence"),
    *("delta", "delta_prime", "n", "effective_n", "return_range", "clipped_share", "train_error"),
    *("test_error", "tightness", "portions", "assumptions", "subject", "digests"),
)


def test_the_document_has_every_key_that_the_design_names(document):
    assert set(DESIGN) <= set(document)
    assert document["schema_version"] == 1
    assert document["return_range"]["source"] == "pilot"
    for portion in document["portions"]:
        for name in ("episodes", "n", "kl", "mean_plus", "mean_minus", "draws", "bound"):
            assert name in portion


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("sampling", ["local", "weights"])
@pytest.mark.parametrize("scheme", ["nonrec-noninf", "nonrec-inf", "rec-3", "holdout"])
def test_every_kind_of_certificate_follows_the_shipped_schema(scheme, unit, sampling, episodes):
    found = issue(episodes.span(0, 15), scheme=scheme, unit=unit, sampling=sampling)
    jsonschema.Draft202012Validator(schema()).validate(found.to_json())
    bare = issue(episodes.span(0, 12), scheme=scheme, unit=unit, test_episodes=0)
    jsonschema.Draft202012Validator(schema()).validate(bare.to_json())
    assert bare.to_json()["test_error"] is bare.to_json()["tightness"] is None


def test_the_schema_is_itself_a_schema_and_closed():
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["additionalProperties"] is False
    assert set(schema()["required"]) == set(schema()["properties"])


@pytest.mark.parametrize(
    "change",
    [
        {"bound": 1.5},
        {"bound": -0.1},
        {"unit": "row"},
        {"confidence": 1.0},
        {"schema_version": 2},
        {"n": 0},
        {"extra": 1},
        {"portions": []},
        {"vacuous": "no"},
    ],
    ids=str,
)
def test_the_schema_refuses_what_no_certificate_says(change, document):
    assert schema_problem(document) is None
    assert schema_problem({**document, **change}) is not None
    name = next(iter(change))
    if name in document:
        assert schema_problem({k: v for k, v in document.items() if k != name}) is not None


def test_raw_figures_are_the_normalised_ones_times_the_width(certificate, document):
    low, high = document["return_range"]["low"], document["return_range"]["high"]
    width = high - low
    assert document["bound_raw"] == pytest.approx(document["bound"] * width * width, rel=1e-12)
    assert document["rms_raw"] == pytest.approx(math.sqrt(document["bound"]) * width, rel=1e-12)
    assert document["rms_raw"] ** 2 == pytest.approx(document["bound_raw"], rel=1e-12)
    other = document["other_unit"]
    assert other["rms_raw"] == pytest.approx(math.sqrt(other["bound"]) * width, rel=1e-12)
    assert document["tightness"] == document["bound"] - document["test_error"]
    assert (certificate.bound_raw, certificate.rms_raw) == (
        document["bound_raw"],
        document["rms_raw"],
    )


def test_the_document_is_what_json_gives_back(document):
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_errors_are_means_over_the_chosen_unit_and_the_constant_is_the_validation_mean(episodes):
    """The constant error by plain loops: of the mean validation target on test episodes."""
    short = {"observations": np.eye(2, 3, dtype=np.float32), "rewards": np.array([0.9, -0.3])}
    uneven = changed(episodes.span(0, 15), -1, **short)
    for unit in ("step", "episode"):
        found = issue(uneven, unit=unit)
        low, high = found.return_range

        def targets(episode, low=low, high=high):
            returns, value = [], 0.0
            for reward in reversed(episode.rewards.tolist()):
                value = reward + 0.5 * value
                returns.append(min(max((value - low) / (high - low), 0.0), 1.0))
            return returns[::-1]

        every = [targets(episode) for episode in uneven]
        validation = [y for own in every[4:12] for y in own]
        mean = sum(validation) / len(validation)
        errors = [[(y - mean) ** 2 for y in own] for own in every[12:]]
        flat = [e for own in errors for e in own]
        expected = (
            sum(flat) / len(flat)
            if unit == "step"
            else sum(sum(own) / len(own) for own in errors) / 3
        )
        assert found.constant_error == pytest.approx(expected, rel=1e-9)


# --- flags --------------------------------------------------------------------------------------


def test_a_vacuous_bound_is_one_and_says_so(episodes):
    found = issue(episodes.span(0, 9), unit="episode", test_episodes=2)
    assert found.portions[-1].bound > 1
    assert found.bound == 1.0
    assert found.vacuous is True
    assert found.to_json()["vacuous"] is True
    assert found.bound_raw == pytest.approx(found.width**2)
    assert "VACUOUS" in str(found)


def test_a_bound_that_says_something_is_not_flagged(certificate):
    assert certificate.bound < 1
    assert certificate.vacuous is False
    assert "VACUOUS" not in str(certificate)


def test_a_fit_no_better_than_the_constant_is_a_failed_fit(certificate):
    for error, failed in ((0.01, False), (0.02, True), (0.03, True)):
        found = dataclasses.replace(certificate, test_error=error, constant_error=0.02)
        assert found.failed_fit is failed
        assert found.to_json()["failed_fit"] is failed
        assert ("FAILED FIT" in str(found)) is failed
    # Without test episodes the training error decides.
    bare = dataclasses.replace(certificate, test_error=None, train_error=0.5, constant_error=0.02)
    assert bare.failed_fit


def test_a_predictor_of_pure_noise_is_reported_as_failed(episodes):
    """Rewards that no observation explains, and a fit of no more than a step."""
    rng = np.random.default_rng(3)
    noisy = dataclasses.replace(episodes, rewards=rng.normal(size=len(episodes.rewards)))
    with short_fits(epochs=2, epoch_steps=1, pilot_steps=0):
        found = issue(noisy)
    assert found.failed_fit
    assert found.test_error >= found.constant_error


def test_fits_that_have_not_settled_are_named(certificate):
    fits = [dataclasses.replace(fit, converged=t != 1) for t, fit in enumerate(certificate.fits)]
    assert "not converged: fit 2" in str(dataclasses.replace(certificate, fits=tuple(fits)))
    settled = tuple(dataclasses.replace(fit, converged=True) for fit in fits)
    assert "not converged" not in str(dataclasses.replace(certificate, fits=settled))


def test_a_range_that_clips_more_than_half_warns_with_the_share(episodes):
    low, high = issue(episodes).return_range
    middle = (low + high) / 2
    narrow = (middle - 0.001 * (high - low), middle + 0.001 * (high - low))
    with pytest.warns(UserWarning, match="of the validation returns lie outside") as warned:
        found = issue(episodes, return_range=narrow)
    assert found.clipped_share > 0.5
    (said,) = [str(w.message) for w in warned]
    assert f"{found.clipped_share:.0%}" in said
    assert f"{found.clipped_share:.2%}" in str(found)


def test_the_clipped_share_is_counted_by_hand_and_half_is_not_too_much(episodes):
    data = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]  # with range [0.5, 3]: two of six outside
    every = [dataclasses.replace(e, rewards=np.array(data)) for e in episodes.span(0, 12)]
    recorded = join(every, episodes.subject)
    own = {"gamma": 0.0, "test_episodes": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert issue(recorded, return_range=(0.5, 3.0), **own).clipped_share == 2 / 6
        assert issue(recorded, return_range=(-1.0, 3.0), **own).clipped_share == 0
    with pytest.warns(UserWarning, match="67%"):
        assert issue(recorded, return_range=(0.5, 1.5), **own).clipped_share == 4 / 6


# --- words --------------------------------------------------------------------------------------


def line_of(said, beginning):
    (line,) = [line for line in said.splitlines() if line.strip().startswith(beginning)]
    return line


def first_number(text):
    return float(re.search(r"-?\d[\d,]*\.?\d*(e-?\d+)?", text).group().replace(",", ""))


def assert_rounded_up(text, value):
    """What is printed bounds what was computed, to three digits at least."""
    assert value <= first_number(text) * (1 + 1e-12)
    assert first_number(text) <= value * 1.0011


def test_the_words_say_bound_confidence_unit_other_unit_and_ledger(certificate):
    said = str(certificate)
    assert_rounded_up(said.partition("at most ")[2], certificate.rms_raw)
    assert "confidence 96.5%" in said
    own, other = line_of(said, "bound "), line_of(said, "other unit")
    assert_rounded_up(own, certificate.bound)
    assert_rounded_up(other, certificate.other_bound)
    assert_rounded_up(other.partition("RMS")[2], certificate.other_bound**0.5 * certificate.width)
    assert "unit step" in own
    assert "assumes independent steps" in own
    assert "unit episode" in other
    assert "assumes independent steps" not in other
    for statement, source, share, _ in certificate.ledger:
        assert any(
            statement in line and source in line and share in line for line in said.splitlines()
        )
    assert f"{certificate.test_error:.6f} on 3 episodes" in said
    assert "40 validation episodes" in said
    assert f"about {certificate.effective_n:,.0f} steps" in said
    low, high = certificate.return_range
    assert f"[{low:.4g}, {high:.4g}]" in said
    for t, portion in enumerate(certificate.portions, start=1):
        row = line_of(said, f"{t}  ").split()
        assert (int(row[1]), float(row[3])) == (portion.episodes, round(portion.kl, 2))
        assert float(row[-1]) == pytest.approx(portion.bound, rel=1e-3)
    for sentence in certificate.assumptions:
        assert sentence in said


def test_the_unit_that_assumes_nothing_of_steps_says_so_and_labels_the_other(episodes):
    said = str(issue(episodes, unit="episode"))
    own, other = line_of(said, "bound "), line_of(said, "other unit")
    assert "unit episode" in own
    assert "assumes independent steps" not in own
    assert "assumes independent steps" in other
    assert "nothing is assumed of steps" in said


def test_a_clipped_mean_is_not_printed_as_the_return_itself(certificate):
    """Clipping from below raises the mean: the lower bound is on the clipped return only."""
    lines = [line for line in str(certificate).splitlines() if "expected" in line]
    assert len(lines) == 2
    assert all("clipped" in line for line in lines)


def test_without_test_episodes_nothing_is_said_of_them(episodes):
    said = str(issue(episodes.span(0, 20), test_episodes=0))
    assert "test error" not in said
    assert "tightness" not in said


def test_the_representation_is_one_line_without_arrays(certificate):
    assert repr(certificate).startswith("Certificate(rec-2, unit step, bound ")
    assert "\n" not in repr(certificate)


ASSUMPTIONS = {
    "a log": ({"log": "x"}, "this was not checked"),
    "a policy": ({"policy": {"name": "p", "actions": "deterministic"}}, "deterministic"),
    "sampled actions": ({"policy": {"name": "p", "actions": "sampled"}}, "Actions are sampled"),
    "fixed goals": (
        {
            "policy": {"name": "p"},
            "environment": {"suite": "metaworld", "seeds": "a seed picks one of the 50 goals"},
        },
        "50 goals",
    ),
}


@pytest.mark.parametrize(("subject", "words"), ASSUMPTIONS.values(), ids=ASSUMPTIONS)
def test_assumptions_follow_from_the_subject(subject, words, episodes):
    found = issue(dataclasses.replace(episodes.span(0, 12), subject=subject), test_episodes=0)
    assert any(words in sentence for sentence in found.assumptions)
    assert found.subject == subject


def test_a_partial_collection_is_refused(episodes):
    """What finished first favours short episodes: no certificate from it."""
    partial = dataclasses.replace(episodes, subject={"log": "x", "partial": "3 of 9 episodes"})
    with pytest.raises(InputError, match="3 of 9 episodes"):
        issue(partial)


def test_episodes_of_one_seed_are_refused_and_equal_ones_warned_of(episodes):
    every = list(episodes.span(0, 15))
    twins = [*every[:-1], dataclasses.replace(every[-1], seed=every[5].seed)]
    with pytest.raises(InputError, match="distinct seeds, found the seed 5"):
        issue(join(twins, episodes.subject))
    equal = [*every[:-1], dataclasses.replace(every[5], seed=77)]
    with pytest.warns(UserWarning, match="1 of 15 episodes repeat another one"):
        issue(join(equal, episodes.subject))


def test_time_limits_are_named_with_the_number_of_episodes_they_cut(episodes):
    found = issue(episodes)
    assert found.truncated_episodes == 40
    assert any("40 of 40 validation episodes were cut" in said for said in found.assumptions)
    natural = recording(20, seed=1, terminated=True)
    found = issue(natural)
    assert found.truncated_episodes == 0
    assert not any("time limit" in said for said in found.assumptions)


# --- the predictor ------------------------------------------------------------------------------


def test_the_certificates_predictor_is_its_last_posterior_in_return_units(certificate, episodes):
    observations = episodes.observations[:5]
    found = certificate.predictor(observations)
    own = ReturnPredictor(certificate.chain.gaussians[-1], certificate.chain.scaling)
    np.testing.assert_array_equal(found.mean, own(observations).mean)
    low, high = certificate.return_range
    assert ((found.mean >= low) & (found.mean <= high)).all()
    assert (found.spread > 0).all()
    assert certificate.predictor(observations[0]).mean.shape == (1,)


def test_the_predictor_of_a_certificate_from_weight_draws_draws_weights(episodes):
    found = issue(episodes.span(0, 12), test_episodes=0, sampling="weights")
    assert found.predictor.sampling == "weights"


# --- scaling from elsewhere ---------------------------------------------------------------------


def test_a_training_record_brings_its_range_and_scaling(episodes):
    scaling = Scaling(-6.0, 6.0, "training", np.zeros(3, np.float32), np.full(3, 2.0, np.float32))
    found = issue(episodes, scaling=scaling, pilot_episodes=0)
    assert found.return_range == (-6.0, 6.0)
    assert found.return_range_source == "training"
    assert any("the training log" in said for said in found.assumptions)
    assert "training log" in str(found)


def test_unknown_options_are_refused_with_the_known(episodes):
    with pytest.raises(InputError, match=r"options among scheme, unit, .*found 'shceme'"):
        certify(episodes, shceme="rec-2")


def test_the_package_exports_what_the_design_shows(episodes):
    assert tightrope.certify is certify
    assert {"certify", "verify", "Certificate", "collect"} <= set(tightrope.__all__)


# --- wrong data ---------------------------------------------------------------------------------


def test_constant_returns_are_an_input_error(episodes):
    still = dataclasses.replace(episodes, rewards=np.zeros_like(episodes.rewards))
    with pytest.raises(InputError, match="returns that vary, found the constant 0 in all pilot"):
        issue(still)
    with pytest.raises(InputError, match="found the constant 0 in all validation"):
        issue(still, return_range=(-1.0, 1.0))


def test_too_few_episodes_are_an_input_error(episodes):
    with pytest.raises(InputError, match="at least 6 validation episodes for rec-6, found 5"):
        issue(episodes.span(0, 12), scheme="rec-6")
    with pytest.raises(InputError, match="at least 2 episodes, found 1"):
        issue(episodes.span(0, 1))
    with pytest.raises(InputError, match="expected at least 57 episodes"):
        issue(episodes, episodes=50)


def test_neither_pilot_nor_range_is_an_input_error(episodes):
    with pytest.raises(InputError, match="--return-range"):
        issue(episodes, pilot_episodes=0)
    assert issue(episodes, pilot_episodes=0, return_range=(-4, 4)).return_range_source == "user"


# --- files --------------------------------------------------------------------------------------


def test_a_written_certificate_is_three_files_that_read_back(certificate, tmp_path):
    folder = tmp_path / "deep" / "certificate"
    written = write(certificate, folder)
    names = ["certificate.json", "predictor.safetensors", "rollouts.safetensors"]
    assert sorted(os.listdir(folder)) == names
    assert os.listdir(folder.parent) == ["certificate"]
    document, chain, episodes = read(folder)
    assert document == written.to_json() == json.loads((folder / names[0]).read_text())
    assert set(document["digests"]) == {"predictor", "rollouts", "certificate"}
    assert document["digests"]["certificate"] == document_digest(document)
    assert len(chain.gaussians) == 3
    np.testing.assert_array_equal(episodes.rewards, certificate.rollouts.rewards)
    assert len(load(folder / names[2])) == 47
    assert folder.stat().st_mode & 0o777 == 0o755


def test_only_the_episodes_of_the_certificate_are_written(episodes, tmp_path):
    found = write(issue(episodes, episodes=10), tmp_path / "c")
    assert len(load(tmp_path / "c" / "rollouts.safetensors")) == 4 + 10 + 3
    assert found.episodes["validation"] == 10


def test_no_file_holds_a_pickle_or_a_path_of_this_machine(certificate, tmp_path):
    write(certificate, tmp_path / "c")
    for path in (tmp_path / "c").iterdir():
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content
        assert os.path.expanduser("~").encode() not in content


@pytest.mark.parametrize("kind", ["folder", "file", "full folder", "dangling link"])
def test_something_of_that_name_is_left_as_it_is(kind, certificate, tmp_path):
    place = tmp_path / "c"
    if kind == "file":
        place.write_text("precious")
    elif kind == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    else:
        place.mkdir()
        if kind == "full folder":
            (place / "precious").write_text("precious")
    with pytest.raises(InputError, match=str(place)):
        write(certificate, place)
    assert os.listdir(tmp_path) == ["c"]
    if kind == "full folder":
        assert (place / "precious").read_text() == "precious"
    if kind == "file":
        assert place.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_an_input_error(certificate, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write(certificate, tmp_path / "file" / "c")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("culprit", ["save_chain", "save", "sha256"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("bang")])
def test_a_failure_in_the_middle_leaves_nothing_behind(
    culprit, error, certificate, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(f"tightrope.certificates.certificate.{culprit}", fail)
    expected = InputError if isinstance(error, OSError) else RuntimeError
    with pytest.raises(expected, match=r"No space left|bang"):
        write(certificate, tmp_path / "c")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_no_certificate_is_an_input_error(certificate, tmp_path):
    with pytest.raises(InputError, match="expected a certificate"):
        read(tmp_path)
    write(certificate, tmp_path / "c")
    for name in ("predictor.safetensors", "rollouts.safetensors"):
        copy = tmp_path / f"without {name}"
        shutil.copytree(tmp_path / "c", copy)
        (copy / name).unlink()
        with pytest.raises(InputError, match=name):
            read(copy)
