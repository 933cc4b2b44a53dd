"""What may be asked for: every option outside its set is refused at once, under its name."""

import dataclasses
import json
import math

import numpy as np
import pytest

from tightrope.certificates import Options
from tightrope.errors import InputError

WRONG = [
    ({"delta": 0.0}, r"`delta` must be in \(0, 1\), found 0.0"),
    ({"delta": 1.0}, r"`delta` must be in \(0, 1\)"),
    ({"delta": math.nan}, r"`delta` must be in \(0, 1\), found nan"),
    ({"delta_prime": -0.1}, r"`delta_prime` must be in \(0, 1\)"),
    ({"delta": 0.6, "delta_prime": 0.4}, r"`delta` \+ `delta_prime` must be below 1"),
    ({"unit": "row"}, "`unit` among step, episode, found 'row'"),
    ({"preset": "loose"}, "`preset` among paper, tight, found 'loose'"),
    ({"clock": "yes"}, "`clock` among auto, on, off, found 'yes'"),
    ({"device": "gpu"}, "`device` must be auto, cpu, cuda or such as cuda:1, found 'gpu'"),
    ({"sampling": "none"}, "`sampling` among local, weights"),
    ({"kappa": 0.0}, r"`kappa` must be in \(0, 1\]"),
    ({"kappa": 1.1}, r"`kappa` must be in \(0, 1\]"),
    ({"mc_passes": 0}, "`mc_passes` must be at least 1"),
    ({"candidates": 0}, "`candidates` must be at least 1"),
    ({"seed": -1}, "`seed` must be a whole number of at least 0 or 'fresh', found -1"),
    ({"seed": True}, "`seed` must be a whole number"),
    ({"seed": "stale"}, "`seed` must be a whole number of at least 0 or 'fresh', found 'stale'"),
    ({"gamma": 1.5}, r"`gamma` must be in \[0, 1\]"),
    ({"gamma": math.nan}, r"`gamma` must be in \[0, 1\]"),
    ({"thin": 0}, "`thin` must be at least 1"),
    ({"time_limit": 0}, "`time_limit` must be at least 1"),
    ({"return_range": (2.0, 1.0)}, "finite `return_range` LO < HI"),
    ({"return_range": (0.0, math.inf)}, "finite `return_range` LO < HI"),
    ({"return_range": (0.0, 1.0, 2.0)}, "finite `return_range` LO < HI"),
    ({"return_range": 3.0}, "finite `return_range` LO < HI"),
    ({"return_range": "wide"}, "finite `return_range` LO < HI"),
    ({"scheme": "rec-6", "episodes": 5}, "6 validation episodes"),
    ({"test_episodes": -1}, "`test_episodes` must be at least 0"),
    ({"fail_below": math.nan}, "`fail_below` must be a finite number"),
    ({"fail_below": math.inf}, "`fail_below` must be a finite number"),
    ({"return_floor": -math.inf}, "`return_floor` must be a finite number"),
    ({"clock": "off", "time_limit": 9}, "no `time_limit` with `clock` off, found 9"),
    # a number is a number, and a word stands only where it means something
    ({"delta": "0.1"}, "`delta` must be a number, found '0.1'"),
    ({"delta": "auto"}, "`delta` must be a number, found 'auto'"),
    ({"gamma": "off"}, "`gamma` must be a number, found 'off'"),
    ({"mc_passes": "auto"}, "`mc_passes` must be a whole number, found 'auto'"),
    ({"candidates": 2.0}, "`candidates` must be a whole number, found 2.0"),
    ({"thin": "off"}, "`thin` must be a whole number or 'auto', found 'off'"),
    ({"thin": True}, "`thin` must be a whole number or 'auto', found True"),
    ({"episodes": 10.5}, "`episodes` must be a whole number or 'auto', found 10.5"),
    ({"fail_below": "auto"}, "`fail_below` must be a number or 'off', found 'auto'"),
    ({"return_floor": None}, "`return_floor` must be a number or 'off', found None"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG, ids=[str(changes) for changes, _ in WRONG])
def test_an_option_outside_its_set_is_an_input_error_that_names_it(changes, words):
    with pytest.raises(InputError, match=words) as error:
        Options(**changes)
    assert "\n" not in str(error.value)


def test_the_ends_of_every_set_are_accepted():
    for changes in (
        {"gamma": 0}, {"gamma": 1}, {"kappa": 1}, {"mc_passes": 1}, {"thin": 1}, {"seed": 0},
        {"pilot_episodes": 0}, {"test_episodes": 0}, {"time_limit": 1}, {"delta": 1e-300},
        {"device": "cuda:0"},
    ):  # fmt: skip
        Options(**changes)


def test_numbers_of_numpy_become_plain_ones_that_json_can_hold():
    found = Options(
        thin=np.int64(2),
        delta=np.float32(0.5),
        seed=np.int64(3),
        return_range=np.array([0.0, 1.0]),
        fail_below=np.float64(1.5),
        gamma=1,
    )
    assert found.return_range == (0.0, 1.0)
    assert (type(found.seed), type(found.thin), type(found.gamma)) == (int, int, float)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["return_range"] == [0.0, 1.0]


def test_a_fresh_seed_is_a_new_number_each_time_and_a_given_one_stays():
    drawn = {Options().seeded().seed for _ in range(4)}
    assert len(drawn) == 4
    assert all(type(seed) is int and seed >= 0 for seed in drawn)
    assert Options(seed=7).seeded().seed == 7
    assert Options().seeded(9).seed == Options(seed=7).seeded(9).seed == 9
