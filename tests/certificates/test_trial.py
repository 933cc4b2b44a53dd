"""Promises on test episodes: counted as a plain loop counts them."""

import dataclasses

import numpy as np
import pytest
from recordings import changed, recording, short_fits
from tightrope.certificates.trial import curves, trial

from tightrope.certificates import certify

EPISODES = recording(40, seed=1)
EPISODES = dataclasses.replace(EPISODES, success=np.arange(40) % 3 > 0)


@pytest.fixture(scope="module")
def certificate():
    given = {"pilot_episodes": 4, "test_episodes": 8, "mc_passes": 2, "thin": 2, "seed": 0}
    with short_fits():
        return certify(EPISODES, fail_below=1.0, return_floor=-90.0, **given)


@pytest.fixture(scope="module")
def plain(certificate):
    """Per test episode: steps, returns by a plain loop, predictions."""
    found = []
    for episode in list(certificate.rollouts)[-8:]:
        total, returns = 0.0, []
        for reward in reversed(episode.rewards):
            total = reward + certificate.options.gamma * total
            returns.insert(0, total)
        steps = np.arange(0, len(returns), 2)
        predicted = certificate.predictor(episode.observations[steps], elapsed=steps).mean
        found.append((steps, np.array(returns)[steps], predicted, float(episode.rewards.sum())))
    return found


def of_kind(certificate, kind):
    tried = trial(certificate, curves(certificate))
    both = zip(certificate.statements, tried, strict=True)
    return [(s, t) for s, t in both if s.kind == kind]


def test_a_tolerance_counts_the_test_episodes_with_at_most_that_error(certificate, plain):
    errors = [np.sqrt(np.mean((p - r) ** 2)) for _, r, p, _ in plain]
    checked = of_kind(certificate, "tolerance")
    assert checked
    for statement, tried in checked:
        assert (tried.count, tried.n) == (sum(e <= statement.value_raw for e in errors), 8)


def test_a_band_counts_the_episodes_that_are_inside_at_every_step(certificate, plain):
    ((statement, tried),) = of_kind(certificate, "band")
    profile, limit = certificate.beforehand.profile, certificate.time_limit

    def inside(steps, returns, predicted):
        for step, observed, said in zip(steps, returns, predicted, strict=True):
            part = 0 if len(profile) == 1 else min(step * len(profile) // limit, len(profile) - 1)
            if abs(said - observed) > statement.value_raw * profile[part]:
                return False
        return True

    assert tried.count == sum(inside(s, r, p) for s, r, p, _ in plain)


def test_returns_and_failures_are_counted_on_the_test_episodes_alone(certificate, plain):
    sums = [total for *_, total in plain]
    for statement, tried in of_kind(certificate, "return"):
        values = sums if "undiscounted" in statement.quantity else [r[0] for _, r, _, _ in plain]
        if statement.share is None:
            assert tried.observed == pytest.approx(np.mean(values))
            assert tried.count is None
        else:
            assert tried.count == sum(v >= statement.value_raw for v in values)
    counted = {s.quantity: t.count for s, t in of_kind(certificate, "failure")}
    assert counted == {
        "probability that an episode terminates early": 0,
        "probability that an episode is no success": sum(k % 3 == 0 for k in range(32, 40)),
        "probability that an episode's undiscounted return is below 1": sum(s < 1 for s in sums),
    }


def test_a_mean_risk_is_compared_in_its_own_unit_only(certificate):
    found = {s.unit: t for s, t in of_kind(certificate, "mean-risk")}
    assert found["episode"] is None
    rms = certificate.test_error**0.5 * certificate.width
    assert found["step"].observed == pytest.approx(rms)


def test_verdicts_tell_a_promise_that_is_kept_from_bad_luck_and_from_a_contradiction(certificate):
    """Of eight with chance 0.9 each, at most 7 is no surprise (0.57), at most 3 is one (0.0004)."""
    first = certificate.statements[certificate.headline]
    rms = np.sort(curves(certificate).span(32, 40).rms)
    verdicts = {}
    for kept in (8, 7, 3):
        limit = (rms[kept - 1] + (rms[kept] if kept < 8 else rms[-1] + 1)) / 2
        told = dataclasses.replace(first, value_raw=float(limit), share=0.9)
        made = dataclasses.replace(certificate, statements=(told,), headline=0)
        (tried,) = trial(made, curves(made))
        assert tried.count == kept
        verdicts[kept] = tried.verdict
    assert verdicts == {8: "kept", 7: "within chance", 3: "contradicted"}


def test_without_test_episodes_and_for_kinds_that_are_not_known_nothing_is_compared(certificate):
    none = dataclasses.replace(certificate.episodes, test=0)
    made = dataclasses.replace(certificate, episodes=none)
    assert set(trial(made, curves(made))) == {None}
    strange = dataclasses.replace(certificate.statements[0], kind="monitor", share=0.9)
    made = dataclasses.replace(certificate, statements=(strange,), headline=0)
    assert trial(made, curves(made)) == (None,)


def test_other_rewards_in_a_test_episode_change_what_was_observed(certificate):
    """The comparison above can fail."""
    worse = changed(EPISODES, -1, rewards=np.full(6, -8.0))
    made = dataclasses.replace(certificate, rollouts=worse)
    before = trial(certificate, curves(certificate))
    assert trial(made, curves(made)) != before
