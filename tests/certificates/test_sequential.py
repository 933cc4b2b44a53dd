"""Stopping early: the search, its certificate, its words, and what is refused."""

import dataclasses

import numpy as np
import pytest
from constructed import made_up, reader, recorded
from recordings import short

from tightrope.bounds import betting_upper, default_bets, target_bets
from tightrope.certificates import Options, load_certificate, settle, write
from tightrope.certificates.certify import certify, issue_until, search_summary
from tightrope.certificates.text import details, sentence
from tightrope.certificates.verify import verify
from tightrope.errors import InputError
from tightrope.rollouts import Rollout, collect, pairs, policy_source

SEARCH = {"seed": 3, "rollout": Rollout(workers=1), "fit_episodes": 24, "thin": 1}


@pytest.fixture(autouse=True)
def _registered():
    import custom_environments  # noqa: F401 - registers them


def search(until, **options):
    source = ("custom_environments:still", "custom_environments:Counting-v0")
    return certify(*source, until=until, preset_values=short("tight"), **{**SEARCH, **options})


@pytest.fixture(scope="module")
def found():
    import custom_environments  # noqa: F401

    return search("rms<=8", max_episodes=200)


def test_a_search_ends_with_a_certificate_of_the_target(found, tmp_path):
    assert found.rms_raw <= 8
    assert (found.settings.scheme.kind, found.unit) == ("sequential", "episode")
    counts = found.episodes
    assert (counts.pilot, counts.fit, counts.test) == (0, 24, 0)
    assert 34 < counts.validation < 200  # later than the first look, sooner than the last
    assert (found.settings.until, found.settings.max_episodes) == (8.0, 200)
    write(found, tmp_path / "certificate")
    assert verify(tmp_path / "certificate") == []
    assert load_certificate(tmp_path / "certificate").statements == found.statements


def test_only_what_holds_at_every_number_of_episodes_is_stated(found):
    """No level, band or monitor, whose ranks hold for a number fixed beforehand."""
    assert [s.name for s in found.statements] == ["mean over episodes", "large errors"]
    assert {s.joint_confidence for s in found.statements} == {found.joint_confidence}
    assert found.joint_confidence == pytest.approx(0.965)
    assert [s.confidence for s in found.statements] == pytest.approx([1 - 0.02625, 1 - 0.00875])
    assert any("every number of episodes at once" in each for each in found.assumptions)


def test_episodes_of_a_search_are_those_of_one_collection(found):
    """Batch by batch, no seed twice, none left out."""
    source = ("custom_environments:still", "custom_environments:Counting-v0")
    whole = collect(*source, len(found.rollouts), 3, workers=1)
    np.testing.assert_array_equal(found.rollouts.seeds, whole.seeds)
    np.testing.assert_array_equal(found.rollouts.observations, whole.observations)


def test_the_bound_is_that_of_bets_that_do_not_depend_on_the_stop(found):
    """Bets for the target and for the largest number of episodes, from the fitting set alone."""
    rows = pairs(found.rollouts.span(24, len(found.rollouts)), gamma=0.99)
    predicted = found.predictor(rows.observations).mean
    low, high = found.return_range.low, found.return_range.high
    losses = ((predicted - np.clip(rows.returns, low, high)) / found.width) ** 2
    means = [losses[rows.episode == i].mean() for i in range(rows.episodes)]
    mean, large = found.statements
    bound = betting_upper(np.array(means), delta=0.75 * 0.035, **mean.chosen)
    assert found.bound == pytest.approx(float(bound) * (1 + 1e-5), rel=1e-9)
    assert mean.chosen["bets"][1:] == list(default_bets(200 - 24)[0])
    assert large.chosen["bets"] == list(default_bets(200 - 24)[0])


