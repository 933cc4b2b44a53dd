"""How often episodes fail or succeed, by Clopper and Pearson's bounds from scipy."""

import numpy as np
import pytest
from constructed import OUTWARD, certificate, evidence, made_up, recorded, stated
from scipy.stats import beta

from tightrope.certificates.options import Options
from tightrope.certificates.settings import settle
from tightrope.certificates.statements.failure import failures

DELTA = 0.05


def at_most(count, n, delta=DELTA):
    return beta.ppf(1 - delta, count + 1, n - count) if count < n else 1.0


def seen_of(*, terminated=False, success=None, count=30):
    rewards, _ = made_up(episodes=count)
    return evidence(rewards, terminated=terminated, success=success)


def event(name, **options):
    """The last event of settings with these options."""
    settings = settle(Options(seed=1, **options), recorded(made_up()[0]))
    return failures(settings, success=name == "succeeds")[-1]


EVENTS = {
    "terminates": event("terminates"),
    "fails": event("fails", termination="failure"),
    "reaches": event("reaches", termination="success"),
    "succeeds": event("succeeds"),
}
WORDS = {
    "terminates": ("early termination", "early-termination", "terminates early"),
    "fails": ("early termination", "early-termination", "fails (terminates early)"),
    "reaches": ("success", "success", "reaches its goal (terminates)"),
    "succeeds": ("success", "success", "succeeds"),
    "low": ("low return", "low-return", "'s undiscounted return is below 20"),
}


@pytest.mark.parametrize("count", [0, 1, 7, 29, 30])
@pytest.mark.parametrize("name", ["terminates", "fails", "reaches", "succeeds"])
def test_probabilities_are_exact_binomial_bounds_on_counts(name, count):
    """At least: 1 minus the upper bound on how often it does not happen."""
    happened = np.random.default_rng(count).permutation(np.arange(30) < count)
    if name == "succeeds":  # whatever terminating may mean
        seen = seen_of(success=happened, terminated=~happened)
    else:
        seen = seen_of(terminated=happened)
    (found,) = stated(EVENTS[name], seen)
    if name in ("terminates", "fails"):
        expected = min(at_most(count, 30) * (1 + OUTWARD), 1.0)
        assert found.vacuous is (count == 30)
    else:
        expected = (1 - at_most(30 - count, 30)) * (1 - OUTWARD)
        assert found.vacuous is (count == 0)
    assert found.value == found.value_raw == found.limit == pytest.approx(expected, rel=1e-8)
    assert found.direction == ("at-most" if name in ("terminates", "fails") else "at-least")
    assert (found.estimate, found.n, found.rms_raw) == (count / 30, 30, None)
    assert found.note == f"{count} of 30 episodes"
    label, target, words = WORDS[name]
    assert (found.name, found.target, found.kind) == (label, target, "failure")
    assert found.quantity == f"probability that an episode {words}"


def test_a_return_below_the_threshold_is_a_failure_and_one_on_it_is_none():
    lengths = [3, 5, 7, 4, 6, 5]
    seen = evidence([np.ones(length) for length in lengths])
    (found,) = stated(event("low", fail_below=5.0), seen)
    assert found.estimate == 2 / 6
    assert found.value == pytest.approx(at_most(2, 6) * (1 + OUTWARD), rel=1e-8)
    assert found.quantity == "probability that an episode's undiscounted return is below 5"


@pytest.mark.parametrize(("count", "limit"), [(0, (3.35, 3.5)), (21, (22.6, 22.8))])
def test_the_rates_that_a_hundred_and_fifty_episodes_certify(count, limit):
    """SPEC 12.10: 0 of 150 at 3.4 to 3.5 %, 21 of 150 at 22.7 %, at the default share."""
    ended = np.arange(200) >= 200 - count
    rewards, errors = made_up(episodes=200)
    found = certificate(recorded(rewards, errors, terminated=ended)).statement("early termination")
    delta = 0.035 * 3 / 20
    assert found.limit == pytest.approx(at_most(count, 150, delta) * (1 + OUTWARD), rel=1e-6)
    assert limit[0] <= 100 * found.limit <= limit[1]


MEANINGS = {
    "neutral": ({}, None, ["terminates"]),
    "failure": ({"termination": "failure"}, None, ["fails"]),
    "success": ({"termination": "success"}, None, ["reaches"]),
    "recorded": ({}, "recorded", ["terminates", "succeeds"]),
    "recorded, a failure": ({"termination": "failure"}, "recorded", ["fails", "succeeds"]),
    "recorded goes before": ({"termination": "success"}, "recorded", ["succeeds"]),
    "low": ({"fail_below": 20.0}, None, ["terminates", "low"]),
    "low and success": ({"fail_below": 20.0, "termination": "success"}, None, ["reaches", "low"]),
}


@pytest.mark.parametrize(("options", "success", "names"), MEANINGS.values(), ids=MEANINGS)
def test_what_terminating_means_is_what_the_user_says_or_the_record(options, success, names):
    """A recorded success has precedence over episodes that terminate."""
    rng = np.random.default_rng(0)
    ended, succeeded = rng.random(80) < 0.7, rng.random(80) < 0.4
    rewards, errors = made_up(episodes=80)
    episodes = recorded(rewards, errors, terminated=ended, success=succeeded if success else None)
    found = certificate(episodes, fit_episodes=20, **options)
    said = {s.name: s for s in found.statements if s.kind == "failure"}
    assert list(said) == [WORDS[name][0] for name in names]
    low = np.array([own.sum() < 20 for own in rewards])
    counts = {"early-termination": ended, "success": succeeded if success else ended}
    for statement, name in zip(said.values(), names, strict=True):
        assert statement.target == WORDS[name][1]
        assert WORDS[name][2] in statement.quantity
        count = int(counts.get(statement.target, low)[20:].sum())
        assert statement.note == f"{count} of 60 episodes"
