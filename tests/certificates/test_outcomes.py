"""Statements on returns and failures: returns from plain loops, limits from scipy."""

import dataclasses
import math

import numpy as np
import pytest
from recordings import recording, short_fits
from scipy.stats import beta

from tightrope.bounds import betting_lower
from tightrope.certificates import Options, certify
from tightrope.certificates.data import prepare
from tightrope.certificates.outcomes import failure_names, outcomes, return_names
from tightrope.errors import InputError
from tightrope.rollouts import Episode, join

PILOT, COUNT = 4, 20
DELTA = 0.05


def mixed(count=PILOT + COUNT, seed=2):
    """Episodes of several lengths, some of which terminate early, some without success."""
    rng = np.random.default_rng(seed)
    episodes = []
    for index in range(count):
        length = int(rng.integers(2, 8))
        early = length < 5
        episodes.append(
            Episode(
                rng.normal(size=(length, 3)).astype(np.float32),
                rng.normal(0.5, 1.0, length),
                terminated=early,
                truncated=not early,
                seed=index,
                success=bool(index % 3),
            )
        )
    return join(episodes, {"log": "mixed"})


def found(recorded, *, gamma=0.9, **options):
    options = Options(**{"pilot_episodes": PILOT, "thin": 1, "gamma": gamma, **options})
    data = prepare(recorded, options)
    said = outcomes(data, options, failure=lambda name: DELTA, joint=0.5)
    assert [s.quantity for s in said] == [
        *(f"{name} of a new episode" for name in return_names(data, options)),
        *(f"probability that {name}" for name in failure_names(data, options)),
    ]
    return said


def plain_returns(recorded, gamma, first=PILOT):
    """Discounted return of each validation episode from its start."""
    returns = []
    for episode in list(recorded)[first:]:
        value = 0.0
        for step, reward in enumerate(episode.rewards.tolist()):
            value += gamma**step * reward
        returns.append(value)
    return returns


def only(statements, *words):
    (match,) = [s for s in statements if all(word in s.quantity for word in words)]
    return match


# --- what most episodes return ------------------------------------------------------------------


def smallest_rank(share, n, delta):
    """(T.1) by trying: the smallest r with BetaInv(delta; r, n - r + 1) >= share; n if none."""
    for rank in range(1, n + 1):
        if beta.ppf(delta, rank, n - rank + 1) >= share:
            return rank
    return n


@pytest.mark.parametrize("count", [3, 20, 60, 150])
@pytest.mark.parametrize(("gamma", "name"), [(0.9, "discounted return"), (1.0, "undiscounted")])
def test_what_most_episodes_return_is_an_order_statistic(count, gamma, name):
    recorded = mixed(PILOT + count)
    statements = [s for s in found(recorded) if not s.quantity.startswith(("un", "prob"))]
    if gamma == 1.0:
        statements = [s for s in found(recorded) if s.quantity.startswith("undiscounted")]
    (statement,) = statements
    assert name in statement.quantity
    returns = sorted(plain_returns(recorded, gamma))
    rank = smallest_rank(0.9, count, DELTA)  # from the top: the largest is for rank 1
    assert statement.value_raw == pytest.approx(returns[count - rank], rel=1e-12)
    exact = beta.ppf(DELTA, rank, count - rank + 1)
    assert statement.share == pytest.approx(exact, rel=1e-8)
    assert statement.share <= exact * (1 + 1e-12)
    assert (statement.kind, statement.direction, statement.n) == ("return", "at-least", count)
    assert (statement.confidence, statement.joint_confidence) == (1 - DELTA, 0.5)
    assert statement.rms_raw is None


