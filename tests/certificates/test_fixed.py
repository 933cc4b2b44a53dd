"""Statements on a predictor that was fixed beforehand, against plain loops over episodes.

The bets (H.3), the order statistics (T.1), the mean that follows (T.4) and the band (T.2), first on
errors made up here, then in whole certificates of `auto` and `holdout`.
"""

import dataclasses
import math

import numpy as np
import pytest
from recordings import recording, short_fits
from scipy.stats import beta, binom

from tightrope.bounds import joint_tolerance
from tightrope.certificates import certify
from tightrope.certificates.beforehand import Beforehand, plan_bets, profile_from
from tightrope.certificates.fixed import SHARES, Errors, band, mean_risk, profile_at, tolerances
from tightrope.errors import InputError
from tightrope.posteriors import Clock, Scaling

# --- plain loops --------------------------------------------------------------------------------


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


def rms(errors):
    return math.sqrt(math.fsum(e * e for e in errors) / len(errors))


def mean_from_tolerances(values, made):
    """(T.4): each share of episodes counts with the score that covers it, the rest with 1."""
    ordered, total, before = sorted(values), 0.0, 0.0
    for one in made:
        total += (one.share - before) * ordered[one.rank - 1]
        before = one.share
    return total + 1 - before


# --- errors made up -----------------------------------------------------------------------------


