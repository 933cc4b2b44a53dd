"""Tables with one row per step as episodes, against writers that are not ours and a plain loop."""

import importlib.util
import math
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import recording
from tables import WRITERS, rows_of, write_csv, write_parquet

from tightrope.errors import InputError
from tightrope.rollouts import is_recording, load_episodes

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
COLUMNS = "obs=x*,reward=r,episode=run,step=t,terminated=fell,truncated=cut"


class Frame:
    """The part of a data frame that is needed, without a library."""

    def __init__(self, columns):
        self.content, self.columns = columns, tuple(columns)

    def __getitem__(self, name):
        return pandas.Series(self.content[name])

    def to_numpy(self):
        raise AssertionError("all columns in one array would make numbers objects")


FRAMES = {"dictionary": dict, "no library": Frame, "pandas": pandas.DataFrame}
if importlib.util.find_spec("polars"):
    FRAMES["polars"] = importlib.import_module("polars").DataFrame


@pytest.fixture
def sources(tmp_path):
    """A function that gives the same columns as each kind of file and each kind of frame."""

    def make(columns, kinds=(*WRITERS, *FRAMES)):
        for kind in kinds:
            if kind in FRAMES:
                yield kind, FRAMES[kind](columns)
            else:
                yield kind, WRITERS[kind](tmp_path / f"log.{kind}", columns)

    return make


def same(found, expected):
    for name in ("observations", "rewards", "offsets", "terminated", "truncated"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)


def log(**changes):
    """Episodes of 3, 1 and 4 steps; a change of None removes a column."""
    found = {
        "note": ["noon"] * 8,
        "episode": [7, 7, 7, 3, 9, 9, 9, 9],
        "obs_1": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],
        "reward": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "obs_0": list(range(10, 18)),
        "terminated": [False, False, True, False, False, False, False, True],
        "truncated": [False, False, False, True, False, False, False, False],
    }
    found.update(changes)
    return {name: values for name, values in found.items() if values is not None}


# --- good tables ---------------------------------------------------------------------------------


def test_episodes_are_read_back_from_every_kind_of_table(sources):
    expected = recording(5, steps=[3, 1, 4, 2, 6], features=3, seed=2)
    for _, source in sources(rows_of(list(expected))):
        assert is_recording(source)
        found = load_episodes(source, COLUMNS)
        same(found, expected)
        assert (found.seeds.tolist(), found.actions, found.success) == ([-1] * 5, None, None)


def test_a_table_goes_by_the_usual_names_and_says_which_they_were(sources):
    usual = {
        "obs": ["obs_1", "obs_0"],
        "reward": "reward",
        "episode": "episode",
        "terminated": "terminated",
        "truncated": "truncated",
    }
    for kind, source in sources(log()):
        found = load_episodes(source)
        np.testing.assert_array_equal(found.observations.T, [log()["obs_1"], log()["obs_0"]])
        assert found.lengths.tolist() == [3, 1, 4]
        assert found.terminated.tolist() == [True, False, True]
        assert found.truncated.tolist() == [False, True, False]
        framed = "dictionary" if kind == "dictionary" else "data frame"
        name, form = (f"the {framed}", framed) if kind in FRAMES else (f"log.{kind}", kind)
        assert found.subject["log"] == name
        assert found.subject["recording"] == {"format": form, "columns": usual}
        for columns in ("obs=obs_0,reward=obs_1", {"obs": ["obs_0"], "reward": "obs_1"}):
            other = load_episodes(source, columns)
            assert other.observations.tolist() == [[value] for value in log()["obs_0"]]
            assert other.rewards.tolist() == log()["obs_1"]


def test_a_dictionary_with_the_names_of_d4rl_is_one_of_arrays_unless_columns_are_named():
    arrays = {
        "observations": np.zeros((4, 2)),
        "rewards": np.arange(4.0),
        "terminals": [False, True, False, True],
        "timeouts": [False] * 4,
        "episode": [0, 0, 1, 1],
    }
    assert load_episodes(arrays).subject["recording"]["format"] == "arrays"
    found = load_episodes(arrays, "obs=observations,reward=rewards")
    assert found.subject["recording"]["format"] == "dictionary"
    assert found.lengths.tolist() == [2, 2]


def test_success_in_any_row_is_success_of_the_episode_and_actions_come_where_they_are_named(
    sources,
):
    won = [False, True, False, False, False, False, False, True]
    for _, source in sources(log(success=won, ok=won[::-1], push=[0.5] * 8, pull=list(range(8)))):
        assert load_episodes(source).success.tolist() == [True, False, True]
        assert load_episodes(source).actions is None
        assert load_episodes(source, "success=").success is None
        found = load_episodes(source, "success=ok,action=pu*")
        assert found.success.tolist() == [True, False, True]
        np.testing.assert_array_equal(found.actions, np.stack([[0.5] * 8, range(8)], axis=1))


