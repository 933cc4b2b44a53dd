"""The certificate as a record: what it holds, which statuses it has, what it assumes."""

import dataclasses
import math

import numpy as np
import pytest
from recordings import certified, changed, recording, short

from tightrope.certificates import Options, settle
from tightrope.certificates.certify import issue as issue_settled
from tightrope.certificates.diagnostics import Checks
from tightrope.errors import InputError
from tightrope.posteriors import Scaling

OPTIONS = {"test_episodes": 3, "thin": 1, "gamma": 0.5, "mc_passes": 2, "seed": 2}


@pytest.fixture(scope="module")
def episodes():
    return recording(47, seed=1)


def issue(recorded, /, scheme="rec-2", **changes):
    return certified(recorded, scheme=scheme, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def certificate(episodes):
    return issue(episodes, fail_below=0.5)


@pytest.fixture(scope="module")
def fixed(episodes):
    return issue(episodes, "auto")


# --- numbers ------------------------------------------------------------------------------------


def test_raw_figures_are_the_normalised_ones_times_the_width(certificate):
    c = certificate
    width = c.return_range.high - c.return_range.low
    assert c.width == width
    assert c.bound_raw == pytest.approx(c.bound * width * width, rel=1e-12)
    assert c.rms_raw == pytest.approx(math.sqrt(c.bound) * width, rel=1e-12)
    for statement in c.statements[:2]:
        assert statement.value_raw == pytest.approx(statement.value * width * width, rel=1e-12)
        assert statement.rms_raw == pytest.approx(math.sqrt(statement.value) * width, rel=1e-12)
    assert c.tightness == c.bound - c.test_error
    assert dataclasses.replace(c, test_error=None).tightness is None


def plain_targets(episode, low, high):
    returns, value = [], 0.0
    for reward in reversed(episode.rewards.tolist()):
        value = reward + 0.5 * value
        returns.append(min(max((value - low) / (high - low), 0.0), 1.0))
    return returns[::-1]


@pytest.mark.parametrize(("scheme", "known"), [("auto", (0, 3)), ("rec-2", (4, 12))])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_what_is_compared_with_is_a_plain_mean_over_the_unit(scheme, known, unit, episodes):
    """Of earlier returns, overall and of the same elapsed step, on test episodes.

    A fixed predictor is compared with means of its fitting set, a posterior with means of the
    validation episodes that it was fitted to.
    """
    short_one = {"observations": np.eye(2, 3, dtype=np.float32), "rewards": np.array([0.9, -0.3])}
    uneven = changed(episodes.span(0, 15), -1, **short_one)
    counts = {"fit_episodes": 3} if scheme == "auto" else {"pilot_episodes": 4}
    found = issue(uneven, scheme, unit=unit, **counts)
    low, high = found.return_range.low, found.return_range.high
    every = [plain_targets(episode, low, high) for episode in uneven]
    past = every[slice(*known)]
    mean = np.mean([y for own in past for y in own])
    of_step = [np.mean([own[t] for own in past]) for t in range(6)]

    def expected(guess):
        errors = [[(y - guess(t)) ** 2 for t, y in enumerate(own)] for own in every[12:]]
        if unit == "step":
            return np.mean([e for own in errors for e in own])
        return np.mean([np.mean(own) for own in errors])

    assert found.constant_error == pytest.approx(expected(lambda t: mean), rel=1e-9)
    assert found.per_step_error == pytest.approx(expected(lambda t: of_step[t]), rel=1e-9)
    assert found.constant_error != found.per_step_error


def test_train_and_test_errors_are_of_the_predictor_on_its_own_episodes(fixed, episodes):
    """Scheme auto: no draws, so the predictor of the certificate gives them again."""
    low, high = fixed.return_range.low, fixed.return_range.high
    for part, stated in (
        (episodes.span(11, 44), fixed.train_error), (episodes.span(44, 47), fixed.test_error)
    ):  # fmt: skip
        errors = []
        for episode in part:
            predicted = fixed.predictor(episode.observations, elapsed=np.arange(6)).mean
            wanted = np.array(plain_targets(episode, low, high))
            errors += (((predicted - low) / fixed.width - wanted) ** 2).tolist()
        assert stated == pytest.approx(np.mean(errors), rel=1e-5)


# --- statuses -----------------------------------------------------------------------------------


def test_a_vacuous_bound_is_one_and_says_so(episodes):
    found = issue(episodes.span(0, 9), unit="episode", test_episodes=2, pilot_episodes=4)
    assert found.portions[-1].bound > 1
    assert (found.bound, found.vacuous, found.void) == (1.0, True, False)
    assert found.bound_raw == pytest.approx(found.width**2)
    assert found.statuses[0].key == "vacuous"


def test_a_bound_that_says_something_has_a_neutral_status(certificate, fixed):
    assert certificate.bound < 1
    assert not certificate.vacuous
    assert not certificate.void
    quiet = Checks(dependence=1.0, drift=1.0)
    fine = dataclasses.replace(fixed, test_error=0.0, clipped_share=0.0, checks=quiet)
    assert [(s.key, s.tone) for s in fine.statuses] == [("holds", "neutral")]


def test_a_fit_no_better_than_the_constant_or_the_mean_of_each_step_is_a_failed_fit(certificate):
    for error, failed in ((0.01, False), (0.02, True), (0.03, True)):
        for one, other in ((0.02, 0.5), (0.5, 0.02)):
            found = dataclasses.replace(
                certificate, test_error=error, constant_error=one, per_step_error=other
            )
            assert found.failed_fit is failed
            assert ("failed-fit" in [s.key for s in found.statuses]) is failed
    # Without test episodes the training error decides.
    bare = dataclasses.replace(certificate, test_error=None, train_error=0.5, constant_error=0.02)
    assert bare.failed_fit


def test_the_clipped_share_is_counted_by_hand_and_marked_above_a_hundredth(episodes):
    data = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 2.0])  # with range [0.5, 3]: two of six outside
    constant = dataclasses.replace(episodes, rewards=np.tile(data, 47))
    shares = {
        bounds: issue(constant, return_range=bounds, gamma=0.0, test_episodes=0)
        for bounds in ((0.5, 3.0), (-1.0, 3.0), (0.5, 1.5))
    }
    assert [c.clipped_share for c in shares.values()] == [2 / 6, 0, 4 / 6]
    marked = ["clipped" in [s.key for s in c.statuses] for c in shares.values()]
    assert marked == [True, False, True]


