"""`settle` is the one place that decides a default: what a policy, a log and a search come to."""

import dataclasses

import numpy as np
import pytest
from recordings import recording, short

from tightrope.certificates import Options, Property, Settings, settle
from tightrope.certificates.certify import certify
from tightrope.certificates.properties import properties_of
from tightrope.certificates.settings import training_scaling
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Scaling
from tightrope.rollouts import policy_source
from tightrope.system import resolve_device

TRAINED = Scaling(-9.0, 9.0, "training", np.zeros(3, np.float32), np.ones(3, np.float32))


def hover(observation):
    return [0.0]


@pytest.fixture(scope="module")
def policy():
    return policy_source(hover, "Pendulum-v1")


def counts(settings):
    return settings.pilot, settings.fit, settings.validation, settings.test


ROLLED_OUT = [
    # episodes to fit count among those to calibrate; none for test unless asked
    ({}, (0, 50, 200, 0), "episode"),
    ({"scheme": "holdout"}, (0, 50, 200, 0), "episode"),
    ({"episodes": 100}, (0, 25, 100, 0), "episode"),
    ({"episodes": 2}, (0, 1, 2, 0), "episode"),
    ({"fit_episodes": 30}, (0, 30, 200, 0), "episode"),
    ({"test_episodes": 20}, (0, 50, 200, 20), "episode"),
    ({"unit": "step"}, (0, 50, 200, 0), "step"),
    ({"preset": "paper"}, (0, 50, 200, 0), "episode"),
    # the paper's numbers where there is PAC-Bayes in it
    ({"scheme": "rec-2"}, (10, 0, 100, 100), "step"),
    ({"scheme": "nonrec-inf", "unit": "episode"}, (10, 0, 100, 100), "episode"),
    ({"scheme": "rec-6", "episodes": 40, "test_episodes": 5}, (10, 0, 40, 5), "step"),
    ({"scheme": "rec-6", "pilot_episodes": 3}, (3, 0, 100, 100), "step"),
    ({"paper": True}, (10, 0, 100, 100), "step"),
    ({"paper": True, "episodes": 50, "test_episodes": 0}, (10, 0, 50, 0), "step"),
    # a search: what the first look needs
    ({"until": "rms<=20"}, (0, 50, 60, 0), "episode"),
    ({"until": "rms<=20", "unit": "step"}, (0, 50, 60, 0), "step"),
    ({"until": "rms<=20", "fit_episodes": 20, "max_episodes": 30}, (0, 20, 30, 0), "episode"),
    ({"until": "rms<=20", "test_episodes": 9}, (0, 50, 60, 9), "episode"),
]
RECORDED = [
    # a quarter fits, all that is there is used
    (60, {}, (0, 15, 60, 0), "episode"),
    (2, {}, (0, 1, 2, 0), "episode"),
    (3, {}, (0, 1, 3, 0), "episode"),
    (61, {"scheme": "holdout", "test_episodes": 1}, (0, 15, 60, 1), "episode"),
    (60, {"episodes": 40}, (0, 10, 40, 0), "episode"),
    (60, {"fit_episodes": 59}, (0, 59, 60, 0), "episode"),
    (60, {"scheme": "rec-2"}, (10, 0, 50, 0), "step"),
    (60, {"scheme": "rec-2", "test_episodes": 5, "episodes": 30}, (10, 0, 30, 5), "step"),
    (60, {"scheme": "nonrec-inf", "pilot_episodes": 0}, (0, 0, 60, 0), "step"),
    (230, {"paper": True}, (10, 0, 100, 100), "step"),
    (130, {"paper": True}, (10, 0, 20, 100), "step"),
    (130, {"paper": True, "test_episodes": 0}, (10, 0, 100, 0), "step"),
]


