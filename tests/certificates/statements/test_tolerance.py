"""(T.1) on RMS errors and the mean over episodes that follows (T.4), against plain loops."""

import math

import numpy as np
import pytest
from constructed import OUTWARD, certificate, evidence, made_up, recorded, rms, stated
from scipy.stats import beta, binom

from tightrope.bounds import joint_tolerance
from tightrope.certificates.statements.tolerance import LEVELS, MeanOverEpisodes, Tolerance

TOP = 0.6  # of the failure probability goes to the largest score


def level_mean(scores, levels):
    """(T.4): each share of episodes counts with the score that covers it, the rest with 1."""
    ordered, total, before = sorted(scores), 0.0, 0.0
    for level in levels:
        total += (level.share - before) * ordered[level.rank - 1]
        before = level.share
    return total + 1 - before


@pytest.mark.parametrize("delta", [0.02, 0.3])
@pytest.mark.parametrize("n", [3, 20, 60])
def test_levels_are_order_statistics_of_rms_errors_in_return_units(n, delta):
    rewards, errors = made_up(episodes=n)
    found = stated(Tolerance(), evidence(rewards, errors, high=20.0), None, delta)
    scores = sorted(map(rms, errors))
    levels = joint_tolerance(LEVELS, n=n, delta=delta, top=TOP)
    assert [s.share for s in found] == pytest.approx([level.share for level in levels])
    for statement, level in zip(found, levels, strict=True):
        score = scores[level.rank - 1]
        assert statement.value_raw == pytest.approx(score * (1 + OUTWARD), rel=1e-12)
        assert statement.limit == statement.rms_raw == statement.value_raw > score
        assert statement.value == pytest.approx(statement.value_raw / 20)
        assert statement.estimate == pytest.approx(np.quantile(scores, level.share))
        assert (statement.n, statement.unit, statement.direction) == (n, "episode", "at-most")
        assert statement.confidence == pytest.approx(1 - delta)
        # no level alone is promised more than (T.1) allows it alone
        assert level.share <= beta.ppf(delta, level.rank, n - level.rank + 1) * (1 + 1e-9)
    assert found[-1].value_raw == pytest.approx(max(scores) * (1 + OUTWARD))
    assert (TOP * delta) ** (1 / n) * (1 - 1e-9) <= found[-1].share <= delta ** (1 / n)


def test_a_hundred_and_fifty_episodes_state_the_18th_the_6th_and_the_second_largest():
    """SPEC 12.10, at the default failure probability of 0.035 and its half for the levels."""
    levels = Tolerance().limits(np.arange(1.0, 151.0), delta=0.0175, chosen={})
    assert [int(level.value) for level in levels] == [133, 145, 149, 150]
    assert [level.share for level in levels[:3]] == [0.8, 0.9, 0.95]
    assert round(100 * levels[3].share, 1) == 97.0
    assert [level.note for level in levels] == [
        f"the {words}largest of 150 episodes" for words in ("18th ", "6th ", "second ", "")
    ]


@pytest.mark.parametrize("n", [19, 80])
def test_levels_hold_jointly(n):
    """Of uniform scores the share that scores at most U is U itself. 20,000 samples of n."""
    delta, repetitions = 0.1, 20_000
    levels = Tolerance().limits(np.arange(1.0, n + 1.0), delta=delta, chosen={})
    scores = np.sort(np.random.default_rng(5).random((repetitions, n)), axis=1)
    failed = [scores[:, int(level.value) - 1] < level.share for level in levels]
    count = np.any(failed, axis=0).sum()
    assert count <= binom.ppf(1 - 1e-6, repetitions, delta)
    assert count >= binom.ppf(1e-6, repetitions, 0.8 * delta)  # and little is given away


@pytest.mark.parametrize("scale", [1.0, 4.0, 60.0])
def test_the_mean_over_episodes_follows_from_the_levels(scale):
    """(T.4) of min(1, (score / width)^2), never below the mean clipped loss of the sample."""
    rewards, errors = made_up(scale=scale)
    seen = evidence(rewards, errors)
    (found,) = stated(MeanOverEpisodes(), seen, None, 0.1)
    squares = [min(1.0, (rms(own) / 10) ** 2) for own in errors]
    levels = joint_tolerance(LEVELS, n=30, delta=0.1, top=TOP)
    expected = min(level_mean(squares, levels) * (1 + OUTWARD), 1.0)
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.value_raw == pytest.approx(100 * expected)
    assert found.rms_raw == pytest.approx(10 * math.sqrt(expected))
    losses = []
    for own, off in zip(rewards, errors, strict=True):
        clipped = [((g + e - min(max(g, 0), 10)) / 10) ** 2 for g, e in zip(own, off, strict=True)]
        losses.append(np.mean(np.minimum(clipped, 1)))
    assert np.mean(squares) <= found.value
    if scale < 60:  # the predictions are inside the range
        assert np.mean(losses) <= np.mean(squares) * (1 + 1e-12)
    assert found.vacuous is (found.value == 1.0)
    assert found.share is None


@pytest.mark.parametrize(
    ("thin", "steps"),
    [(1, "every step"), (2, "every second step"), (3, "every third step"), (5, "every 5th step")],
)
def test_words_name_the_steps_that_count_and_the_range_of_a_mean(thin, steps):
    rewards, errors = made_up(shortest=6, longest=12)
    seen = evidence(rewards, errors, thin=thin, low=-2.5, high=12)
    assert {s.quantity for s in stated(Tolerance(), seen)} == {
        f"RMS error of the predicted return over {steps}"
    }
    (mean,) = stated(MeanOverEpisodes(), seen)
    assert mean.quantity.endswith(f"over {steps}, returns clipped to [-2.5, 12]")
    kept = [rms(own[::thin]) for own in errors]
    np.testing.assert_allclose(Tolerance().scores(seen, {}), kept)


@pytest.mark.parametrize(
    ("n", "level"), [(150, 0.95), (145, 0.9), (68, 0.9), (67, 0.8), (30, 0.8), (29, None)]
)
def test_the_headline_is_the_largest_level_below_the_largest_score(n, level):
    """The largest score is the headline only where it is all that there is."""
    rewards, errors = made_up(episodes=n + 10, shortest=4)
    found = certificate(recorded(rewards, errors), fit_episodes=10)
    headline = found.statements[found.headline]
    shares = [s.share for s in found.statements if s.kind == "tolerance"]
    assert found.episodes.calibration == n
    if level is None:
        assert shares == [headline.share]
    else:
        assert headline.share == level == max(s for s in shares if s in LEVELS)
        assert shares.index(level) < len(shares) - 1
