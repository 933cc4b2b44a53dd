"""The clock's features against their closed form; what is not an elapsed time."""

import warnings

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.posteriors import Clock


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