@pytest.mark.parametrize(("options", "expected", "unit"), ROLLED_OUT, ids=str)
def test_a_policy_is_rolled_out_for_so_many_episodes(policy, options, expected, unit):
    found = settle(Options(**options), policy)
    assert (counts(found), found.unit) == (expected, unit)
    assert found.episodes == expected[0] + expected[2] + expected[3]


@pytest.mark.parametrize(("count", "options", "expected", "unit"), RECORDED, ids=str)
def test_a_recording_is_divided_into_so_many_episodes(count, options, expected, unit):
    found = settle(Options(**options), recording(count, 2))
    assert (counts(found), found.unit) == (expected, unit)
    assert found.episodes <= count


@pytest.mark.parametrize(("preset", "pilot"), [("paper", 0), ("tight", 10)], ids=["paper", "tight"])
def test_a_training_record_stands_in_for_the_pilot_unless_the_prior_is_regressed(
    policy, preset, pilot
):
    options = Options(scheme="rec-2", preset=preset)
    assert counts(settle(options, policy, training=TRAINED)) == (pilot, 0, 100, 100)
    none = dataclasses.replace(options, pilot_episodes=0)
    assert settle(none, policy, training=TRAINED).pilot == 0


def test_everything_else_is_decided_from_the_environment_or_the_log(policy):
    found = settle(Options(), policy)
    assert (found.scheme.name, found.preset) == ("auto", PRESETS["tight"])
    assert (found.time_limit, found.thin, found.clock) == (200, 5, True)
    assert (found.return_range, found.return_floor, found.fail_below) == (None, None, None)
    assert (found.until, found.max_episodes, found.most) == (None, None, 200)
    assert found.device == resolve_device("auto")
    assert settle(Options(), policy).seed != found.seed  # drawn, and recorded
    log = settle(Options(), recording(20, 2))
    assert (log.time_limit, log.thin) == (None, None)  # for the fitting set to show
    known = {"environment": {"id": "Toy-v0", "time_limit": 50, "thin": 4}}
    assert [
        (s.time_limit, s.thin)
        for s in (
            settle(Options(), recording(20, 2, subject=known)),
            settle(Options(time_limit=9, thin=2), recording(20, 2, subject=known)),
            settle(Options(), recording(20, 2, subject={"environment": {"id": "Hopper-v4"}})),
        )
    ] == [(50, 4), (9, 2), (None, 3)]
    given = {
        "return_range": (0.0, 2.0), "return_floor": -1.0, "discounted_floor": -2.0, "seed": 3,
        "fail_below": 1.0, "termination": "success", "gamma": 0.5, "delta": 0.1, "kappa": 0.7,
        "delta_prime": 0.2, "mc_passes": 3, "sampling": "weights", "candidates": 4, "device": "cpu",
    }  # fmt: skip
    kept = settle(Options(**given), policy)
    assert {name: getattr(kept, name) for name in given} == given


@pytest.mark.parametrize(
    ("options", "clock"),
    [
        ({}, True),
        ({"clock": "off"}, False),
        ({"preset": "paper"}, False),
        ({"preset": "paper", "clock": "on"}, True),
        ({"paper": True}, False),
    ],
)
def test_the_clock_is_one_of_the_presets_unless_asked(policy, options, clock):
    assert settle(Options(**options), policy).clock is clock


def test_the_paper_is_one_word_for_its_certificate(policy):
    found = settle(Options(paper=True, seed=1), policy)
    words = Options(scheme="rec-6", preset="paper", unit="step", seed=1)
    assert found == settle(words, policy)
    assert found.preset.name == "paper"


def test_a_search_knows_the_most_episodes_that_its_bets_are_planned_for(policy):
    found = settle(Options(until="rms<=20", max_episodes=300), policy)
    assert found.scheme.kind == "sequential"
    assert (found.until, found.max_episodes, found.most) == (20.0, 300, 300)
    assert found.sizes == [50, 10]