ENDS = {
    "done=over": ([True, False, True], [False, True, False]),
    "done=over,truncated=cut": ([True, False, False], [False, True, True]),
    "done=all,terminated=over": ([True, False, True], [False, True, False]),
    "terminated=over": ([True, False, True], [False, True, False]),
    "truncated=cut": ([True, False, False], [False, True, True]),
    "done=": ([False] * 3, [True] * 3),
}


def test_how_an_episode_ends_is_read_from_what_there_is():
    rows = log(
        over=[0, 0, 1, 0, 0, 0, 0, 1], cut=[0, 0, 0, 1, 0, 0, 0, 1], all=[0, 0, 1, 1, 0, 0, 0, 1.0]
    )
    for columns, (terminated, truncated) in ENDS.items():
        found = load_episodes(rows, columns)
        assert found.terminated.tolist() == terminated, columns
        assert found.truncated.tolist() == truncated, columns


def test_a_last_episode_without_an_end_is_dropped_with_a_warning(sources):
    open_end = [*log()["terminated"][:-1], False]
    for _, source in sources(log(terminated=open_end, success=open_end)):
        with pytest.warns(UserWarning, match=r"dropped the last 4 steps of .*: they have no end"):
            found = load_episodes(source)
        assert found.lengths.tolist() == [3, 1]
        assert len(found.rewards) == len(found.observations) == 4
        assert found.success.tolist() == [True, False]


def test_steps_may_be_counted_in_each_episode_or_over_all(sources):
    for steps in ([0, 1, 2, 0, 0, 1, 2, 3], [1, 2, 3, 1, 1, 2, 3, 4], range(5, 13)):
        for _, source in sources(log(step=list(steps))):
            assert load_episodes(source).lengths.tolist() == [3, 1, 4]
    long = {
        "episode": [1] * 300,
        "step": np.arange(300) % 256,
        "obs": [0] * 300,
        "reward": [0] * 300,
    }
    with pytest.raises(InputError, match="found step 0 after 255"):  # as bytes they would follow
        load_episodes(long | {"step": long["step"].astype(np.uint8)}, "done=")


def test_columns_of_lists_are_several_features(sources):
    rng = np.random.default_rng(0)
    flat, square = rng.normal(size=(8, 3)), rng.integers(0, 9, size=(8, 2, 2))
    expected = np.concatenate([flat, square.reshape(8, 4)], axis=1).astype(np.float32)
    rows = log(obs_0=None, obs_1=flat, obs_2=square)
    for _, source in sources(rows, ("parquet", "dictionary")):
        np.testing.assert_array_equal(load_episodes(source).observations, expected)


def test_categories_decimals_and_what_pandas_lets_be_missing_are_numbers(tmp_path):
    kinds = {
        "reward": pyarrow.array([Decimal(n) / 4 for n in range(8)]),
        "episode": pyarrow.array(["b"] * 3 + ["a"] + ["c"] * 4).dictionary_encode(),
        "obs_0": pyarrow.array([3, 3, 4, 4, 5, 5, 6, 6]).dictionary_encode(),
        "obs_1": pyarrow.array(np.arange(8, dtype=np.uint8)),
    }
    found = load_episodes(write_parquet(tmp_path / "log.parquet", log(**kinds)))
    np.testing.assert_array_equal(found.rewards, np.arange(8) / 4)
    expected = np.stack([np.arange(8), [3, 3, 4, 4, 5, 5, 6, 6]], axis=1)
    np.testing.assert_array_equal(found.observations, expected)
    assert found.lengths.tolist() == [3, 1, 4]
    frame = pandas.DataFrame(log())
    for name, kind in {"reward": "Float64", "obs_0": object, "terminated": "boolean"}.items():
        frame[name] = frame[name].astype(kind)
    assert load_episodes(frame).rewards.tolist() == list(range(8))
    frame.loc[4, "reward"] = pandas.NA
    with pytest.raises(InputError, match="reward"):
        load_episodes(frame)


