"""LeRobot folders as episodes, against a writer of both layouts that is not ours."""

import json
import shutil

import numpy as np
import pytest
from tables import write_lerobot

from tightrope.errors import InputError
from tightrope.rollouts import is_recording, load_episodes
from tightrope.rollouts.lerobot import import_lerobot

pytest.importorskip("pyarrow")
LENGTHS = (3, 1, 5, 2, 4)
VERSIONS = ("v2.1", "v3.0")


def frames(lengths=LENGTHS, drop=(), **more):
    """Episodes as dictionaries of features; the last frame of all but one is done."""
    rng = np.random.default_rng(0)
    episodes = []
    for index, length in enumerate(lengths):
        episode = {
            "observation.state": rng.normal(size=(length, 2)).astype(np.float32),
            "action": rng.normal(size=(length, 3)).astype(np.float32),
            "observation.environment_state": rng.normal(size=(length, 4)).astype(np.float32),
            "observation.gripper": rng.normal(size=length).astype(np.float32),
            "next.reward": rng.normal(size=length).astype(np.float32),
            "next.done": np.arange(length) == length - 1 if index != 2 else np.zeros(length, bool),
            "next.success": np.arange(length) == 1,
            **{name: make(length) for name, make in more.items()},
        }
        episodes.append({name: values for name, values in episode.items() if name not in drop})
    return episodes


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def observation(episode):
    names = ("observation.state", "observation.environment_state", "observation.gripper")
    return np.concatenate([episode[name].reshape(len(episode[name]), -1) for name in names], axis=1)


def compare(found, episodes):
    assert found.lengths.tolist() == [len(episode["next.reward"]) for episode in episodes]
    for index, (one, episode) in enumerate(zip(found, episodes, strict=True)):
        np.testing.assert_array_equal(one.observations, observation(episode))
        np.testing.assert_array_equal(one.rewards, episode["next.reward"].astype(float))
        np.testing.assert_array_equal(one.actions, episode["action"])
        assert (one.terminated, one.truncated) == (index != 2, index == 2)
        assert one.success == episode["next.success"].any()


# --- good folders --------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", ["fixed", "free"])
def test_what_is_written_is_read_in_both_layouts(version, lists, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), version, lists=lists)
    assert is_recording(folder)
    for found in (import_lerobot(folder), load_episodes(str(folder))):
        compare(found, frames())
        assert found.actions.dtype == np.float32
        assert found.subject["log"] == "robot"
        assert found.subject["recording"] == {
            "format": f"LeRobot {version}",
            "columns": {
                "obs": [
                    "observation.state",
                    "observation.environment_state",
                    "observation.gripper",
                ],
                "reward": "next.reward",
                "episode": "episode_index",
                "step": "frame_index",
                "done": "next.done",
                "success": "next.success",
                "action": ["action"],
            },
            "fps": 10,
        }


@pytest.mark.parametrize("packed", [1, 2, 3, 100])
def test_version_3_may_pack_any_number_of_episodes_in_a_file(packed, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), "v3.0", packed=packed, chunk=2)
    compare(load_episodes(folder), frames())


def test_more_episodes_than_a_chunk_holds_are_in_their_order(version, tmp_path):
    lengths = [1 + index % 3 for index in range(13)]
    folder = write_lerobot(tmp_path / "robot", frames(lengths), version, packed=1, chunk=5)
    assert len(list((folder / "data").iterdir())) == 3
    compare(load_episodes(folder), frames(lengths))


def test_a_single_file_of_the_folder_is_a_table_of_the_usual_names(version, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), version)
    first = min((folder / "data").rglob("*.parquet"))
    found = load_episodes(first)
    np.testing.assert_array_equal(found[0].observations, observation(frames()[0]))
    assert found.subject["recording"]["format"] == "parquet"


def test_an_episode_without_done_is_truncated_at_its_last_frame(version, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(drop=("next.done",)), version)
    found = load_episodes(folder)
    assert found.truncated.all()
    assert not found.terminated.any()


def test_done_and_truncated_together_tell_the_ends_apart(version, tmp_path):
    cut = {"next.truncated": lambda length: np.arange(length) == (length - 1) * (length > 2)}
    folder = write_lerobot(tmp_path / "robot", frames((3, 1, 5), **cut), version)
    found = load_episodes(folder)
    assert found.truncated.tolist() == [True, True, True]
    assert not found.terminated.any()


