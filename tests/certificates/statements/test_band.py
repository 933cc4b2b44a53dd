"""The band (T.2): its profile, its scores and its limit, against plain loops."""

import numpy as np
import pytest
from constructed import OUTWARD, evidence, made_up, stated

from tightrope.bounds import tolerance_rank
from tightrope.certificates.statements.band import Band, half_widths

BAND = Band()


def plain_scores(errors, profile, limit, thin=1):
    """Largest error of each episode over the profile, step by step."""
    found = []
    for own in errors:
        parts = []
        for t in range(0, len(own), thin):
            part = profile[min(t * len(profile) // limit, len(profile) - 1)] if limit else 1.0
            parts.append(abs(own[t]) / part)
        found.append(max(parts))
    return found


@pytest.mark.parametrize(("profile", "limit"), [([1.0], None), ([0.25, 0.5, 1.0, 0.8], 8)])
@pytest.mark.parametrize("thin", [1, 3])
@pytest.mark.parametrize("n", [30, 120])
def test_a_band_is_an_order_statistic_of_the_largest_error_over_the_profile(
    profile, limit, thin, n
):
    """At 90 % where n suffices; the largest of 30 episodes at its own share."""
    rewards, errors = made_up(seed=4, episodes=n)
    seen, delta = evidence(rewards, errors, limit=limit, thin=thin, high=20.0), 0.02
    (found,) = stated(BAND, seen, {"profile": profile}, delta)
    scores = plain_scores(errors, profile, limit, thin)
    np.testing.assert_allclose(BAND.scores(seen, {"profile": profile}), scores, rtol=1e-9)
    rank = int(tolerance_rank(0.9, n=n, delta=delta)) or n
    assert found.limit == found.value_raw == pytest.approx(sorted(scores)[rank - 1] * (1 + OUTWARD))
    assert found.rms_raw is None  # it is a largest error
    assert found.value == pytest.approx(found.limit / 20)
    assert found.share == (0.9 if n == 120 else pytest.approx(delta ** (1 / n), rel=1e-9))
    assert found.share <= max(0.9, delta ** (1 / n))
    assert found.quantity.endswith({1: "at every step", 3: "at every third step"}[thin])
    assert ("profile over elapsed time" in found.note) is (len(profile) > 1)
    assert (found.n, found.confidence) == (n, pytest.approx(0.98))
    assert found.joint_confidence == pytest.approx(0.98)


def test_a_profile_is_the_size_of_errors_over_elapsed_time_and_at_most_one():
    rng = np.random.default_rng(1)
    sizes = 0.01 + 0.1 * (np.arange(100) >= 50)
    errors = [sizes * rng.normal(size=100) for _ in range(80)]
    rewards = rng.normal(5.0, 1.0, (80, 100))
    profile = BAND.choose(evidence(rewards, errors, limit=100), None)["profile"]
    assert len(profile) == 20
    assert max(profile) == 1.0
    assert min(profile) >= 0.2 * (1 - 1e-12)
    assert max(profile[:10]) < 0.45  # the floor, and a little of the overall size
    assert min(profile[10:]) > 0.8
    at = half_widths(np.array([0, 4, 5, 99, 400]), {"profile": profile}, 100)
    assert at.tolist() == [profile[i] for i in (0, 0, 1, 19, 19)]
    constant = [
        evidence(rewards, errors),  # no clock
        evidence(rewards[:1], errors[:1], limit=100),  # too few steps to tell
        evidence(rewards[:2], np.zeros((2, 100)), limit=100),  # no errors at all
        None,
    ]
    assert [BAND.choose(fit, None) for fit in constant] == [{"profile": [1.0]}] * 4
