"""What is true of each kind of statement, where it can be worked out by hand.

The predictor says 5 of a range from 0 to 10, always. With gamma = 0 a return is a reward: of ten
new episodes nine have one step of reward 5, which is predicted exactly, and one has three steps of
reward 9, which is not, and terminates.
"""

import dataclasses

import numpy as np
import pytest
import torch
from recordings import recording, short_fits

from tightrope.certificates import certify
from tightrope.certificates.beforehand import Beforehand
from tightrope.errors import InputError
from tightrope.posteriors import Chain, Clock, Network, Scaling
from tightrope.rollouts import Episode, join
from tightrope.studies.audit.truth import EVALUATORS, Answer, NewEpisodes, Seen, answers

OPTIONS = {"pilot_episodes": 4, "thin": 1, "gamma": 0.0, "mc_passes": 2, "seed": 3}
COUNT = 1000


def issue(scheme, **changes):
    with short_fits(hidden=(8, 8)):
        return certify(recording(30, seed=1), scheme=scheme, **{**OPTIONS, **changes})


def constant(value, features=3, clock=None):
    """A chain whose network says `value` of [0, 10], whatever it is given."""
    size = features + (0 if clock is None else clock.size)
    layers = [torch.zeros(1, inputs + 1, 1) for inputs in (size, 1, 1)]
    layers[-1][0, -1, 0] = value / 10
    nothing = np.zeros(features, np.float32), np.ones(features, np.float32)
    return Chain((), Network(tuple(layers)), Scaling(0.0, 10.0, "user", *nothing, clock))


@pytest.fixture(scope="module")
def certificate():
    made = issue("auto", return_floor=-30.0)
    return dataclasses.replace(
        made,
        chain=constant(5.0),
        beforehand=Beforehand(),
        return_range=dataclasses.replace(made.return_range, low=0.0, high=10.0),
    )


@pytest.fixture(scope="module")
def new():
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(COUNT):
        odd = index % 10 == 0
        rewards = np.full(3, 9.0) if odd else np.full(1, 5.0)
        observations = rng.normal(size=(len(rewards), 3)).astype(np.float32)
        episodes.append(Episode(observations, rewards, odd, not odd, success=not odd))
    return NewEpisodes.of(join(episodes), gamma=0.0, thin=1)


def said(certificate, kind, **changes):
    """The first statement of a kind, changed."""
    first = next(each for each in certificate.statements if each.kind == kind)
    return dataclasses.replace(first, **changes)


def judged(certificate, new, statement):
    return EVALUATORS[statement.kind](statement, Seen(certificate, new))


@pytest.mark.parametrize(("unit", "risk"), [("episode", 0.1 * 0.16), ("step", 0.3 / 1.2 * 0.16)])
def test_mean_risks_weigh_episodes_or_steps_equally(certificate, new, unit, risk):
    """The error of 4 is 0.4 of the range; the deviation over episodes is 0.3 times 0.16."""
    answer = judged(certificate, new, said(certificate, "mean-risk", unit=unit, value=risk + 0.03))
    assert answer.truth == pytest.approx(risk)
    assert (answer.low + answer.high) / 2 == pytest.approx(0.03)
    assert answer.state == "kept"
    if unit == "episode":
        error = 0.16 * (0.1 * 0.9 / (COUNT - 1)) ** 0.5
    else:  # of a ratio, by a plain loop over what each episode adds
        parts = [(3 * (0.16 - risk) if i % 10 == 0 else -risk) / 1.2 for i in range(COUNT)]
        error = (sum(part**2 for part in parts) / (COUNT - 1) / COUNT) ** 0.5
    assert answer.high - answer.low == pytest.approx(8 * error, rel=1e-6)
    for shift, state in ((-0.03, "broken"), (0.0, "unclear"), (1e-3, "unclear")):
        moved = said(certificate, "mean-risk", unit=unit, value=risk + shift)
        assert judged(certificate, new, moved).state == state


@pytest.mark.parametrize("kind", ["tolerance", "band", "monitor"])
def test_a_score_covers_the_episodes_that_have_at_most_it(certificate, new, kind):
    """Nine tenths have a score of 0, the others of 4."""
    for value, share, state in (
        (1.0, 0.8, "kept"),
        (1.0, 0.95, "broken"),
        (1.0, 0.9, "unclear"),
        (3.99, 0.95, "broken"),
        (4.01, 0.98, "kept"),
    ):
        answer = judged(
            certificate,
            new,
            said(certificate, kind, value_raw=value, value=value / 10, share=share),
        )
        assert answer.state == state, (value, share)
        if share != 0.9:
            assert answer.truth == pytest.approx(0.4 if share > 0.9 else 0.0, abs=1e-6)


def test_a_tolerance_is_on_the_rms_of_an_episode_and_a_band_on_its_largest_error(certificate):
    """Two steps, errors 0 and 4: RMS sqrt(8), largest 4; the profile halves the second."""
    rng = np.random.default_rng(1)
    episodes = [
        Episode(rng.normal(size=(2, 3)).astype(np.float32), np.array([5.0, 9.0]), False, True)
        for _ in range(200)
    ]
    two = NewEpisodes.of(join(episodes), gamma=0.0, thin=1)
    clocked = dataclasses.replace(certificate, chain=constant(5.0, clock=Clock(2, 0.0)))
    shaped = dataclasses.replace(clocked, beforehand=Beforehand(profile=(1.0, 0.5)))
    for made, kind, score in (
        (certificate, "tolerance", 8**0.5),
        (certificate, "band", 4.0),
        (shaped, "band", 8.0),
    ):
        for value, state in ((score - 1e-3, "broken"), (score + 1e-3, "kept")):
            assert judged(made, two, said(made, kind, value_raw=value)).state == state