def test_columns_choose_features_and_the_meaning_of_done(version, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(drop=("next.success",)), version)
    found = load_episodes(
        folder,
        "obs=observation.gripper,observation.state,reward=timestamp,action=,truncated=next.done",
    )
    expected = frames()[2]
    state = np.concatenate(
        [expected["observation.gripper"][:, None], expected["observation.state"]], axis=1
    )
    np.testing.assert_array_equal(found[2].observations, state)
    np.testing.assert_array_equal(found[2].rewards, np.float32(np.arange(5) / 10))
    assert found.actions is None
    assert found.success is None
    assert found.truncated.tolist() == [True, True, False, True, True]


def test_a_reward_may_be_success(version, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(drop=("next.reward",)), version)
    with pytest.raises(InputError, match=r"column for the reward in the LeRobot .*next.success"):
        load_episodes(folder)
    found = load_episodes(folder, "reward=next.success")
    assert found[2].rewards.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["video", "image"])
def test_images_beside_numbers_are_left_out_with_a_warning_and_on_record(kind, version, tmp_path):
    camera = "observation.images.front"
    folder = write_lerobot(tmp_path / "robot", frames(), version, **{kind: camera})
    with pytest.warns(UserWarning, match=f"left the images {camera} out of the observation of rob"):
        found = load_episodes(folder)
    compare(found, frames())
    assert found.subject["recording"]["left_out"] == [camera]
    with pytest.raises(InputError, match=rf"found images \({camera}\)"):
        load_episodes(folder, f"obs={camera}")
    named = load_episodes(folder, "obs=observation.state")
    assert "left_out" not in named.subject["recording"]


@pytest.mark.parametrize("kind", ["video", "image"])
def test_images_alone_are_refused_with_what_to_do(kind, version, tmp_path):
    drop = ("observation.state", "observation.environment_state", "observation.gripper")
    given = {kind: "observation.image"}
    folder = write_lerobot(tmp_path / "robot", frames(drop=drop), version, **given)
    with pytest.raises(
        InputError, match=r"images \(observation.image\).*robot's state or features"
    ):
        load_episodes(folder)
    assert load_episodes(folder, "obs=timestamp").observations.shape == (sum(LENGTHS), 1)


def test_a_feature_with_three_dimensions_is_an_image_whatever_its_numbers(version, tmp_path):
    depth = {"observation.depth": lambda length: np.zeros((length, 2, 2, 1), np.float32)}
    folder = write_lerobot(tmp_path / "robot", frames(**depth), version)
    with pytest.warns(UserWarning, match="left the images observation.depth out"):
        compare(load_episodes(folder), frames())


def test_a_feature_with_two_dimensions_is_laid_side_by_side(version, tmp_path):
    points = {"observation.points": lambda length: np.arange(length * 6.0).reshape(length, 2, 3)}
    folder = write_lerobot(tmp_path / "robot", frames(**points), version)
    found = load_episodes(folder, "obs=observation.points")
    np.testing.assert_array_equal(found[2].observations, np.arange(30.0).reshape(5, 6))


