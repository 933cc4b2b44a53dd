"""Range, scaling and clock: fixed before the calibration data, in numpy alone."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.policies import TrainingRecord
from tightrope.posteriors import (
    Clock,
    Scaling,
    moments,
    range_from_training,
    range_of_returns,
)
from tightrope.rollouts import Episode, join, pairs

MEAN = np.array([1.0, -2.0, 0.5], np.float32)
DEVIATION = np.array([2.0, 0.5, 1.0], np.float32)
CLOCK = Clock(10, 0.5)


def scaling(low=-2.0, high=6.0, source="user", *, clock=None, mean=MEAN, deviation=DEVIATION):
    return Scaling(low, high, source, mean, deviation, clock)


def recording(count, steps=6):
    """Episodes of random observations and rewards; `steps` is one length or one for each."""
    rng = np.random.default_rng(0)
    return join(
        [
            Episode(
                rng.normal(size=(length, 3)).astype(np.float32),
                rng.normal(size=length),
                False,
                True,
            )
            for length in np.broadcast_to(steps, count)
        ]
    )


@pytest.mark.parametrize("module", ["scaling", "gaussians", "presets", "predictor"])
def test_predicting_and_scaling_do_not_import_torch(module):
    code = f"import sys, tightrope.posteriors.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the clock ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99, 0.999, 1.0])
@pytest.mark.parametrize("limit", [1, 2, 200, 1000])
def test_features_are_the_share_of_time_and_of_the_return_still_to_earn(limit, gamma):
    """t/H and 1 - gamma^(H - t), stretched from [0, 1] to [-1, 1] by 2x - 1; step by step."""
    with warnings.catch_warnings(action="error"):
        found = Clock(limit, gamma).features(range(limit))
    assert found.shape == (limit, Clock(limit, gamma).size) == (limit, 2)
    assert found.dtype == np.float32
    for t in range(limit):
        assert found[t, 0] == pytest.approx(2 * (t / limit) - 1, abs=2e-7)
        assert found[t, 1] == pytest.approx(2 * (1 - gamma ** (limit - t)) - 1, abs=2e-7)


def test_by_hand():
    # H = 4, gamma = 1/2: t/H = 0, 1/4, 1/2, 3/4; left 4, 3, 2, 1: 1 - 1/16, 7/8, 3/4, 1/2
    expected = [[-1, 0.875], [-0.5, 0.75], [0, 0.5], [0.5, 0]]
    assert Clock(4, 0.5).features([0, 1, 2, 3]).tolist() == expected


def test_time_goes_up_and_what_is_left_to_earn_goes_down():
    share, left = np.diff(Clock(1000, 0.99).features(np.arange(1000)).T)
    assert (share > 0).all()
    assert (left < 0).all()
    extremes = Clock(1000, 0.99).features([0, 999])
    assert abs(extremes).max() <= 1.0


def test_without_discounting_the_second_feature_says_nothing_and_does_no_harm():
    """1 - 1^u = 0: stretched, -1 everywhere."""
    assert Clock(50, 1.0).features(np.arange(50))[:, 1].tolist() == [-1.0] * 50


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64, np.float32, np.float64])
def test_whole_numbers_of_every_kind_count_alike(kind):
    clock = Clock(100, 0.9)
    np.testing.assert_array_equal(
        clock.features(np.arange(100).astype(kind)), clock.features(list(range(100)))
    )


def test_one_number_is_one_row():
    clock = Clock(100, 0.9)
    np.testing.assert_array_equal(clock.features(7), clock.features([7]))


@pytest.mark.parametrize(
    ("elapsed", "said"),
    [
        ([0, -1], "found -1"),
        ([0.5], r"found 0\.5"),
        ([100], "found 100"),
        ([3, 99, 101, 1e30], "found 101"),
        ([np.nan], "found nan"),
        ([np.inf], "found inf"),
        ([-np.inf], "found -inf"),
    ],
)
def test_steps_outside_the_episode_are_refused_and_the_first_one_is_named(elapsed, said):
    with pytest.raises(InputError, match=f"whole steps from 0 to 99, below the time limit, {said}"):
        Clock(100, 0.9).features(elapsed)


@pytest.mark.parametrize(
    "elapsed",
    [[[1, 2]], np.zeros((500, 2)), ["1"], [True], [None], [1j], np.array(["2020"], "datetime64")],
    ids=["nested", "many", "text", "truth", "nothing", "complex", "date"],
)
def test_what_is_no_number_per_row_is_refused_in_one_line(elapsed):
    with pytest.raises(InputError, match="`elapsed` as one number of steps per row") as caught:
        Clock(100, 0.9).features(elapsed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [0, -5, 10.5, 100.0, True, "100", None])
def test_a_time_limit_is_a_whole_number_of_steps(limit):
    with pytest.raises(InputError, match="a time limit of a whole number of steps, found"):
        Clock(limit, 0.9)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan, np.inf])
def test_a_discount_factor_is_between_0_and_1(gamma):
    with pytest.raises(InputError, match=r"a discount factor in \[0, 1\], found"):
        Clock(100, gamma)


# --- where the range comes from ----------------------------------------------------------------


def test_the_range_of_returns_is_widened_by_a_tenth_on_each_side():
    returns = pairs(recording(4), gamma=0.9).returns
    low, high = min(returns.tolist()), max(returns.tolist())
    found = range_of_returns(returns)
    assert found == pytest.approx((low - 0.1 * (high - low), high + 0.1 * (high - low)), rel=1e-12)
    assert all(type(end) is float for end in found)


def test_constant_returns_are_an_input_error_with_the_remedy():
    said = (
        "returns that vary, found the constant 2 in the episodes that fix the range.*return_range"
    )
    with pytest.raises(InputError, match=said):
        range_of_returns(np.full(5, 2.0))


def trained(**changes):
    given = {
        "agent": "sac",
        "environment": {"id": "Toy-v0"},
        "steps": 500,
        "episodes": 5,
        "gamma": 0.9,
        "return_low": -1.5,
        "return_high": 4.25,
        "observation_mean": MEAN,
        "observation_deviation": DEVIATION,
        "settings": {},
        "versions": {},
        "digests": {},
    }
    return TrainingRecord(**{**given, **changes})


def test_a_training_record_gives_its_range_as_it_is():
    assert range_from_training(trained()) == (-1.5, 4.25)


@pytest.mark.parametrize(
    "changes",
    [
        {"episodes": 0, "return_low": math.inf, "return_high": -math.inf},
        {"episodes": 0},
        {"return_low": math.nan},
        {"return_high": math.inf},
        {"return_low": 4.25},
        {"return_low": 5.0},
    ],
)
def test_a_training_without_a_range_is_refused_with_the_remedy(changes):
    with pytest.raises(InputError, match="`pilot_episodes`"):
        range_from_training(trained(**changes))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *((1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0)),
        *((0.0, math.inf), (-1.7e308, 1.7e308)),
    ],
)
def test_an_empty_or_endless_range_is_an_input_error_that_names_it(low, high):
    with pytest.raises(InputError, match=r"finite return range with LO < HI, found \["):
        scaling(low, high)


def test_a_range_from_hearsay_is_refused():
    with pytest.raises(InputError, match="from fit, pilot, user or training, found 'hearsay'"):
        scaling(source="hearsay")


# --- where mean and deviation come from --------------------------------------------------------


def test_moments_are_mean_and_deviation_of_each_feature():
    """With an offset a thousand times the deviation, which float32 sums would not survive."""
    observations = pairs(recording(4)).observations + np.float32([0.0, 1000.0, -1000.0])
    mean, deviation = moments(observations)
    assert mean.dtype == deviation.dtype == np.float32
    for feature in range(3):
        values = [float(value) for value in observations[:, feature]]
        centre = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / len(values))
        assert mean[feature] == pytest.approx(centre, rel=1e-6)
        assert deviation[feature] == pytest.approx(spread, rel=1e-6)


def test_observations_scaled_by_their_moments_get_mean_0_and_deviation_1():
    observations = pairs(recording(4)).observations
    mean, deviation = moments(observations)
    scaled = scaling(mean=mean, deviation=deviation).inputs(observations)
    assert scaled.dtype == np.float32
    assert abs(scaled.mean(axis=0)).max() < 1e-6
    assert abs(scaled.std(axis=0) - 1).max() < 1e-5


def test_a_feature_that_never_moves_is_shifted_and_not_divided_by_zero():
    observations = np.array(recording(4).observations)
    observations[:, 1] = 7.0
    mean, deviation = moments(observations)
    assert (mean[1], deviation[1]) == (7.0, 1.0)
    assert np.isfinite(scaling(mean=mean, deviation=deviation).inputs(observations)).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": np.array([1.0, np.nan, 0.0], np.float32)},
        {"mean": MEAN.astype(np.float64)},
        {"mean": MEAN[:2]},
        {"mean": MEAN[None]},
        {"deviation": np.array([1.0, np.inf, 1.0], np.float32)},
        {"deviation": np.array([1.0, 0.0, 1.0], np.float32)},
        {"deviation": np.array([1.0, -1.0, 1.0], np.float32)},
        {"mean": np.full(200, np.nan, np.float32), "deviation": np.ones(200, np.float32)},
    ],
    ids=["NaN", "float64", "too few", "nested", "infinite", "zero", "negative", "many"],
)
def test_other_means_and_deviations_are_refused_in_one_line(changes):
    with pytest.raises(InputError, match="expected") as caught:
        scaling(**changes)
    assert "\n" not in str(caught.value)


# --- what the scaling does ---------------------------------------------------------------------


def test_inputs_are_scaled_observations_and_then_the_clock():
    # (x - mean) / deviation with mean (1, -2, 0.5) and deviation (2, 0.5, 1);
    # t = 0 and 8 of 10: t/H = 0, 0.8 -> -1, 0.6; left 10 and 2: 1 - 2^-10, 3/4 -> 1 - 2^-9, 0.5
    observations = np.array([[3.0, -1.0, 0.5], [1.0, -2.5, -1.0]], np.float32)
    plain, timed = scaling(), scaling(clock=CLOCK)
    assert (plain.features, timed.features) == (3, 5)
    expected = [[1.0, 2.0, 0.0], [0.0, -1.0, -1.5]]
    assert plain.inputs(observations).tolist() == expected
    clock = np.array([[-1.0, 1 - 2**-9], [0.6, 0.5]])
    found = timed.inputs(observations, [0, 8])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.hstack([expected, clock]), rtol=0, atol=1e-7)


@pytest.mark.parametrize("elapsed", [[0], [0, 1, 2], 0, []])
def test_elapsed_steps_of_another_number_than_the_observations_are_refused(elapsed):
    with pytest.raises(InputError, match="`elapsed` for each of 2 observations, found"):
        scaling(clock=CLOCK).inputs(np.zeros((2, 3), np.float32), elapsed)


def test_a_clock_without_a_time_is_refused():
    with pytest.raises(InputError, match="expected `elapsed`, the steps since the start"):
        scaling(clock=CLOCK).inputs(np.zeros((2, 3), np.float32))


def test_huge_observations_are_held_within_what_can_be_squared():
    """No warning, no infinity: the largest float32, divided by a deviation below 1."""
    huge = np.array([[3e38, -3e38, 3e38]], np.float32)
    found = scaling().inputs(huge)
    assert found.tolist() == [[1e4, -1e4, 1e4]]
    assert np.isfinite(np.square(found)).all()


def test_returns_are_scaled_to_the_unit_interval_and_clipped():
    # range [-2, 6], width 8: -2 -> 0, 0 -> 0.25, 6 -> 1; -10 and 7 are clipped
    returns = np.array([-10.0, -2.0, 0.0, 6.0, 7.0])
    assert scaling().targets(returns).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert scaling().targets(returns).dtype == np.float64


def test_normalised_predictions_go_back_to_return_units():
    # 0 -> -2, 0.25 -> 0, 1 -> 6; and inside the range there and back is the identity
    assert scaling().returns(np.array([0.0, 0.25, 1.0])).tolist() == [-2.0, 0.0, 6.0]
    inside = np.linspace(-2, 6, 17)
    np.testing.assert_allclose(scaling().returns(scaling().targets(inside)), inside, atol=1e-14)


def test_the_clipped_share_counts_what_lies_outside_and_not_what_lies_on_the_ends():
    # -10 and 7 of five
    assert scaling().clipped_share(np.array([-10.0, -2.0, 0.0, 6.0, 7.0])) == 0.4
    assert scaling().clipped_share(np.array([-2.0, 6.0])) == 0.0


@pytest.mark.parametrize("clock", [None, CLOCK], ids=["no clock", "clock"])
def test_rows_are_the_scaled_pairs(clock):
    """Thinned pairs, so that a row's time is not its place."""
    data = pairs(recording(3, steps=(6, 9, 4)), thin=2)
    inputs, targets = scaling(clock=clock).rows(data)
    assert data.step.tolist() == [0, 2, 4, 0, 2, 4, 6, 8, 0, 2]
    expected = (data.observations - [1.0, -2.0, 0.5]) / [2.0, 0.5, 1.0]
    np.testing.assert_allclose(inputs[:, :3], expected, rtol=1e-6, atol=1e-6)
    if clock is not None:
        for row, t in enumerate(data.step.tolist()):
            own = inputs[row, 3:].tolist()
            assert own == pytest.approx([2 * t / 10 - 1, 1 - 2 * 0.5 ** (10 - t)], abs=1e-6)
    assert inputs.shape[1] == scaling(clock=clock).features
    np.testing.assert_allclose(targets, np.clip((data.returns + 2) / 8, 0, 1), atol=1e-7)
    assert inputs.dtype == targets.dtype == np.float32
    assert len(inputs) == len(targets) == len(data)


def test_rows_of_an_episode_that_outlasts_the_clock_are_refused():
    with pytest.raises(InputError, match="below the time limit, found 10"):
        scaling(clock=CLOCK).rows(pairs(recording(2, steps=11)))


def test_rows_are_scaled_block_by_block(monkeypatch):
    """Blocks end within episodes."""
    expected = scaling(clock=CLOCK).rows(pairs(recording(3)))
    monkeypatch.setattr("tightrope.posteriors.scaling._BLOCK", 4)
    for found, whole in zip(scaling(clock=CLOCK).rows(pairs(recording(3))), expected, strict=True):
        np.testing.assert_array_equal(found, whole)


def test_what_is_printed_names_the_range_its_source_and_the_clock():
    assert repr(scaling()) == "Scaling([-2, 6] from user, 3 features, no clock)"
    said = "Scaling([-2, 6] from fit, 3 features, clock to 10)"
    assert repr(scaling(source="fit", clock=CLOCK)) == said
