"""The record of episodes: what it refuses, what it shows, how it is cut and joined."""

import dataclasses

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.rollouts import Episode, Episodes, join

LENGTHS = (3, 1, 4)


def record(**changes):
    """Three episodes of 3, 1 and 4 steps with two features, every field filled."""
    steps, count = sum(LENGTHS), len(LENGTHS)
    fields = {
        "observations": np.arange(2 * steps, dtype=np.float32).reshape(steps, 2),
        "rewards": np.arange(steps, dtype=np.float64),
        "offsets": np.array([0, 3, 4, 8]),
        "terminated": np.array([True, False, True]),
        "truncated": np.array([False, True, False]),
        "seeds": np.array([11, 12, 13]),
        "actions": np.arange(steps, dtype=np.float32).reshape(steps, 1),
        "final_observations": np.full((count, 2), 9, np.float32),
        "success": np.array([True, False, False]),
        "subject": {"policy": {"name": "walker"}},
    }
    return Episodes(**{**fields, **changes})


def poisoned(name, index, value=np.nan):
    array = getattr(record(), name).copy()
    array[index] = value
    return {name: array}


def without_last(name):
    return {name: getattr(record(), name)[:-1]}


WRONG = {
    "no episodes": ({"offsets": np.array([0])}, "none"),
    "an empty episode": ({"offsets": np.array([0, 3, 3, 8])}, "at least one step"),
    "falling offsets": ({"offsets": np.array([0, 4, 3, 8])}, "at least one step"),
    "offsets that start late": ({"offsets": np.array([1, 3, 4, 8])}, "offsets"),
    "offsets that end early": ({"offsets": np.array([0, 3, 4, 7])}, "8 steps"),
    "flat observations": ({"observations": np.zeros(8, np.float32)}, r"\(steps, features\)"),
    "rewards in a column": ({"rewards": np.zeros((8, 1))}, "rewards"),
    "another width at the end": (
        {"final_observations": np.zeros((3, 5), np.float32)},
        "final_observations",
    ),
    "flags in a column": ({"terminated": np.ones((3, 1), np.bool_)}, "terminated"),
    "an episode without an end": (
        {"truncated": np.zeros(3, np.bool_)},
        r"episode 1 \(seed 12\) with neither",
    ),
    **{
        f"too few {name}": (without_last(name), name)
        for name in (
            *("observations", "terminated", "truncated", "seeds", "actions"),
            *("final_observations", "success"),
        )
    },
    "a NaN reward": (poisoned("rewards", 3), r"rewards.*episode 1 \(seed 12\)"),
    "an infinite reward": (poisoned("rewards", 7, np.inf), r"rewards.*episode 2 \(seed 13\)"),
    "rewards of both infinities": (
        {"rewards": np.array([np.inf, -np.inf, 0, 0, 0, 0, 0, 0])},
        r"rewards.*episode 0 \(seed 11\)",
    ),
    "a NaN observation": (poisoned("observations", (0, 1)), "observations.*episode 0"),
    "an infinite observation": (poisoned("observations", (4, 0), -np.inf), "episode 2"),
    "a NaN action": (poisoned("actions", (2, 0)), "actions.*episode 0"),
    **{
        f"{name} of another type": ({name: getattr(record(), name).astype(kind)}, name)
        for name, kind in {
            "observations": np.float64,
            "rewards": np.float32,
            "offsets": np.int32,
            "terminated": np.int64,
            "truncated": np.float32,
            "seeds": np.float64,
            "success": np.int8,
            "final_observations": np.float64,
        }.items()
    },
}


def test_a_record_that_is_not_whole_is_refused():
    for case, (changes, words) in WRONG.items():
        with pytest.raises(InputError, match=words):
            pytest.fail(f"{case}: {record(**changes)}")


def test_an_unknown_seed_is_not_named_as_if_it_were_one():
    with pytest.raises(InputError) as refusal:
        record(seeds=np.full(3, -1), **poisoned("rewards", 3))
    assert "episode 1" in str(refusal.value)
    assert "seed" not in str(refusal.value)