def test_a_file_that_no_episode_names_is_read_as_well(tmp_path):
    """Early converters noted the first episode of a file under the file before it."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder = write_lerobot(tmp_path / "robot", frames(), "v3.0", packed=4)
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    table = parquet.read_table(path)
    place = table.schema.get_field_index("data/file_index")
    table = table.set_column(place, "data/file_index", pyarrow.array([0] * 5))
    parquet.write_table(table, path)
    compare(load_episodes(folder), frames())


# --- bad folders ---------------------------------------------------------------------------------


def info(folder, **changes):
    path = folder / "meta/info.json"
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def rewrite(path, change):
    """A .parquet file with a change of its table."""
    import pyarrow.parquet as parquet

    parquet.write_table(change(parquet.read_table(path)), path)


def last_data(folder):
    return max((folder / "data").rglob("*.parquet"))


BAD = {
    "no version": (lambda f: info(f, codebase_version=None), "expected codebase_version"),
    "no features": (lambda f: info(f, features=None), "expected features"),
    "features that are none": (lambda f: info(f, features={"a": 3}), "a record of each feature"),
    "no place of the data": (lambda f: info(f, data_path=None), "expected data_path"),
    "an old version": (lambda f: info(f, codebase_version="v1.6"), "v2.1 or v3.0, found 'v1.6'"),
    "a future version": (lambda f: info(f, codebase_version="v4.0"), "v3.0, found 'v4.0'"),
    "a version that is none": (lambda f: info(f, codebase_version="new"), "found 'new'"),
    "another storage": (lambda f: info(f, storage_format="lance"), "files, found 'lance'"),
    "a place outside": (lambda f: info(f, data_path="../{chunk_index}"), "such as data/chunk-"),
    "an absolute place": (lambda f: info(f, data_path="/etc/passwd"), "found '/etc/passwd'"),
    "a place of other numbers": (lambda f: info(f, data_path="{colour}"), "found '{colour}'"),
    "a place that is no place": (lambda f: info(f, data_path="{"), "expected a data_path"),
    "more episodes than are listed": (
        lambda f: info(f, total_episodes=9),
        "expected 9 episodes in .*, found 5 listed under meta: download",
    ),
    "no JSON": (lambda f: (f / "meta/info.json").write_text("{"), "info.json' is damaged"),
    "a list": (lambda f: (f / "meta/info.json").write_text("[]"), "a record, found list"),
    "a missing file": (lambda f: last_data(f).unlink(), "found no '.*parquet': download"),
    "no data": (lambda f: shutil.rmtree(f / "data"), "found no '.*parquet': download"),
    "a damaged file": (lambda f: last_data(f).write_bytes(b"PAR1"), "cannot read '.*parquet'"),
    "missing frames": (
        lambda f: rewrite(last_data(f), lambda table: table.slice(0, len(table) - 1)),
        "expected 4 frames of episode 4, as listed under meta, found 3",
    ),
    "frames twice": (
        lambda f: rewrite(
            last_data(f), lambda table: __import__("pyarrow").concat_tables([table, table])
        ),
        "expected 4 frames of episode 4, as listed under meta, found 8",
    ),
    "unordered frames": (
        lambda f: rewrite(last_data(f), lambda table: table.take(list(range(len(table)))[::-1])),
        "step 2 after 3 in episode 4 .*sort by step",
    ),
    "a column that only the features have": (
        lambda f: rewrite(last_data(f), lambda table: table.drop_columns(["next.reward"])),
        "expected a column next.reward, found none in",
    ),
    "done within an episode": (
        lambda f: rewrite(
            last_data(f),
            lambda table: table.set_column(
                table.schema.get_field_index("next.done"),
                "next.done",
                __import__("pyarrow").array([True] * len(table)),
            ),
        ),
        "done only in the last row of an episode, found it in row 11, within episode 4",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), BAD.values(), ids=BAD)
def test_a_bad_folder_is_one_line_that_says_what_is_wrong(spoil, words, version, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), version, packed=4)
    spoil(folder)
    with pytest.raises(InputError, match=words) as refusal:
        load_episodes(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "episodes.jsonl' is damaged"),
        ('{"episode_index": 0}\n', "a number for length, found None"),
        ('{"episode_index": -1, "length": 3}\n', "a number for episode_index, found -1"),
        ("", "expected 5 episodes in .*, found 0 listed"),
    ],
)
def test_a_bad_list_of_episodes_is_one_line(text, words, tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), "v2.1")
    (folder / "meta/episodes.jsonl").write_text(text)
    with pytest.raises(InputError, match=words):
        load_episodes(folder)
    (folder / "meta/episodes.jsonl").unlink()
    with pytest.raises(InputError, match=r"found no '.*episodes.jsonl': download"):
        load_episodes(folder)


def test_a_missing_list_of_episodes_is_one_line_in_version_3_as_well(tmp_path):
    folder = write_lerobot(tmp_path / "robot", frames(), "v3.0")
    shutil.rmtree(folder / "meta/episodes")
    with pytest.raises(InputError, match=r"expected meta/episodes/chunk-000/file-000.parquet"):
        load_episodes(folder)


def test_a_folder_of_another_kind_is_no_lerobot_dataset(tmp_path):
    with pytest.raises(InputError, match=r"found no meta/info\.json"):
        import_lerobot(tmp_path)
    with pytest.raises(InputError, match="a LeRobot or Minari dataset or a policy"):
        load_episodes(tmp_path)
