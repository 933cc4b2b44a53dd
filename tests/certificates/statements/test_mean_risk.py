"""Means of clipped losses by bets fixed beforehand (H.3, H.7), against a plain loop."""

import math

import numpy as np
import pytest
from constructed import OUTWARD, evidence, made_up, rms, stated

from tightrope.certificates.statements.base import Task
from tightrope.certificates.statements.mean_risk import LargeError, MeanRisk

DEFAULT = {"bets": [], "weights": []}


def betting_upper(values, delta, bets, weights):
    """(H.3): the largest mean m at which the bets have not yet made 1/delta of their capital."""

    def log_capital(mean):
        logs = []
        for bet, weight in zip(bets, weights, strict=True):
            factors = [1 - bet + bet * (1 - x) / (1 - mean) for x in values]
            if min(factors) <= 0:
                continue
            logs.append(math.log(weight) + math.fsum(map(math.log, factors)))
        top = max(logs, default=-math.inf)
        return top + math.log(math.fsum(math.exp(x - top) for x in logs)) if logs else -math.inf

    low, high = math.fsum(values) / len(values), 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle == 1.0 or log_capital(middle) >= -math.log(delta):
            high = middle
        else:
            low = middle
    return high


def halving(n):
    """The default bets and weights: 1, 1/2, ... with 1/2, 1/4, ..., the last weight twice."""
    count = 1 + max(1, math.ceil(math.log2(n)))
    bets = [2.0**-k for k in range(count)]
    return bets, [*bets[1:], bets[-1]]


def plain_losses(rewards, errors, low, high, thin=1):
    """Squared errors of clipped returns in units of the range, for gamma = 0."""
    found = []
    for own, off in zip(rewards, errors, strict=True):
        rows = zip(own[::thin].tolist(), off[::thin].tolist(), strict=True)
        found.append(
            [min(((g + e - min(max(g, low), high)) / (high - low)) ** 2, 1.0) for g, e in rows]
        )
    return found


def units(losses, unit):
    return (
        [loss for own in losses for loss in own]
        if unit == "step"
        else [sum(own) / len(own) for own in losses]
    )


@pytest.mark.parametrize("thin", [1, 2])
@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("planned", [None, ([0.7, 0.2], [0.5, 0.25])])
def test_the_mean_over_units_is_the_betting_bound_of_a_plain_loop(unit, planned, thin):
    rewards, errors = made_up(seed=3)
    low, high = 2.0, 8.0  # some returns lie outside
    seen = evidence(rewards, errors, thin=thin, low=low, high=high)
    chosen = DEFAULT if planned is None else dict(zip(("bets", "weights"), planned, strict=True))
    (found,) = stated(MeanRisk(unit), seen, chosen, 0.05)
    values = units(plain_losses(rewards, errors, low, high, thin), unit)
    bets, weights = planned or halving(len(values))
    expected = betting_upper(values, 0.05, bets, weights) * (1 + OUTWARD)
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.value_raw == pytest.approx(36 * expected)
    assert found.rms_raw == pytest.approx(6 * math.sqrt(expected))
    assert found.estimate == pytest.approx(6 * math.sqrt(sum(values) / len(values)))
    assert found.n == len(values)
    assert found.joint_confidence == {"step": None, "episode": pytest.approx(0.95)}[unit]
    assert found.assumes == f"independent {unit}s"
    steps = {1: "every step", 2: "every second step"}[thin]
    assert found.quantity == (
        f"RMS error of the predicted return, mean over {unit}s, over {steps}, returns clipped to "
        "[2, 8]"
    )


def test_a_mean_of_one_unit_without_loss_by_hand():
    """(H.3) for one value 0 with the bets 1 and 1/2: (1/m + 1/2 + 1/(2m)) / 2 = 1/delta."""
    (found,) = stated(MeanRisk("step"), evidence([np.ones(1)]), DEFAULT, 0.5)
    assert found.value == pytest.approx((1 - 0.75 / (1 / 0.5 - 0.25)) * (1 + OUTWARD), abs=1e-12)


def test_bets_are_planned_for_as_many_units_as_later_episodes_will_have():
    """Eight steps an episode, every second kept, ten episodes to come: n = 40, or 10."""
    rng = np.random.default_rng(2)
    fit = evidence(rng.normal(5, 1, (5, 8)), rng.normal(size=(5, 8)))
    task = Task(episodes=10, delta=0.1, thin=2, high=10.0)
    for unit, n in (("step", 40), ("episode", 10)):
        chosen = MeanRisk(unit).choose(fit, task)
        default, shares = halving(n)
        assert chosen["bets"][1:] == default
        assert chosen["weights"] == pytest.approx([0.9, *(0.1 * share for share in shares)])
        assert 0 < chosen["bets"][0] <= 1
        # with a target the bet is another: it grows fastest if the mean were the target
        aimed = MeanRisk(unit).choose(fit, task._replace(target=3.0))
        assert aimed["bets"][1:] == default
        assert aimed["bets"][0] != chosen["bets"][0]
        # with nothing predicted there is nothing to plan on but their number
        unread = type(fit)(fit.episodes, fit.pairs, fit.predicted * np.nan, fit.scaling, 0.0, 1)
        assert MeanRisk(unit).choose(unread, task) == DEFAULT
        assert MeanRisk(unit).choose(unread, task._replace(target=3.0))["bets"] == default
    assert MeanRisk("step").choose(None, task) == DEFAULT


def test_the_share_of_large_errors_is_bounded_whatever_the_range():
    """Five of 40 episodes have an unclipped RMS above 1; the range clips all of it away."""
    rng = np.random.default_rng(4)
    rewards = rng.normal(5.0, 1.0, (40, 6))
    errors = np.where(np.arange(40)[:, None] % 8 == 0, 50.0, 0.5) * np.ones((40, 6))
    family = LargeError(1.0)
    chosen = family.choose(None, Task(episodes=64, delta=0.01, thin=1, high=10.0))
    assert (chosen["bets"], chosen["weights"]) == halving(64)
    (found,) = stated(family, evidence(rewards, errors, thin=2), chosen, 0.01)
    expected = betting_upper([float(rms(own) > 1) for own in errors], 0.01, *halving(64))
    assert found.value == found.value_raw == pytest.approx(expected * (1 + OUTWARD), rel=1e-9)
    assert (found.estimate, found.note, found.unit) == (5 / 40, "5 of 40 episodes", "episode")
    assert (found.kind, found.target, found.rms_raw) == ("failure", "large-error", None)
    assert found.quantity == (
        "probability that the RMS error of an episode exceeds 1 (over every second step, not "
        "clipped)"
    )
    (nothing,) = stated(family, evidence(rewards[:1], errors[:1]), chosen, 0.01)
    assert (nothing.value, nothing.vacuous) == (1.0, True)