def test_failing_episodes_show_in_the_statement_on_returns_whatever_the_pilot_saw():
    """The pilot never falls; 27 of 100 episodes fall at once. No floor hides them."""
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(PILOT + 100):
        falls = index >= PILOT and (index - PILOT) % 100 < 27
        length = 2 if falls else 20
        episodes.append(
            Episode(
                rng.normal(size=(length, 3)).astype(np.float32),
                np.full(length, 1.0 + 0.001 * index),
                terminated=falls,
                truncated=not falls,
                seed=index,
            )
        )
    recorded = join(episodes, {"log": "falls"})
    statements = found(recorded)
    assert not any(s.quantity.startswith("expected") for s in statements)
    for name, gamma in (("undiscounted return", 1.0), ("discounted return", 0.9)):
        (statement,) = [s for s in statements if s.quantity.startswith(name)]
        assert statement.value_raw < 1.2 * (1 + gamma)  # two steps, then down
        assert statement.share >= 0.9
    failure = only(statements, "terminates early")
    assert failure.value == pytest.approx(beta.ppf(1 - DELTA, 28, 73), rel=1e-6)
    assert failure.note == "27 of 100 episodes"


# --- expected returns ---------------------------------------------------------------------------


def test_without_a_floor_nothing_is_said_of_expected_returns():
    assert not any("expected" in s.quantity for s in found(mixed()))


def lower_mean(returns, floor, top, delta=DELTA):
    """(H.2) after clipping from above, which can only lower the mean."""
    scaled = [(min(g, top) - floor) / (top - floor) for g in returns]
    return floor + (top - floor) * float(betting_lower(scaled, delta=delta))


def test_a_floor_gives_both_expected_returns_a_lower_bound():
    recorded = mixed(seed=3)
    statements = found(recorded, return_floor=-40.0)
    for name, gamma in (("expected discounted", 0.9), ("expected undiscounted", 1.0)):
        (statement,) = [s for s in statements if s.quantity.startswith(name)]
        pilot = max(plain_returns(recorded.span(0, PILOT), gamma, 0))
        top = pilot + 0.1 * abs(pilot)
        returns = plain_returns(recorded, gamma)
        assert max(returns) > top  # so that clipping matters
        assert statement.value_raw == pytest.approx(lower_mean(returns, -40.0, top), rel=1e-9)
        assert statement.estimate == pytest.approx(math.fsum(returns) / COUNT, rel=1e-12)
        assert statement.value_raw < statement.estimate
        assert (statement.share, statement.n, statement.direction) == (None, COUNT, "at-least")
        assert "no return is below -40, said the user" in statement.note


def test_a_range_of_the_user_clips_losses_and_is_no_floor():
    recorded = mixed()
    smallest = min(plain_returns(recorded, 0.9))
    statements = found(recorded, return_range=(smallest + 1.0, 6.0))  # clips, and is not refused
    assert not [s for s in statements if s.quantity.startswith("expected")]
    # without a pilot the range is the top
    bare = found(recorded, return_range=(-30.0, 6.0), return_floor=-50.0, pilot_episodes=0)
    (discounted,) = [s for s in bare if s.quantity.startswith("expected discounted")]
    expected = lower_mean(plain_returns(recorded, 0.9, 0), -50.0, 6.0)
    assert discounted.value_raw == pytest.approx(expected, rel=1e-9)


def test_a_floor_that_an_episode_contradicts_is_an_input_error_in_one_line():
    smallest = min(plain_returns(mixed(), 0.9))
    assert smallest < 0.5
    words = rf"no discounted return below the floor 0.5, found {smallest:g}: give a lower"
    with pytest.raises(InputError, match=words) as error:
        found(mixed(), return_floor=0.5)
    assert "\n" not in str(error.value)


def test_a_contradicted_floor_is_found_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr("tightrope.certificates.issue._Work", None)
    with pytest.raises(InputError, match=r"below the floor 0\.5"):
        certify(mixed(), return_floor=0.5, gamma=0.9, episodes=18, pilot_episodes=6)


def test_a_return_of_exactly_the_floor_is_no_contradiction():
    smallest = min(*plain_returns(mixed(), 0.9), *plain_returns(mixed(), 1.0))
    statements = found(mixed(), return_floor=smallest)
    assert sum("expected" in s.quantity for s in statements) == 2


