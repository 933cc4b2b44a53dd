"""LeRobot folders as episodes, against a writer of both layouts that is not ours."""

import json
import shutil

import numpy as np
import pytest
from tables import write_lerobot

from tightrope.errors import InputError
from tightrope.rollouts import is_recording, load_episodes

pyarrow = pytest.importorskip("pyarrow")
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
    for found in (load_episodes(folder), load_episodes(str(folder))):
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
        }


def test_any_number_of_episodes_may_be_packed_in_a_file_and_of_files_in_a_chunk(tmp_path):
    for number, (version, packed, lengths) in enumerate(
        [
            ("v2.0", 1, LENGTHS),
            *(("v3.0", packed, LENGTHS) for packed in (1, 3, 100)),
            *((version, 1, [1 + index % 3 for index in range(13)]) for version in VERSIONS),
        ]
    ):
        folder = tmp_path / f"robot{number}"
        write_lerobot(folder, frames(lengths), version, packed=packed, chunk=5)
        compare(load_episodes(folder), frames(lengths))


def test_an_episode_is_truncated_where_no_feature_says_that_it_is_done(version, tmp_path):
    open_end = write_lerobot(tmp_path / "a", frames(drop=("next.done",)), version)
    cut = {"next.truncated": lambda length: np.arange(length) == (length - 1) * (length > 2)}
    for folder in (open_end, write_lerobot(tmp_path / "b", frames((3, 1, 5), **cut), version)):
        found = load_episodes(folder)
        assert found.truncated.all()
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
    with pytest.raises(InputError, match=r"robot': expected one column for reward .*next.success"):
        load_episodes(folder)
    found = load_episodes(folder, "reward=next.success")
    assert found[2].rewards.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_images_are_left_out_with_a_warning_and_on_record_or_refused(version, tmp_path):
    """Also numbers in three dimensions; numbers in two are laid side by side."""
    camera = "observation.camera"
    depth = {camera: lambda length: np.zeros((length, 2, 2, 1), np.float32)}
    points = {"observation.points": lambda length: np.arange(length * 6.0).reshape(length, 2, 3)}
    drop = ("observation.state", "observation.environment_state", "observation.gripper")
    for kind, more, image in (
        ("video", {}, {"video": camera}),
        ("image", {}, {"image": camera}),
        ("depth", depth, {}),
    ):
        folder = write_lerobot(tmp_path / kind, frames(**more), version, **image)
        with pytest.warns(UserWarning, match=f"left the images {camera} out of the observation of"):
            found = load_episodes(folder)
        compare(found, frames())
        assert found.subject["recording"]["left_out"] == [camera]
        assert "left_out" not in load_episodes(folder, "obs=*state").subject["recording"]
        alone = write_lerobot(tmp_path / f"{kind}s", frames(drop=drop, **more), version, **image)
        for columns, source in ((f"obs={camera}", folder), (None, alone)):
            with pytest.raises(
                InputError, match=rf"images \({camera}\).*robot's state or features"
            ):
                load_episodes(source, columns)
    folder = write_lerobot(tmp_path / "robot", frames(**points), version)
    found = load_episodes(folder, "obs=observation.points")
    np.testing.assert_array_equal(found[2].observations, np.arange(30.0).reshape(5, 6))


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


def done_in_all(table):
    index = table.schema.get_field_index("next.done")
    return table.set_column(index, "next.done", pyarrow.array([True] * len(table)))


def text(folder, content):
    (folder / "meta/info.json").write_text(content)


def data(change):
    """What rewrites the last file of a folder."""
    return lambda folder: rewrite(last_data(folder), change)


BAD = [
    (lambda f: info(f, codebase_version=None), "expected `codebase_version`, found none"),
    (lambda f: info(f, features=None), "expected `features`, found none"),
    (lambda f: info(f, codebase_version="v1.6"), "v3.0, found.* 'v1.6'"),
    (lambda f: info(f, codebase_version="new"), "version 'new'"),
    (lambda f: info(f, storage_format="lance"), "files.*, found 'lance'"),
    (lambda f: info(f, total_frames="x"), "`total_frames` must be a whole number, found 'x'"),
    (lambda f: info(f, total_episodes=9), "9 episodes with 15 frames,.* found 5 with 15.*: down"),
    (lambda f: text(f, "{"), "info.json is damaged"),
    (lambda f: text(f, "[]"), "must be an object, found"),
    (lambda f: last_data(f).unlink(), "found . with.* download"),
    (lambda f: shutil.rmtree(f / "data"), "parquet, found none.*: download"),
    (lambda f: last_data(f).write_bytes(b"PAR1"), "cannot read data/.*parquet: "),
    (data(lambda table: table.slice(0, len(table) - 1)), "15 frames,.*, found 5 with 14"),
    (data(lambda table: pyarrow.concat_tables([table] * 2)), "15 frames,.*, found 5 with 19"),
    (data(lambda table: table.take(list(range(len(table)))[::-1])), "step 2 after 3 in episode 4"),
    (data(lambda table: table.drop_columns(["next.reward"])), "column next.reward, found none"),
    (data(done_in_all), "found it in row 11, within episode 4"),
]


def test_a_bad_folder_is_one_line_that_says_what_is_wrong(version, tmp_path):
    for number, (spoil, words) in enumerate(BAD):
        folder = write_lerobot(tmp_path / str(number), frames(), version, packed=4)
        spoil(folder)
        with pytest.raises(InputError, match=words) as refusal:
            load_episodes(folder)
        assert "\n" not in str(refusal.value)


def test_a_folder_with_links_is_refused(version, tmp_path):
    """They may lead to files that the sender of the folder cannot read, and the reader can."""
    for name in ("data", "meta", "file"):
        folder = write_lerobot(tmp_path / name, frames(), version)
        linked = last_data(folder) if name == "file" else folder / name
        linked.rename(tmp_path / f"{name} elsewhere")
        linked.symlink_to(tmp_path / f"{name} elsewhere")
        with pytest.raises(InputError, match=r"no links in .*found"):
            load_episodes(folder)
