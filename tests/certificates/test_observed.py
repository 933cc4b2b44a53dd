"""Statements on other episodes: counted as a plain loop counts them."""

import dataclasses

import numpy as np
import pytest
from recordings import certified, changed, recording

from tightrope.certificates.observed import observed, observed_in_test
from tightrope.certificates.statements import families_for, family_of

EPISODES = recording(48, seed=1)
EPISODES = dataclasses.replace(EPISODES, success=np.arange(48) % 3 > 0)


@pytest.fixture(scope="module")
def certificate():
    given = {"fit_episodes": 12, "test_episodes": 8, "thin": 2, "seed": 0, "fail_below": 1.0}
    return certified(EPISODES, return_floor=-90.0, **given)


@pytest.fixture(scope="module")
def plain(certificate):
    """Per test episode: steps, returns by a plain loop, predictions."""
    found = []
    for episode in list(certificate.rollouts)[-8:]:
        total, returns = 0.0, []
        for reward in reversed(episode.rewards):
            total = reward + certificate.settings.gamma * total
            returns.insert(0, total)
        steps = np.arange(0, len(returns), 2)
        predicted = certificate.predictor(episode.observations[steps], elapsed=steps).mean
        found.append((steps, np.array(returns)[steps], predicted, float(episode.rewards.sum())))
    return found


def of_kind(certificate, kind):
    both = zip(certificate.statements, observed_in_test(certificate), strict=True)
    return [(s, seen) for s, seen in both if s.kind == kind]


def test_a_tolerance_counts_the_test_episodes_with_at_most_that_error(certificate, plain):
    errors = [np.sqrt(np.mean((p - r) ** 2)) for _, r, p, _ in plain]
    found = of_kind(certificate, "tolerance")
    assert found
    for statement, seen in found:
        assert (seen.count, seen.n) == (sum(e <= statement.value_raw for e in errors), 8)


def test_a_band_counts_the_episodes_that_are_inside_at_every_step(certificate, plain):
    ((statement, seen),) = of_kind(certificate, "band")
    profile, limit = statement.chosen["profile"], certificate.time_limit

    def inside(steps, returns, predicted):
        for step, value, guess in zip(steps, returns, predicted, strict=True):
            part = 0 if len(profile) == 1 else min(step * len(profile) // limit, len(profile) - 1)
            if abs(guess - value) > statement.value_raw * profile[part]:
                return False
        return True

    assert seen.count == sum(inside(s, r, p) for s, r, p, _ in plain)


def test_returns_and_failures_are_counted_on_the_test_episodes_alone(certificate, plain):
    sums = [total for *_, total in plain]
    for statement, seen in of_kind(certificate, "return"):
        values = sums if "undiscounted" in statement.quantity else [r[0] for _, r, _, _ in plain]
        if statement.share is None:
            assert (seen.value, seen.count) == (pytest.approx(np.mean(values)), None)
        else:
            assert seen.count == sum(v >= statement.value_raw for v in values)
    assert {s.name: seen.count for s, seen in of_kind(certificate, "failure")} == {
        "early termination": 0,
        "success": sum(k % 3 > 0 for k in range(40, 48)),
        "low return": sum(s < 1 for s in sums),
    }


def test_a_mean_risk_is_compared_in_both_units_of_a_fixed_predictor(certificate):
    found = {s.unit: seen for s, seen in of_kind(certificate, "mean-risk")}
    rms = certificate.test_error**0.5 * certificate.width
    assert found["episode"].value == pytest.approx(rms, rel=0.2)
    assert found["step"].value == pytest.approx(rms)  # all are of one length
    posterior = certified(EPISODES, scheme="rec-2", pilot_episodes=9, test_episodes=8, seed=0)
    found = {s.unit: seen for s, seen in of_kind(posterior, "mean-risk")}
    assert found["episode"] is None
    assert found["step"].value == pytest.approx(posterior.test_error**0.5 * posterior.width)


def test_verdicts_tell_a_statement_that_holds_from_bad_luck_and_from_a_violation(certificate):
    """Of eight with chance 0.9 each, at most 7 is no surprise (0.57), at most 3 is one (0.0004)."""
    first = certificate.statements[certificate.headline]
    seen = certificate.evidence(EPISODES.span(40, 48))
    family = family_of(first, families_for(certificate.settings, EPISODES))
    rms, verdicts = np.sort(seen.rms), {}
    for kept in (8, 7, 3):
        limit = (rms[kept - 1] + (rms[kept] if kept < 8 else rms[-1] + 1)) / 2
        stated = dataclasses.replace(first, rms_raw=float(limit), share=0.9)
        found = observed(stated, [family], seen)
        assert found.count == kept
        verdicts[kept] = found.held, found.verdict
    assert verdicts == {
        8: (True, "inconclusive"), 7: (False, "inconclusive"), 3: (False, "violated")
    }  # fmt: skip


def test_without_test_episodes_nothing_is_compared_and_with_others_something_else(certificate):
    none = dataclasses.replace(certificate.episodes, test=0)
    bare = dataclasses.replace(certificate, episodes=none)
    assert set(observed_in_test(bare)) == {None}
    worse = changed(EPISODES, -1, rewards=np.full(6, -8.0))
    other = dataclasses.replace(certificate, rollouts=worse)
    assert observed_in_test(other) != observed_in_test(certificate)