def test_many_batches_are_read_as_one(tmp_path):
    """More rows than one block of text (1 MB) and than one batch of a .parquet file hold."""
    count, length = 1500, 100
    rows = count * length
    columns = {
        "episode": np.repeat(np.arange(count) + 2**60, length).tolist(),  # no float holds these
        "step": np.tile(np.arange(length), count).tolist(),
        "obs_0": [0] * (rows // 2) + [0.5] * (rows // 2),  # whole only at first
        "reward": np.arange(rows).tolist(),
        "done": ([0] * (length - 1) + [1]) * count,
    }
    for suffix in ("csv", "parquet"):
        found = load_episodes(WRITERS[suffix](tmp_path / f"log.{suffix}", columns))
        assert found.lengths.tolist() == [length] * count, suffix
        np.testing.assert_array_equal(found.rewards, np.arange(rows))
        assert found.observations.sum() == rows // 4
        assert found.terminated.all()
    columns["obs_0"][-1] = "left"
    with pytest.raises(InputError, match=r"log\.csv': .* column obs_0, found 'left' in row 149999"):
        load_episodes(write_csv(tmp_path / "log.csv", columns))


def test_texts_and_dates_tell_episodes_apart(sources):
    for label in ("2024-05-01 10:00:{:02d}", "2024-05-{:02d}", "run {}", "0{}"):
        names = [label.format(number) for number in (7, 7, 7, 3, 9, 9, 9, 9)]
        for _, source in sources(log(episode=names)):
            assert load_episodes(source).lengths.tolist() == [3, 1, 4]
    zeros = ["7", "07", "7.0", "seven", "x", "x", "x", "x"]  # labels are only compared
    ends = {"terminated": [True] * 4 + [False] * 3 + [True], "truncated": [False] * 8}
    for _, source in sources(log(episode=zeros, **ends)):
        assert load_episodes(source).lengths.tolist() == [1, 1, 1, 1, 4]


def test_one_step_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path, sources):
    for _, source in sources({"episode": [1], "obs_0": [2.0], "reward": [3.0], "done": [True]}):
        found = load_episodes(source)
        assert (found.observations.tolist(), found.rewards.tolist()) == ([[2.0]], [3.0])
    text = write_csv(tmp_path / "log.csv", log()).read_bytes()
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\r\n", b"\n"))
    same(load_episodes(tmp_path / "marked.csv"), load_episodes(tmp_path / "log.csv"))


def test_only_needed_columns_are_read(tmp_path):
    """Whatever is in the others: here lists that would be refused."""
    path = write_parquet(tmp_path / "log.parquet", log(telemetry=[[1.0] * n for n in range(8)]))
    assert len(load_episodes(path)) == 3


# --- random orders of steps ----------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    labels=st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_random_orders_of_steps_are_accepted_exactly_if_every_step_follows(steps, labels):
    """The oracle walks the rows and keeps lists."""
    labels = labels[: len(steps)]
    runs = []  # (label, steps)
    for label, step in zip(labels, steps, strict=True):
        if not runs or runs[-1][0] != label:
            runs.append((label, []))
        runs[-1][1].append(step)
    whole = len({label for label, _ in runs}) == len(runs)
    rising = all(b == a + 1 for _, run in runs for a, b in pairwise(run))
    alike = len({run[0] for _, run in runs}) == 1
    on = all(b[1][0] == a[1][-1] + 1 for a, b in pairwise(runs))
    rows = {"episode": labels, "step": steps, "obs": steps, "reward": steps}
    try:
        found = load_episodes(rows, "done=")
    except InputError:
        assert not (whole and rising and (alike or on))
    else:
        assert whole
        assert rising
        assert alike or on
        assert found.lengths.tolist() == [len(run) for _, run in runs]


# --- bad tables ----------------------------------------------------------------------------------

BAD = [
    ({"obs_0": ["left"] * 8}, "numbers in the column obs_0, found 'left' in row 0"),
    ({"terminated": list(range(8))}, "true and false in the column terminated"),
    ({"success": [0.5] * 8}, "true and false in the column success"),
    ({"obs_1": [1.0] * 5 + [math.nan] * 3}, "finite numbers in.* obs_1, found NaN in row 5"),
    ({"reward": [1.0] * 6 + [math.inf] * 2}, "column reward, found inf in row 6"),
    ({"reward": [1.0] * 7 + [None]}, "numbers in the column reward, found .* in row 7"),
    ({"episode": [1] * 7 + [None]}, "a number or text in every row of episode"),
    ({"truncated": [None] + [False] * 7}, "numbers in the column truncated, found 'None' in row 0"),
    ({"episode": [7, 7, 7, 3, 7, 7, 7, 7]}, "found episode 7 in 2 places.*sort by episode and"),
    ({"truncated": [False, True, False, True] + [False] * 4}, "row 1, within episode 7"),
    ({"episode": [7] * 4 + [9] * 4}, "within episode 7"),  # two episodes under one label
    ({"episode": [7, 7, 7, 3, 8, 8, 9, 9]}, "found episode 8 with neither"),
    (
        {"episode": [1] * 8, "terminated": [False] * 8, "truncated": [False] * 8},
        "at least one episode with an end",
    ),
    ({"step": [0, 1, 2, 0, 0, 1, 3, 4]}, "step 3 after 1 in episode 9.*`columns` step= skips"),
    ({"step": [2, 1, 0, 0, 0, 1, 2, 3]}, "step 1 after 2.*sort by step"),
    ({"step": [0, 1, 2, 0, 1, 2, 3, 4]}, "start at step 0, found step 1 in episode 9"),
    ({"step": [n / 2 for n in range(8)]}, "step 0.5 after 0"),
    ({"reward": None}, r"one column for reward.*found note,.*reward=NAME"),
    (
        {"episode": None},
        r"one column for episode.*found note,.*episode=NAME|found no observations",
    ),
    ({"obs_0": None, "obs_1": None}, r"columns for obs.*found note.*obs=NAME"),
    ({"terminated": None}, "end of an episode.*truncated: name them"),
    ({"truncated": None}, "end of an episode.*terminated: name them"),
    ({"terminated": None, "truncated": None}, "with done= each episode is truncated after its"),
]


