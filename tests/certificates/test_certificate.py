"""The certificate as a record: what it holds, which flags it raises, which data it refuses."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from recordings import changed, recording, short_fits

import tightrope
from tightrope.certificates import Options, certify, certify_many
from tightrope.errors import InputError
from tightrope.posteriors import Scaling
from tightrope.rollouts import join

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


@pytest.mark.parametrize("scheme", ["auto", "rec-2"])
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_what_is_compared_with_is_a_plain_mean_over_the_unit(scheme, unit, episodes):
    """Of validation returns, overall and of the same elapsed step, on test episodes."""
    short = {"observations": np.eye(2, 3, dtype=np.float32), "rewards": np.array([0.9, -0.3])}
    uneven = changed(episodes.span(0, 15), -1, **short)
    found = issue(uneven, scheme=scheme, unit=unit)
    low, high = found.return_range.low, found.return_range.high

    def targets(episode):
        returns, value = [], 0.0
        for reward in reversed(episode.rewards.tolist()):
            value = reward + 0.5 * value
            returns.append(min(max((value - low) / (high - low), 0.0), 1.0))
        return returns[::-1]

    every = [targets(episode) for episode in uneven]
    validation = [y for own in every[4:12] for y in own]
    mean = sum(validation) / len(validation)
    of_step = [sum(own[t] for own in every[4:12]) / 8 for t in range(6)]

    def expected(guess):
        errors = [[(y - guess(t)) ** 2 for t, y in enumerate(own)] for own in every[12:]]
        flat = [e for own in errors for e in own]
        if unit == "step":
            return sum(flat) / len(flat)
        return sum(sum(own) / len(own) for own in errors) / 3

    assert found.constant_error == pytest.approx(expected(lambda t: mean), rel=1e-9)
    assert found.per_step_error == pytest.approx(expected(lambda t: of_step[t]), rel=1e-9)
    assert found.constant_error != found.per_step_error


def test_train_and_test_errors_are_of_the_predictor_on_its_own_episodes(episodes):
    """Scheme auto: no draws, so the predictor of the certificate gives them again."""
    found = issue(episodes, scheme="auto")
    low = found.return_range.low
    means = {}
    for name, part in (("train", episodes.span(4, 44)), ("test", episodes.span(44, 47))):
        errors = []
        for episode in part:
            value, returns = 0.0, []
            for reward in reversed(episode.rewards.tolist()):
                value = reward + 0.5 * value
                returns.insert(0, min(max((value - low) / found.width, 0.0), 1.0))
            predicted = found.predictor(episode.observations, elapsed=np.arange(6)).mean
            errors += (((predicted - low) / found.width - np.array(returns)) ** 2).tolist()
        means[name] = sum(errors) / len(errors)
    assert found.train_error == pytest.approx(means["train"], rel=1e-5)
    assert found.test_error == pytest.approx(means["test"], rel=1e-5)
    assert means["train"] != means["test"]


def test_what_was_settled_stands_in_the_options(episodes):
    found = issue(episodes, scheme="auto", pilot_episodes="auto", episodes="auto", thin="auto")
    settled = found.options
    assert (settled.pilot_episodes, settled.episodes, settled.test_episodes) == (10, 34, 3)
    assert (settled.thin, settled.clock, settled.time_limit) == (5, "on", 6)
    assert (found.thin, found.time_limit, found.steps) == (5, 6, 34 * 2)
    off = issue(episodes, clock="off")
    assert (off.options.clock, off.options.time_limit, off.time_limit) == ("off", "auto", None)


# --- flags --------------------------------------------------------------------------------------


def test_a_vacuous_bound_is_one_and_says_so(episodes):
    found = issue(episodes.span(0, 9), scheme="rec-2", unit="episode", test_episodes=2)
    assert found.portions[-1].bound > 1
    assert (found.bound, found.vacuous, found.void) == (1.0, True, False)
    assert found.bound_raw == pytest.approx(found.width**2)


def test_a_bound_that_says_something_is_not_flagged(certificate):
    assert certificate.bound < 1
    assert not certificate.vacuous
    assert not certificate.void


def test_a_fit_no_better_than_the_constant_or_the_mean_of_each_step_is_a_failed_fit(certificate):
    for error, failed in ((0.01, False), (0.02, True), (0.03, True)):
        for one, other in ((0.02, 0.5), (0.5, 0.02)):
            found = dataclasses.replace(
                certificate, test_error=error, constant_error=one, per_step_error=other
            )
            assert found.failed_fit is failed
    # Without test episodes the training error decides.
    bare = dataclasses.replace(certificate, test_error=None, train_error=0.5, constant_error=0.02)
    assert bare.failed_fit


def test_a_predictor_of_pure_noise_is_reported_as_failed(episodes):
    """Rewards that no observation explains, and a fit of no more than a step."""
    rng = np.random.default_rng(3)
    noisy = dataclasses.replace(episodes, rewards=rng.normal(size=len(episodes.rewards)))
    with short_fits(epochs=2, epoch_steps=1, regression_steps=2):
        found = issue(noisy)
    assert found.failed_fit
    assert found.test_error >= min(found.constant_error, found.per_step_error)


def test_a_range_that_clips_more_than_half_warns_with_the_share(episodes):
    narrow = (-0.001, 0.001)
    with pytest.warns(UserWarning, match="of the validation returns lie outside") as warned:
        found = issue(episodes, return_range=narrow, return_floor=-99.0)
    assert found.clipped_share > 0.5
    (said,) = [str(w.message) for w in warned]
    assert f"{found.clipped_share:.0%}" in said
    assert f"{found.clipped_share:.2%}" in str(found)


def test_the_clipped_share_is_counted_by_hand_and_half_is_not_too_much(episodes):
    data = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]  # with range [0.5, 3]: two of six outside
    every = [dataclasses.replace(e, rewards=np.array(data)) for e in episodes.span(0, 12)]
    recorded = join(every, episodes.subject)
    own = {"gamma": 0.0, "test_episodes": 0, "return_floor": -1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert issue(recorded, return_range=(0.5, 3.0), **own).clipped_share == 2 / 6
        assert issue(recorded, return_range=(-1.0, 3.0), **own).clipped_share == 0
    with pytest.warns(UserWarning, match="67%"):
        assert issue(recorded, return_range=(0.5, 1.5), **own).clipped_share == 4 / 6


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
def test_assumptions_follow_from_the_subject(subject, words, episodes):
    found = issue(dataclasses.replace(episodes.span(0, 12), subject=subject), test_episodes=0)
    assert any(words in sentence for sentence in found.assumptions)
    assert found.subject == subject


def test_time_limits_are_named_with_the_number_of_episodes_they_cut(episodes):
    found = issue(episodes)
    assert found.truncated_episodes == 40
    assert any("40 of 40 validation episodes were cut" in said for said in found.assumptions)
    natural = issue(recording(20, seed=1, terminated=True))
    assert natural.truncated_episodes == 0
    assert not any("time limit" in said for said in natural.assumptions)


def test_a_clock_and_the_lack_of_one_are_assumptions(episodes):
    said = " ".join(issue(episodes).assumptions)
    assert "knows the elapsed time, and that episodes are cut after 6 steps" in said
    natural = issue(recording(20, seed=1, terminated=True))
    assert "does not know the elapsed time" in " ".join(natural.assumptions)


def test_candidates_are_an_assumption(episodes):
    assert "without looking at the validation episodes" in issue(episodes).assumptions[-1]
    assert "from at most 3 certificates" in issue(episodes, candidates=3).assumptions[-1]


# --- the predictor ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixed(episodes):
    with short_fits():
        return issue(episodes, scheme="auto")


def test_a_predictor_with_a_clock_needs_the_elapsed_steps_and_no_other_does(fixed, episodes):
    observations = episodes.observations[:5]
    assert fixed.predictor(observations, elapsed=[0, 1, 2, 3, 5]).mean.shape == (5,)
    assert fixed.predictor(observations[0], elapsed=3).mean.shape == (1,)
    with pytest.raises(InputError, match="expected `elapsed`"):
        fixed.predictor(observations)
    with pytest.raises(InputError, match="for each of 5 observations, found 2"):
        fixed.predictor(observations, elapsed=[0, 1])
    without = issue(episodes, clock="off")
    assert without.predictor(observations).mean.shape == (5,)
    with pytest.raises(InputError, match="expected no `elapsed`"):
        without.predictor(observations, elapsed=[0, 1, 2, 3, 4])


@pytest.mark.parametrize("elapsed", [6, -1, 2.5, math.nan, math.inf, "3", True])
def test_elapsed_steps_outside_the_clock_are_one_clear_line(elapsed, fixed, episodes):
    with pytest.raises(InputError, match="expected `elapsed` as") as error:
        fixed.predictor(episodes.observations[0], elapsed=elapsed)
    assert "\n" not in str(error.value)


def test_observations_must_be_finite_and_of_the_environments_size(fixed):
    for wrong in (np.full(3, np.nan), np.array([1.0, np.inf, 0.0])):
        with pytest.raises(InputError, match="finite observations"):
            fixed.predictor(wrong, elapsed=0)
    with pytest.raises(InputError, match=r"observations of 3 features, found shape \(4,\)"):
        fixed.predictor(np.zeros(4), elapsed=0)


def test_equal_rows_get_equal_predictions_inside_the_range(fixed, certificate, episodes):
    rows = np.repeat(episodes.observations[:2], 40, axis=0)
    for found in (fixed, certificate):
        mean, spread = found.predictor(rows, elapsed=np.full(80, 2))
        assert len(np.unique(mean[:40])) == len(np.unique(mean[40:])) == 1
        assert mean[0] != mean[40]
        low, high = found.return_range.low, found.return_range.high
        assert ((mean >= low) & (mean <= high)).all()
        assert (spread >= 0).all()


def test_draws_are_for_predictors_with_a_posterior(fixed, certificate, episodes):
    rows = np.repeat(episodes.observations[:1], 40, axis=0)
    with pytest.raises(InputError, match="no posterior to draw from"):
        fixed.predictor(rows, elapsed=np.zeros(40), draws=3)
    drawn = certificate.predictor(rows, elapsed=np.zeros(40), draws=4, seed=1)
    assert len(np.unique(drawn.mean)) > 1
    assert (drawn.spread > 0).all()
    again = certificate.predictor(rows, elapsed=np.zeros(40), draws=4, seed=1)
    np.testing.assert_array_equal(drawn.mean, again.mean)
    other = certificate.predictor(rows, elapsed=np.zeros(40), draws=4, seed=2)
    assert (drawn.mean != other.mean).any()


def test_the_predictor_of_a_certificate_from_weight_draws_draws_weights(episodes):
    found = issue(episodes.span(0, 12), test_episodes=0, sampling="weights")
    assert found.predictor.sampling == "weights"


# --- data ---------------------------------------------------------------------------------------


def test_a_training_record_brings_its_range_and_scaling(episodes):
    training = Scaling(-6.0, 6.0, "training", np.zeros(3, np.float32), np.full(3, 2.0, np.float32))
    options = Options(**{**OPTIONS, "pilot_episodes": 0})
    ((found,),) = certify_many(episodes, [options], [2], training=training)
    assert dataclasses.astuple(found.return_range) == (-6.0, 6.0, "training")
    np.testing.assert_array_equal(found.chain.scaling.deviation, np.full(3, 2.0))
    assert any("the training log" in said for said in found.assumptions)
    assert "training log" in str(found)
    other = dataclasses.replace(
        training, mean=np.zeros(4, np.float32), deviation=np.ones(4, np.float32)
    )
    with pytest.raises(InputError, match="training record for 3 features, found one for 4"):
        certify_many(episodes, [options], [2], training=other)


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


def test_constant_returns_are_an_input_error(episodes):
    still = dataclasses.replace(episodes, rewards=np.zeros_like(episodes.rewards))
    with pytest.raises(InputError, match="found the constant 0 in all validation"):
        issue(still)
    every = list(episodes)
    pilot = [dataclasses.replace(e, rewards=np.zeros(6)) for e in every[:4]]
    with pytest.raises(InputError, match="returns that vary, found the constant 0 in all pilot"):
        issue(join([*pilot, *every[4:]], episodes.subject))


def test_too_few_episodes_are_an_input_error(episodes):
    with pytest.raises(InputError, match="at least 6 validation episodes for rec-6, found 5"):
        issue(episodes.span(0, 12), scheme="rec-6")
    with pytest.raises(InputError, match="at least 2 episodes, found 1"):
        issue(episodes.span(0, 1))
    with pytest.raises(InputError, match="expected at least 57 episodes"):
        issue(episodes, episodes=50)


def test_neither_pilot_nor_range_is_an_input_error(episodes):
    with pytest.raises(InputError, match="`return_range` LO HI with `pilot_episodes` 0"):
        issue(episodes, pilot_episodes=0)
    given = issue(episodes, pilot_episodes=0, return_range=(-9, 9))
    assert given.return_range.source == "user"


@pytest.mark.parametrize("scheme", ["auto", "holdout", "nonrec-inf", "rec-2", "nonrec-noninf"])
def test_two_validation_episodes_are_enough_for_every_scheme(scheme, episodes):
    found = issue(episodes.span(0, 6), scheme=scheme, test_episodes=0)
    assert found.episodes.validation == 2
    assert 0 < found.bound <= 1


def test_the_package_exports_what_the_design_shows():
    assert tightrope.certify is certify
    assert {"certify", "verify", "Certificate", "collect", "load_certificate"} <= set(
        tightrope.__all__
    )
