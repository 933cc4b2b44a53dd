"""How recorded episodes are shared out: pilot, validation, test, in recorded order."""

import numpy as np
import pytest
from tightrope.certificates.shares import PILOT_EPISODES, share_out

from tightrope.errors import InputError
from tightrope.rollouts import Episode, join


def episodes(count):
    """Episode i has seed i and i + 1 steps."""
    return join(
        [
            Episode(
                np.full((index + 1, 2), index, np.float32),
                np.full(index + 1, float(index)),
                terminated=True,
                truncated=False,
                seed=index,
            )
            for index in range(count)
        ]
    )


def seeds(part):
    return None if part is None else part.seeds.tolist()


@pytest.mark.parametrize(
    ("count", "options", "pilot", "validation", "test"),
    [
        # without options everything after the pilot is validation
        (13, {}, range(10), range(10, 13), None),
        (11, {}, range(10), range(10, 11), None),
        # first the pilot, then validation, then test, in recorded order
        (20, {"validation": 6, "test": 4}, range(10), range(10, 16), range(16, 20)),
        (9, {"pilot": 2, "validation": 3, "test": 4}, range(2), range(2, 5), range(5, 9)),
        # what nobody asked for is left over
        (20, {"pilot": 1, "validation": 2, "test": 3}, range(1), range(1, 3), range(3, 6)),
        (20, {"validation": 3}, range(10), range(10, 13), None),
        # all that the test episodes leave
        (8, {"pilot": 2, "test": 2}, range(2), range(2, 6), range(6, 8)),
        (4, {"pilot": 0}, None, range(4), None),
        (1, {"pilot": 0}, None, range(1), None),
        (2, {"pilot": 0, "validation": 1, "test": 1}, None, range(1), range(1, 2)),
    ],
)
def test_episodes_are_shared_out_in_recorded_order(count, options, pilot, validation, test):
    shares = share_out(episodes(count), **options)
    assert seeds(shares.pilot) == (None if pilot is None else list(pilot))
    assert seeds(shares.validation) == list(validation)
    assert seeds(shares.test) == (None if test is None else list(test))
    everything = [*(pilot or []), *validation, *(test or [])]
    assert seeds(shares.all_episodes) == everything


def test_the_default_pilot_has_ten_episodes():
    assert PILOT_EPISODES == 10
    assert len(share_out(episodes(12)).pilot) == 10


@pytest.mark.parametrize(
    ("count", "options", "needed"),
    [
        (1, {}, 11),  # a log with a single episode
        (10, {}, 11),
        (3, {"pilot": 3}, 4),
        (5, {"pilot": 1, "validation": 4, "test": 1}, 6),
        (5, {"pilot": 0, "validation": 6}, 6),
        (5, {"pilot": 0, "test": 5}, 6),
        (2, {"pilot": 1, "test": 1}, 3),
    ],
)
def test_too_few_episodes_are_an_input_error_with_the_number_needed(count, options, needed):
    with pytest.raises(InputError, match=f"at least {needed} episodes") as refusal:
        share_out(episodes(count), **options)
    assert f"found {count}" in str(refusal.value)
    assert "`pilot_episodes`" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("pilot", -1), ("validation", -1), ("test", -1), ("pilot", 0.5), ("validation", 0)],
)
def test_a_share_that_is_no_number_of_episodes_is_an_input_error_that_names_it(name, value):
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        share_out(episodes(20), **{name: value})