def test_without_a_discount_only_the_sum_is_compared_with_the_floor(monkeypatch):
    """Both are one return, summed in another order: a last digit must not contradict the floor."""
    from tightrope.certificates import outcomes as module

    plain = module.returns_of
    smallest = min(plain_returns(mixed(), 1.0))

    def rounded(episodes, gamma):
        totals = plain(episodes, gamma)
        return {**totals, module._DISCOUNTED: totals[module._DISCOUNTED] - 1e-9}

    monkeypatch.setattr(module, "returns_of", rounded)
    floor = float(np.nextafter(smallest, -np.inf))
    assert sum("expected" in s.quantity for s in found(mixed(), gamma=1.0, return_floor=floor)) == 1


def test_undiscounted_returns_are_stated_once():
    statements = found(mixed(), gamma=1.0, return_floor=-50.0)
    assert [s.quantity for s in statements if "return" in s.quantity] == [
        "undiscounted return of a new episode",
        "expected undiscounted return of a new episode",
    ]


# --- failures -----------------------------------------------------------------------------------

EVENTS = {
    "terminates early": lambda episode: episode.terminated,
    "no success": lambda episode: not episode.success,
    "below 1.5": lambda episode: sum(episode.rewards.tolist()) < 1.5,
}


@pytest.mark.parametrize(("words", "happened"), EVENTS.items(), ids=EVENTS)
def test_probabilities_of_failure_are_exact_binomial_bounds_on_counts(words, happened):
    recorded = mixed()
    statement = only(found(recorded, fail_below=1.5), "probability", words)
    count = sum(1 for episode in list(recorded)[PILOT:] if happened(episode))
    assert 0 < count < COUNT
    expected = beta.ppf(1 - DELTA, count + 1, COUNT - count)
    assert statement.value == statement.value_raw == pytest.approx(expected, rel=1e-8)
    assert statement.value >= expected * (1 - 1e-12)
    assert (statement.direction, statement.confidence) == ("at-most", 1 - DELTA)
    assert (statement.estimate, statement.n) == (count / COUNT, COUNT)


def test_a_return_of_exactly_the_threshold_is_no_failure():
    recorded = dataclasses.replace(mixed(), rewards=np.ones(len(mixed().rewards)))
    lengths = recorded.lengths[PILOT:].tolist()
    statement = only(found(recorded, fail_below=5.0), "below 5")
    assert statement.estimate == sum(length < 5 for length in lengths) / COUNT


def test_without_success_flags_nothing_is_said_of_success():
    bare = dataclasses.replace(mixed(), success=None)
    assert not any("success" in s.quantity for s in found(bare))
    assert len(found(bare)) == 3


def test_no_early_end_in_twenty_episodes_by_hand():
    # (H.4) with k = 0: 1 - 0.05^(1/20) = 0.139108
    statement = only(found(recording(PILOT + COUNT)), "terminates early")
    assert statement.estimate == 0.0
    assert statement.value == pytest.approx(0.1391083, abs=1e-6)


# --- in a certificate ---------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["auto", "rec-2"])
@pytest.mark.parametrize("candidates", [1, 3])
def test_outcomes_count_all_validation_episodes_at_their_share(scheme, candidates):
    """Auto: the ledger's share of each; otherwise a delta of its own; a candidate's part of it."""
    recorded = mixed()
    options = {"delta": 0.08, "delta_prime": 0.02, "candidates": candidates, "fail_below": 1.5}
    with short_fits():
        certificate = certify(
            recorded, scheme=scheme, pilot_episodes=PILOT, thin=1, gamma=0.9, mc_passes=2, **options
        )
    said = [s for s in certificate.statements if s.kind == "failure"]
    assert len(said) == 3
    for statement, happened in zip(said, EVENTS.values(), strict=True):
        count = sum(1 for episode in list(recorded)[PILOT:] if happened(episode))
        delta = (0.05 * 0.1 / 3 if scheme == "auto" else 0.08) / candidates
        expected = beta.ppf(1 - delta, count + 1, COUNT - count)
        assert statement.value == pytest.approx(expected, rel=1e-7)
        assert statement.n == COUNT
        assert statement.confidence == pytest.approx(1 - delta * candidates, abs=1e-12)