def made_up(seed=0, episodes=30, scale=1.0):
    """Errors of uneven episodes; some returns lie outside the range, so that clipping helps."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, episodes)
    episode = np.repeat(np.arange(episodes), lengths)
    raw = scale * rng.normal(size=len(episode)) * (0.2 + rng.random(episodes))[episode]
    losses = np.clip((raw / 10.0) ** 2 * rng.random(len(episode)), 0, 1)
    step = np.concatenate([np.arange(length) for length in lengths])
    return Errors(losses, raw, episode, step)


def grouped(values, episode):
    return [[v for v, e in zip(values, episode, strict=True) if e == k] for k in np.unique(episode)]


def said_on(found, delta=0.1, width=10.0):
    return tolerances(found, delta=delta, width=width, confidence=1 - delta, joint=0.5)


@pytest.mark.parametrize("delta", [0.02, 0.3])
@pytest.mark.parametrize("n", [3, 20, 60])
def test_tolerances_are_order_statistics_of_rms_errors_in_return_units(n, delta):
    found = made_up(episodes=n)
    said, _ = said_on(found, delta)
    scores = sorted(rms(own) for own in grouped(found.raw.tolist(), found.episode))
    made = joint_tolerance(SHARES, n=n, delta=delta, top=0.83)
    assert [s.share for s in said] == [one.share for one in made]
    for statement, one in zip(said, made, strict=True):
        assert statement.value_raw == statement.rms_raw == pytest.approx(scores[one.rank - 1])
        assert statement.value == pytest.approx(scores[one.rank - 1] / 10)
        assert (statement.n, statement.unit, statement.direction) == (n, "episode", "at-most")
        assert (statement.confidence, statement.joint_confidence) == (1 - delta, 0.5)
        # each alone is never promised more than (T.1) allows it alone
        assert one.share <= beta.ppf(delta, one.rank, n - one.rank + 1) * (1 + 1e-9)
    assert said[-1].value_raw == pytest.approx(max(scores))
    assert (0.83 * delta) ** (1 / n) * (1 - 1e-9) <= said[-1].share <= delta ** (1 / n)


@pytest.mark.parametrize("n", [19, 80])
def test_tolerances_hold_jointly(n):
    """Uniform scores: the share that scores at most U is U itself. 20,000 samples of n."""
    delta, repetitions = 0.1, 20_000
    made = joint_tolerance(SHARES, n=n, delta=delta, top=0.83)
    scores = np.sort(np.random.default_rng(5).random((repetitions, n)), axis=1)
    failed = np.any([scores[:, one.rank - 1] < one.share for one in made], axis=0).sum()
    assert failed <= binom.ppf(1 - 1e-6, repetitions, delta)
    assert failed >= binom.ppf(1e-6, repetitions, 0.8 * delta)  # and little is given away


@pytest.mark.parametrize("scale", [1.0, 8.0, 60.0])
def test_the_mean_risk_of_an_episode_follows_from_the_tolerances(scale):
    """(T.4) of min(1, (score/width)^2), never below the mean clipped loss of the sample."""
    found = made_up(scale=scale)
    _, portion = said_on(found)
    made = joint_tolerance(SHARES, n=30, delta=0.1, top=0.83)
    squares = [min(1.0, (rms(own) / 10) ** 2) for own in grouped(found.raw, found.episode)]
    expected = min(mean_from_tolerances(squares, made), 1.0)
    assert portion.bound == portion.value == pytest.approx(expected, rel=1e-12)
    losses = [sum(own) / len(own) for own in grouped(found.losses, found.episode)]
    assert portion.loss == pytest.approx(sum(losses) / 30, rel=1e-12)
    assert portion.bound >= sum(squares) / 30 >= portion.loss
    assert (portion.kind, portion.n, portion.kl, portion.draws) == ("tolerance", 30, 0.0, 0)


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("planned", [False, True])
def test_the_mean_over_units_is_the_betting_bound_of_a_plain_loop(unit, planned):
    found = made_up(seed=3)
    before = Beforehand()
    if planned:
        before = Beforehand(
            bets=(0.7, 0.2), weights=(0.5, 0.25), episode_bets=(0.9,), episode_weights=(1.0,)
        )
    portion = mean_risk(found, unit=unit, delta=0.05, beforehand=before)
    values = found.losses.tolist()
    if unit == "episode":
        values = [sum(own) / len(own) for own in grouped(values, found.episode)]
    bets, weights = halving(len(values))
    if planned:
        bets, weights = {"step": ((0.7, 0.2), (0.5, 0.25)), "episode": ((0.9,), (1.0,))}[unit]
    expected = betting_upper(values, 0.05, bets, weights)
    assert portion.bound == portion.value == pytest.approx(expected, abs=1e-9)
    assert (portion.kind, portion.n, portion.episodes) == ("holdout", len(values), 30)
    assert (portion.kl, portion.draws) == (0.0, 0)
    assert portion.loss == pytest.approx(sum(values) / len(values), rel=1e-12)


def test_a_mean_of_one_unit_without_loss_by_hand():
    """(H.3) for one value 0 with the bets 1 and 1/2: (1/m + 1/2 + 1/(2m)) / 2 = 1/delta."""
    one = Errors(np.zeros(1), np.zeros(1), np.zeros(1, int), np.zeros(1, int))
    found = mean_risk(one, unit="step", delta=0.5, beforehand=Beforehand())
    assert found.value == pytest.approx(1 - 0.75 / (1 / 0.5 - 0.25), abs=1e-12)


# --- the band -----------------------------------------------------------------------------------


def seen(limit=None, width=10.0):
    """As much of a view as a band looks at."""
    clock = None if limit is None else Clock(limit, 0.9)
    moments = (np.zeros(1, np.float32), np.ones(1, np.float32))

    class Seen:
        scaling = Scaling(0.0, width, "user", *moments, clock)

    return Seen()


@pytest.mark.parametrize("profile", [(1.0,), (0.25, 0.5, 1.0, 0.8)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_band_is_the_largest_error_of_all_steps_over_the_profile(profile, sign):
    """Whether it is above or below the prediction."""
    found, view = made_up(seed=4), seen(8 if len(profile) > 1 else None)
    found = dataclasses.replace(found, raw=sign * found.raw)
    said = band(found, view, delta=0.1, profile=profile, confidence=0.9, joint=0.5)
    largest = 0.0
    for error, step in zip(found.raw.tolist(), found.step.tolist(), strict=True):
        part = profile[min(step * len(profile) // 8, len(profile) - 1)] if len(profile) > 1 else 1
        largest = max(largest, abs(error) / part)
    assert said.rms_raw is None  # it is a largest error
    assert said.value_raw == pytest.approx(largest, rel=1e-12)
    assert said.value == pytest.approx(largest / 10, rel=1e-12)
    assert said.share == pytest.approx(0.1 ** (1 / 30), rel=1e-9)
    assert said.share <= 0.1 ** (1 / 30)
    assert (said.n, said.confidence, said.joint_confidence) == (30, 0.9, 0.5)


def test_a_profile_is_the_size_of_errors_over_elapsed_time_and_at_most_one():
    rng = np.random.default_rng(1)
    step = np.tile(np.arange(100), 80)
    residuals = rng.normal(size=8000) * (0.01 + 0.1 * (step >= 50))
    profile = profile_from(residuals, step, seen(100))
    assert len(profile) == 20
    assert max(profile) == 1.0
    assert min(profile) >= 0.2 * (1 - 1e-12)
    assert max(profile[:10]) < 0.45  # the floor, and a little of the overall size
    assert min(profile[10:]) > 0.8
    assert profile_from(residuals, step, seen(None)) == (1.0,)  # no clock, no profile
    assert profile_from(residuals[:150], step[:150], seen(100)) == (1.0,)  # too few to tell
    at = profile_at(np.array([0, 4, 5, 99, 400]), profile, seen(100))
    assert at.tolist() == [profile[i] for i in (0, 0, 1, 19, 19)]


@pytest.mark.parametrize("profile", [(), (0.5,), (1e6,), (1.0, 0.0), (1.0, -1.0), (math.nan, 1.0)])
def test_a_profile_that_is_none_cannot_stand_beforehand(profile):
    """A wide profile would make a narrow band of any errors."""
    with pytest.raises(InputError, match=r"profile in \(0, 1\], the largest 1"):
        Beforehand(profile=profile)


def test_bets_are_planned_for_as_many_units_as_later_episodes_will_have():
    """Eight steps an episode, every second kept, ten episodes to come: n = 40, or 10."""
    rng = np.random.default_rng(2)
    episode = np.repeat(np.arange(5), 8)
    losses = 0.1 * rng.random(40)
    for unit, n in (("step", 40), ("episode", 10)):
        bets, weights = plan_bets(losses, episode, unit=unit, episodes=10, delta=0.1, thin=2)
        default, shares = halving(n)
        assert list(bets[1:]) == default
        assert list(weights) == pytest.approx([0.9, *(0.1 * share for share in shares)])
        assert 0 < bets[0] <= 1


# --- whole certificates -------------------------------------------------------------------------

PILOT, VALIDATION, FREE, THIN, GAMMA, STEPS = 3, 25, 5, 2, 0.7, 12
OPTIONS = {
    "pilot_episodes": PILOT,
    "test_episodes": 2,
    "thin": THIN,
    "gamma": GAMMA,
    "delta": 0.1,
    "delta_prime": 0.05,
    "seed": 6,
}


@pytest.fixture(scope="module")
def episodes():
    return recording(PILOT + VALIDATION + 2, STEPS, seed=4, noise=0.5, offset=0.6)


def issue(episodes, **options):
    with short_fits():
        return certify(episodes, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def certificate(episodes):
    return issue(episodes)


def plain_errors(certificate, episodes, first=FREE, thin=THIN):
    """Raw errors and clipped losses of each calibration episode, step by step."""
    low, high = certificate.return_range.low, certificate.return_range.high
    raw, losses = [], []
    for episode in list(episodes)[PILOT + first : PILOT + VALIDATION]:
        returns, value = [], 0.0
        for reward in reversed(episode.rewards.tolist()):
            value = reward + GAMMA * value
            returns.insert(0, value)
        kept = range(0, len(returns), thin)
        predictor = certificate.predictor
        elapsed = list(kept) if certificate.time_limit is not None else None
        predicted = predictor(episode.observations[::thin], elapsed=elapsed).mean.tolist()
        raw.append([p - returns[t] for p, t in zip(predicted, kept, strict=True)])
        clipped = [min(max(returns[t], low), high) for t in kept]
        losses.append(
            [((p - g) / (high - low)) ** 2 for p, g in zip(predicted, clipped, strict=True)]
        )
    return raw, losses


def of_kind(certificate, kind):
    return [s for s in certificate.statements if s.kind == kind]


def failure(certificate, name):
    return sum(entry.failure for entry in certificate.ledger if entry.statement == name)


def test_the_sample_has_returns_outside_the_range_and_a_clock(certificate):
    """So that clipped and unclipped, thinned and not, free and not are different things below."""
    assert certificate.clipped_share > 0.02
    assert certificate.time_limit == STEPS
    assert certificate.episodes.free == FREE
    assert dataclasses.asdict(certificate.episodes) == {
        "pilot": PILOT, "validation": VALIDATION, "free": FREE, "test": 2
    }  # fmt: skip


def test_tolerances_of_auto_are_order_statistics_of_unclipped_rms_errors(certificate, episodes):
    raw, _ = plain_errors(certificate, episodes)
    scores = sorted(map(rms, raw))
    delta, n = failure(certificate, "tolerance"), VALIDATION - FREE
    assert delta == pytest.approx(0.57 * 0.15)
    made = joint_tolerance(SHARES, n=n, delta=delta, top=0.83)
    said = of_kind(certificate, "tolerance")
    assert len(said) == len(made) >= 1
    for statement, one in zip(said, made, strict=True):
        assert statement.value_raw == pytest.approx(scores[one.rank - 1], rel=1e-5)
        assert (statement.share, statement.n) == (pytest.approx(one.share, rel=1e-9), n)
        assert "every second step" in statement.quantity


def test_the_step_bound_of_auto_is_the_betting_bound_of_clipped_losses(certificate, episodes):
    _, losses = plain_errors(certificate, episodes)
    values = [loss for own in losses for loss in own]
    delta = failure(certificate, "mean risk, unit step")
    assert delta == pytest.approx(0.23 * 0.15)
    before = certificate.beforehand
    expected = betting_upper(values, delta, before.bets, before.weights)
    assert certificate.bound == pytest.approx(expected, rel=1e-5)
    assert certificate.n == len(values) == (VALIDATION - FREE) * STEPS // THIN
    (portion,) = certificate.portions
    assert portion.loss == pytest.approx(sum(values) / len(values), rel=1e-5)


def test_the_episode_bound_of_auto_follows_from_the_tolerances(certificate, episodes):
    raw, losses = plain_errors(certificate, episodes)
    squares = [min(1.0, (rms(own) / certificate.width) ** 2) for own in raw]
    delta, n = failure(certificate, "tolerance"), VALIDATION - FREE
    made = joint_tolerance(SHARES, n=n, delta=delta, top=0.83)
    (portion,) = certificate.other_portions
    assert portion.bound == pytest.approx(mean_from_tolerances(squares, made), rel=1e-5)
    mean = sum(sum(own) / len(own) for own in losses) / n
    assert portion.loss == pytest.approx(mean, rel=1e-5)
    assert portion.bound >= mean
    (step, episode) = of_kind(certificate, "mean-risk")
    assert (step.unit, episode.unit) == ("step", "episode")
    assert (step.value, episode.value) == (certificate.bound, portion.bound)
    assert episode.rms_raw == pytest.approx(math.sqrt(portion.bound) * certificate.width)
    assert issue(episodes, unit="episode").bound == portion.bound


def test_the_band_of_auto_is_the_largest_error_of_any_step_of_any_episode(certificate, episodes):
    raw, _ = plain_errors(certificate, episodes)
    profile = certificate.beforehand.profile
    parts = [
        profile[min(t * len(profile) // STEPS, len(profile) - 1)] for t in range(0, STEPS, THIN)
    ]
    largest = max(abs(e) / part for own in raw for e, part in zip(own, parts, strict=True))
    (statement,) = of_kind(certificate, "band")
    assert statement.value_raw == pytest.approx(largest, rel=1e-5)
    n = VALIDATION - FREE
    assert statement.share == pytest.approx(failure(certificate, "band") ** (1 / n), rel=1e-9)
    assert "every second step" in statement.quantity


def test_the_profile_enters_the_band_of_auto(episodes):
    """Enough free steps for a profile: 3 pilot and 5 free episodes of 40."""
    longer = recording(PILOT + VALIDATION + 2, 40, seed=4, noise=0.5, offset=0.6)
    found = issue(longer)
    profile = found.beforehand.profile
    assert len(profile) == 20
    raw, _ = plain_errors(found, longer)
    parts = [profile[min(t * 20 // 40, 19)] for t in range(0, 40, THIN)]
    largest = max(abs(e) / part for own in raw for e, part in zip(own, parts, strict=True))
    (statement,) = of_kind(found, "band")
    assert statement.value_raw == pytest.approx(largest, rel=1e-5)
    assert "profile over elapsed time" in statement.note


def test_statements_of_auto_hold_jointly_and_each_alone(certificate):
    assert certificate.confidence == pytest.approx(0.85)
    spent = sum(entry.failure for entry in certificate.ledger)
    assert spent == pytest.approx(0.15, rel=1e-12)
    for statement in certificate.statements:
        assert statement.joint_confidence == pytest.approx(0.85)
        assert statement.confidence > statement.joint_confidence
    for source, total in (("delta", 0.1), ("delta_prime", 0.05)):
        own = [entry.failure for entry in certificate.ledger if entry.source == source]
        assert sum(own) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("scheme", ["auto", "holdout"])
def test_candidates_loosen_every_statement_and_leave_its_confidence(scheme, episodes):
    """The best of four pays for all of them: in each statement, those on outcomes as well."""
    alone, chosen = (issue(episodes, scheme=scheme, candidates=k) for k in (1, 4))
    loosened = 0
    for one, other in zip(alone.statements, chosen.statements, strict=False):
        if one.quantity != other.quantity:
            continue  # another number of tolerances
        assert other.confidence == pytest.approx(one.confidence, abs=1e-12)
        assert other.joint_confidence == pytest.approx(one.joint_confidence, abs=1e-12)
        if one.share is None:
            assert (
                other.value > one.value if one.direction == "at-most" else other.value < one.value
            )
        else:
            assert other.share < one.share or other.value < one.value
        loosened += 1
    assert loosened >= 5


def test_the_confidence_of_single_schemes_is_the_honest_union(episodes):
    """Two mean risks at delta + delta' each; outcomes, and a monitor, at a delta of their own."""
    for scheme in ("holdout", "rec-2", "nonrec-inf"):
        found = issue(episodes, scheme=scheme, mc_passes=2)
        beside = [s for s in found.statements if s.kind in ("return", "failure", "monitor")]
        assert ("monitor" in {s.kind for s in beside}) is (scheme == "holdout")
        assert {round(s.confidence, 12) for s in beside} == {0.9}
        risks = of_kind(found, "mean-risk")
        assert [round(s.confidence, 12) for s in risks] == [0.85, 0.85]
        assert [s.unit for s in risks] == ["step", "episode"]
        joint = 1 - 2 * 0.15 - len(beside) * 0.1
        assert {round(s.joint_confidence, 12) for s in found.statements} == {round(joint, 12)}


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("preset", ["tight", "paper"])
def test_a_holdout_certificate_is_the_betting_bound_on_the_second_half(episodes, unit, preset):
    """At delta + delta', since nothing is drawn; planned bets where there was a regression."""
    found = issue(episodes, scheme="holdout", unit=unit, preset=preset)
    first = 13  # of 25 episodes
    _, losses = plain_errors(found, episodes, first)
    for own, (portion,) in ((unit, found.portions), (OTHER[unit], found.other_portions)):
        if own == "step":
            values = [loss for each in losses for loss in each]
            bets, weights = found.beforehand.bets, found.beforehand.weights
        else:
            values = [sum(each) / len(each) for each in losses]
            bets, weights = found.beforehand.episode_bets, found.beforehand.episode_weights
        assert bool(bets) is (preset == "tight")
        bets, weights = (bets, weights) if bets else halving(len(values))
        expected = betting_upper(values, 0.15, bets, weights)
        assert portion.bound == pytest.approx(expected, rel=1e-5)
        assert (portion.n, portion.kl, portion.draws) == (len(values), 0.0, 0)


OTHER = {"step": "episode", "episode": "step"}


def test_the_headline_is_the_widest_tolerance_that_says_something(certificate, episodes):
    said = of_kind(certificate, "tolerance")
    usable = [s for s in said if s.value < 1]
    assert certificate.statements[certificate.headline] == usable[-1]
    low, high = certificate.return_range.low, certificate.return_range.high
    middle = (low + high) / 2
    with pytest.warns(UserWarning, match="lie outside"):
        narrow = issue(episodes, return_range=(middle, middle + 1e-3), return_floor=-1e3)
    assert all(s.value > 1 for s in of_kind(narrow, "tolerance"))
    assert narrow.headline == 0
