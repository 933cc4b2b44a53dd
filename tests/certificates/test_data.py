"""What the range, the scaling and the clock come from, and who may see what."""

import dataclasses

import numpy as np
import pytest
from recordings import recording, short_fits
from tightrope.certificates.data import prepare, view

from tightrope.certificates import Options, certify
from tightrope.errors import InputError
from tightrope.rollouts import Episode, join

PILOT, VALIDATION = 4, 20
FREE = {"auto": 3, "holdout": 10, "nonrec-inf": 10, "rec-2": 0, "rec-6": 0, "nonrec-noninf": 0}
SCHEMES = list(FREE)


@pytest.fixture(scope="module")
def episodes():
    return recording(PILOT + VALIDATION, 6, seed=1)


def seen(episodes, scheme, **options):
    given = Options(scheme=scheme, **{"pilot_episodes": PILOT, "thin": 2, "gamma": 0.5, **options})
    return view(prepare(episodes, given), given)


def plain_moments(episodes):
    rows = np.concatenate([episode.observations for episode in episodes]).astype(float)
    return rows.mean(axis=0), rows.std(axis=0)


@pytest.mark.parametrize("pilot", [PILOT, 0])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_scaling_and_clock_come_from_pilot_and_free_episodes_alone(scheme, pilot, episodes):
    """With no pilot and no free portion there is neither: mean 0, deviation 1, no clock."""
    options = {} if pilot else {"pilot_episodes": 0, "return_range": (-9.0, 9.0)}
    recorded = episodes if pilot else episodes.span(PILOT, PILOT + VALIDATION)
    found = seen(recorded, scheme, **options)
    count = 5 if (scheme, pilot) == ("auto", 0) else FREE[scheme]
    free = list(recorded)[: pilot + count]
    assert found.free_count == count
    if free:
        mean, deviation = plain_moments(free)
        np.testing.assert_allclose(found.scaling.mean, mean, atol=1e-6)
        np.testing.assert_allclose(found.scaling.deviation, deviation, rtol=1e-6)
        assert len(found.free) == 6 * len(free)  # every step: free data are not thinned
        assert np.unique(found.free_episode).tolist() == list(range(len(free)))
        assert found.free_step.tolist() == list(range(6)) * len(free)
        assert found.scaling.clock.limit == 6
    else:
        assert found.free is None
        assert found.scaling.mean.tolist() == [0, 0, 0]
        assert found.scaling.deviation.tolist() == [1, 1, 1]
        assert found.scaling.clock is None
    assert len(found.rows) == 3 * VALIDATION  # thinned by 2


def test_the_range_is_the_pilots_widened_by_a_tenth_and_not_the_free_portions(episodes):
    returns = []
    for episode in list(episodes)[:PILOT]:
        value, own = 0.0, []
        for reward in reversed(episode.rewards.tolist()):
            value = reward + 0.5 * value
            own.insert(0, value)
        returns += own[::2]
    margin = 0.1 * (max(returns) - min(returns))
    for scheme in SCHEMES:
        scaling = seen(episodes, scheme).scaling
        assert scaling.low == pytest.approx(min(returns) - margin, rel=1e-12)
        assert scaling.high == pytest.approx(max(returns) + margin, rel=1e-12)
        assert scaling.source == "pilot"


# --- the clock ----------------------------------------------------------------------------------


def cut(lengths, terminated=(), subject=None):
    """Episodes of these lengths, cut by a limit but for those that terminated."""
    rng = np.random.default_rng(0)
    return join(
        [
            Episode(
                rng.normal(size=(length, 3)).astype(np.float32),
                rng.normal(size=length),
                terminated=index in terminated,
                truncated=index not in terminated,
                seed=index,
            )
            for index, length in enumerate(lengths)
        ],
        {"log": "x"} if subject is None else subject,
    )


KNOWN = {"environment": {"id": "Toy-v0", "time_limit": 50}}
CLOCKS = {
    "all cut at one length": (cut([6] * 12), {}, 6),
    "some end before": (cut([6, 6, 3, 6] + [6] * 8, {2}), {}, 6),
    "one alone is cut": (cut([6, 3, 3, 3] + [6] * 8, {1, 2, 3}), {}, None),
    "cut at several lengths": (cut([6, 6, 5, 6] + [6] * 8), {}, None),
    "cut before the longest": (cut([5, 5, 6, 5] + [5] * 8, {2}), {}, None),
    "none is cut": (cut([6] * 12, set(range(12))), {}, None),
    "only later ones are cut": (cut([6] * 12, {0, 1, 2, 3}), {}, None),
    "the environment has a limit": (cut([6] * 12, set(range(12)), KNOWN), {}, 50),
    "the user knows a limit": (cut([6] * 12, set(range(12))), {"time_limit": 9}, 9),
    "the user knows better": (cut([6] * 12, (), KNOWN), {"time_limit": 70}, 70),
    "preset paper has none": (cut([6] * 12), {"preset": "paper"}, None),
    "preset paper, on": (cut([6] * 12), {"preset": "paper", "clock": "on"}, 6),
    "off": (cut([6] * 12), {"clock": "off"}, None),
}


@pytest.mark.parametrize(("episodes", "options", "limit"), CLOCKS.values(), ids=CLOCKS)
def test_the_clock_runs_to_a_limit_that_is_known_beforehand(episodes, options, limit):
    clock = seen(episodes, "rec-2", **options).scaling.clock
    assert (None if clock is None else clock.limit) == limit
    if clock is not None:
        assert clock.gamma == 0.5


WRONG = {
    "no limit": (cut([6] * 12, set(range(12))), {"clock": "on"}, "a time limit for `clock` on"),
    "longer than inferred": (
        cut([6] * 11 + [7]),
        {},
        "no episode longer than the time limit of 6 steps, found one of 7",
    ),
    "longer than given": (
        cut([6] * 12),
        {"time_limit": 5},
        "no episode longer than `time_limit` of 5 steps, found one of 6",
    ),
}


@pytest.mark.parametrize(("episodes", "options", "words"), WRONG.values(), ids=WRONG)
def test_a_clock_that_cannot_run_is_one_clear_line(episodes, options, words):
    with short_fits(), pytest.raises(InputError, match=words) as error:
        certify(episodes, scheme="rec-2", pilot_episodes=PILOT, gamma=0.5, **options)
    assert "\n" not in str(error.value)


def test_the_environments_thinning_goes_before_the_pilots(episodes):
    def thin(subject, recorded=episodes, **options):
        given = Options(pilot_episodes=PILOT, gamma=0.5, **options)
        return prepare(dataclasses.replace(recorded, subject=subject), given).thin

    assert thin({"log": "x"}) == 5
    assert thin({"log": "x"}, recording(24, 6, seed=1, terminated=True)) == 3
    assert thin({"environment": {"id": "Toy-v0", "thin": 4}}) == 4
    assert thin({"environment": {"id": "Hopper-v4"}}) == 3
    assert thin({"environment": {"id": "Hopper-v4"}}, thin=2) == 2
