"""D4RL-style arrays in files and in memory, in and out, good and bad."""

import dataclasses

import numpy as np
import pytest
from tables import filled

from tightrope.errors import InputError
from tightrope.rollouts import (
    export_arrays,
    load_episodes,
)

SUFFIXES = ["npz", "hdf5", "h5"]
LENGTHS = (3, 1, 4)


def arrays(**changes):
    """A log of 3, 1 and 4 steps as D4RL writes it; a change of None removes a name."""
    log = {
        "observations": np.arange(16, dtype=np.float32).reshape(8, 2),
        "actions": np.arange(8, dtype=np.float32)[:, None],
        "rewards": np.arange(8, dtype=np.float32),
        "terminals": np.array([0, 0, 1, 0, 0, 0, 0, 1], np.bool_),
        "timeouts": np.array([0, 0, 0, 1, 0, 0, 0, 0], np.bool_),
    }
    log.update(changes)
    return {name: value for name, value in log.items() if value is not None}


def write(path, log):
    """By numpy and h5py themselves, not by the code under test."""
    if path.suffix == ".npz":
        np.savez(path, **log)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as archive:
            for name, value in log.items():
                archive[name] = value
    return path


def same(found, expected, *, but=()):
    for name in ("observations", "rewards", "offsets", "terminated", "truncated", "actions"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
    for name in {"final_observations", "seeds"} - set(but):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


# --- flat arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_is_cut_where_its_flags_say(suffix, tmp_path):
    found = load_episodes(write(tmp_path / f"log.{suffix}", arrays()))
    assert found.lengths.tolist() == [3, 1, 4]
    assert found.terminated.tolist() == [True, False, True]
    assert found.truncated.tolist() == [False, True, False]
    assert found.seeds.tolist() == [-1, -1, -1]
    assert found.observations.dtype == np.float32
    assert found.rewards.dtype == np.float64
    np.testing.assert_array_equal(found.observations, arrays()["observations"])
    np.testing.assert_array_equal(found.actions, arrays()["actions"])
    assert found.final_observations is None
    assert found.subject["log"] == f"log.{suffix}"
    assert found.subject["recording"]["format"] == suffix
    log = arrays(terminals=np.array([0, 0, 1, 0, 0, 0, 0, 0], np.bool_))
    with pytest.warns(UserWarning, match="dropped the last 4 steps"):
        found = load_episodes(write(tmp_path / f"open.{suffix}", log))
    assert found.lengths.tolist() == [3, 1]
    assert found.observations.shape == (4, 2)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_exported_arrays_have_the_names_and_rules_of_d4rl(suffix, tmp_path):
    original = filled()
    path = tmp_path / f"log.{suffix}"
    if suffix == "npz":
        export_arrays(original, path)
        with np.load(path, allow_pickle=False) as archive:
            log = dict(archive)
    else:
        h5py = pytest.importorskip("h5py")
        export_arrays(original, path)
        with h5py.File(path, "r") as archive:
            log = {name: archive[name][()] for name in archive}
    same(load_episodes(path), original, but={"seeds"})
    assert set(log) == {
        *("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    }
    assert {len(array) for array in log.values()} == {8}
    assert log["terminals"].tolist() == [0, 0, 1, 0, 0, 0, 0, 1]
    assert log["timeouts"].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    for index, (start, stop) in enumerate([(0, 3), (3, 4), (4, 8)]):  # s' of each step
        following = log["next_observations"][start:stop]
        np.testing.assert_array_equal(following[:-1], original.observations[start + 1 : stop])
        np.testing.assert_array_equal(following[-1], original.final_observations[index])


def test_episodes_without_actions_or_final_observations_are_exported_without_them(tmp_path):
    bare = dataclasses.replace(filled(), actions=None, final_observations=None)
    export_arrays(bare, tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as archive:
        assert set(archive) == {"observations", "rewards", "terminals", "timeouts"}
    assert load_episodes(tmp_path / "log.npz").actions is None


def test_observations_of_many_dimensions_are_flattened_and_numbers_of_any_kind_are_read(tmp_path):
    log = arrays(
        infos=np.zeros(3),  # left alone, as is the next
        metadata=np.array("D4RL"),
        observations=np.arange(48, dtype=np.uint8).reshape(8, 2, 3),
        rewards=np.arange(8).reshape(8, 1),
        terminals=arrays()["terminals"].astype(np.float32),
        timeouts=arrays()["timeouts"].astype(np.int8)[:, None],
    )
    found = load_episodes(write(tmp_path / "log.npz", log))
    np.testing.assert_array_equal(found.observations, np.arange(48).reshape(8, 6))
    np.testing.assert_array_equal(found.rewards, np.arange(8))
    assert found.lengths.tolist() == [3, 1, 4]


# --- bad logs ---------------------------------------------------------------------------------


def poisoned(name, value):
    array = arrays()[name].astype(np.float64)
    array[4] = value
    return {name: array}


BAD = {
    "a NaN reward": (
        poisoned("rewards", np.nan),
        "finite numbers in the column rewards, found NaN in row 4",
    ),
    "a NaN observation": (poisoned("observations", np.nan), "finite .* observations.*row 4"),
    "too few observations": ({"observations": np.zeros((7, 2))}, "8 rows of observations.*7"),
    "too many timeouts": ({"timeouts": np.ones(9, np.bool_)}, "8 rows of timeouts.*9"),
    "too few next observations": ({"next_observations": np.zeros((2, 2))}, "next_observations"),
    "two rewards per step": ({"rewards": np.zeros((8, 2))}, "rows of|rewards"),
    "flags that are no flags": (
        {"terminals": np.arange(8)},
        "true and false in the column terminals",
    ),
    "no end at all": (
        {"terminals": np.zeros(8, np.bool_), "timeouts": np.zeros(8, np.bool_)},
        "at least one episode with an end",
    ),
    "words for observations": ({"observations": np.array(["a"] * 8)}, "observations"),
    "one number for rewards": ({"rewards": np.float32(3)}, "rows of|rewards"),
    "an empty log": (
        {name: array[:0] for name, array in arrays().items()},
        "expected at least one|no steps|empty",
    ),
    **{
        f"no {name}": ({name: None}, f"no {name}")
        for name in ("observations", "rewards", "terminals", "timeouts")
    },
}


def test_a_bad_log_is_an_input_error_that_says_what_is_wrong(tmp_path):
    for case, (changes, words) in BAD.items():
        for source in (arrays(**changes), write(tmp_path / "log.npz", arrays(**changes))):
            with pytest.raises(InputError, match=words) as refusal:
                pytest.fail(f"{case}: {load_episodes(source)}")
            assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match="numbers in the column observations, as many in each"):
        load_episodes(arrays(observations=[[1.0], [1.0, 2.0]]))


def test_ragged_arrays_and_groups_are_refused(tmp_path):
    """Pickles: tests/fuzz/test_attacks.py."""
    h5py = pytest.importorskip("h5py")
    for name in ("observations", "rewards", "terminals", "actions"):
        for kind in ("ragged", "group"):
            path = write(tmp_path / f"{kind} {name}.hdf5", arrays(**{name: None}))
            with h5py.File(path, "a") as archive:
                if kind == "group":
                    archive.create_group(name)["camera"] = np.zeros((8, 2))
                else:
                    ragged = archive.create_dataset(name, (8,), dtype=h5py.vlen_dtype(np.float32))
                    for row in range(8):
                        ragged[row] = np.zeros(1 + row % 3)
            with pytest.raises(InputError, match=name):
                load_episodes(path)


# --- arrays in memory -------------------------------------------------------------------------


def test_a_mapping_is_read_as_the_file_of_the_same_arrays(tmp_path):
    """Also an open file, and lists."""
    path = write(tmp_path / "log.npz", arrays())
    expected = load_episodes(path)
    assert load_episodes(arrays()).subject["log"] == "arrays"
    lists = load_episodes({name: array.tolist() for name, array in arrays().items()})
    np.testing.assert_array_equal(lists.observations, expected.observations)
    same(load_episodes(arrays()), expected)
    with np.load(path) as archive:
        same(load_episodes(archive), expected)
    h5py = pytest.importorskip("h5py")
    with h5py.File(write(tmp_path / "log.hdf5", arrays()), "r") as archive:
        same(load_episodes(archive), expected)
