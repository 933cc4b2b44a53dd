"""Range, scaling and clock: fixed before the calibration data, in numpy alone."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.policies import TrainingRecord
from tightrope.posteriors import Clock, Scaling, moments, range_from_training, range_of_returns
from tightrope.rollouts import Episode, join, pairs

MEAN = np.array([1.0, -2.0, 0.5], np.float32)
DEVIATION = np.array([2.0, 0.5, 1.0], np.float32)
CLOCK = Clock(10, 0.5)


def scaling(low=-2.0, high=6.0, source="user", *, clock=None, mean=MEAN, deviation=DEVIATION):
    return Scaling(low, high, source, mean, deviation, clock)


def recording(*lengths):
    """Episodes of random observations and rewards."""
    rng = np.random.default_rng(0)
    seen = [rng.normal(size=(n, 3)).astype(np.float32) for n in lengths]
    return join([Episode(each, rng.normal(size=len(each)), False, True) for each in seen])


def refused(function, *arguments, match="expected", **options):
    """It is, in one line."""
    with pytest.raises(InputError, match=match) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return True


def test_predicting_and_scaling_do_not_import_torch():
    modules = ", ".join(f"tightrope.posteriors.{name}" for name in
                        ("scaling", "gaussians", "presets", "predictor"))  # fmt: skip
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the clock ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
def test_features_are_the_share_of_time_and_of_the_return_still_to_earn(gamma):
    """t/H and 1 - gamma^(H - t), stretched from [0, 1] to [-1, 1] by 2x - 1; step by step."""
    for limit in (1, 2, 1000):
        with warnings.catch_warnings(action="error"):
            found = Clock(limit, gamma).features(range(limit), limit)
        assert found.shape == (limit, Clock.size) == (limit, 2)
        assert found.dtype == np.float32
        for t in range(limit):
            assert found[t, 0] == pytest.approx(2 * (t / limit) - 1, abs=2e-7)
            assert found[t, 1] == pytest.approx(2 * (1 - gamma ** (limit - t)) - 1, abs=2e-7)


@pytest.mark.parametrize(
    "elapsed",
    [
        *([0, -1], [0.5, 1], [100, 1], [np.nan, 0], [-np.inf, 0]),
        *(None, [0], 0, [[1, 2]], ["1", "2"], [True, False], [1j, 1]),
    ],
)
def test_steps_that_are_missing_or_outside_the_episode_are_refused_in_one_line(elapsed):
    match = "`elapsed`.* for each of 2 observations: whole numbers from 0 to 9, below the time lim"
    assert refused(scaling(clock=CLOCK).inputs, np.zeros((2, 3), np.float32), elapsed, match=match)


def test_a_time_limit_is_a_whole_number_of_steps_and_a_discount_factor_between_0_and_1():
    for limit in (0, -5, 10.5, 100.0, True, "100", None):
        assert refused(Clock, limit=limit, gamma=0.9, match="`limit` must be .* found")
    for gamma in (-0.1, 1.1, np.nan, np.inf):
        assert refused(Clock, limit=100, gamma=gamma, match="`gamma` must be .* found")


# --- where range, mean and deviation come from ---------------------------------------------------


def test_the_range_of_returns_is_widened_by_a_tenth_on_each_side():
    returns = pairs(recording(6, 6), gamma=0.9).returns
    low, high = min(returns.tolist()), max(returns.tolist())
    found = range_of_returns(returns)
    assert found == pytest.approx((low - 0.1 * (high - low), high + 0.1 * (high - low)), rel=1e-12)
    assert refused(range_of_returns, np.full(5, 2.0), match="the constant 2 .*`return_range`")


def test_a_training_record_gives_its_range_as_it_is_or_names_the_remedy():
    def found(**changes):
        known = {"agent": "sac", "environment": {"id": "Toy-v0"}, "steps": 500, "gamma": 0.9}
        known |= {"observation_mean": MEAN, "observation_deviation": DEVIATION}
        known |= {"episodes": 5, "return_low": -1.5, "return_high": 4.25, **changes}
        return range_from_training(TrainingRecord(**known, settings={}, versions={}, digests={}))

    assert found() == (-1.5, 4.25)
    for changes in (
        {"episodes": 0, "return_low": math.inf, "return_high": -math.inf},
        *({"episodes": 0}, {"return_low": math.nan}, {"return_high": math.inf}),
        *({"return_low": 4.25}, {"return_low": 5.0}),
    ):
        assert refused(found, **changes, match="`pilot_episodes`")


def test_moments_are_mean_and_deviation_of_each_feature():
    """With an offset a thousand times the deviation, which float32 sums would not survive."""
    observations = pairs(recording(6, 6)).observations + np.float32([0.0, 1000.0, -1000.0])
    mean, deviation = moments(observations)
    assert mean.dtype == deviation.dtype == np.float32
    for feature in range(3):
        values = [float(value) for value in observations[:, feature]]
        centre = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / len(values))
        assert mean[feature] == pytest.approx(centre, rel=1e-6)
        assert deviation[feature] == pytest.approx(spread, rel=1e-6)


def test_a_feature_that_never_moves_is_shifted_and_not_divided_by_zero():
    observations = np.array(recording(6, 6).observations)
    observations[:, 1] = 7.0
    mean, deviation = moments(observations)
    assert (mean[1], deviation[1]) == (7.0, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        *({"low": low, "high": high, "match": "a return range with LO < HI"} for low, high in (
            (1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0),
            (0.0, math.inf), (-1.7e308, 1.7e308), (0.0, 1e-101), (1e12, 1e12 + 1),
        )),
        {"source": "hearsay", "match": "from fit, pilot, user or training, found 'hearsay'"},
        {"mean": np.array([1.0, np.nan, 0.0], np.float32)},
        {"mean": MEAN.astype(np.float64)},
        {"mean": MEAN[:2]},
        {"mean": MEAN[None]},
        {"deviation": np.array([1.0, np.inf, 1.0], np.float32)},
        {"deviation": np.array([1.0, 0.0, 1.0], np.float32)},
        {"deviation": np.array([1.0, -1.0, 1.0], np.float32)},
        {"mean": np.full(200, np.nan, np.float32), "deviation": np.ones(200, np.float32)},
    ],
)  # fmt: skip
def test_ranges_means_and_deviations_that_cannot_be_are_refused_in_one_line(changes):
    assert refused(scaling, **changes)


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


def test_huge_observations_are_held_within_what_can_be_squared():
    """No warning, no infinity: the largest float32, divided by a deviation below 1."""
    found = scaling().inputs(np.array([[3e38, -3e38, 3e38]], np.float32))
    assert found.tolist() == [[1e4, -1e4, 1e4]]


def test_returns_are_scaled_to_the_unit_interval_and_clipped_and_predictions_go_back():
    # range [-2, 6], width 8: -2 -> 0, 0 -> 0.25, 6 -> 1; -10 and 7 are clipped, two of five
    returns = np.array([-10.0, -2.0, 0.0, 6.0, 7.0])
    assert scaling().targets(returns).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert scaling().clipped_share(returns) == 0.4
    assert scaling().returns(np.array([0.0, 0.25, 1.0])).tolist() == [-2.0, 0.0, 6.0]


@pytest.mark.parametrize("clock", [None, CLOCK], ids=["no clock", "clock"])
def test_rows_are_the_scaled_pairs(clock):
    """Thinned pairs, so that a row's time is not its place."""
    data = pairs(recording(6, 9, 4), thin=2)
    inputs, targets = scaling(clock=clock).rows(data)
    assert data.step.tolist() == [0, 2, 4, 0, 2, 4, 6, 8, 0, 2]
    expected = (data.observations - [1.0, -2.0, 0.5]) / [2.0, 0.5, 1.0]
    np.testing.assert_allclose(inputs[:, :3], expected, rtol=1e-6, atol=1e-6)
    if clock is not None:
        for row, t in enumerate(data.step.tolist()):
            own = inputs[row, 3:].tolist()
            assert own == pytest.approx([2 * t / 10 - 1, 1 - 2 * 0.5 ** (10 - t)], abs=1e-6)
        assert refused(
            scaling(clock=clock).rows, pairs(recording(11)), match="below the time limit"
        )
    np.testing.assert_allclose(targets, np.clip((data.returns + 2) / 8, 0, 1), atol=1e-7)
    assert inputs.dtype == targets.dtype == np.float32
    assert len(inputs) == len(targets) == len(data)
