"""The training record: what is read is what was written, and it is of the policy beside it."""

import dataclasses
import json
import math
import os

import custom_environments  # noqa: F401
import numpy as np
import pytest

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.policies import (
    TrainingRecord,
    find_record,
    load_policy,
    load_record,
    policy_file,
    save_mlp,
    save_record,
)

RECIPE = {
    "id": "FiveWide-v0",
    "suite": "gymnasium",
    "thin": 3,
    "fixed_length": False,
    "seeds": "a seed fixes the episode",
    "goal_seed": None,
}


def record(**changes):
    given = {
        "agent": "redq",
        "environment": RECIPE,
        "steps": 1000,
        "episodes": 12,
        "gamma": 0.99,
        "return_low": -1 / 3,
        "return_high": 1e-7 + 250,
        "observation_mean": np.float32([0.1, -2e-8, 3e20, 0, 1]),
        "observation_deviation": np.float32([0.1, 1e-6, 3e20, 1, 1]),
        "settings": {"seed": 0, "hidden": [256, 256], "learning_rate": 3e-4, "compile": None},
        "versions": {"python": "3.11.0"},
        "digests": {},
    }
    return TrainingRecord(**{**given, **changes})


@pytest.fixture
def folder(tmp_path, small_policy):
    """A folder as training leaves it; the zip is never opened here."""
    place = tmp_path / "run"
    save_mlp(small_policy(5, 2), place / "policy.safetensors", environment="FiveWide-v0")
    (place / "policy.zip").write_bytes(b"a zip")
    digests = {file: sha256(place / file) for file in ("policy.safetensors", "policy.zip")}
    save_record(record(digests=digests), place / "policy.json")
    return place


# --- the file ----------------------------------------------------------------------------------


def test_a_record_read_is_the_record_written(tmp_path):
    written = record(digests={"policy.zip": "0" * 64})
    save_record(written, tmp_path / "policy.json")
    found = load_record(tmp_path / "policy.json")
    for field in dataclasses.fields(TrainingRecord):
        left, right = getattr(found, field.name), getattr(written, field.name)
        np.testing.assert_array_equal(left, right, field.name)
        assert type(left) is type(right)
    assert found.observation_mean.dtype == np.float32
    assert json.loads((tmp_path / "policy.json").read_text())["format"] == "tightrope.training/1"
    assert os.listdir(tmp_path) == ["policy.json"]


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    changes = {"steps": np.int64(7), "gamma": np.float32(0.5), "return_low": np.float64(1)}
    save_record(record(**changes), tmp_path / "policy.json")
    found = load_record(tmp_path / "policy.json")
    assert (found.steps, found.gamma, found.return_low) == (7, 0.5, 1.0)


@pytest.mark.parametrize(("low", "high"), [(math.inf, -math.inf), (math.nan, math.nan)])
def test_a_range_of_no_episode_is_kept_as_none_at_all(low, high, tmp_path):
    save_record(record(return_low=low, return_high=high, episodes=0), tmp_path / "policy.json")
    stored = json.loads((tmp_path / "policy.json").read_text())
    assert (stored["return_low"], stored["return_high"]) == (None, None)
    found = load_record(tmp_path / "policy.json")
    assert math.isnan(found.return_low)
    assert math.isnan(found.return_high)


@pytest.mark.parametrize("settings", [{"x": math.nan}, {"x": object()}, {"x": np.ones(2)}])
def test_settings_that_are_not_for_json_are_refused_and_leave_no_file(settings, tmp_path):
    with pytest.raises(InputError, match="finite numbers and texts"):
        save_record(record(settings=settings), tmp_path / "policy.json")
    assert os.listdir(tmp_path) == []


def test_a_truncated_record_is_one_line(folder):
    content = (folder / "policy.json").read_bytes()
    for kept in range(37, len(content) - 2, 37):  # from where it says what it is
        (folder / "policy.json").write_bytes(content[:kept])
        for read in (lambda: load_record(folder / "policy.json"), lambda: find_record(folder)):
            with pytest.raises(InputError, match=r"policy\.json") as refusal:
                read()
            assert "\n" not in str(refusal.value)


DAMAGED = {
    "another format": {"format": "tightrope.training/2"},
    "no format": {"format": None},
    "an unknown field": {"colour": "red"},
    "negative steps": {"steps": -1},
    "half a step": {"steps": 0.5},
    "steps that are true": {"steps": True},
    "no number of episodes": {"episodes": None},
    "gamma above 1": {"gamma": 1.5},
    "gamma in words": {"gamma": "high"},
    "gamma that is none": {"gamma": math.nan},
    "a low return in words": {"return_low": "low"},
    "returns too large for a float": {"return_high": 10**400},
    "a list as environment": {"environment": []},
    "settings in words": {"settings": "default"},
    "versions that are numbers": {"versions": {"python": 3.11}},
    "digests that are none": {"digests": {"policy.zip": None}},
    "a mean that is none": {"observation_mean": [0, 0, 0, 0, math.nan]},
    "a mean too large for float32": {"observation_mean": [0, 0, 0, 0, 1e300]},
    "a mean too large for any float": {"observation_mean": [0, 0, 0, 0, 10**400]},
    "a mean of two dimensions": {"observation_mean": [[0, 0, 0, 0, 0]]},
    "a ragged mean": {"observation_mean": [[0], 0]},
    "a mean in words": {"observation_mean": "zero"},
    "a mean too few": {"observation_mean": [0, 0, 0, 0]},
    "a deviation of zero": {"observation_deviation": [1, 1, 0, 1, 1]},
    "a negative deviation": {"observation_deviation": [1, 1, -1, 1, 1]},
    "an agent without a name": {"agent": None},
}


