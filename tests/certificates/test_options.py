"""What may be asked for: every option outside its set is refused at once, under its name."""

import dataclasses
import json
import math

import numpy as np
import pytest

from tightrope.certificates import Options
from tightrope.certificates.options import target_of
from tightrope.errors import InputError

SET = "a search certifies only what holds at every number of episodes"
WRONG = {
    "`delta` must be above 0, found 0.0": {"delta": 0.0},
    "`delta` must be a finite number, found nan": {"delta": math.nan},
    "`delta_prime` must be above 0, found -0.1": {"delta_prime": -0.1},
    r"`delta` \+ `delta_prime` must be below 1, found 0.6": {"delta": 0.6, "delta_prime": 0.4},
    "`unit` must be 'step' or 'episode' or 'auto', found 'row'": {"unit": "row"},
    "`preset` must be 'paper' or 'tight', found 'loose'": {"preset": "loose"},
    "`clock` must be 'auto', 'on' or 'off', found 'yes'": {"clock": "yes"},
    "`device` must be auto, cpu, cuda or such as cuda:1, found 'gpu'": {"device": "gpu"},
    "`termination` must be 'failure', 'success' or 'neutral', found": {"termination": "good"},
    "`kappa` must be at most 1, found 1.1": {"kappa": 1.1},
    "`gamma` must be at most 1, found 1.5": {"gamma": 1.5},
    "`mc_passes` must be at least 1, found 0": {"mc_passes": 0},
    "`candidates` must be at least 1, found 0": {"candidates": 0},
    "`thin` must be at least 1 or 'auto', found 0": {"thin": 0},
    "`episodes` must be at most 10000000 or 'auto', found 1000000000": {"episodes": 10**9},
    "`test_episodes` must be at least 0 or 'auto', found -1": {"test_episodes": -1},
    "`seed` must be a whole number of at least 0 or 'fresh', found -1": {"seed": -1},
    "`seed` must be a whole number or 'fresh', found 'stale'": {"seed": "stale"},
    r"a `return_range` LO < HI, found \(1.0, 1.0\)": {"return_range": (1.0, 1.0)},
    r"`return_range`\[1\] must be a finite number or 'auto'": {"return_range": (0.0, math.inf)},
    "`return_range` must be 2 values or 'auto', found": {"return_range": (0.0, 1.0, 2.0)},
    "`return_range` must be a list or 'auto', found 'wide'": {"return_range": "wide"},
    "`fail_below` must be a finite number or 'off', found nan": {"fail_below": math.nan},
    # a number is a number, a word stands only where it means something, and true is no number
    "`delta` must be a number, found '0.1'": {"delta": "0.1"},
    "`mc_passes` must be a whole number, found 'auto'": {"mc_passes": "auto"},
    "`candidates` must be a whole number, found 2.0": {"candidates": 2.0},
    "`return_floor` must be a number or 'off', found None": {"return_floor": None},
    "`thin` must be a whole number or 'auto', found True": {"thin": np.True_},
    "`seed` must be a whole number or 'fresh', found True": {"seed": True},
    "`paper` must be true or false, found 1": {"paper": 1},
    # what does not go together
    "no `time_limit` with `clock` off, found 9": {"clock": "off", "time_limit": 9},
    "no `scheme` with `paper`, found 'rec-2'": {"paper": True, "scheme": "rec-2"},
    "no `unit` with `paper`, found 'episode'": {"paper": True, "unit": "episode"},
    "no `fit_episodes` with `paper`, found 9": {"paper": True, "fit_episodes": 9},
    "no `pilot_episodes` with auto, found 0: give `fit_episodes`": {"pilot_episodes": 0},
    "no `fit_episodes` with rec-2, found 5": {"scheme": "rec-2", "fit_episodes": 5},
    "no `discounted_floor` with `gamma` 1": {"gamma": 1.0, "discounted_floor": 2.0},
    "no `max_episodes` without `until`, found 40": {"max_episodes": 40},
    "no `episodes` with `until`, found 9: give `max_ep": {"until": "rms<=2", "episodes": 9},
    f"no `scheme` with `until`, found 'holdout': {SET}": {"until": "rms<=2", "scheme": "holdout"},
    f"no `paper` with `until`, found True: {SET}": {"until": "rms<=2", "paper": True},
    "no `fail_below` with `until`, found 1.0": {"until": "rms<=2", "fail_below": 1.0},
    "no `return_floor` with `until`, found 0.0": {"until": "rms<=2", "return_floor": 0.0},
    "no `termination` with `until`": {"until": "rms<=2", "termination": "failure"},
    **{
        f"a target such as 'rms<=20' for `until`, in return units, found {words!r}": {
            "until": words
        }
        for words in ("20", "rms>=20", "bound<=1", "rms<=", "rms<=0", "rms<=1e999", "rms<=1.2.3")
    },
}


def test_an_option_outside_its_set_is_refused_in_one_line_that_names_it():
    for words, changes in WRONG.items():
        with pytest.raises(InputError, match=words) as error:
            Options(**changes)
        assert "\n" not in str(error.value), changes


def test_an_unknown_option_is_named_with_those_that_there_are():
    with pytest.raises(InputError, match=r"options among scheme, .*, seed, found 'depth'"):
        Options(depth=3)


def test_the_ends_of_every_set_are_accepted():
    for changes in (
        {"gamma": 0}, {"gamma": 1}, {"kappa": 1}, {"mc_passes": 1}, {"thin": 1}, {"seed": 0},
        {"scheme": "rec-2", "pilot_episodes": 0}, {"test_episodes": 0}, {"time_limit": 1},
        {"delta": 1e-300}, {"device": "cuda:0"}, {"until": "rms<=2", "unit": "step"},
        {"until": "rms<=2", "fit_episodes": 9, "test_episodes": 5, "candidates": 2},
        {"paper": True, "pilot_episodes": 0}, {"gamma": 1, "return_floor": 2},
    ):  # fmt: skip
        assert {name: getattr(Options(**changes), name) for name in changes} == changes


def test_numbers_of_numpy_become_plain_ones_that_json_can_hold():
    found = Options(
        thin=np.int64(2), delta=np.float32(0.5), seed=np.uint32(3), gamma=1,
        return_range=np.array([0.0, 1.0]), fail_below=np.float64(1.5),
    )  # fmt: skip
    assert (type(found.seed), type(found.thin), type(found.gamma)) == (int, int, float)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["return_range"] == [0.0, 1.0]
    assert Options(return_range=[0, 1]).return_range == found.return_range == (0.0, 1.0)


def test_a_fresh_seed_is_a_new_number_each_time_and_a_given_one_stays():
    drawn = {Options().seeded().seed for _ in range(4)}
    assert len(drawn) == 4
    assert all(type(seed) is int and seed >= 0 for seed in drawn)
    assert Options(seed=7).seeded().seed == 7
    assert Options().seeded(9).seed == Options(seed=7).seeded(9).seed == 9


@pytest.mark.parametrize(
    ("words", "limit"), [("rms<=20", 20.0), (" rms < 1.5 ", 1.5), ("rms<=2e1", 20.0)]
)
def test_targets_are_read(words, limit):
    assert target_of(words) == limit
