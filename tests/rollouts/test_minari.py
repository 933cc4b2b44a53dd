"""Real Minari datasets as episodes, good and bad."""

import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.rollouts import load_episodes


@pytest.fixture
def database(tmp_path, monkeypatch):
    """An empty Minari database of our own."""
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari").mkdir()
    return tmp_path / "minari"


def pendulum(count=3, steps=5):
    """Episodes recorded by a plain loop."""
    env = gym.make("Pendulum-v1", max_episode_steps=steps)
    recorded = []
    for seed in range(count):
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        observations, actions, rewards = [observation], [], []
        for _ in range(steps):
            actions.append(env.action_space.sample())
            observation, reward, *_ = env.step(actions[-1])
            observations.append(observation)
            rewards.append(reward)
        recorded.append((np.stack(observations), np.stack(actions), np.array(rewards)))
    return recorded


def create(name, recorded, *, terminations=None, truncations=None, **spaces):
    """A dataset made by Minari itself."""
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = []
    for index, (observations, actions, rewards) in enumerate(recorded):
        last = np.arange(len(rewards)) == len(rewards) - 1
        buffers.append(
            EpisodeBuffer(
                id=index,
                seed=50 + index,
                observations=observations,
                actions=actions,
                rewards=rewards,
                terminations=(terminations or {}).get(index, np.zeros_like(last)),
                truncations=(truncations or {}).get(index, last),
            )
        )
    spaces = spaces or {"env": gym.make("Pendulum-v1", max_episode_steps=5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of optional fields left out
        minari.create_dataset_from_buffers(name, buffers, **spaces)


@pytest.mark.parametrize("by", ["id", "folder", "data folder"])
def test_a_minari_dataset_is_read_by_its_id_and_by_its_folder(by, database, monkeypatch):
    """With the seeds that it states."""
    recorded = pendulum(12)  # two digits: "10" sorts before "2" as a word
    create("walks/pendulum-v0", recorded)
    folder = database / "walks" / "pendulum-v0"
    source = {"id": "walks/pendulum-v0", "folder": folder, "data folder": folder / "data"}[by]
    if by != "id":
        monkeypatch.delenv("MINARI_DATASETS_PATH")
    found = load_episodes(source)
    assert len(found) == 12
    for episode, (observations, actions, rewards) in zip(found, recorded, strict=True):
        np.testing.assert_array_equal(episode.observations, observations[:-1])
        np.testing.assert_array_equal(episode.final_observation, observations[-1])
        np.testing.assert_array_equal(episode.actions, actions)
        np.testing.assert_array_equal(episode.rewards, rewards)
        assert episode.truncated
        assert not episode.terminated
    assert found.seeds.tolist() == list(range(50, 62))
    assert found.subject["log"] == "walks/pendulum-v0"
    assert found.subject["environment"] == {"id": "Pendulum-v1"}


def test_dictionaries_of_a_minari_dataset_are_flattened_as_the_environment_flattens_them(database):
    space = gym.spaces.Dict(
        {
            "velocity": gym.spaces.Box(-1, 1, (2, 2), np.float64),
            "angle": gym.spaces.Box(-1, 1, (1,), np.float32),
        }
    )
    space.seed(0)
    samples = [space.sample() for _ in range(4)]
    batch = {key: np.stack([sample[key] for sample in samples]) for key in space}
    recorded = [(batch, np.zeros((3, 1), np.float32), np.zeros(3))]
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    create("dict-v0", recorded, observation_space=space, action_space=action_space)
    found = load_episodes("dict-v0")
    expected = np.stack([gym.spaces.flatten(space, sample) for sample in samples])
    np.testing.assert_array_equal(found.observations, expected[:3].astype(np.float32))
    np.testing.assert_array_equal(found.final_observations[0], expected[3].astype(np.float32))


def test_episodes_of_minari_without_an_end_or_with_a_nan_are_dropped_or_refused(database):
    none, recorded = np.zeros(5, np.bool_), pendulum()
    create("walks/last-v0", recorded, truncations={2: none})
    with pytest.warns(UserWarning, match="dropped the last episode"):
        assert len(load_episodes("walks/last-v0")) == 2
    create("walks/cut-v0", recorded, truncations={1: none})
    with pytest.raises(InputError, match="episode 1"):
        load_episodes("walks/cut-v0")
    create("walks/none-v0", recorded[:1], truncations={0: none})
    with pytest.warns(UserWarning), pytest.raises(InputError, match="at least one episode"):  # noqa: PT030
        load_episodes("walks/none-v0")
    recorded[1][2][3] = np.nan
    create("walks/nan-v0", recorded)
    with pytest.raises(InputError, match=r"finite rewards.*episode 1"):
        load_episodes("walks/nan-v0")


def tamper(database, name, change):
    import h5py

    with h5py.File(database / "walks" / "pendulum-v0" / "data" / "main_data.hdf5", "a") as archive:
        group = archive["episode_1"]
        value = change(group[name][()])
        del group[name]
        group[name] = value


DISAGREEING = {
    "too few observations": ("observations", lambda array: array[:-2]),
    "narrower observations": ("observations", lambda array: array[:, :2]),
    "too few rewards": ("rewards", lambda array: array[:-1]),
    "too few actions": ("actions", lambda array: array[:-1]),
    "too few truncations": ("truncations", lambda array: array[-2:]),
    "truncated all the time": ("truncations", lambda array: np.ones(5, np.bool_)),
    "terminated in the middle": ("terminations", lambda array: np.arange(5) == 2),
}


def test_lengths_that_disagree_in_minari_are_an_input_error(database):
    """Also a flag in the middle: an episode does not go on after its end."""
    create("walks/pendulum-v0", pendulum())
    stored = database / "walks" / "pendulum-v0" / "data" / "main_data.hdf5"
    whole = stored.read_bytes()
    for case, (name, change) in DISAGREEING.items():
        stored.write_bytes(whole)
        tamper(database, name, change)
        with pytest.raises(InputError):
            pytest.fail(f"{case}: {load_episodes('walks/pendulum-v0')}")


def test_a_minari_dataset_with_links_is_refused(database):
    """They may lead to files that the sender of the dataset cannot read, and the reader can."""
    create("walks/pendulum-v0", pendulum())
    stored = database / "walks" / "pendulum-v0" / "data" / "main_data.hdf5"
    stored.rename(database / "elsewhere.hdf5")
    stored.symlink_to(database / "elsewhere.hdf5")
    with pytest.raises(InputError, match=r"no links in .*found .*main_data.hdf5"):
        load_episodes("walks/pendulum-v0")


def test_what_is_no_dataset_is_an_input_error_that_says_where_it_was_looked_for(database, tmp_path):
    create("walks/pendulum-v0", pendulum())
    for source in ("walks/nothing-v0", "nothing-v9"):
        with pytest.raises(
            InputError, match=f"'{source}': expected a Minari dataset in the local database"
        ) as error:
            load_episodes(source)
        assert str(database) in str(error.value)
        assert f"minari download {source}" in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a LeRobot or Minari dataset .* none of them"):
        load_episodes(tmp_path / "empty")


def test_a_missing_minari_is_answered_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(InputError, match=r'pip install "tightrope\[minari\]"'):
        load_episodes("walks/pendulum-v0")


def test_reading_a_log_needs_no_environment(database):
    """MuJoCo, DM-Control and Meta-World cannot be imported; the dataset names an unknown id."""
    create("walks/pendulum-v0", pendulum())
    metadata = database / "walks" / "pendulum-v0" / "data" / "metadata.json"
    metadata.write_text(metadata.read_text().replace("Pendulum-v1", "Robot-v7"))
    code = (
        "import sys\n"
        "for name in ('mujoco', 'dm_control', 'shimmy', 'metaworld'): sys.modules[name] = None\n"
        "from tightrope.rollouts import load_episodes\n"
        "assert len(load_episodes('walks/pendulum-v0')) == 3\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