@pytest.mark.parametrize("changes", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_is_one_line_with_the_file(changes, folder):
    path = folder / "policy.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))
    with pytest.raises(InputError, match=r"policy\.json") as refusal:
        load_record(path)
    assert "\n" not in str(refusal.value)


def test_every_field_is_needed(folder):
    path = folder / "policy.json"
    content = json.loads(path.read_text())
    for name in content:
        path.write_text(json.dumps({k: v for k, v in content.items() if k != name}))
        with pytest.raises(InputError, match=name):
            load_record(path)


def test_a_record_that_is_not_there_is_one_line(tmp_path):
    for place in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(InputError, match="cannot read"):
            load_record(place)


# --- finding it ----------------------------------------------------------------------------------


def test_a_folder_means_its_weights_before_its_zip(folder):
    file, found = find_record(folder)
    assert file == policy_file(folder) == folder / "policy.safetensors"
    assert found.agent == "redq"
    (folder / "policy.safetensors").unlink()
    file, _ = find_record(str(folder))
    assert file == policy_file(folder) == folder / "policy.zip"


@pytest.mark.parametrize("name", ["policy.safetensors", "policy.zip"])
def test_a_file_is_found_with_the_record_beside_it(name, folder):
    file, found = find_record(folder / name)
    assert file == folder / name
    assert found.steps == 1000


@pytest.mark.parametrize("name", ["policy.safetensors", "policy.zip"])
def test_a_policy_changed_after_training_is_refused(name, folder):
    with (folder / name).open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(InputError, match=rf"{name}: it was changed after training"):
        find_record(folder / name)


def test_a_policy_without_a_digest_in_the_record_is_refused(folder):
    (folder / "policy.json").unlink()
    save_record(record(), folder / "policy.json")
    with pytest.raises(InputError, match="changed after training"):
        find_record(folder)


def test_a_record_alone_is_refused_with_what_is_missing(folder):
    for name in ("policy.safetensors", "policy.zip"):
        (folder / name).unlink()
    with pytest.raises(InputError, match=r"policy\.safetensors or policy\.zip"):
        find_record(folder)


def test_what_has_no_record_is_found_without_one(folder, tmp_path):
    (folder / "other.zip").write_bytes(b"another zip")
    (tmp_path / "empty").mkdir()
    sources = ("file.py:name", "mujoco/hopper/expert-v0", "policy.zip", tmp_path / "empty")
    for source in (*sources, folder / "other.zip", folder / "policy.json"):
        assert find_record(source) is None


def test_a_strangers_policy_json_is_none_of_ours(folder):
    for content in ({"hidden": [64, 64]}, {"format": "mine/1"}, [1, 2], "text"):
        (folder / "policy.json").write_text(json.dumps(content))
        assert find_record(folder) is None
        assert find_record(folder / "policy.zip") is None


# --- a folder as a policy ------------------------------------------------------------------------


def test_a_folder_is_loaded_as_the_policy_in_it(folder):
    env = make_env("FiveWide-v0")
    assert load_policy(str(folder), env).digest == sha256(folder / "policy.safetensors")
    (folder / "policy.json").unlink()  # a policy needs no record
    assert load_policy(folder, env).digest == sha256(folder / "policy.safetensors")


def test_a_folder_without_a_policy_is_one_line(tmp_path):
    with pytest.raises(InputError, match="without a policy"):
        load_policy(tmp_path, make_env("FiveWide-v0"))


# --- what it is for ------------------------------------------------------------------------------


def test_a_range_is_for_the_same_environment_and_discount_factor_only():
    trained = record()
    assert trained.mismatch(environment=dict(RECIPE), gamma=0.99) is None
    other = {**RECIPE, "id": "Five-v0"}
    assert "FiveWide-v0, not Five-v0" in trained.mismatch(environment=other, gamma=0.99)
    goals = {**RECIPE, "goal_seed": 1}
    assert "another FiveWide-v0" in trained.mismatch(environment=goals, gamma=0.99)
    assert "gamma 0.99, not 1" in trained.mismatch(environment=RECIPE, gamma=1.0)


def test_a_record_shows_what_it_is_without_its_arrays():
    assert "redq in FiveWide-v0, 1,000 steps" in repr(record())
    assert "array" not in repr(record())