def test_what_is_unusual_but_whole_is_accepted():
    """Finite rewards whose sum is not, no optional fields, any actions, both ends at once."""
    assert len(record(rewards=np.full(8, 1e308))) == 3
    bare = record(actions=None, final_observations=None, success=None)
    assert [bare.actions, bare.final_observations, bare.success] == [None] * 3
    for shape in ((8,), (8, 2, 3)):
        assert record(actions=np.zeros(shape, np.int64)).actions.shape == shape
    both = record(terminated=np.ones(3, np.bool_), truncated=np.ones(3, np.bool_))
    assert both[0].terminated
    assert both[0].truncated


# --- single episodes, spans, splits -----------------------------------------------------------


def test_an_episode_has_the_rows_between_its_offsets():
    whole = record()
    for index, (start, stop) in enumerate([(0, 3), (3, 4), (4, 8)]):
        for name in ("observations", "rewards", "actions"):
            found, expected = getattr(whole[index], name), getattr(whole, name)[start:stop]
            np.testing.assert_array_equal(found, expected)
            assert np.shares_memory(found, expected)
        np.testing.assert_array_equal(whole[index].final_observation, [9, 9])
        found = (whole[index].seed, whole[index].terminated, whole[index].success)
        assert found == (11 + index, index != 1, index == 0)


def test_indices_and_slices_give_the_whole_episodes_that_a_list_would():
    whole = list(record())
    assert [episode.seed for episode in record()] == [11, 12, 13]
    for index in (0, 2, -1, -3, np.int64(1)):
        assert_equal_episodes([record()[index]], [whole[index]])
    for start in (None, 0, 1, 2, -1, -2, -100):
        for stop in (None, 3, 2, 1, -1, 100):
            if not whole[start:stop]:
                with pytest.raises(InputError, match="start < stop <= 3"):
                    record()[start:stop]
                continue
            found = record()[start:stop]
            assert_equal_episodes(list(found), whole[start:stop])
            assert found.subject == record().subject
            assert np.shares_memory(found.rewards, found[0].rewards)


def test_wrong_indices_are_refused():
    for index, error in {3: IndexError, -4: IndexError, 1.0: TypeError, "1": TypeError}.items():
        with pytest.raises(error):
            record()[index]
    with pytest.raises(InputError, match="episodes in a row, found a step of 2"):
        record()[::2]
    for start, stop in ((-1, 2), (0, 4), (2, 2), (2, 1), (3, 4)):
        with pytest.raises(InputError, match="start < stop"):
            record().span(start, stop)


# --- join -------------------------------------------------------------------------------------


def assert_equal_episodes(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for field in dataclasses.fields(Episode):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_joining_the_episodes_of_a_record_gives_the_record():
    whole = record()
    joined = join(list(whole), whole.subject)
    for field in dataclasses.fields(Episodes):
        found, expected = getattr(joined, field.name), getattr(whole, field.name)
        np.testing.assert_array_equal(found, expected)
        if isinstance(expected, np.ndarray):
            assert found.dtype == expected.dtype
    assert joined.subject == {"policy": {"name": "walker"}}


def test_an_optional_field_is_kept_only_if_all_episodes_have_it():
    first, second, third = record()
    joined = join([first, dataclasses.replace(second, actions=None, success=None), third])
    assert joined.actions is None
    assert joined.success is None
    assert joined.final_observations.shape == (3, 2)


def episode(steps=2, **changes):
    made = Episode(np.zeros((steps, 3), np.float32), np.zeros(steps), True, False)
    return dataclasses.replace(made, **changes)


RAGGED = {
    "nothing": [],
    "observations of another width": [episode(), episode(observations=np.zeros((2, 4)))],
    "observations without width": [episode(observations=np.zeros(2))],
    "actions of another shape": [
        episode(actions=np.zeros((2, 1))),
        episode(actions=np.zeros((2, 2))),
    ],
    "final observations of another width": [
        episode(final_observation=np.zeros(3)),
        episode(final_observation=np.zeros(4)),
    ],
    "an observation moved to the next episode": [
        episode(observations=np.zeros((3, 3))),
        episode(observations=np.zeros((1, 3))),
    ],
    "an action moved to the next episode": [
        episode(actions=np.zeros((1, 1))),
        episode(actions=np.zeros((3, 1))),
    ],
}


def test_ragged_episodes_are_refused():
    for case, episodes in RAGGED.items():
        with pytest.raises(InputError, match="expected"):
            pytest.fail(f"{case}: {join(episodes)}")
