"""What is true of each kind of statement, where it can be worked out by hand.

The predictor says 5 of a range from 0 to 10, always. With gamma = 0 a return is a reward: of ten
new episodes nine have one step of reward 5, which is predicted exactly, and one has three steps of
reward 9, which is not, and terminates.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from tightrope.audit.generators import SYNTHETIC, TASKS
from tightrope.audit.ground_truth import ALL, NewEpisodes, checks_of
from tightrope.certificates import Options, settle
from tightrope.certificates.certify import issue
from tightrope.posteriors import PRESETS, Clock, ReturnPredictor, Scaling, draw_predictions
from tightrope.rollouts import Episode, join

COUNT = 1000


def issued(scheme, **options):
    task = TASKS["independent"]
    asked = Options(
        **{
            **task.options,
            "scheme": scheme,
            "episodes": 20,
            "test_episodes": 0,
            "seed": 3,
            **options,
        }
    )
    short = PRESETS[asked.preset].shortened(updates=10, width=6)
    settings = settle(asked, SYNTHETIC, preset=short)
    return issue(task.record(settings.episodes, np.random.default_rng(1)), settings)


def constant(value, clock=None):
    """A network that says `value` of [0, 10], whatever it is given."""
    size = 2 + (0 if clock is None else clock.size)
    layer = np.zeros((1, size + 1, 1), np.float32)
    layer[0, -1, 0] = value / 10
    nothing = np.zeros(2, np.float32), np.ones(2, np.float32)
    return ReturnPredictor((layer,), Scaling(0.0, 10.0, "user", *nothing, clock))


def recorded(rewards):
    """Episodes with these rewards; those of several steps terminate, the others succeed."""
    rng = np.random.default_rng(0)
    episodes = []
    for each in rewards:
        seen = rng.normal(size=(len(each), 2)).astype(np.float32)
        long = len(each) > 1
        episodes.append(Episode(seen, np.array(each, float), long, not long, success=not long))
    return join(episodes)


NEW = recorded([[9.0] * 3 if index % 10 == 0 else [5.0] for index in range(COUNT)])


@pytest.fixture(scope="module")
def certificate():
    """Its options say which events there are; its predictor is replaced by the constant one."""
    made = issued("auto", return_floor=-30.0, discounted_floor="off", fail_below=6.0)
    settings = replace(made.settings, time_limit=None)  # as long as the longest
    return replace(made, fitted=constant(5.0), rollouts=NEW, settings=settings)


def judged(certificate, episodes=NEW, *, name, thin=1, known=None, **changes):
    """The check of one statement of that name, changed, and that of its literal words."""
    source = issued("holdout", termination="success") if name == "success" else certificate
    (statement, *_) = [each for each in source.statements if each.name == name]
    if statement.rms_raw is None:
        changes.pop("rms_raw", None)
    one = replace(certificate, statements=(replace(statement, **changes),), headline=0)
    first, *literal, _ = checks_of(one, NewEpisodes(episodes, 0.0, thin, known or {}))
    assert first["claimed"]
    assert [each["claimed"] for each in literal] == [False] * len(literal)
    return first, *literal


EPISODES, STEPS = 0.1 * 0.16, 0.3 / 1.2 * 0.16  # an error of 4 is 0.4 of the range
CHOSEN = {"tolerance": {}, "band": {"profile": [1.0]}, "monitor": {"window": 2, "widths": [1.0]}}
MEAN, KNOWN = 0.9 * 5 + 0.1 * 27, {"undiscounted-return": 7.0}
LEAST, MOST = binomtest(100, COUNT).proportion_ci(1 - 2e-4, "exact")
EARLY = {"early-termination": 0.3}


def stated(value, share=None, **more):
    return {"value": value, "value_raw": value, "share": share, **more}


TRUTHS = [  # a statement, what it says, whether that is true, and what would be exact
    *(("mean over episodes", stated(EPISODES + shift), state, EPISODES)
      for shift, state in ((0.03, "held"), (-0.012, "violated"), (1e-3, "inconclusive"))),
    *(("mean over steps", stated(STEPS + shift), state, STEPS)
      for shift, state in ((0.03, "held"), (-0.025, "violated"), (1e-3, "inconclusive"))),
    # Nine tenths have a score of 0, the others of 4.
    *((name, stated(value, share, rms_raw=value, chosen=chosen), state, exact)
      for name, chosen in CHOSEN.items()
      for value, share, state, exact in (
          (1.0, 0.8, "held", 0.0), (1.0, 0.95, "violated", 0.4), (1.0, 0.89, "inconclusive", 0.0),
          (3.99, 0.95, "violated", 0.4), (4.01, 0.98, "held", 0.4))),
    # Undiscounted returns are 5, and 27 for one in ten; discounted by 0, 5 and 9.
    *(("undiscounted return", stated(*case), state, exact) for case, state, exact in (
        ((20.0, 0.05), "held", 2.7), ((20.0, 0.3), "violated", 0.5),
        ((28.0, 0.05), "violated", 2.7))),
    *(("discounted return", stated(*case), state, exact) for case, state, exact in (
        ((20.0, 0.05), "violated", 0.9), ((8.0, 0.05), "held", 0.9), ((5.0, 0.99), "held", 0.5))),
    *(("expected undiscounted return", stated(MEAN + shift, chosen={"top": 40.0}), state, MEAN / 10)
      for shift, state in ((-3.0, "held"), (3.0, "violated"), (0.1, "inconclusive"))),
    *(("expected undiscounted return", stated(value, chosen={"top": 40.0}, known=KNOWN), state, 0.7)
      for value, state in ((6.99, "held"), (7.01, "violated"))),
    # One in ten terminates, and is no success; nine in ten return less than 6.
    *(("early termination", stated(value), state, 0.1) for value, state in (
        (LEAST - 1e-6, "violated"), (LEAST + 1e-6, "inconclusive"), (0.1, "inconclusive"),
        (MOST - 1e-6, "inconclusive"), (MOST + 1e-6, "held"))),
    *(("early termination", stated(value, known=EARLY), state, 0.3)
      for value, state in ((0.299, "violated"), (0.301, "held"))),
    *(("low return", stated(value), state, 0.9) for value, state in (
        (0.8, "violated"), (0.9, "inconclusive"), (0.95, "held"))),
    *(("success", stated(value), state, 0.9) for value, state in (
        (0.8, "held"), (0.9, "inconclusive"), (0.95, "violated"))),
]  # fmt: skip


def test_each_kind_of_statement_has_the_truth_that_can_be_worked_out(certificate):
    for name, changes, state, exact in TRUTHS:
        truth, *_ = judged(certificate, name=name, **changes)
        assert truth["truth"] == state, (name, changes)
        assert truth["exact"] == pytest.approx(exact, abs=1e-6), (name, changes)


def test_a_mean_over_steps_is_one_of_episodes_of_other_lengths(certificate):
    """One episode in ten has ten steps of loss 1, the others have one of 0: 10 steps of 19."""
    episodes = recorded([[1e6] * 10 if index % 10 == 0 else [0.0] for index in range(COUNT)])
    low = replace(certificate, fitted=constant(0.0))
    for value, state in ((0.35, "violated"), (0.5, "inconclusive"), (0.75, "held")):
        truth, _ = judged(low, episodes, name="mean over steps", value=value)
        assert (truth["truth"], truth["exact"]) == (state, pytest.approx(10 / 19)), value


def test_half_of_a_rare_risk_is_never_held(certificate):
    """One loss of 1 in 500 episodes, of which half is stated; the largest error is clipped to 1.

    By four standard errors of a tenth of the episodes most of these would be held.
    """
    rng, naive, low = np.random.default_rng(0), 0, replace(certificate, fitted=constant(0.0))
    for unit in ("episode", "step") * 10:
        struck = rng.random(2000) < 1 / 500
        tenth = struck[:200]
        naive += tenth.mean() + 4 * tenth.std() / len(tenth) ** 0.5 <= 1 / 1000
        episodes = recorded([[1e6] if each else [0.0] for each in struck])
        truth, _ = judged(low, episodes, name=f"mean over {unit}s", value=1 / 1000)
        assert truth["truth"] in ("violated", "inconclusive")
        assert truth["exact"] == pytest.approx(struck.mean())
    assert naive > 10


def test_what_was_chosen_on_the_fitting_set_enters_the_score(certificate):
    """An error of 4 at the second of two steps, where the profile is a half."""
    clocked = replace(certificate, fitted=constant(5.0, Clock(2, 0.0)))
    for profile, score in (([1.0], 4.0), ([1.0, 0.5], 8.0)):
        for value, state in ((score - 0.01, "violated"), (score + 0.01, "held")):
            changed = {"value_raw": value, "share": 0.9, "chosen": {"profile": profile}}
            (truth,) = judged(clocked, recorded([[5.0, 9.0]] * 200), name="band", **changed)
            assert truth["truth"] == state, (profile, value)


@pytest.mark.parametrize(
    ("rewards", "thin", "name", "changes", "exact", "literal"),
    [
        ([5.0, 9.0], 2, "tolerance", {"rms_raw": 1.0, "share": 0.8}, 0.0, 0.4 / 2**0.5),
        ([5.0, 9.0], 2, "mean over steps", {"value": 0.04}, 0.0, 0.16 / 2),
        ([5.0, 35.0], 1, "mean over episodes", {"value": 0.3}, 0.25 / 2, 9.0 / 2),
        ([5.0, 35.0], 1, "mean over steps", {"value": 0.3}, 0.25 / 2, 9.0 / 2),
        ([5.0, 95.0], 1, "mean over steps", {"value": 0.3}, 0.25 / 2, 16.0 / 2),  # counts as 16
    ],
)
def test_literal_words_are_about_all_steps_and_nothing_is_clipped(
    certificate, rewards, thin, name, changes, exact, literal
):
    episodes = recorded([rewards] * 400)
    truth, words = judged(certificate, episodes, name=name, thin=thin, **changes)
    assert (truth["truth"], words["truth"]) == ("held", "violated")
    assert truth["exact"] == pytest.approx(exact)
    assert words["exact"] == pytest.approx(literal)


def test_the_risk_of_a_posterior_is_the_mean_over_its_draws():
    """Wide as it is, that is not the risk of its mean, nor of one draw of the weights."""
    made = issued("nonrec-noninf", pilot_episodes=4)
    narrow = made.posteriors[-1]
    wide = tuple(np.full_like(each, -2.0) for each in narrow.log_variances)
    made = replace(made, posteriors=(narrow, replace(narrow, log_variances=wide)))
    scaling = made.predictor.scaling
    new = NewEpisodes(TASKS["independent"].new(500, np.random.default_rng(9)), 0.0, 1)
    inputs = scaling.inputs(new.thinned.observations, new.thinned.step)
    drawn = draw_predictions(made.posteriors[-1], inputs, passes=100, seed=5, sampling="local")
    losses = np.square(drawn - scaling.targets(new.thinned.returns))  # (draws, rows)
    exact = {each["statement"]: each.get("exact") for each in checks_of(made, new)}
    for name in ("mean over steps", "mean over episodes"):
        error = losses.std() / losses.shape[1] ** 0.5
        assert abs(exact[name] - losses.mean()) < 5 * error


@pytest.mark.parametrize(
    ("scheme", "preset"), [("auto", "tight"), ("nonrec-inf", "tight"), ("rec-2", "paper")]
)
def test_every_statement_of_every_scheme_has_a_truth(scheme, preset):
    made = issued(scheme, preset=preset, mc_passes=2)
    task = TASKS["independent"]
    new = NewEpisodes(task.new(100, np.random.default_rng(7)), 0.0, 1, task.known)
    *found, joint = checks_of(made, new)
    for statement in made.statements:
        first = found.pop(0)
        assert first["statement"].startswith(statement.name)
        assert (first["claimed"], first["value"]) == (True, statement.value)
        if statement.kind in ("mean-risk", "tolerance"):
            words = found.pop(0)
            assert words["statement"] == f"{first['statement']}: all steps, unclipped"
            assert not words["claimed"]
    assert not found
    assert joint["statement"] == ALL
    assert joint["nominal"] == pytest.approx(1 - made.joint_confidence)
