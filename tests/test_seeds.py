"""Seeds: one stream for each use, the same on every machine; what a user may give."""

import itertools
import secrets

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.seeds import Stream, child_seed, resolve_seed


def test_no_two_uses_share_a_seed():
    """All streams with paths of up to two places, for neighbouring roots and the largest one."""
    paths = [(), *((t,) for t in range(12)), *itertools.product(range(3), repeat=2)]
    roots = (*range(12), 2**31 - 1)
    seeds = [
        child_seed(root, stream, *path) for root in roots for stream in Stream for path in paths
    ]
    assert len(set(seeds)) == len(seeds) == len(roots) * len(Stream) * len(paths)
    assert all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)


def test_streams_have_numbers_of_their_own():
    """An enumeration would take a second name of the same number for an alias."""
    assert len(Stream.__members__) == len(set(Stream)) == len({int(stream) for stream in Stream})


def test_a_recorded_seed_means_the_same_for_ever():
    """Pinned: a change would make every recorded certificate irreproducible."""
    assert child_seed(0, Stream.PRIOR_MEANS, 0) == 1317536309490288386
    assert child_seed(2026, Stream.FIT, 3) == 4788735440021111655
    numbers = {"PRIOR_MEANS": 0, "FIT": 1, "DRAWS": 2, "TRAIN_ERROR": 3, "TEST_ERROR": 4}
    assert {name: int(Stream[name]) for name in numbers} == numbers
    assert Stream.REGRESSION == 5


def test_neighbouring_children_look_unrelated():
    """Half of the 63 bits differ, within five standard errors over all pairs of neighbours."""
    seeds = [child_seed(root, Stream.DRAWS) for root in range(400)]
    differing = [(a ^ b).bit_count() for a, b in itertools.pairwise(seeds)]
    assert abs(np.mean(differing) - 31.5) < 5 * np.sqrt(63) / 2 / np.sqrt(len(differing))


def test_a_given_seed_is_taken_as_it_is_and_anything_else_is_refused():
    for seed in (0, 7, 2**31, 2**70, np.int64(5), np.uint8(5)):
        found = resolve_seed(seed)
        assert found == seed
        assert type(found) is int  # so that it can be written as JSON
    for seed in (-1, 1.0, True, None, "7", "Fresh", "", np.float64(3), (1,)):
        with pytest.raises(InputError, match="whole number of at least 0 or 'fresh', f") as caught:
            resolve_seed(seed)
        assert repr(seed) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_fresh_seeds_come_from_the_system_and_fit_into_31_bits(monkeypatch):
    found = [resolve_seed("fresh") for _ in range(50)]
    assert all(0 <= seed < 2**31 for seed in found)
    assert len(set(found)) > 45
    monkeypatch.setattr(secrets, "randbits", {31: 123}.get)
    assert resolve_seed("fresh") == 123
