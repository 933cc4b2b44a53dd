"""Recorded episodes and policies by any name: what they are, and how they are read."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from tables import filled

from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.rollouts import (
    check_destination,
    is_recording,
    load_episodes,
    policy_source,
    write_episodes,
)


def episodes(count):
    return filled(range(1, count + 1))


# --- what a source names ----------------------------------------------------------------------


def test_recordings_and_policies_are_known_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in (
        *("episodes.safetensors", "log.npz", "log.hdf5", "log.h5", "deep/er/log.npz"),
        *("log.csv", "log.tsv", "log.parquet"),
        *("mujoco/hopper/expert-v0", "pendulum-v0", "D4RL/kitchen/mixed-v2", "a_b/c-d-v10"),
        Path("episodes.safetensors"),
    ):
        assert is_recording(source), source
    for source in (
        *("policy.zip", "policy.pt", "policy.pt2", "policy.onnx", "policy.py:act"),
        *("package.module:act", "model", "policy.zip-v", "a b/c-v0", Path("policy.zip")),
    ):
        assert not is_recording(source), source
        with pytest.raises(InputError, match="expected recorded episodes"):
            load_episodes(source)
    single = list(episodes(2))
    for recorded in (episodes(2), single, tuple(single), {"rewards": [1.0]}):
        assert is_recording(recorded)
    for other in (len, object(), ["log.npz"], 3):
        assert not is_recording(other)


def test_a_file_of_an_unknown_kind_is_answered_with_the_kinds_of_logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, words in {
        "log.pkl": "unpickling executes code, so load it yourself .* write them as an .npz",
        "log.txt": "found 'log.txt'",
        "log": "found 'log'",
    }.items():
        Path(name).touch()
        assert not is_recording(name)
        for read in (policy_source, load_episodes):
            with pytest.raises(InputError, match=words) as refusal:
                read(name)
            said = str(refusal.value)
            for kind in (".safetensors", ".npz", ".hdf5", ".csv", ".parquet", "LeRobot", "Minari"):
                assert kind in said
            assert "env" not in said
            assert "\n" not in said


def test_what_is_not_there_is_a_missing_file_with_and_without_an_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        *("log.pkl", "policy.zip", "policy.pt", "policy.onnx", "runs/final", "model"),
        *("policy.txt", "policy.safetensors", "policy.py:act"),
    ):
        for env in (None, "Pendulum-v1"):
            with pytest.raises(InputError, match=f"found nothing at '{name.removesuffix(':act')}'"):
                policy_source(name, env)
    for name in ("log.csv", "log.npz", "log.h5", "log.safetensors", "model"):
        with pytest.raises(InputError, match=f"found nothing at '{name}'"):
            load_episodes(name)


def test_recorded_episodes_are_no_policy(tmp_path):
    write_episodes(episodes(1), tmp_path / "log.npz")
    write_episodes(episodes(1), tmp_path / "log.safetensors")
    own = (tmp_path / "log.npz", tmp_path / "log.safetensors")
    (tmp_path / "log.csv").touch()
    for name in (*own, tmp_path / "log.csv"):
        with pytest.raises(InputError, match=r"expected a policy, found.* recorded episodes"):
            policy_source(name, "Pendulum-v1")


def test_a_folder_is_a_recording_unless_training_wrote_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent-v1").touch()
    assert not is_recording("agent-v1")
    (tmp_path / "dataset").mkdir()
    assert is_recording("dataset")
    for name in ("policy.json", "policy.safetensors", "policy.zip"):
        (tmp_path / "dataset" / name).touch()
        assert not is_recording("dataset")
        (tmp_path / "dataset" / name).unlink()


# --- a policy and where it acts -------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, trained):
    """A function that writes a training folder with this environment and returns its name."""

    def write(environment):
        trained(tmp_path / "run", environment=environment)
        return str(tmp_path / "run")

    return write


def test_a_trained_policy_brings_its_environment_and_its_record(run):
    pendulum = EnvInfo.of("Pendulum-v1")
    folder = run(pendulum.to_json())
    for source in (folder, f"{folder}/policy.safetensors"):
        found = policy_source(source, None)
        assert found.policy == Path(folder, "policy.safetensors")
        assert found.environment == pendulum
        assert found.record.agent == "sac"


def test_an_environment_that_the_user_names_goes_first(run):
    found = policy_source(run(EnvInfo.of("Pendulum-v1").to_json()), "CartPole-v1")
    assert found.environment == EnvInfo.of("CartPole-v1")
    assert found.record is not None


def test_other_policies_need_an_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.py").touch()
    for policy in ("policy.py:act", "package.module:act", len):
        found = policy_source(policy, "Pendulum-v1")
        assert (found.policy, found.record) == (policy, None)
        with pytest.raises(InputError, match="expected `env`"):
            policy_source(policy)


OWN = "custom_environments:Counting-v0"


def test_a_record_whose_module_the_user_names_as_well_is_used(run):
    """What train prints, certify --env module:Name-v0, keeps the range of the training."""
    folder = run(EnvInfo.of(OWN).to_json())
    found = policy_source(folder, OWN)
    assert found.environment.id == OWN
    assert found.record.mismatch(environment=found.environment.to_json(), gamma=0.99) is None


def test_an_environment_that_is_none_is_an_input_error(run):
    folder = run({**EnvInfo.of("Pendulum-v1").to_json(), "suite": "casino"})
    with pytest.raises(InputError, match="expected the record of an environment"):
        policy_source(folder, None)


# --- reading and writing --------------------------------------------------------------------------


def test_episodes_in_memory_are_read(tmp_path):
    whole = episodes(3)
    assert load_episodes(whole) is whole
    write_episodes(whole, tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as archive:
        arrays = dict(archive)
    for source in (list(whole), tuple(whole), arrays):
        found = load_episodes(source)
        np.testing.assert_array_equal(found.observations, whole.observations)
        np.testing.assert_array_equal(found.rewards, whole.rewards)
        assert found.lengths.tolist() == [1, 2, 3]


def test_what_holds_no_episodes_is_answered_with_what_does():
    for source in (3, None, object(), ["log.npz"], [1, 2], np.zeros((3, 2))):
        with pytest.raises(InputError, match="dictionary of arrays, a data frame or a") as refusal:
            load_episodes(source)
        assert type(source).__name__ in str(refusal.value)
    with pytest.raises(InputError, match="at least one episode"):
        load_episodes([])


def test_a_destination_is_refused_before_anything_is_collected(tmp_path, monkeypatch):
    """An unknown format, a name that is taken, a folder that is a file, a missing package."""
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "taken.npz").touch()
    for name, words in {
        **dict.fromkeys(("a.csv", "a", "a.zip", ".npz"), r"\.safetensors, \.npz or \.hdf5"),
        "taken.npz": "already there",
        "taken.npz/a.npz": r"cannot write|not a (folder|directory)",
        "a.hdf5": r'pip install "tightrope\[minari\]"',
    }.items():
        for refuse in (check_destination, lambda path: write_episodes(episodes(1), path)):
            with pytest.raises(InputError, match=words):
                refuse(tmp_path / name)
    check_destination(tmp_path / "new" / "episodes.safetensors")
    assert os.listdir(tmp_path) == ["taken.npz"]
