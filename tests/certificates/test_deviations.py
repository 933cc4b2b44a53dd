"""What a monitor watches (T.3): deviations, their widths and the threshold, against plain loops."""

import numpy as np
import pytest
from recordings import recording, short_fits

from tightrope.certificates import certify
from tightrope.certificates.beforehand import Beforehand
from tightrope.certificates.deviations import (
    deviations,
    widths_from,
    widths_of_steps,
    window_of,
)
from tightrope.errors import InputError
from tightrope.rollouts import discounted_returns

GAMMA = 0.9
PILOT, VALIDATION, FREE = 5, 30, 5  # of 35, 3/11 are free, the pilot included
LENGTHS = [33 if index % 4 else 7 for index in range(PILOT + VALIDATION)]


def plain_deviations(rewards, predictions, gamma, window):
    """The definition, step by step, as a monitor meets it."""
    found, origin, earned, power = [], predictions[0], 0.0, 0
    for t in range(1, len(rewards) + 1):
        earned += gamma**power * rewards[t - 1]
        power += 1
        ahead = predictions[t] if t < len(rewards) else 0.0
        found.append(earned + gamma**power * ahead - origin)
        if window is not None and t % window == 0:
            origin, earned, power = ahead, 0.0, 0
    return found


@pytest.fixture(scope="module")
def episodes():
    return recording(len(LENGTHS), LENGTHS, seed=8, noise=0.5, offset=0.3)


@pytest.fixture(scope="module", params=["auto", "holdout"])
def certificate(request, episodes):
    with short_fits():
        return certify(
            episodes,
            scheme=request.param,
            pilot_episodes=PILOT,
            gamma=GAMMA,
            thin=3,
            delta=0.1,
            delta_prime=0.05,
            seed=0,
        )


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("window", [None, 1, 4, 12, 13, 50])
@pytest.mark.parametrize("steps", [1, 12, 13])
def test_deviations_are_those_of_the_definition(gamma, window, steps):
    rng = np.random.default_rng(steps)
    rewards, predictions = rng.normal(size=(2, steps))
    found = deviations(rewards, predictions, gamma=gamma, window=window)
    expected = plain_deviations(rewards, predictions, gamma, window)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("window", [None, 4])
def test_true_returns_as_predictions_leave_no_deviation(episodes, window):
    """At the end nothing is left, whether the episode terminated or was cut."""
    returns = discounted_returns(episodes, GAMMA)
    for start, stop in zip(episodes.offsets[:-1], episodes.offsets[1:], strict=True):
        found = deviations(
            episodes.rewards[start:stop], returns[start:stop], gamma=GAMMA, window=window
        )
        np.testing.assert_allclose(found, 0.0, atol=1e-12)


def test_a_deviation_is_the_difference_of_two_errors(episodes):
    """M_t = gamma^(t - s) e_t - e_s with e the error of the prediction, and 0 after the end."""
    one = episodes.episode(1)
    returns = discounted_returns(episodes, GAMMA)[episodes.offsets[1] :][: len(one.rewards)]
    predictions = np.random.default_rng(0).normal(size=len(returns))
    error = [*(predictions - returns), 0.0]
    found = deviations(one.rewards, predictions, gamma=GAMMA, window=10)
    for t in range(1, len(returns) + 1):
        begin = (t - 1) // 10 * 10
        expected = GAMMA ** (t - begin) * error[t] - error[begin]
        assert found[t - 1] == pytest.approx(expected, abs=1e-12)


def test_a_window_is_twice_the_horizon_of_the_discount():
    assert [window_of(gamma) for gamma in (0.0, 0.5, 0.9, 0.99)] == [2, 4, 20, 200]
    assert window_of(1.0) is None


def test_every_step_has_the_width_of_its_window_and_later_ones_that_of_the_last():
    widths = widths_of_steps(7, window=3, widths=(0.25, 1.0))
    assert widths.tolist() == [0.25] * 3 + [1.0] * 4
    assert widths_of_steps(3, window=None, widths=(1.0,)).tolist() == [1.0] * 3


def test_widths_are_the_largest_deviations_of_free_episodes_in_their_windows():
    rng = np.random.default_rng(3)
    steps = [8, 12, 12, 12, 12, 3]
    scale = np.repeat([0.1, 1.0, 0.5], 4)
    errors = [scale[:count] * rng.normal(size=count) for count in steps]
    largest = np.zeros(3)
    for own in errors:
        for t in range(len(own)):
            begin = t // 4 * 4
            size = max(abs(GAMMA ** (t - begin) * own[t] - own[begin]), abs(own[begin]))
            largest[t // 4] = max(largest[t // 4], size)
    found = widths_from(
        np.concatenate(errors),
        np.repeat(np.arange(6), steps),
        np.concatenate([np.arange(count) for count in steps]),
        gamma=GAMMA,
        window=4,
    )
    assert found[0] == pytest.approx(largest[0] / largest.max())  # all six episodes
    assert found[1] == pytest.approx(largest[1] / largest.max())  # five
    assert found[2] == 1.0  # four episodes got there, which is too few for a width of their own


def test_without_windows_or_errors_there_is_one_width():
    rows = np.arange(6)
    for errors, window in ((np.ones(6), None), (np.zeros(6), 2)):
        assert widths_from(errors, rows // 3, rows % 3, gamma=GAMMA, window=window) == (1.0,)


def test_the_threshold_is_the_largest_score_of_episodes_that_fitted_nothing(certificate, episodes):
    """Over all steps, not only every third; those of the pilot and of the fit do not count."""
    before, counts = certificate.beforehand, certificate.episodes
    assert before.window == 20
    clock = certificate.time_limit is not None
    scores = []
    for index in range(counts.pilot + counts.free, counts.pilot + counts.validation):
        one = episodes.episode(index)
        steps = len(one.rewards)
        elapsed = np.arange(steps) if clock else None
        predictions = certificate.predictor(one.observations, elapsed=elapsed).mean
        found = plain_deviations(one.rewards, predictions, GAMMA, before.window)
        scores.append(
            max(
                abs(value) / before.widths[min(t // before.window, len(before.widths) - 1)]
                for t, value in enumerate(found)
            )
        )
    (statement,) = [s for s in certificate.statements if s.kind == "monitor"]
    slack = 1e-5 * certificate.width / min(before.widths)
    assert statement.value_raw == pytest.approx(max(scores) + slack, rel=1e-5)
    assert statement.value == pytest.approx(statement.value_raw / certificate.width)
    assert statement.n == len(scores) == counts.validation - counts.free
    failure = 0.05 * 0.15 if certificate.scheme == "auto" else 0.1
    assert statement.share == pytest.approx(failure ** (1 / len(scores)), rel=1e-9)
    assert statement.confidence == pytest.approx(1 - failure)
    rarely = np.ceil(1000 * (1 - statement.share)) / 10
    assert f"false alarms in at most {rarely:g} % of episodes" in statement.note


def test_a_predictor_that_is_not_fixed_beforehand_gets_no_monitor(episodes):
    with short_fits():
        for scheme in ("rec-2", "nonrec-inf", "nonrec-noninf"):
            found = certify(episodes, scheme=scheme, pilot_episodes=PILOT, mc_passes=1, seed=0)
            assert "monitor" not in {s.kind for s in found.statements}


def test_wrong_windows_and_widths_are_refused():
    with pytest.raises(InputError, match="expected a window of at least 1 step, found 0"):
        Beforehand(window=0)
    for widths in ((), (0.5,), (1.0, 0.0), (2.0,)):
        with pytest.raises(InputError, match=r"expected widths in \(0, 1\], the largest 1"):
            Beforehand(widths=widths)
