"""Limits of numbers of the user's own: their levels (T.1), and how often they break a limit."""

import numpy as np
import pytest
from constructed import OUTWARD, certificate, evidence, made_up, recorded, stated
from scipy.stats import beta

from tightrope.bounds import joint_tolerance
from tightrope.certificates import Property
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.settings import PropertySettings
from tightrope.certificates.statements.failure import breaks_limit
from tightrope.certificates.statements.tolerance import PropertyLevels

DELTA = 0.05


def peak(episode):
    return float(np.abs(episode.observations).max())


def seen_of(numbers, name="peak torque"):
    rewards, _ = made_up(episodes=len(numbers))
    seen = evidence(rewards)
    object.__setattr__(seen.episodes, "properties", {name: np.asarray(numbers, float)})
    return seen


@pytest.mark.parametrize("at_most", [True, False])
@pytest.mark.parametrize("n", [10, 60, 150])
def test_levels_are_order_statistics_from_the_side_that_is_asked_for(n, at_most):
    numbers = np.random.default_rng(n).normal(3.0, 4.0, n)
    family = PropertyLevels(PropertySettings("peak torque", at_most, None))
    found = stated(family, seen_of(numbers))
    levels = joint_tolerance((0.8, 0.9, 0.95), n=n, delta=DELTA, top=0.6)
    ordered = sorted(numbers, reverse=not at_most)
    assert [s.share for s in found] == pytest.approx([level.share for level in levels])
    for statement, level in zip(found, levels, strict=True):
        score = ordered[level.rank - 1]
        away = OUTWARD * abs(score) * (1 if at_most else -1)
        assert statement.limit == statement.value == pytest.approx(score + away, rel=1e-12)
        quantile = level.share if at_most else 1 - level.share
        assert statement.estimate == pytest.approx(np.quantile(numbers, quantile))
        assert statement.direction == ("at-most" if at_most else "at-least")
        assert (statement.kind, statement.target) == ("property", "property")
        assert (statement.quantity, statement.name) == ("peak torque", "property: peak torque")
        assert (statement.n, statement.rms_raw) == (n, None)
    place = "largest" if at_most else "smallest"
    assert found[-1].note == f"the {place} of {n} episodes"


@pytest.mark.parametrize("at_most", [True, False])
def test_a_limit_is_broken_on_its_far_side_alone(at_most):
    numbers = [1.0, 2.0, 2.0, 3.0, 5.0] * 8
    family = breaks_limit(PropertySettings("peak torque", at_most, 2.0))
    (found,) = stated(family, seen_of(numbers))
    count = 16 if at_most else 8
    expected = beta.ppf(1 - DELTA, count + 1, 40 - count) * (1 + OUTWARD)
    assert found.limit == pytest.approx(expected, rel=1e-8)
    assert found.note == f"{count} of 40 episodes"
    side = "above" if at_most else "below"
    assert found.quantity == f"probability that peak torque is {side} 2"
    assert (found.direction, found.kind) == ("at-most", "property")


@pytest.mark.parametrize("scheme", ["auto", "holdout"])
def test_a_certificate_has_the_levels_and_limits_of_every_property(scheme):
    """Of the calibration episodes, at a fifth of the failure probability in equal parts."""
    rewards, errors = made_up(episodes=200)
    episodes = recorded(rewards, errors)
    own = properties_of(
        {
            "peak": Property(peak, limit=9.0),
            "steps": Property(lambda e: len(e.rewards), direction="at-least"),
        }
    )
    found = certificate(
        measure_properties(episodes, own), properties=own, scheme=scheme, fit_episodes=50
    )
    names = [s.name for s in found.statements if s.kind == "property"]
    assert list(dict.fromkeys(names)) == [
        "property: peak", "property limit: peak", "property: steps"
    ]  # fmt: skip
    delta = 0.035 / 5 / 3 if scheme == "auto" else 0.035
    peaks = sorted(peak(e) for e in episodes[50:])
    levels = joint_tolerance((0.8, 0.9, 0.95), n=150, delta=delta, top=0.6)
    for level in levels:
        statement = next(
            s for s in found.statements if (s.name, s.share) == ("property: peak", level.share)
        )
        assert statement.limit == pytest.approx(peaks[level.rank - 1], rel=1e-4)
    broken = sum(value > 9.0 for value in peaks)
    assert found.statement("property limit: peak").limit == pytest.approx(
        beta.ppf(1 - delta, broken + 1, 150 - broken), rel=1e-4
    )
    shortest = found.statement("property: steps", levels[-1].share)
    assert (shortest.direction, shortest.estimate) == ("at-least", 1)
    assert found.rollouts.properties["peak"].tolist() == [peak(e) for e in episodes]
