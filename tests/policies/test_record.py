"""The training record: what is read is what was written, and it is of the policy beside it."""

import dataclasses
import json
import math
import os

import custom_environments  # noqa: F401
import numpy as np
import pytest
from refusals import refused

from tightrope.environments import EnvInfo, make_env
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

FILES = ("policy.safetensors", "policy.zip")
RECIPE = EnvInfo.of("FiveWide-v0").to_json()


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
    save_mlp(small_policy(5, 2), place / FILES[0], environment="FiveWide-v0")
    (place / FILES[1]).write_bytes(b"a zip")
    save_record(record(digests={name: sha256(place / name) for name in FILES}), path(place))
    return place


def path(folder):
    return folder / "policy.json"


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"digests": {"policy.zip": "0" * 64}},
        {"steps": np.int64(7), "gamma": np.float32(0.5), "return_low": np.float64(1)},
    ],
)
def test_a_record_read_is_the_record_written(changes, tmp_path):
    written = record(**changes)
    save_record(written, path(tmp_path))
    found = load_record(path(tmp_path))
    for field in dataclasses.fields(TrainingRecord):
        left, right = getattr(found, field.name), getattr(written, field.name)
        np.testing.assert_array_equal(left, right, field.name)
        assert type(left) is type(right)
    assert found.observation_mean.dtype == np.float32
    assert json.loads(path(tmp_path).read_text())["format"] == "tightrope.training/1"
    assert os.listdir(tmp_path) == ["policy.json"]
    assert "redq in FiveWide-v0" in repr(found)
    assert "array" not in repr(found)


@pytest.mark.parametrize(("low", "high"), [(math.inf, -math.inf), (math.nan, math.nan)])
def test_a_range_of_no_episode_is_kept_as_none_at_all(low, high, tmp_path):
    save_record(record(return_low=low, return_high=high, episodes=0), path(tmp_path))
    stored = json.loads(path(tmp_path).read_text())
    assert (stored["return_low"], stored["return_high"]) == (None, None)
    found = load_record(path(tmp_path))
    assert math.isnan(found.return_low)
    assert math.isnan(found.return_high)


def test_settings_that_are_not_for_json_are_refused_and_leave_no_file(tmp_path):
    for value in (math.nan, object(), np.ones(2)):
        made = record(settings={"x": value})
        with refused("finite numbers and texts"):
            save_record(made, path(tmp_path))
    assert os.listdir(tmp_path) == []


DAMAGED = [
    *[{"format": "tightrope.training/2"}, {"format": None}, {"colour": "red"}, {"agent": None}],
    *[{"steps": value} for value in (-1, 0.5, True)],
    *[{"gamma": value} for value in (1.5, "high", math.nan)],
    *[{"return_low": "low"}, {"return_high": 10**400}, {"environment": []}, {"episodes": None}],
    *[{"settings": "default"}, {"versions": {"x": 3.11}}, {"digests": {"policy.zip": None}}],
    *[{"observation_mean": [0, 0, 0, 0, value]} for value in (math.nan, 1e300, 10**400)],
    *[{"observation_mean": value} for value in ([[0, 0, 0, 0, 0]], [[0], 0], "zero", [0] * 4)],
    *[{"observation_deviation": [1, 1, value, 1, 1]} for value in (0, -1)],
]


def test_a_damaged_record_is_one_line_with_the_file(folder):
    place = path(folder)
    whole = json.loads(place.read_text())
    missing = [{k: v for k, v in whole.items() if k != name} for name in whole]
    texts = [
        json.dumps(content) for content in [*({**whole, **each} for each in DAMAGED), *missing]
    ]
    for damaged in texts:
        place.write_text(damaged)
        with refused(r"policy\.json"):
            load_record(place)
        if "tightrope.training/" in damaged:
            with refused(r"policy\.json"):
                find_record(folder)
    for nowhere in (folder, folder / "nothing.json"):
        with refused("no training record"):
            load_record(nowhere)


# --- finding it -----------------------------------------------------------------------------------


def test_a_folder_means_its_weights_before_its_zip_and_its_record(folder):
    env, (weights, zipped) = make_env("FiveWide-v0"), (folder / name for name in FILES)
    assert find_record(folder)[0] == policy_file(folder) == weights
    for file in (weights, zipped):
        assert find_record(file)[0] == file
    assert load_policy(str(folder), env).digest == sha256(weights)
    weights.rename(folder / "elsewhere")
    assert find_record(str(folder))[0] == policy_file(folder) == zipped
    (folder / "elsewhere").rename(weights)
    path(folder).unlink()  # a policy needs no record
    assert load_policy(folder, env).digest == sha256(weights)


def test_a_policy_that_is_not_the_records_is_refused(folder):
    for name in FILES:
        with (folder / name).open("ab") as stream:
            stream.write(b" ")
        with refused(f"{name}: it was changed after training"):
            find_record(folder / name)
    path(folder).unlink()
    save_record(record(), path(folder))
    with refused("changed after training"):
        find_record(folder)
    for name in FILES:
        (folder / name).unlink()
    with refused(r"policy\.safetensors or policy\.zip"):
        find_record(folder)


def test_what_has_no_record_is_found_without_one(folder, tmp_path):
    (folder / "other.zip").write_bytes(b"another zip")
    (tmp_path / "empty").mkdir()
    sources = ("file.py:name", "mujoco/hopper/expert-v0", "policy.zip", tmp_path / "empty")
    for source in (*sources, folder / "other.zip", path(folder)):
        assert find_record(source) is None
    for content in ({"hidden": [64, 64]}, {"format": "mine/1"}, [1, 2], "text"):  # a stranger's
        path(folder).write_text(json.dumps(content))
        assert find_record(folder) is None
        assert find_record(folder / "policy.zip") is None
    empty = tmp_path / "empty"
    with refused("without a policy"):
        load_policy(empty, make_env("FiveWide-v0"))


def test_a_range_is_for_the_same_environment_and_discount_factor_only():
    trained = record()
    assert trained.mismatch(environment=dict(RECIPE), gamma=0.99) is None
    for changes, gamma, words in (
        ({"id": "Five-v0"}, 0.99, "FiveWide-v0, not Five-v0"),
        ({"goal_seed": 1}, 0.99, "another FiveWide-v0"),
        ({}, 1.0, "gamma 0.99, not 1"),
    ):
        assert words in trained.mismatch(environment={**RECIPE, **changes}, gamma=gamma)
