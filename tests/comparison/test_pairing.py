"""Pairs of episodes are by seed where there are seeds in common, and independent either way."""

import numpy as np
import pytest

from tightrope.comparison.samples import pair
from tightrope.errors import InputError


def seeds(*values):
    return np.array(values, dtype=np.int64)


def test_equal_seeds_are_paired_in_the_order_of_a():
    pairing = pair(seeds(7, 3, 9), seeds(3, 9, 7))
    assert pairing.by_seed
    assert (pairing.first.tolist(), pairing.second.tolist()) == ([0, 1, 2], [2, 0, 1])
    assert pairing.note == "paired by seed"


def test_the_rest_of_a_longer_recording_is_left_out_and_said():
    pairing = pair(seeds(4, 5), seeds(5, 6, 4, 8))
    assert (pairing.first.tolist(), pairing.second.tolist()) == ([0, 1], [2, 0])
    assert pairing.note == "paired by seed; 2 episodes without a partner left out"


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (seeds(-1, -1, -1), seeds(-1, -1), "seeds are not recorded"),
        (seeds(1, 2, 3), seeds(-1, -1), "seeds are not recorded"),
        (seeds(1, 2, 3), seeds(4, 5), "the recordings have no seed in common"),
    ],
    ids=["none recorded", "one recording's", "disjoint"],
)
def test_without_seeds_in_common_episodes_are_paired_in_recorded_order(first, second, why):
    pairing = pair(first, second)
    assert not pairing.by_seed
    assert pairing.first.tolist() == pairing.second.tolist() == [0, 1]
    assert pairing.note == (
        f"paired in recorded order, since {why}; the last 1 episodes of the longer recording left "
        "out"
    )


def test_a_random_order_is_recorded_and_may_take_any_episode():
    first, second = seeds(*[-1] * 30), seeds(*[-1] * 20)
    pairing = pair(first, second, seed=4)
    again, other = pair(first, second, seed=4), pair(first, second, seed=5)
    assert pairing.first.tolist() == again.first.tolist() != other.first.tolist()
    assert sorted(pairing.second) == list(range(20))
    assert len(set(pairing.first)) == 20
    assert pairing.first.max() >= 20  # not the first 20 alone
    assert pairing.first.tolist() != pairing.second.tolist()  # each recording has its own order
    assert "in a random order from seed 4" in pairing.note


def test_a_random_order_keeps_pairs_by_seed():
    first, second = np.arange(20), np.arange(20)[::-1].copy()
    pairing = pair(first, second, seed=4)
    assert first[pairing.first].tolist() == second[pairing.second].tolist()
    assert sorted(pairing.first) == list(range(20)) != pairing.first.tolist()
    assert pairing.note == "paired by seed, in a random order from seed 4"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (seeds(1, 2, 3), seeds(2, 3, 4), "or none, found 2 of 3: pairs would depend"),
        (seeds(1, 2), seeds(5, 5), "found a seed twice in B"),
    ],
    ids=["some in common", "one twice"],
)
def test_seeds_that_would_make_pairs_depend_on_each_other_are_refused(first, second, words):
    with pytest.raises(InputError, match=words):
        pair(first, second)
