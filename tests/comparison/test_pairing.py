"""Pairs of episodes are by seed where there are seeds in common, and independent either way."""

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.monitors.pairing import pair


def seeds(*values):
    return np.array(values, dtype=np.int64)


def test_equal_seeds_stand_side_by_side_in_the_order_of_a():
    found = pair(seeds(7, 3, 9), seeds(3, 9, 7))
    assert found.by_seed
    assert found.first.tolist() == [0, 1, 2]
    assert found.second.tolist() == [2, 0, 1]
    assert found.note == "paired by seed"


def test_the_rest_of_a_longer_recording_is_left_out_and_said():
    found = pair(seeds(4, 5), seeds(5, 6, 4, 8))
    assert (found.first.tolist(), found.second.tolist()) == ([0, 1], [2, 0])
    assert found.note == "paired by seed; 2 episodes without a partner left out"


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (seeds(-1, -1, -1), seeds(-1, -1), "seeds are not recorded"),
        (seeds(1, 2, 3), seeds(-1, -1), "seeds are not recorded"),
        (seeds(1, 2, 3), seeds(4, 5), "the recordings have no seed in common"),
    ],
    ids=["none recorded", "one side's", "disjoint"],
)
def test_without_seeds_in_common_they_stand_in_recorded_order(first, second, why):
    found = pair(first, second)
    assert not found.by_seed
    assert found.first.tolist() == found.second.tolist() == [0, 1]
    assert found.note.startswith(f"not paired by seed, since {why}:")
    assert found.note.endswith("the last 1 of the longer recording left out")


def test_some_seeds_in_common_are_refused_since_pairs_would_depend_on_each_other():
    with pytest.raises(InputError, match="or none, found 2 of 3: the others"):
        pair(seeds(1, 2, 3), seeds(2, 3, 4))


def test_a_seed_twice_in_one_recording_is_refused():
    with pytest.raises(InputError, match="found a seed twice in B"):
        pair(seeds(1, 2), seeds(5, 5))
