"""What may be asked for: every option outside its set is refused at once, under its name."""

import dataclasses
import json
import math

import numpy as np
import pytest

from tightrope.certificates import Options
from tightrope.certificates.options import target_of
from tightrope.errors import InputError

WRONG = [
    ({"delta": 0.0}, "`delta` must be above 0, found 0.0"),
    ({"delta": 1.0}, "`delta` must be below 1, found 1.0"),
    ({"delta": math.nan}, "`delta` must be a finite number, found nan"),
    ({"delta_prime": -0.1}, "`delta_prime` must be above 0, found -0.1"),
    ({"delta": 0.6, "delta_prime": 0.4}, r"`delta` \+ `delta_prime` must be below 1, found 0.6"),
    ({"unit": "row"}, "`unit` must be 'step' or 'episode' or 'auto', found 'row'"),
    ({"preset": "loose"}, "`preset` must be 'paper' or 'tight', found 'loose'"),
    ({"clock": "yes"}, "`clock` must be 'auto', 'on' or 'off', found 'yes'"),
    ({"device": "gpu"}, "`device` must be auto, cpu, cuda or such as cuda:1, found 'gpu'"),
    ({"sampling": "none"}, "`sampling` must be 'local' or 'weights', found 'none'"),
    ({"termination": "good"}, "`termination` must be 'failure', 'success' or 'neutral', found"),
    ({"kappa": 0.0}, "`kappa` must be above 0, found 0.0"),
    ({"kappa": 1.1}, "`kappa` must be at most 1, found 1.1"),
    ({"gamma": 1.5}, "`gamma` must be at most 1, found 1.5"),
    ({"gamma": math.nan}, "`gamma` must be a finite number, found nan"),
    ({"mc_passes": 0}, "`mc_passes` must be at least 1, found 0"),
    ({"candidates": 0}, "`candidates` must be at least 1, found 0"),
    ({"thin": 0}, "`thin` must be at least 1 or 'auto', found 0"),
    ({"time_limit": 0}, "`time_limit` must be at least 1 or 'auto', found 0"),
    ({"episodes": 0}, "`episodes` must be at least 1 or 'auto', found 0"),
    ({"episodes": 10**9}, "`episodes` must be at most 10000000 or 'auto', found 1000000000"),
    ({"test_episodes": -1}, "`test_episodes` must be at least 0 or 'auto', found -1"),
    ({"seed": -1}, "`seed` must be a whole number of at least 0 or 'fresh', found -1"),
    ({"seed": "stale"}, "`seed` must be a whole number or 'fresh', found 'stale'"),
    ({"return_range": (2.0, 1.0)}, r"a `return_range` LO < HI, found \(2.0, 1.0\)"),
    ({"return_range": (1.0, 1.0)}, r"a `return_range` LO < HI, found \(1.0, 1.0\)"),
    ({"return_range": (0.0, math.inf)}, r"`return_range`\[1\] must be a finite number or 'auto'"),
    ({"return_range": (0.0, 1.0, 2.0)}, "`return_range` must be 2 values or 'auto', found"),
    ({"return_range": (0.0,)}, r"expected `return_range`\[1\], found none"),
    ({"return_range": 3.0}, "`return_range` must be a list or 'auto', found 3.0"),
    ({"return_range": "wide"}, "`return_range` must be a list or 'auto', found 'wide'"),
    ({"fail_below": math.nan}, "`fail_below` must be a finite number or 'off', found nan"),
    ({"return_floor": -math.inf}, "`return_floor` must be a finite number or 'off', found -inf"),
    # a number is a number, and a word stands only where it means something
    ({"delta": "0.1"}, "`delta` must be a number, found '0.1'"),
    ({"gamma": "off"}, "`gamma` must be a number, found 'off'"),
    ({"mc_passes": "auto"}, "`mc_passes` must be a whole number, found 'auto'"),
    ({"candidates": 2.0}, "`candidates` must be a whole number, found 2.0"),
    ({"thin": "off"}, "`thin` must be a whole number or 'auto', found 'off'"),
    ({"episodes": 10.5}, "`episodes` must be a whole number or 'auto', found 10.5"),
    ({"fail_below": "auto"}, "`fail_below` must be a number or 'off', found 'auto'"),
    ({"return_floor": None}, "`return_floor` must be a number or 'off', found None"),
    ({"until": 20}, "`until` must be a text, found 20"),
    # true is no number, whoever says so
    ({"thin": True}, "`thin` must be a whole number or 'auto', found True"),
    ({"thin": np.True_}, "`thin` must be a whole number or 'auto', found True"),
    ({"gamma": True}, "`gamma` must be a number, found True"),
    ({"fail_below": False}, "`fail_below` must be a number or 'off', found False"),
    ({"seed": True}, "`seed` must be a whole number or 'fresh', found True"),
    ({"paper": 1}, "`paper` must be true or false, found 1"),
    # what does not go together
    ({"clock": "off", "time_limit": 9}, "no `time_limit` with `clock` off, found 9"),
    ({"paper": True, "scheme": "rec-2"}, "`paper` without `scheme`, `preset` and `unit`"),
    ({"paper": True, "unit": "episode"}, "`paper` without `scheme`, `preset` and `unit`"),
    ({"paper": True, "fit_episodes": 9}, "no `fit_episodes` with `paper`, found 9"),
    ({"pilot_episodes": 5}, "no `pilot_episodes` with auto, found 5: `fit_episodes` fix"),
    ({"pilot_episodes": 0}, "no `pilot_episodes` with auto, found 0"),
    ({"scheme": "holdout", "pilot_episodes": 5}, "no `pilot_episodes` with holdout"),
    ({"scheme": "rec-2", "fit_episodes": 5}, "no `fit_episodes` with rec-2, found 5"),
    ({"scheme": "nonrec-inf", "fit_episodes": 5}, "no `fit_episodes` with nonrec-inf"),
    ({"gamma": 1.0, "discounted_floor": 2.0}, "`return_floor` with `gamma` 1, found .* 2.0: there"),
    ({"max_episodes": 40}, "`until` with `max_episodes`, found 40 and no target"),
    ({"until": "rms<=2", "episodes": 9}, "`max_episodes` with `until`, found `episodes` 9"),
    *(
        ({"until": "rms<=2", name: value}, f"no `{name}` with `until`, found .*: a search certif")
        for name, value in {
            "scheme": "holdout",
            "paper": True,
            "fail_below": 1.0,
            "return_floor": 0.0,
            "discounted_floor": 0.0,
            "termination": "failure",
        }.items()
    ),
    ({"until": "rms<=2", "pilot_episodes": 3}, "no `pilot_episodes` with auto, found 3"),
    *(
        (
            {"until": words},
            f"a target such as 'rms<=20' for `until`, in return units, found {words!r}",
        )
        for words in ("20", "rms>=20", "bound<=1", "rms<=", "rms<=0", "rms<=1e999", "rms<=1.2.3")
    ),
]


@pytest.mark.parametrize(("changes", "words"), WRONG, ids=[str(changes) for changes, _ in WRONG])
@pytest.mark.parametrize("make", [Options.of, lambda given: Options(**given)], ids=["of", "made"])
def test_an_option_outside_its_set_is_refused_in_one_line_that_names_it(make, changes, words):
    with pytest.raises(InputError, match=words) as error:
        make(changes)
    assert "\n" not in str(error.value)


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
        assert Options(**changes) == Options.of(changes)


@pytest.mark.parametrize("make", [Options.of, lambda given: Options(**given)], ids=["of", "made"])
def test_numbers_of_numpy_become_plain_ones_that_json_can_hold(make):
    found = make(
        {
            "thin": np.int64(2),
            "delta": np.float32(0.5),
            "seed": np.uint32(3),
            "return_range": np.array([0.0, 1.0]),
            "fail_below": np.float64(1.5),
            "gamma": 1,
        }
    )
    assert found.return_range == (0.0, 1.0)
    assert (type(found.seed), type(found.thin), type(found.gamma)) == (int, int, float)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["return_range"] == [0.0, 1.0]
    assert make({"return_range": [0, 1]}).return_range == (0.0, 1.0)


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
