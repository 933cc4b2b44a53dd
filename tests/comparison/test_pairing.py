"""Pairs of episodes are by seed where there are seeds in common, and independent either way."""

import numpy as np
import pytest

from tightrope.comparison.samples import Sample, pair
from tightrope.errors import InputError


def sample(*seeds):
    return Sample("", np.array(seeds, np.int64), {"row": np.arange(len(seeds))})


def rows(first, second, seed=None):
    """Which rows of each are paired, and the note."""
    *both, note = pair(first, second, seed)
    return *(each.columns["row"].tolist() for each in both), note


LEFT_OUT = "paired in recorded order, since {}; 1 episodes of the longer recording left out"
PAIRED = [
    ((7, 3, 9), (3, 9, 7), [0, 1, 2], [2, 0, 1], "paired by seed"),
    ((4, 5), (5, 6, 4, 8), [0, 1], [2, 0],
     "paired by seed; 2 episodes without a partner left out"),
    ((-1, -1, -1), (-1, -1), [0, 1], [0, 1], LEFT_OUT.format("seeds are not recorded")),
    ((1, 2, 3), (-1, -1), [0, 1], [0, 1], LEFT_OUT.format("seeds are not recorded")),
    ((1, 2, 3), (4, 5), [0, 1], [0, 1],
     LEFT_OUT.format("the recordings have no seed in common")),
]  # fmt: skip


def test_equal_seeds_are_paired_in_the_order_of_a_and_otherwise_rows_in_recorded_order():
    for first, second, *expected in PAIRED:
        assert list(rows(sample(*first), sample(*second))) == expected


def test_a_random_order_is_recorded_and_may_take_any_episode():
    first, second = sample(*[-1] * 30), sample(*[-1] * 20)
    of_first, of_second, note = rows(first, second, 4)
    assert of_first == rows(first, second, 4)[0] != rows(first, second, 5)[0]
    assert sorted(of_second) == list(range(20))
    assert len(set(of_first)) == 20
    assert max(of_first) >= 20  # not the first 20 alone
    assert of_first != of_second  # each recording has its own order
    assert "in a random order from seed 4" in note
    # Pairs by seed stay pairs.
    of_first, of_second, note = rows(sample(*range(20)), sample(*reversed(range(20))), 4)
    assert [19 - row for row in of_second] == of_first != sorted(of_first) == list(range(20))
    assert note == "paired by seed, in a random order from seed 4"


def test_seeds_that_would_make_pairs_depend_on_each_other_are_refused():
    with pytest.raises(InputError, match="or none, found 2 of 3: pairs would depend"):
        pair(sample(1, 2, 3), sample(2, 3, 4))
    with pytest.raises(InputError, match="found a seed twice in B"):
        pair(sample(1, 2), sample(5, 5))