def test_a_bad_table_is_one_line_that_says_what_is_wrong(sources):
    for changes, words in BAD:
        for _, source in sources(log(**changes)):
            with pytest.raises(InputError, match=words) as refusal:
                load_episodes(source)
            assert "\n" not in str(refusal.value)
            assert len(str(refusal.value)) < 500
    for _, source in sources({name: [] for name in log()}, WRITERS):
        with pytest.raises(
            InputError, match=r"log\..*': expected at least one step, found an empty log"
        ):
            load_episodes(source)
    many = {f"sensor_{index}": [0.0] for index in range(500)}
    for _, source in sources(many, ("csv", "pandas")):  # not listed whole
        with pytest.raises(InputError, match=r"sensor_19, \.\.\.: name it"):
            load_episodes(source)


def test_a_short_row_and_a_name_twice_are_one_line(tmp_path):
    path = write_csv(tmp_path / "log.csv", log())
    text = path.read_text()
    path.write_text(text + "1,2\n")
    with pytest.raises(InputError, match=r"cannot read '.*log.csv': .*Expected 7 columns, got 2"):
        load_episodes(path)
    path.write_text(text.replace("obs_0", "obs_1"))
    frame = pandas.DataFrame(log()).rename(columns={"obs_0": "obs_1"})
    for source in (path, frame):
        with pytest.raises(InputError, match="one column of each name, found obs_1 twice"):
            load_episodes(source)


def test_lists_of_different_lengths_are_one_line(sources):
    empty = pyarrow.array([[]] * 8, pyarrow.list_(pyarrow.float64()))
    for rows, words in {
        (*[(1.0, 2.0)] * 7, (1.0,)): "numbers in the column obs_1, as many in each row",
        (*[(1.0, 2.0)] * 3, *[(1.0, None)] * 5): "(finite )?numbers in the column obs_1, found",
        (*[()] * 8,): "numbers in each row of the column obs_1, found shape",
    }.items():
        values = [list(row) for row in rows]
        for kind, source in sources(
            log(obs_1=values if values[0] else empty), ("parquet", "dictionary")
        ):
            if kind != "dictionary" or values[0]:
                with pytest.raises(InputError, match=words):
                    load_episodes(source)
    with pytest.raises(InputError, match="the dict: expected 8 rows of obs_1, found 7"):
        load_episodes(log(obs_1=[1.0] * 7))


def test_what_has_no_columns_takes_no_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for source in ("log.npz", "walks/mine-v0", "log.safetensors", "folder"):
        with pytest.raises(InputError, match=f"no `columns` but for a table.*'{source}'"):
            load_episodes(source, "obs=x")
    for source in (recording(2), list(recording(2))):
        with pytest.raises(InputError, match=f"no `columns` but.*{type(source).__name__}"):
            load_episodes(source, "obs=x")


def test_without_pyarrow_the_extra_is_named_where_it_is_needed(tmp_path):
    (tmp_path / "log.csv").write_text("a\n1\n")
    (tmp_path / "robot" / "meta").mkdir(parents=True)
    (tmp_path / "robot" / "meta" / "info.json").write_text("{}")
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "from tightrope.errors import InputError\n"
        "from tightrope.rollouts import Episode, load_episodes\n"
        "import numpy as np\n"
        "for name in ('log.csv', 'robot'):\n"
        "    try: load_episodes(name)\n"
        "    except InputError as error: print(error)\n"
        "episode = Episode(np.zeros((2, 1), np.float32), np.zeros(2), True, False)\n"
        "assert len(load_episodes([episode])) == 1\n"
        "rows = {'episode': [1, 1], 'obs': [1, 2], 'reward': [0, 1], 'done': [0, 1]}\n"
        "assert len(load_episodes(rows)) == 1\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == [
        "'log.csv': a .csv table needs the extra 'tables': pip install \"tightrope[tables]\"",
        "'robot': a LeRobot dataset needs the extra 'tables': pip install \"tightrope[tables]\"",
    ]
