"""Tests of what statements assume: exact where it holds, and loud where it does not."""

import dataclasses
import itertools

import numpy as np
import pytest
from recordings import certified, recording
from scipy.stats import binom

from tightrope.certificates.diagnostics import LEVEL, dependence, drift, effective_size
from tightrope.certificates.text import details, summary


def most(runs):
    return binom.ppf(1 - 1e-6, runs, LEVEL)


def test_independent_losses_are_called_dependent_at_most_at_the_level():
    """Skewed losses and episodes of different lengths, where a normal limit would be wrong."""
    rng = np.random.default_rng(0)
    fired = 0
    for run in range(200):
        episode = np.repeat(np.arange(12), rng.integers(1, 9, 12))
        fired += dependence(rng.exponential(size=len(episode)) ** 2, episode, run) <= LEVEL
    assert fired <= most(200)


def test_losses_that_share_a_factor_are_called_dependent():
    rng = np.random.default_rng(1)
    episode = np.repeat(np.arange(30), 10)
    shared = rng.normal(size=30)[episode]
    losses = np.square(shared + 0.5 * rng.normal(size=300))
    assert dependence(losses, episode, 0) == LEVEL
    assert 30 <= effective_size(losses, episode) < 150
    assert effective_size(rng.exponential(size=300), episode) > 200
    assert effective_size(np.repeat(rng.random(30), 10), episode) == pytest.approx(29, rel=0.05)


def test_the_p_value_of_dependence_is_near_that_of_all_permutations():
    """Five rows in two episodes: every order by hand."""
    losses, episode = np.array([0.0, 1.0, 5.0, 7.0, 9.0]), np.array([0, 0, 1, 1, 1])

    def between(values):
        return sum(
            len(part) * (np.mean(part) - np.mean(values)) ** 2 for part in (values[:2], values[2:])
        )

    every = [between(order) for order in itertools.permutations(losses)]
    exact = np.mean(np.array(every) >= between(losses) - 1e-9)  # 12 of 120
    assert exact == pytest.approx(0.1)
    found = np.mean([dependence(losses, episode, seed) for seed in range(40)])
    assert found == pytest.approx(exact, abs=0.02)


def test_constant_losses_single_episodes_and_equal_returns_say_nothing():
    assert dependence(np.full(6, 0.3), np.array([0, 0, 1, 1, 2, 2]), 0) == 1.0
    assert dependence(np.array([0.1, 0.7, 0.2]), np.zeros(3, int), 0) == 1.0
    assert drift([np.zeros(20)], 0) == 1.0


def test_episodes_in_any_order_are_called_drifting_at_most_at_the_level():
    rng = np.random.default_rng(2)
    fired = sum(drift([rng.standard_cauchy(25)], run) <= LEVEL for run in range(200))
    assert fired <= most(200)


@pytest.mark.parametrize(
    "change",
    [
        lambda at, noise: 3 * at + noise,  # a trend
        lambda at, noise: 2.0 * (at > 0.5) + noise,  # a step
        lambda at, noise: 2.5 * ((at > 0.3) & (at < 0.7)) + noise,  # there and back
        lambda at, noise: noise * np.where(at > 0.5, 5.0, 1.0),  # of spread alone
    ],
    ids=["trend", "step", "there and back", "spread"],
)
def test_a_change_over_the_recording_is_noticed(change):
    rng = np.random.default_rng(3)
    assert drift([change(np.linspace(0, 1, 100), rng.normal(size=100))], 0) == LEVEL


# --- in a certificate ---------------------------------------------------------------------------


def issue(episodes, scheme="auto", **changes):
    given = {"thin": 1, "gamma": 0.0, "mc_passes": 2, "seed": 3}
    return certified(episodes, scheme=scheme, **{**given, **changes})


@pytest.fixture(scope="module")
def shared():
    return issue(recording(44, steps=20, seed=1, offset=2.0, noise=0.1))


def keys(certificate):
    return [status.key for status in certificate.statuses]


@pytest.mark.parametrize("scheme", ["rec-2", "nonrec-inf"])
def test_a_posteriors_certificate_warns_of_dependent_steps(scheme):
    found = issue(recording(44, steps=20, seed=1, offset=2.0, noise=0.1), scheme)
    assert found.checks.dependence == LEVEL
    assert "dependent" in keys(found)


def test_a_certificate_warns_of_dependent_steps_and_of_nothing_where_there_is_nothing(shared):
    fine = issue(recording(44, steps=20, seed=1))
    assert not fine.checks.dependent
    assert not fine.checks.drifting
    assert shared.checks.dependence == LEVEL
    assert not shared.checks.drifting
    assert "* needs independent steps; these are not (p = 0.005): do not rely" in summary(shared)
    assert "Steps are dependent (p = 0.005)" in details(shared)
    assert "these are not" not in summary(fine)
    assert not {"dependent", "drift"} & set(keys(fine))


def test_a_certificate_warns_of_a_drift_and_no_bound_moves(shared):
    episodes = recording(44, steps=20, seed=1)
    trend = np.repeat(np.linspace(0, 3, 44), 20)
    found = issue(dataclasses.replace(episodes, rewards=episodes.rewards + trend))
    assert found.checks.drift == LEVEL
    assert "! Episodes drift (p = 0.005)" in summary(found)
    quiet = dataclasses.replace(found, checks=dataclasses.replace(found.checks, drift=1.0))
    assert "drift" not in keys(quiet)
    assert quiet.statements == found.statements
