"""Rows under earlier time limits, against sums over the recorded rewards."""

import dataclasses

import numpy as np
import pytest
from constructed import recorded

from tightrope.posteriors import (
    PRESETS,
    Clock,
    ReturnPredictor,
    Scaling,
    horizons_of,
    regress,
)
from tightrope.rollouts import Episode, join, pairs

GAMMA, LIMIT = 0.9, 8
REWARDS = [[1.0, 4.0, 2.0, 8.0], [3.0, 1.0, 5.0, 2.0, 7.0, 1.0, 2.0, 6.0]]
ENDED = (True, False)  # the first fell, the second met the limit


@pytest.fixture
def fitting():
    episodes = recorded(REWARDS, gamma=GAMMA, terminated=ENDED)
    unit = np.zeros(2, np.float32), np.ones(2, np.float32)
    scaling = Scaling(0.0, 100.0, "user", *unit, Clock(LIMIT, GAMMA))
    return episodes, pairs(episodes, gamma=GAMMA), scaling


def test_a_drawn_return_is_the_sum_of_the_rewards_before_the_drawn_limit(fitting):
    """And an episode that was cut never tells what would have come after its cut."""
    horizons = horizons_of(*fitting)
    rows = np.repeat(np.arange(12), 400)
    uniform = np.random.default_rng(0).random(len(rows))
    features, targets = horizons.draw(rows, uniform)
    share = (features[:, 0].astype(float) + 1) / 2  # t/H
    left = np.rint(LIMIT * (1 - share)).astype(int)
    seen = set()
    for row, steps, both, target in zip(rows, left, features, targets, strict=True):
        episode, first = divmod(row, 4) if row < 4 else (1, row - 4)
        rest = REWARDS[episode][first:]
        wanted = sum(GAMMA**k * reward for k, reward in enumerate(rest[:steps]))
        assert target == pytest.approx(wanted / 100, abs=1e-12)
        assert both == pytest.approx([1 - 2 * steps / LIMIT, 1 - 2 * GAMMA**steps], abs=1e-6)
        seen.add((row, steps))
    assert seen == {
        (row, steps)
        for row in range(12)
        for steps in range(1, 1 + (LIMIT if row < 4 else 12 - row))
    }


def test_there_are_none_without_a_clock(fitting):
    episodes, rows, scaling = fitting
    unclocked = Scaling(scaling.low, scaling.high, "user", scaling.mean, scaling.deviation)
    assert horizons_of(episodes, rows, unclocked) is None


def test_a_regression_learns_late_falls_from_early_ones():
    """Every episode falls after three steps, so no row has less than 18 of 20 steps left."""
    rng = np.random.default_rng(0)
    episodes = join(
        [
            Episode(
                (np.eye(3) + 0.05 * rng.normal(size=(3, 3))).astype(np.float32),
                np.ones(3),
                terminated=True,
                truncated=False,
                seed=seed,
            )
            for seed in range(40)
        ]
    )
    rows = pairs(episodes, gamma=GAMMA)
    unit = np.zeros(3, np.float32), np.ones(3, np.float32)
    scaling = Scaling(0.0, 4.0, "user", *unit, Clock(20, GAMMA))
    own = dataclasses.replace(PRESETS["tight"].regression, folds=2, steps=600, hidden=(32, 32))
    first = np.eye(3, dtype=np.float32)[[0, 0]]

    def predicted(horizons):
        ensemble = regress(*scaling.rows(rows), rows.episode, own, 0, horizons=horizons)
        return ReturnPredictor(ensemble.layers, scaling)(first, elapsed=[0, 19]).mean

    known, unknown = predicted(horizons_of(episodes, rows, scaling)), predicted(None)
    whole, last = 1 + GAMMA + GAMMA**2, 1.0
    assert known == pytest.approx([whole, last], abs=0.3)
    assert abs(unknown[1] - last) > 0.6