def test_a_return_is_reached_by_a_share_of_episodes(certificate, new):
    """Undiscounted returns are 5, and 27 for one in ten; discounted by 0, 5 and 9."""
    for target, value, share, state in (
        ("undiscounted-return", 20.0, 0.05, "kept"),
        ("undiscounted-return", 20.0, 0.3, "broken"),
        ("undiscounted-return", 28.0, 0.05, "broken"),
        ("discounted-return", 20.0, 0.05, "broken"),
        ("discounted-return", 8.0, 0.05, "kept"),
        ("discounted-return", 5.0, 1.0 - 1e-2, "kept"),
    ):
        statement = said(certificate, "return", target=target, value_raw=value, share=share)
        assert judged(certificate, new, statement).state == state, (target, value, share)


def test_a_mean_return_is_that_of_the_sample_or_what_is_known_of_it(certificate, new):
    mean = 0.9 * 5 + 0.1 * 27
    target = "undiscounted-return"
    for shift, state in ((-1.5, "kept"), (1.5, "broken"), (0.1, "unclear")):
        statement = said(certificate, "return", target=target, share=None, value_raw=mean + shift)
        answer = judged(certificate, new, statement)
        assert answer.state == state
        assert answer.truth == pytest.approx(mean / 10)
    sure = dataclasses.replace(new, known={target: 7.0})
    for value, state in ((6.99, "kept"), (7.01, "broken")):
        statement = said(certificate, "return", target=target, share=None, value_raw=value)
        assert judged(certificate, sure, statement).state == state


@pytest.mark.parametrize("target", ["early-termination", "no-success", "low-return"])
def test_a_failure_is_an_event_of_an_episode(certificate, new, target):
    """One in ten terminates, and is no success; nine in ten return less than 6."""
    probability = 0.9 if target == "low-return" else 0.1
    options = dataclasses.replace(certificate.options, fail_below=6.0)
    made = dataclasses.replace(certificate, options=options)
    for shift, state in ((0.06, "kept"), (-0.06, "broken"), (0.0, "unclear")):
        statement = said(made, "failure", target=target, value=probability + shift)
        answer = judged(made, new, statement)
        assert answer.state == state
        assert answer.truth == pytest.approx(probability)
    sure = dataclasses.replace(new, known={target: 0.3})
    assert judged(made, sure, said(made, "failure", target=target, value=0.31)).state == "kept"
    assert judged(made, sure, said(made, "failure", target=target, value=0.29)).state == "broken"


def test_the_risk_of_a_posterior_is_the_mean_over_its_draws():
    """(mean - y)^2 + variance over 400 draws of the predictor at work."""
    made = issue("nonrec-noninf", clock="off")
    fresh = recording(400, seed=9)
    seen = Seen(made, NewEpisodes.of(fresh, gamma=0.0, thin=1))
    drawn = made.predictor(fresh.observations, draws=400, seed=5)
    low, width = made.return_range.low, made.width
    targets = np.clip((fresh.rewards - low) / width, 0, 1)
    expected = ((drawn.mean - low) / width - targets) ** 2 + (drawn.spread / width) ** 2
    error = np.std(seen.losses - expected) / len(expected) ** 0.5
    assert abs(seen.losses.mean() - expected.mean()) < 5 * error
    assert expected.mean() > 1e-3


def test_only_what_a_first_look_leaves_open_is_looked_at_in_all_episodes(certificate, new):
    """A tenth of them decides what is far from the truth, all of them what is near."""
    statement = said(certificate, "failure", value=0.13)  # within 3 errors of 100, not of 1000
    one = dataclasses.replace(certificate, statements=(statement,), headline=0)
    (answer,) = answers(one, new)
    few = EVALUATORS["failure"](statement, Seen(certificate, new.first(COUNT // 10)))
    assert few.state == "unclear"
    assert answer == EVALUATORS["failure"](statement, Seen(certificate, new))
    sure = dataclasses.replace(one, statements=(dataclasses.replace(statement, value=0.6),))
    (answer,) = answers(sure, new)
    assert answer == EVALUATORS["failure"](
        sure.statements[0], Seen(certificate, new.first(COUNT // 10))
    )


def test_the_first_episodes_are_cut_whole(new):
    first = new.first(11)
    assert len(first.whole) == first.pairs.episodes == 11
    assert len(first.pairs) == 2 * 3 + 9
    assert [len(values) for values in first.returns.values()] == [11, 11]


def test_a_kind_that_nobody_can_judge_is_refused(certificate, new):
    strange = dataclasses.replace(certificate.statements[0], kind="oracle")
    with pytest.raises(InputError, match="add what judges it to EVALUATORS"):
        answers(dataclasses.replace(certificate, statements=(strange,), headline=0), new)


def test_every_statement_of_every_scheme_can_be_judged(certificate, new):
    for scheme in ("auto", "holdout", "nonrec-inf", "rec-2"):
        made = issue(scheme)
        found = answers(made, NewEpisodes.of(recording(100, seed=7), gamma=0.0, thin=1))
        assert len(found) == len(made.statements)


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [(0.0, 1.0, "kept"), (-1.0, -1e-9, "broken"), (-1e-9, 0.0, "unclear")],
)
def test_a_margin_is_sure_only_if_its_whole_interval_is_on_one_side(low, high, state):
    assert Answer(low, high, 0.0).state == state
