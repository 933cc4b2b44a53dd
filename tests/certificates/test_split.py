"""Who may see what: sets in recorded order, and what range, scaling and clock come from."""

import dataclasses

import numpy as np
import pytest
from recordings import recording

from tightrope.certificates import Options, settle
from tightrope.certificates.split import split_episodes
from tightrope.errors import InputError
from tightrope.rollouts import Episode, join

SCHEMES = {"auto": 6, "holdout": 6, "nonrec-inf": 14, "rec-2": 4, "rec-6": 4, "nonrec-noninf": 4}


def split_of(episodes, scheme="auto", /, **options):
    fixed = scheme in ("auto", "holdout")
    counts = {"fit_episodes": 6} if fixed else {"pilot_episodes": 4}
    given = Options(scheme=scheme, **{**counts, "thin": 2, "gamma": 0.5, "seed": 1, **options})
    return split_episodes(episodes, settle(given, episodes))


@pytest.fixture(scope="module")
def episodes():
    return recording(24, 6, seed=1)


def seeds(part):
    return [] if part is None else part.seeds.tolist()


@pytest.mark.parametrize("test", [0, 3])
@pytest.mark.parametrize(("scheme", "fit"), SCHEMES.items())
def test_episodes_are_split_in_recorded_order_and_the_rest_is_left_over(scheme, fit, test):
    """The fitting set is the pilot, and the first portion where it is in no bound."""
    fixed = scheme in ("auto", "holdout")
    split = split_of(
        recording(30, seed=2), scheme, episodes=24 if fixed else 20, test_episodes=test
    )
    pilot = 0 if fixed else 4
    assert seeds(split.fit) == list(range(fit))
    assert seeds(split.validation) == list(range(pilot, 24))
    assert seeds(split.calibration) == list(range(fit, 24))
    assert seeds(split.test) == list(range(24, 24 + test))
    assert seeds(split.used) == list(range(24 + test))
    assert split.starts[-1] == 24 - pilot
    assert seeds(split.outcomes) == seeds(split.calibration if fixed else split.validation)