def made(until, *, unit="episode", outlier=0.0, max_episodes=120, constructed=None, **more):
    """A search over constructed episodes whose errors are made by hand."""
    source = policy_source(lambda observation: [0.0], "Pendulum-v1")
    options = Options(
        until=until, unit=unit, fit_episodes=20, max_episodes=max_episodes, gamma=0.0, thin=1,
        clock="off", seed=1, **more,
    )  # fmt: skip
    rewards, errors = constructed or made_up(episodes=max_episodes, longest=4)
    if outlier:
        rewards = [r + outlier * (i % 25 == 24) for i, r in enumerate(rewards)]
        errors = [e - outlier * (i % 25 == 24) for i, e in enumerate(errors)]
    every = recorded(rewards, errors)
    settings = dataclasses.replace(settle(options, source), time_limit=None)

    def batch(count, first):
        return every.span(first, first + count)

    return issue_until(batch, settings, options=options, fit=reader)


def test_a_loss_outside_of_the_range_is_clipped_and_every_line_says_so():
    """Targets far outside of the fitting set's range: certified, but of clipped returns."""
    found = made("rms<=6", outlier=900.0)
    reached, words = search_summary(found)
    low, high = found.return_range.low, found.return_range.high
    clipped = f"clipped to [{low:.4g}, {high:.4g}]"
    assert reached
    assert high < 100 < found.evidence(found.calibration).rms.max()
    assert clipped in words
    assert clipped in sentence(found.statements[0])
    assert clipped in details(found)
    (large,) = [s for s in found.statements if s.name == "large errors"]
    assert "not clipped" in large.quantity
    assert large.value > large.estimate > 0


@pytest.mark.parametrize(
    ("unit", "target", "reached"),
    [
        ("episode", "rms<=5", True), ("episode", "rms<=2", False),
        ("step", "rms<=5", True), ("step", "rms<=1.4", False),
    ],
)  # fmt: skip
def test_the_final_line_says_what_was_certified_and_if_steps_were_independent(
    unit, target, reached
):
    found = made(target, unit=unit)
    yes, words = search_summary(found)
    assert yes is reached
    assert f"{target} (mean over {unit}s, clipped to" in words
    assert ("if steps were independent" in words) is (unit == "step")
    assert ("was certified after" if reached else "was NOT certified with 120") in words
    assert (found.statements[0].joint_confidence is None) is (unit == "step")


def rarely_failing(seed):
    """One episode in 100 has the largest loss at all of its steps, the others next to none."""
    rng = np.random.default_rng(seed)
    fails = rng.random(500) < 0.01
    rewards = [np.full(4, 10.0) if each else rng.uniform(4.0, 6.0, 4) for each in fails]
    errors = [np.full(4, -10.0 if each else 0.1) for each in fails]
    return rewards, errors


@pytest.mark.parametrize(("unit", "fewest", "most"), [("episode", 0, 1), ("step", 2, 6)])
def test_rare_failures_do_not_fool_a_search_in_unit_episode(unit, fewest, most):
    """The true RMS is 1.005: whoever counts steps finds less before the first failure."""
    wrong = 0
    for seed in range(6, 12):
        given = {"constructed": rarely_failing(seed), "return_range": (0.0, 10.0)}
        found = made("rms<=0.95", unit=unit, max_episodes=500, **given)
        wrong += search_summary(found)[0]
    assert fewest <= wrong <= most


def test_a_target_below_the_floor_is_refused_with_the_floor():
    """Not even without any error: 60 episodes leave ln(1/0.035)/60 of the squared range."""
    with pytest.raises(InputError, match=r"not even a perfect predictor could be .* below \d"):
        made("rms<=0.5", max_episodes=80)


def test_target_bets_grow_fastest_against_the_target():
    values = np.random.default_rng(0).beta(0.3, 3.0, 500)
    target = 2 * values.mean()
    bets, weights = target_bets(values, target=target, n=64)
    assert (weights.sum(), weights[0]) == (pytest.approx(1.0), 0.9)

    def growth(bet):
        return np.log(1 - bet + bet * (1 - values) / (1 - target)).mean()

    assert growth(bets[0]) >= max(map(growth, np.linspace(1e-3, 0.999, 2000))) - 1e-4
