"""Recorded episodes by any name, and how they are shared out (DESIGN, "The command")."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tightrope.environments import recipe
from tightrope.errors import InputError
from tightrope.rollouts import (
    PILOT_EPISODES,
    Episode,
    check_destination,
    export_minari,
    is_recording,
    join,
    load_episodes,
    policy_source,
    share_out,
    write_episodes,
)


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
                actions=np.zeros((index + 1, 1), np.float32),
                final_observation=np.zeros(2, np.float32),
            )
            for index in range(count)
        ]
    )


# --- what a source names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        *("episodes.safetensors", "log.npz", "log.hdf5", "log.h5", "deep/er/log.npz"),
        *("mujoco/hopper/expert-v0", "pendulum-v0", "D4RL/kitchen/mixed-v2", "a_b/c-d-v10"),
        Path("episodes.safetensors"),
    ],
)
def test_recordings_are_known_by_their_names(source):
    assert is_recording(source)


@pytest.mark.parametrize(
    "source",
    [
        *("policy.zip", "policy.pt", "policy.pt2", "policy.onnx", "policy.py:act"),
        *("package.module:act", "model", "", "policy.zip-v", "a b/c-v0"),
        Path("policy.zip"),
    ],
)
def test_policies_are_not_taken_for_recordings(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source:
        assert not is_recording(source)
        with pytest.raises(InputError, match="expected recorded episodes"):
            load_episodes(source)


def test_a_folder_is_a_recording_and_an_existing_file_of_another_kind_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset").mkdir()
    (tmp_path / "agent-v1").touch()
    assert is_recording("dataset")
    assert not is_recording("agent-v1")


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors", "policy.zip"])
def test_a_folder_that_training_wrote_is_not_taken_for_a_dataset(name, tmp_path):
    (tmp_path / name).touch()
    assert not is_recording(tmp_path)
    assert not is_recording(str(tmp_path))


# --- a policy and where it acts -------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, trained):
    """A function that writes a training folder with this environment and returns its name."""

    def write(environment):
        trained(tmp_path / "run", environment=environment)
        return str(tmp_path / "run")

    return write


def test_a_trained_policy_brings_its_environment_and_its_record(run):
    pendulum = recipe("Pendulum-v1")
    folder = run(pendulum.to_json())
    for source in (folder, f"{folder}/policy.safetensors"):
        found = policy_source(source, None)
        assert found.policy == Path(folder, "policy.safetensors")
        assert found.environment == pendulum
        assert found.record.agent == "sac"


def test_an_environment_that_the_user_names_goes_first(run):
    found = policy_source(run(recipe("Pendulum-v1").to_json()), "CartPole-v1")
    assert found.environment == recipe("CartPole-v1")
    assert found.record is not None


def test_other_policies_need_an_environment():
    found = policy_source("policy.py:act", "Pendulum-v1")
    assert (found.policy, found.record) == ("policy.py:act", None)
    with pytest.raises(InputError, match="--env"):
        policy_source("policy.py:act", None)


def test_a_module_that_only_a_record_names_is_not_imported_without_trust(run):
    folder = run({**recipe("Pendulum-v1").to_json(), "id": "evil:Pendulum-v1"})
    with pytest.raises(InputError, match="--env evil:Pendulum-v1 or --trust"):
        policy_source(folder, None)
    assert policy_source(folder, None, trust=True).environment.id == "evil:Pendulum-v1"


@pytest.mark.parametrize(
    "changes", [{"thin": 0}, {"thin": "3"}, {"id": 3}, {"suite": "casino"}, {"colour": "red"}]
)
def test_an_environment_that_is_no_recipe_is_an_input_error(changes, run):
    folder = run({**recipe("Pendulum-v1").to_json(), **changes})
    with pytest.raises(InputError, match="expected a recipe"):
        policy_source(folder, None)


# --- reading and writing --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "hdf5", "h5"])
def test_what_is_written_is_read_by_the_suffix(suffix, tmp_path):
    if suffix in ("hdf5", "h5"):
        pytest.importorskip("h5py")
    path = tmp_path / f"episodes.{suffix}"
    write_episodes(episodes(3), path)
    found = load_episodes(str(path))
    np.testing.assert_array_equal(found.rewards, episodes(3).rewards)
    np.testing.assert_array_equal(found.observations, episodes(3).observations)
    assert found.lengths.tolist() == [1, 2, 3]


def test_a_minari_dataset_is_read_by_id_and_folder(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    export_minari(episodes(3), "walks/mine-v0")
    for source in ("walks/mine-v0", tmp_path / "walks" / "mine-v0"):
        assert load_episodes(source).lengths.tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["episodes.csv", "episodes", "episodes.zip", ".npz"])
def test_a_destination_of_no_known_format_is_refused(name, tmp_path):
    for refuse in (check_destination, lambda path: write_episodes(episodes(1), path)):
        with pytest.raises(InputError, match=r"\.safetensors, \.npz or \.hdf5"):
            refuse(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_destination_that_exists_is_refused(tmp_path):
    (tmp_path / "episodes.npz").touch()
    for refuse in (check_destination, lambda path: write_episodes(episodes(1), path)):
        with pytest.raises(InputError, match="already there"):
            refuse(tmp_path / "episodes.npz")


def test_a_destination_that_cannot_be_written_is_refused_before_anything_is_collected(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write|not a (folder|directory)"):
        check_destination(tmp_path / "file" / "episodes.npz")


def test_a_destination_whose_package_is_missing_is_refused_before_anything_is_collected(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r'pip install "tightrope\[minari\]"'):
        check_destination(tmp_path / "episodes.hdf5")


def test_checking_a_destination_leaves_nothing_behind(tmp_path):
    check_destination(tmp_path / "new" / "episodes.safetensors")
    assert os.listdir(tmp_path) == []


# --- sharing out ------------------------------------------------------------------------------


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
    assert "--pilot-episodes" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("pilot", -1), ("validation", -1), ("test", -1), ("pilot", 0.5), ("validation", 0)],
)
def test_a_share_that_is_no_number_of_episodes_is_an_input_error_that_names_it(name, value):
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        share_out(episodes(20), **{name: value})