@pytest.mark.parametrize(("scheme", "fit"), SCHEMES.items())
def test_scaling_and_clock_come_from_every_step_of_the_fitting_set_alone(scheme, fit, episodes):
    split = split_of(episodes, scheme)
    rows = np.concatenate([e.observations for e in list(episodes)[:fit]]).astype(float)
    np.testing.assert_allclose(split.scaling.mean, rows.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(split.scaling.deviation, rows.std(axis=0), rtol=1e-6)
    assert len(split.fit_rows) == 6 * fit  # every step: the fitting set is not thinned
    assert np.unique(split.fit_rows.episode).tolist() == list(range(fit))
    assert split.scaling.clock.limit == 6
    assert len(split.rows) == 3 * len(split.validation)  # thinned by 2


def plain_range(episodes):
    returns = []
    for episode in episodes:
        value, own = 0.0, []
        for reward in reversed(episode.rewards.tolist()):
            value = reward + 0.5 * value
            own.insert(0, value)
        returns += own[::2]
    margin = 0.1 * (max(returns) - min(returns))
    return min(returns) - margin, max(returns) + margin


@pytest.mark.parametrize(("scheme", "fit"), SCHEMES.items())
def test_the_range_is_that_of_pilot_or_fitting_set_widened_by_a_tenth(scheme, fit, episodes):
    scaling = split_of(episodes, scheme).scaling
    fixed = scheme in ("auto", "holdout")
    assert (scaling.low, scaling.high) == pytest.approx(
        plain_range(list(episodes)[: 6 if fixed else 4]), rel=1e-12
    )
    assert scaling.source == ("fit" if fixed else "pilot")
    given = split_of(episodes, scheme, return_range=(-9.0, 9.0)).scaling
    assert (given.low, given.high, given.source) == (-9.0, 9.0, "user")


def test_an_informed_scheme_without_a_pilot_is_scaled_by_its_first_portion(episodes):
    split = split_of(episodes, "nonrec-inf", pilot_episodes=0, return_range=(-9.0, 9.0))
    rows = np.concatenate([e.observations for e in list(episodes)[:12]])
    np.testing.assert_allclose(split.scaling.mean, rows.mean(axis=0), atol=1e-6)
    with pytest.raises(InputError, match="`return_range` LO HI with `pilot_episodes` 0"):
        split_of(episodes, "nonrec-inf", pilot_episodes=0)


def test_the_environments_thinning_goes_before_the_episodes(episodes):
    def thin(subject, recorded=episodes, **options):
        return split_of(dataclasses.replace(recorded, subject=subject), **options).thin

    assert thin({"log": "x"}, thin="auto") == 5
    assert thin({"log": "x"}, recording(24, 6, seed=1, terminated=True), thin="auto") == 3
    assert thin({"environment": {"id": "Toy-v0", "thin": 4}}, thin="auto") == 4
    assert thin({"environment": {"id": "Hopper-v4"}}, thin="auto") == 3
    assert thin({"environment": {"id": "Hopper-v4"}}) == 2


# --- the clock ----------------------------------------------------------------------------------


def cut(lengths, terminated=(), subject=None):
    """Episodes of these lengths, cut by a limit but for those that terminated."""
    rng = np.random.default_rng(0)
    every = [
        Episode(
            rng.normal(size=(length, 3)).astype(np.float32),
            rng.normal(size=length),
            terminated=index in terminated,
            truncated=index not in terminated,
            seed=index,
        )
        for index, length in enumerate(lengths)
    ]
    return join(every, {"log": "x"} if subject is None else subject)


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
    clock = split_of(episodes, "rec-2", **options).scaling.clock
    assert (None if clock is None else clock.limit) == limit
    assert clock is None or clock.gamma == 0.5


# --- what is refused ----------------------------------------------------------------------------

STILL = cut([6] * 12)
STILL = dataclasses.replace(STILL, rewards=np.zeros_like(STILL.rewards))
REFUSED = {
    "longer than inferred": (
        cut([6] * 11 + [7]), {}, "longer than the time limit of 6 steps, found one of 7"
    ),
    "longer than given": (
        cut([6] * 12), {"time_limit": 5}, "than the time limit of 5 steps, found one of 6"
    ),
    "partial": (
        cut([6] * 12, (), {"log": "x", "partial": "3 of 9 episodes"}),
        {}, "3 of 9 episodes.: it favours short",
    ),
    "constant": (STILL, {"return_range": (-1.0, 1.0)}, "found the constant 0 in all validation"),
    "constant where the range is fixed": (STILL, {}, "returns that vary, found the constant 0"),
    "a floor that is none": (
        cut([6] * 12), {"return_floor": 5.0},
        "no return below the `return_floor` 5, .* on other episodes, or with `candidates`",
    ),
    "another floor that is none": (
        cut([6] * 12), {"discounted_floor": 5.0}, "no return below the `discounted_floor` 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("episodes", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_certified_is_one_line_before_anything_is_fitted(episodes, options, words):
    with pytest.raises(InputError, match=words) as error:
        split_of(episodes, **options)
    assert "\n" not in str(error.value)


def test_a_floor_may_hold_for_one_return_only():
    """Undiscounted returns may go below what discounted ones never do: one floor each."""
    every = [
        Episode(np.ones((3, 1), np.float32) * i, np.array([0.0, 0.0, -8.0 + i % 2]), False, True, i)
        for i in range(12)
    ]
    low = dataclasses.replace(join(every, {"log": "x"}))
    split_of(low, discounted_floor=-2.0, clock="off")
    with pytest.raises(InputError, match="`return_floor`"):
        split_of(low, return_floor=-2.0, clock="off")


def test_episodes_of_one_seed_are_refused_and_equal_ones_warned_of(episodes):
    every = list(episodes.span(0, 15))
    twins = [*every[:-1], dataclasses.replace(every[-1], seed=every[5].seed)]
    with pytest.raises(InputError, match="distinct seeds, found the seed 5"):
        split_of(join(twins, episodes.subject))
    equal = [*every[:-1], dataclasses.replace(every[5], seed=77)]
    with pytest.warns(UserWarning, match="1 of 15 episodes repeat another one"):
        split_of(join(equal, episodes.subject))


def test_settings_for_more_episodes_than_there_are_are_refused(episodes):
    settings = settle(Options(fit_episodes=6, seed=1), episodes)
    with pytest.raises(InputError, match=r"at least 24 episodes .* found 20: record more"):
        split_episodes(episodes.span(0, 20), settings)
