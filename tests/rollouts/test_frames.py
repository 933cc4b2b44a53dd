"""Data frames as episodes: one row per step, known by what they can do and not by their library."""

import subprocess
import sys

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.rollouts import is_recording, load_episodes


class Column:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return np.asarray(self.values)


class Frame:
    """The part of a data frame that is needed, without a library."""

    def __init__(self, columns):
        self.content, self.columns = columns, tuple(columns)

    def __getitem__(self, name):
        return Column(self.content[name])

    def to_numpy(self):
        raise AssertionError("all columns in one array would make numbers objects")


def by_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def by_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


LIBRARIES = {"no library": Frame, "pandas": by_pandas, "polars": by_polars}


def columns(**changes):
    """Episodes of 3, 1 and 4 steps; a change of None removes a column."""
    found = {
        "when": ["noon"] * 8,
        "episode": [7, 7, 7, 3, 9, 9, 9, 9],
        "observation.y": np.arange(8, dtype=np.float32),
        "reward": np.arange(8.0),
        "obs_0": np.arange(10, 18),
        "terminated": [False, False, True, False, False, False, False, True],
        "truncated": [False, False, False, True, False, False, False, False],
    }
    found.update(changes)
    return {name: value for name, value in found.items() if value is not None}


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES)
def library(request):
    return request.param


def test_a_frame_is_read_as_the_arrays_that_it_holds(library):
    frame = library(columns())
    assert is_recording(frame)
    for found in (load_episodes(frame), load_episodes(frame)):
        expected = load_episodes(
            {
                "observations": np.stack([np.arange(8), np.arange(10, 18)], axis=1),
                "rewards": np.arange(8),
                "terminals": columns()["terminated"],
                "timeouts": columns()["truncated"],
            }
        )
        for name in ("observations", "rewards", "offsets", "terminated", "truncated", "seeds"):
            one, other = getattr(found, name), getattr(expected, name)
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=name)
        assert found.subject["log"] == "the data frame"


def test_flags_may_have_the_names_of_d4rl_and_be_numbers(library):
    ends = {"terminated": None, "truncated": None}
    ends |= {"terminals": [0, 0, 1, 0, 0, 0, 0, 1], "timeouts": [0.0] * 3 + [1.0] + [0.0] * 4}
    found = load_episodes(library(columns(**ends)))
    assert found.lengths.tolist() == [3, 1, 4]
    assert found.terminated.tolist() == [True, False, True]
    assert found.truncated.tolist() == [False, True, False]


def test_episodes_may_be_named_by_texts(library):
    names = ["b", "b", "b", "a", "c", "c", "c", "c"]
    assert load_episodes(library(columns(episode=names))).lengths.tolist() == [3, 1, 4]


def test_a_last_episode_without_an_end_is_dropped_with_a_warning(library):
    ends = [*columns()["terminated"][:-1], False]
    with pytest.warns(UserWarning, match="dropped the last 4 steps of the data frame"):
        assert len(load_episodes(library(columns(terminated=ends)))) == 2


def test_numbers_that_pandas_allows_to_be_missing_are_numbers():
    pandas = pytest.importorskip("pandas")
    rows = columns()
    frame = pandas.DataFrame(rows)
    frame["reward"] = frame["reward"].astype("Float64")
    frame["obs_0"] = frame["obs_0"].astype(object)
    frame["terminated"] = frame["terminated"].astype("boolean")
    assert load_episodes(frame).rewards.tolist() == list(range(8))
    frame.loc[4, "reward"] = pandas.NA
    with pytest.raises(InputError, match="reward"):
        load_episodes(frame)


BAD = {
    "no episode": (
        {"episode": None},
        "column for the episode.*found when, .*`columns` episode=NAME",
    ),
    "no reward": ({"reward": None}, "column for the reward.*found when, .*`columns` reward=NAME"),
    "no terminated": ({"terminated": None}, "end of an episode.*found when.*truncated: name them"),
    "no truncated": ({"truncated": None}, "end of an episode.*found when.*terminated: name them"),
    "no end at all": (
        {"truncated": None, "terminated": None},
        "end of an episode.*with done= each episode is truncated after its last row",
    ),
    "no observations": (
        {"obs_0": None, "observation.y": None, "position": [1.0] * 8},
        r"such as obs_0\), found when, episode, reward, .*position: .*obs=NAME",
    ),
    "words for observations": ({"obs_0": ["left"] * 8}, "numbers in the column obs_0"),
    "digits as words": ({"obs_0": ["1"] * 8}, "numbers in the column obs_0"),
    "words for rewards": ({"reward": ["good"] * 8}, "numbers in the column reward"),
    "flags that are no flags": ({"terminated": list(range(8))}, "true and false in terminated"),
    "a NaN observation": (
        {"observation.y": [1.0] * 4 + [np.nan] * 4},
        "finite.*observation.y, found nan in row 4",
    ),
    "a missing episode": ({"episode": [7.0] * 7 + [np.nan]}, "every row of episode"),
    "an episode in two places": (
        {"episode": [7, 7, 7, 3, 7, 7, 7, 7]},
        "found episode 7 in 2 places .*sort by episode and step",
    ),
    "an end within an episode": (
        {"truncated": [False, True, False, True] + [False] * 4},
        "within episode 7",
    ),
    "two episodes under one label": ({"episode": [7] * 4 + [9] * 4}, "within episode 7"),
    "one episode under two labels": (
        {"episode": [7, 7, 7, 3, 8, 8, 9, 9]},
        "episode 8 with neither",
    ),
    "no rows": ({name: [] for name in columns()}, "at least one step|numbers"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_bad_frame_is_one_line_that_says_what_is_wrong(changes, words, library):
    with pytest.raises(InputError, match=words) as refusal:
        load_episodes(library(columns(**changes)))
    assert "\n" not in str(refusal.value)


def test_a_frame_with_many_columns_is_not_listed_whole(library):
    many = {f"sensor_{index}": [0.0] for index in range(500)}
    with pytest.raises(InputError, match=r"sensor_19, \.\.\.: name it"):
        load_episodes(library(many))


def test_two_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns()).rename(columns={"observation.y": "obs_0"})
    with pytest.raises(InputError, match="one column of each name"):
        load_episodes(frame)


def test_reading_needs_no_data_frame_library():
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "from tightrope.rollouts import Episode, load_episodes\n"
        "import numpy as np\n"
        "episode = Episode(np.zeros((2, 1), np.float32), np.zeros(2), True, False)\n"
        "assert len(load_episodes([episode])) == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