def test_a_preset_of_ones_own_and_properties_are_settled_too(policy):
    own = properties_of({"peak": Property(len, "at-least", 3.0), "steps": len})
    found = settle(Options(), policy, properties=own, preset=short("tight"))
    assert found.preset == short("tight") != PRESETS["tight"]
    assert [dataclasses.astuple(p) for p in found.properties] == [
        ("peak", False, 3.0), ("steps", True, None)
    ]  # fmt: skip
    assert isinstance(found, Settings)


REFUSED = {
    "one episode": (1, {}, "at least 2 episodes .0 pilot, 2 to fit and .*, 0 test., found 1"),
    "pilot only": (10, {"scheme": "rec-2"}, "at least 11 episodes .10 pilot, 1 to .* found 10"),
    "test only": (5, {"test_episodes": 4}, "at least 6 episodes .* 4 test., found 5: record more"),
    "asked for more": (5, {"episodes": 6}, "at least 6 episodes .* found 5"),
    "portions": (14, {"scheme": "rec-6"}, "at least 6 validation episodes for rec-6, found 4"),
    "nothing to calibrate": (9, {"fit_episodes": 9}, "below 9 episodes in all, found 9"),
    "paper": (110, {"paper": True}, "at least 111 episodes .10 pilot, .* 100 test., found 110"),
    "search": (60, {"until": "rms<=20"}, "a policy to roll out with `until`, found recorded epis"),
    "unscaled": (
        60,
        {"scheme": "rec-2", "pilot_episodes": 0, "return_range": (-9.0, 9.0)},
        "`pilot_episodes` of at least 1 for a recursion, found 0: range and scaling must be fixed",
    ),
    "unscaled, paper": (
        260,
        {"paper": True, "pilot_episodes": 0},
        "`pilot_episodes` of at least 1 for a recursion, found 0",
    ),
    "unscaled, one portion": (
        60, {"scheme": "nonrec-noninf", "pilot_episodes": 0}, "`pilot_episodes` of at least 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("count", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_done(count, options, words):
    """Without scaling a recursion predicts worse than a constant: the fits are not even tried."""
    with pytest.raises(InputError, match=words) as error:
        certify(recording(count, 2), **options)
    assert "\n" not in str(error.value)


def test_a_search_of_too_few_episodes_or_with_properties_is_refused(policy):
    with pytest.raises(InputError, match=r"`max_episodes` of at least 60, found 59: 50 .* fitted"):
        settle(Options(until="rms<=20", max_episodes=59), policy)
    with pytest.raises(InputError, match="expected no `properties` with `until`, found 'peak'"):
        settle(Options(until="rms<=20"), policy, properties=properties_of({"peak": len}))


# --- training records ----------------------------------------------------------------------------


def test_a_training_record_is_used_where_a_pac_bayes_scheme_asks_for_nothing_else(
    tmp_path, trained
):
    trained(tmp_path)
    source = policy_source(tmp_path)
    for options, used in (
        ({"scheme": "rec-2"}, True),
        ({"paper": True}, True),
        ({"scheme": "rec-2", "pilot_episodes": 0}, True),
        ({"scheme": "rec-2", "pilot_episodes": 4}, False),
        ({"scheme": "rec-2", "return_range": (0.0, 1.0)}, False),
        ({}, False),
        ({"scheme": "holdout"}, False),
    ):
        found = training_scaling(Options(**options), source)
        assert (found is not None) is used, options
        if used:
            assert (found.low, found.high, found.source) == (-900.0, 0.5, "training")
            assert found.mean.tolist() == pytest.approx([0.1, 0.2, 0.3])
            assert found.deviation.tolist() == [1.0, 2.0, 3.0]


def test_a_training_record_of_another_discount_is_not_used_and_says_so(tmp_path, trained):
    trained(tmp_path)
    source = policy_source(tmp_path)
    with pytest.warns(UserWarning, match="training record is not used: .*; 10 pilot episodes fix"):
        assert training_scaling(Options(scheme="rec-2", gamma=0.9), source) is None