# --- assumptions --------------------------------------------------------------------------------

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
def test_assumptions_follow_from_the_metadata(subject, words, episodes):
    found = issue(dataclasses.replace(episodes.span(0, 16), subject=subject), test_episodes=0)
    assert any(words in sentence for sentence in found.assumptions)
    assert found.subject == subject


def test_time_limits_clock_range_and_candidates_are_assumptions(episodes):
    found = issue(episodes, candidates=3)
    text = " ".join(found.assumptions)
    assert found.truncated_episodes == 34
    for words in (
        "34 of 34 episodes were cut by a time limit",
        "knows the elapsed time and the time limit of 6 steps",
        "fixed by pilot episodes that are in no bound before the calibration episodes were used",
        "from at most 3 certificates",
    ):
        assert words in text
    natural = issue(recording(20, seed=1, terminated=True))
    text = " ".join(natural.assumptions)
    assert natural.truncated_episodes == 0
    assert "cut by a time limit" not in text
    assert "does not know the elapsed time" in text
    assert "without looking at the calibration episodes" in text


def test_a_training_record_brings_its_range_and_scaling(episodes):
    training = Scaling(-6.0, 6.0, "training", np.zeros(3, np.float32), np.full(3, 2.0, np.float32))
    options = Options(scheme="rec-2", pilot_episodes=0, **OPTIONS)
    settings = settle(options, episodes, preset=short("tight"), training=training)
    found = issue_settled(episodes, settings, options=options, training=training)
    assert dataclasses.astuple(found.return_range) == (-6.0, 6.0, "training")
    np.testing.assert_array_equal(found.predictor.scaling.deviation, np.full(3, 2.0))
    assert any("the training log" in said for said in found.assumptions)
    wide = {"mean": np.zeros(4, np.float32), "deviation": np.ones(4, np.float32)}
    with pytest.raises(InputError, match="training record for 3 features, found one for 4"):
        issue_settled(episodes, settings, training=dataclasses.replace(training, **wide))


# --- the predictor and the episodes -------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["auto", "holdout", "nonrec-inf", "rec-2", "nonrec-noninf"])
def test_two_episodes_are_enough_for_every_scheme(scheme, episodes):
    pilot = {} if scheme in ("auto", "holdout") else {"pilot_episodes": 4}
    found = issue(episodes.span(0, 6 if pilot else 2), scheme, test_episodes=0, **pilot)
    assert found.episodes.validation == 2
    assert 0 < found.bound <= 1


def test_episodes_that_a_predictor_has_not_seen_and_statements_by_name(fixed, certificate):
    assert fixed.calibration.seeds.tolist() == list(range(11, 44))
    assert fixed.unseen.seeds.tolist() == list(range(11, 47))
    assert certificate.unseen.seeds.tolist() == list(range(44, 47))
    levels = [s for s in fixed.statements if s.name == "tolerance"]
    assert [fixed.statement("tolerance", s.share) for s in levels] == levels
    with pytest.raises(InputError, match=r"a statement among tolerance, .*, found 'no such'"):
        fixed.statement("no such")
