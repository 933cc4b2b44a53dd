"""What a monitor watches (T.3): departures, their widths and the threshold, by plain loops."""

import numpy as np
import pytest
from constructed import (
    OUTWARD,
    evidence,
    made_up,
    plain_returns,
    stated,
)

from tightrope.bounds import tolerance_rank
from tightrope.certificates.statements.base import rarely
from tightrope.certificates.statements.monitor import (
    MonitorThreshold,
    departures,
    widths_of_steps,
)

GAMMA = 0.9


def plain_departures(rewards, predictions, gamma, window):
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


def plain_score(rewards, errors, chosen):
    predictions = plain_returns(rewards, GAMMA) + errors
    window, widths = chosen["window"], chosen["widths"]
    found = plain_departures(rewards, predictions, GAMMA, window)
    return max(
        abs(value) / widths[min(t // (window or len(rewards)), len(widths) - 1)]
        for t, value in enumerate(found)
    )


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("window", [None, 1, 4, 12, 13, 50])
@pytest.mark.parametrize("steps", [1, 12, 13])
def test_departures_are_those_of_the_definition(gamma, window, steps):
    rng = np.random.default_rng(steps)
    rewards, predictions = rng.normal(size=(2, steps))
    found = departures(rewards, predictions, gamma=gamma, window=window)
    expected = plain_departures(rewards, predictions, gamma, window)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # M_t = gamma^(t - s) e_t - e_s with e the error of the prediction, and 0 after the end;
    # so true returns leave no departure
    error = [*(predictions - plain_returns(rewards, gamma)), 0.0]
    for t in range(1, steps + 1):
        begin = (t - 1) // (window or steps) * (window or steps)
        expected = gamma ** (t - begin) * error[t] - error[begin]
        assert found[t - 1] == pytest.approx(expected, abs=1e-12)


def test_a_window_is_twice_the_horizon_of_the_discount():
    windows = [MonitorThreshold(g).choose(None, None)["window"] for g in (0, 0.5, 0.9, 0.99, 1)]
    assert windows == [2, 4, 20, 200, None]


def test_every_step_has_the_width_of_its_window_and_later_ones_that_of_the_last():
    chosen = {"window": 3, "widths": [0.25, 1.0]}
    assert widths_of_steps(7, chosen).tolist() == [0.25] * 3 + [1.0] * 4
    assert widths_of_steps(3, {"window": None, "widths": [1.0]}).tolist() == [1.0] * 3


def test_widths_are_the_largest_departures_of_fitting_episodes_in_their_windows():
    gamma, window = 0.5, 4
    rng = np.random.default_rng(3)
    steps = [8, 12, 12, 12, 12, 3]
    scale = np.repeat([0.1, 1.0, 0.5], 4)
    errors = [scale[:count] * rng.normal(size=count) for count in steps]
    rewards = [rng.normal(size=count) for count in steps]
    largest = np.zeros(3)
    for own in errors:
        for t in range(len(own)):
            begin = t // window * window
            size = max(abs(gamma ** (t - begin) * own[t] - own[begin]), abs(own[begin]))
            largest[t // window] = max(largest[t // window], size)
    monitor = MonitorThreshold(gamma)
    widths = monitor.choose(evidence(rewards, errors, gamma=gamma), None)["widths"]
    assert widths[0] == pytest.approx(largest[0] / largest.max())  # all six episodes
    assert widths[1] == pytest.approx(largest[1] / largest.max())  # five
    assert widths[2] == 1.0  # four episodes got there, which is too few for a width of their own
    assert monitor.choose(evidence(rewards, gamma=gamma), None)["widths"] == [1.0]
    undiscounted = MonitorThreshold(1.0).choose(evidence(rewards, errors, gamma=1.0), None)
    assert undiscounted == {"window": None, "widths": [1.0]}


@pytest.mark.parametrize(
    "chosen",
    [{"window": None, "widths": [1.0]}, {"window": 3, "widths": [0.3, 1.0]}],
    ids=["one window", "several"],
)
@pytest.mark.parametrize("n", [30, 120])
def test_the_threshold_is_an_order_statistic_over_all_steps_thinned_or_not(chosen, n):
    """At 90 % where n suffices; the largest of 30 episodes at its own share."""
    rewards, errors = made_up(seed=5, episodes=n)
    seen, delta = evidence(rewards, errors, gamma=GAMMA, thin=4, high=20.0), 0.02
    (found,) = stated(MonitorThreshold(GAMMA), seen, chosen, delta)
    scores = [plain_score(r, e, chosen) for r, e in zip(rewards, errors, strict=True)]
    rank = int(tolerance_rank(0.9, n=n, delta=delta)) or n
    assert found.limit == pytest.approx(sorted(scores)[rank - 1] * (1 + OUTWARD), rel=1e-9)
    assert found.value == pytest.approx(found.limit / 20)
    assert found.share == (0.9 if n == 120 else pytest.approx(delta ** (1 / n), rel=1e-9))
    assert found.quantity.endswith("at any step")
    alarms = np.ceil(1000 * (1 - found.share)) / 10 if n == 30 else 10
    assert f"false alarms in at most {alarms:g} % of episodes" in found.note
    assert ("width per window" in found.note) is (len(chosen["widths"]) > 1)


def test_the_rest_of_a_share_is_rounded_up():
    assert [rarely(share) for share in (0.9, 0.95, 0.96, 0.9991, 1.0)] == [10, 5, 4, 0.1, 0]
