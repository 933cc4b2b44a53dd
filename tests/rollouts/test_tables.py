"""Tables in files as episodes, against writers that are not ours and a plain loop."""

import math
import subprocess
import sys
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
COLUMNS = "obs=x*,reward=r,episode=run,step=t,terminated=fell,truncated=cut"
SAME = ("observations", "rewards", "offsets", "terminated", "truncated")


def same(found, expected, names=SAME):
    for name in names:
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


@pytest.fixture(params=WRITERS)
def write(request, tmp_path):
    """A function that writes columns to a file of each kind and returns its name."""
    return lambda columns: WRITERS[request.param](tmp_path / f"log.{request.param}", columns)


# --- good tables ---------------------------------------------------------------------------------


def test_episodes_are_read_back_from_every_kind_of_table(write):
    expected = recording(5, steps=[3, 1, 4, 2, 6], features=3, seed=2)
    path = write(rows_of(list(expected)))
    assert is_recording(path)
    for found in (load_episodes(path, COLUMNS), load_episodes(str(path), COLUMNS)):
        same(found, expected)
        assert found.seeds.tolist() == [-1] * 5
        assert found.actions is None
        assert found.success is None


def test_a_table_goes_by_the_usual_names_and_says_which_they_were(write):
    found = load_episodes(write(log()))
    np.testing.assert_array_equal(found.observations[:, 1], np.arange(10, 18))
    np.testing.assert_array_equal(found.observations[:, 0], log()["obs_1"])
    assert found.lengths.tolist() == [3, 1, 4]
    assert found.terminated.tolist() == [True, False, True]
    assert found.truncated.tolist() == [False, True, False]
    assert found.subject["log"].startswith("log.")
    record = found.subject["recording"]
    assert record["format"] == found.subject["log"].removeprefix("log.")
    assert record["columns"] == {
        "obs": ["obs_1", "obs_0"],
        "reward": "reward",
        "episode": "episode",
        "terminated": "terminated",
        "truncated": "truncated",
    }


def test_a_frame_a_dictionary_and_a_file_are_read_alike(write):
    from_file = load_episodes(write(log()))
    same(from_file, load_episodes(log()), SAME)
    same(from_file, load_episodes({name: np.array(rows) for name, rows in log().items()}), SAME)
    pandas = pytest.importorskip("pandas")
    same(from_file, load_episodes(pandas.DataFrame(log())), SAME)
    given = "obs=obs_0,reward=obs_1"
    expected = load_episodes(write(log()), given)
    assert expected.observations.shape == (8, 1)
    for source in (log(), pandas.DataFrame(log())):
        same(load_episodes(source, given), expected)
        same(load_episodes(source, columns={"obs": ["obs_0"], "reward": "obs_1"}), expected)


def test_dictionaries_with_the_names_of_d4rl_are_arrays_as_before():
    arrays = {
        "observations": np.zeros((4, 2)),
        "rewards": np.arange(4.0),
        "terminals": [False, True, False, True],
        "timeouts": [False] * 4,
        "episode": [0, 0, 1, 1],
    }
    found = load_episodes(arrays)
    assert "recording" not in found.subject
    found = load_episodes(arrays, "obs=observations,reward=rewards")
    assert found.subject["recording"]["format"] == "dictionary"
    assert found.lengths.tolist() == [2, 2]


def test_success_in_any_row_is_success_of_the_episode(write):
    won = [False, True, False, False, False, False, False, True]
    assert load_episodes(write(log(success=won))).success.tolist() == [True, False, True]
    assert load_episodes(write(log(success=won)), "success=").success is None
    assert load_episodes(write(log(ok=won)), "success=ok").success.tolist() == [True, False, True]


def test_actions_are_taken_along_where_they_are_named(write):
    pushed = log(push=[0.5] * 8, pull=list(range(8)))
    assert load_episodes(write(pushed)).actions is None
    found = load_episodes(write(pushed), "action=pu*")
    np.testing.assert_array_equal(found.actions, np.stack([[0.5] * 8, range(8)], axis=1))


ENDS = {
    "done, and otherwise truncated": ({"done": "over"}, [True, False, True], [False, True, False]),
    "done, truncated is no termination": (
        {"done": "over", "truncated": "cut"},
        [True, False, False],
        [False, True, True],
    ),
    "done, and terminated where it says so": (
        {"done": "all", "terminated": "over"},
        [True, False, True],
        [False, True, False],
    ),
    "terminated alone": ({"terminated": "over"}, [True, False, True], [False, True, False]),
    "truncated alone": ({"truncated": "cut"}, [True, False, False], [False, True, True]),
    "nothing": ({"done": None}, [False] * 3, [True] * 3),
}


@pytest.mark.parametrize(("columns", "terminated", "truncated"), ENDS.values(), ids=ENDS)
def test_how_an_episode_ends_is_read_from_what_there_is(columns, terminated, truncated, tmp_path):
    rows = log(
        over=[False, False, True, False, False, False, False, True],
        cut=[False, False, False, True, False, False, False, True],
        all=[False, False, True, True, False, False, False, True],
    )
    found = load_episodes(write_parquet(tmp_path / "log.parquet", rows), columns)
    assert found.terminated.tolist() == terminated
    assert found.truncated.tolist() == truncated


def test_a_last_episode_without_an_end_is_dropped_with_a_warning(write):
    open_end = [*log()["terminated"][:-1], False]
    with pytest.warns(UserWarning, match=r"dropped the last 4 steps of log\.\w+: they have no end"):
        found = load_episodes(write(log(terminated=open_end, success=open_end)))
    assert found.lengths.tolist() == [3, 1]
    assert len(found.rewards) == len(found.observations) == 4
    assert found.success.tolist() == [True, False]


STEPS = {
    "from 0": [0, 1, 2, 0, 0, 1, 2, 3],
    "from 1": [1, 2, 3, 1, 1, 2, 3, 4],
    "on from the episode before": [5, 6, 7, 8, 9, 10, 11, 12],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_steps_are_counted_in_each_episode_or_over_all(steps, write):
    assert load_episodes(write(log(step=steps))).lengths.tolist() == [3, 1, 4]


def test_columns_of_lists_are_several_features(tmp_path):
    rng = np.random.default_rng(0)
    flat, square = rng.normal(size=(8, 3)), rng.integers(0, 9, size=(8, 2, 2))
    rows = log(obs_0=None, obs_1=flat, obs_2=square)
    for suffix in ("parquet", "feather"):
        path = WRITERS[suffix](tmp_path / f"log.{suffix}", rows)
        expected = np.concatenate([flat, square.reshape(8, 4)], axis=1).astype(np.float32)
        np.testing.assert_array_equal(load_episodes(path).observations, expected)
    np.testing.assert_array_equal(load_episodes(rows).observations, expected)


def test_categories_decimals_and_whole_numbers_are_numbers(tmp_path):
    from decimal import Decimal

    import pyarrow.parquet

    table = pyarrow.table(
        {
            **{name: pyarrow.array(values) for name, values in log().items()},
            "reward": pyarrow.array([Decimal(n) / 4 for n in range(8)]),
            "episode": pyarrow.array(["b"] * 3 + ["a"] + ["c"] * 4).dictionary_encode(),
            "obs_0": pyarrow.array([3, 3, 4, 4, 5, 5, 6, 6]).dictionary_encode(),
            "obs_1": pyarrow.array(np.arange(8, dtype=np.uint8)),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    found = load_episodes(tmp_path / "log.parquet")
    np.testing.assert_array_equal(found.rewards, np.arange(8) / 4)
    expected = np.stack([np.arange(8), [3, 3, 4, 4, 5, 5, 6, 6]], axis=1)
    np.testing.assert_array_equal(found.observations, expected)
    assert found.lengths.tolist() == [3, 1, 4]


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
    for suffix, writer in WRITERS.items():
        if suffix == "feather":
            continue  # its writer makes batches of three rows
        found = load_episodes(writer(tmp_path / f"log.{suffix}", columns))
        assert found.lengths.tolist() == [length] * count, suffix
        np.testing.assert_array_equal(found.rewards, np.arange(rows))
        assert found.observations.sum() == rows // 4
        assert found.terminated.all()


@pytest.mark.parametrize("label", ["2024-05-01 10:00:{:02d}", "2024-05-{:02d}", "run {}", "0{}"])
def test_texts_and_dates_tell_episodes_apart(label, write):
    names = [label.format(number) for number in (7, 7, 7, 3, 9, 9, 9, 9)]
    assert load_episodes(write(log(episode=names))).lengths.tolist() == [3, 1, 4]


def test_a_table_of_one_episode_with_one_step_is_read(write):
    rows = {"episode": [1], "obs_0": [2.0], "reward": [3.0], "done": [True]}
    found = load_episodes(write(rows))
    assert (found.observations.tolist(), found.rewards.tolist()) == ([[2.0]], [3.0])


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_names(tmp_path):
    text = write_csv(tmp_path / "log.csv", log()).read_bytes()
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\r\n", b"\n"))
    same(load_episodes(tmp_path / "marked.csv"), load_episodes(tmp_path / "log.csv"))


# --- random tables and a plain loop --------------------------------------------------------------

NUMBER = st.floats(-1e6, 1e6, width=32)


@st.composite
def random_logs(draw):
    """Episodes as lists of (features, reward, success), with how they end, and the columns."""
    features = draw(st.integers(1, 3))
    row = st.tuples(st.lists(NUMBER, min_size=features, max_size=features), NUMBER, st.booleans())
    end = st.sampled_from([(True, False), (False, True), (True, True)])
    episode = st.tuples(st.lists(row, min_size=1, max_size=5), end)
    episodes = draw(st.lists(episode, min_size=1, max_size=5))
    labels = draw(
        st.one_of(
            st.lists(st.integers(-(2**62), 2**62), unique=True, min_size=len(episodes)),
            st.lists(st.text("abc 1", min_size=1), unique=True, min_size=len(episodes)),
        )
    )
    return episodes, labels[: len(episodes)], features


def as_columns(episodes, labels, features):
    columns = {name: [] for name in ("run", "t", "r", "won", "fell", "cut")}
    columns |= {f"x{index}": [] for index in range(features)}
    for (steps, (fell, cut)), label in zip(episodes, labels, strict=True):
        for step, (values, reward, won) in enumerate(steps):
            last = step == len(steps) - 1
            for index, value in enumerate(values):
                columns[f"x{index}"].append(value)
            columns["run"].append(label if isinstance(label, int) else f"={label}=")
            columns["t"].append(step)
            columns["r"].append(reward)
            columns["won"].append(won)
            columns["fell"].append(fell and last)
            columns["cut"].append(cut and last)
    return columns


@settings(max_examples=40, deadline=None)
@given(drawn=random_logs(), suffix=st.sampled_from(sorted(WRITERS)))
def test_random_tables_are_read_as_a_plain_loop_reads_them(drawn, suffix, tmp_path_factory):
    episodes, _, features = drawn
    path = tmp_path_factory.mktemp("random") / f"log.{suffix}"
    WRITERS[suffix](path, as_columns(*drawn))
    found = load_episodes(path, f"{COLUMNS},success=won")
    assert len(found) == len(episodes)
    for one, (steps, (fell, cut)) in zip(found, episodes, strict=True):
        assert one.observations.shape == (len(steps), features)
        assert one.observations.tolist() == [values for values, _, _ in steps]
        assert one.rewards.tolist() == [reward for _, reward, _ in steps]
        assert (one.terminated, one.truncated) == (fell, cut)
        assert one.success == any(won for _, _, won in steps)


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

BAD = {
    "text for an observation": ({"obs_0": ["left"] * 8}, "numbers in the column obs_0"),
    "text for a reward": ({"reward": ["good"] * 8}, "numbers in the column reward"),
    "text for a step": ({"step": ["a"] * 8}, "numbers in the column step"),
    "flags that are no flags": ({"terminated": list(range(8))}, "true and false in terminated"),
    "a success that is no flag": ({"success": [0.5] * 8}, "true and false in success"),
    "a NaN": ({"obs_1": [1.0] * 5 + [math.nan] * 3}, "(finite|value).* column obs_1, .* in row 5"),
    "an infinity": ({"reward": [1.0] * 6 + [math.inf] * 2}, "column reward, found inf in row 6"),
    "more than float32 holds": ({"obs_1": [1.0] * 7 + [1e300]}, r"found 1e\+300 in row 7"),
    "a missing number": ({"reward": [1.0] * 7 + [None]}, "value in every row .* reward.* row 7"),
    "a missing label": ({"episode": [1] * 7 + [None]}, "value in every row .* episode.* row 7"),
    "a missing flag": ({"truncated": [None] + [False] * 7}, "every row .* truncated.* row 0"),
    "an episode in two places": (
        {"episode": [7, 7, 7, 3, 7, 7, 7, 7]},
        "found episode 7 in 2 places .*sort by episode and step",
    ),
    "an end within an episode": (
        {"truncated": [False, True, False, True] + [False] * 4},
        "truncated only in the last row .* row 1, within episode 7",
    ),
    "an episode without an end": (
        {"episode": [7, 7, 7, 3, 8, 8, 9, 9]},
        "found episode 8 with neither",
    ),
    "no episode with an end": (
        {"episode": [1] * 8, "terminated": [False] * 8, "truncated": [False] * 8},
        "at least one episode with an end",
    ),
    "a step that is missing": (
        {"step": [0, 1, 2, 0, 0, 1, 3, 4]},
        "step 3 after 1 in episode 9 .*every step; if none is missing, `columns` step=",
    ),
    "steps out of order": (
        {"step": [0, 1, 2, 0, 0, 2, 1, 3]},
        "step 2 after 0 in episode 9",
    ),
    "steps that fall": ({"step": [2, 1, 0, 0, 0, 1, 2, 3]}, "step 1 after 2 .*sort by step"),
    "a step twice": ({"step": [0, 1, 2, 0, 0, 1, 1, 2]}, "step 1 of episode 9 twice.*remove one"),
    "a first step that is missing": (
        {"step": [0, 1, 2, 0, 1, 2, 3, 4]},
        "start at step 0, found step 1 in episode 9",
    ),
    "steps that are no whole numbers": ({"step": [n / 2 for n in range(8)]}, "a whole number"),
    "no rewards": ({"reward": None}, "column for the reward in .*reward=NAME"),
    "no observations": ({"obs_0": None, "obs_1": None}, "obs=NAME,NAME or obs=joint_"),
    "no ends": ({"terminated": None}, "for the end of an episode"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_bad_table_is_one_line_that_says_what_is_wrong(changes, words, write):
    path = write(log(**changes))
    with pytest.raises(InputError, match=words) as refusal:
        load_episodes(path)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_text_that_comes_late_is_one_line_with_its_column(tmp_path):
    rows = {
        "episode": [1] * 200_000,
        "obs_0": [0.125] * 199_999 + ["left"],
        "reward": [1] * 200_000,
        "done": [0] * 199_999 + [1],
    }
    with pytest.raises(
        InputError, match=r"numbers in the column obs_0, found 'left' in row 199999 of '.*log.csv'"
    ):
        load_episodes(write_csv(tmp_path / "log.csv", rows))


def test_a_table_without_rows_is_one_line(write):
    with pytest.raises(InputError, match=r"at least one step, found an empty log in '.*log"):
        load_episodes(write({name: [] for name in log()}))


@pytest.mark.parametrize("suffix", WRITERS)
def test_an_empty_or_damaged_file_is_one_line(suffix, tmp_path):
    path = tmp_path / f"log.{suffix}"
    with pytest.raises(InputError, match="found nothing at"):
        load_episodes(path)
    path.touch()
    with pytest.raises(InputError, match="found an empty file at"):
        load_episodes(path)
    whole = WRITERS[suffix](path, log()).read_bytes()
    for content in (whole[: len(whole) // 2], bytes(range(256)) * 4, b"\n\n"):
        path.write_bytes(content)
        with pytest.raises(InputError) as refusal:
            load_episodes(path)
        assert "\n" not in str(refusal.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"found nothing at|found none of them in the folder"):
        load_episodes(path)


def test_text_with_a_short_row_is_one_line(tmp_path):
    path = write_csv(tmp_path / "log.csv", log())
    path.write_text(path.read_text() + "1,2\n")
    with pytest.raises(InputError, match=r"cannot read .*log.csv': .*Expected 7 columns, got 2"):
        load_episodes(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_name_twice_in_the_first_line_is_one_line(suffix, tmp_path):
    path = WRITERS[suffix](tmp_path / f"log.{suffix}", log())
    path.write_text(path.read_text().replace("obs_0", "obs_1"))
    with pytest.raises(InputError, match="one column of each name, found obs_1 twice"):
        load_episodes(path)


def test_lists_of_different_lengths_are_one_line(tmp_path):
    for suffix in ("parquet", "feather"):
        ragged = [[1.0, 2.0]] * 7 + [[1.0]]
        path = WRITERS[suffix](tmp_path / f"log.{suffix}", log(obs_1=ragged))
        with pytest.raises(InputError, match="column obs_1, the same number in each row"):
            load_episodes(path)
        path.unlink()
        path = WRITERS[suffix](path, log(obs_1=[[1.0, 2.0]] * 3 + [[1.0, None]] * 5))
        with pytest.raises(
            InputError, match="finite numbers in the column obs_1, found nan in row 3"
        ):
            load_episodes(path)
        path.unlink()
        path = WRITERS[suffix](
            path, log(obs_1=pyarrow.array([[]] * 8, pyarrow.list_(pyarrow.float64())))
        )
        with pytest.raises(InputError, match="column obs_1, found empty lists"):
            load_episodes(path)
    with pytest.raises(InputError, match="numbers in the column obs_1"):
        load_episodes(log(obs_1=ragged))
    with pytest.raises(InputError, match=r"expected 8 rows of obs_1, found 7 in the dictionary"):
        load_episodes(log(obs_1=[1.0] * 7))


def test_images_in_a_table_are_left_out_with_a_warning_or_refused(tmp_path):
    shots = [{"bytes": b"png", "path": "x.png"}] * 8
    for name, images in {
        "records": shots,
        "bytes": [b"png"] * 8,
        "arrays": np.zeros((8, 2, 2, 3), np.uint8),
    }.items():
        path = write_parquet(tmp_path / f"{name}.parquet", log(obs_shot=images))
        with pytest.warns(UserWarning, match="left the images obs_shot out of the observation"):
            found = load_episodes(path)
        assert found.observations.shape == (8, 2)
        assert found.subject["recording"]["left_out"] == ["obs_shot"]
        with pytest.raises(InputError, match=r"found images \(obs_shot\)"):
            load_episodes(path, "obs=obs_*")
        path = write_parquet(path, log(obs_shot=images, obs_0=None, obs_1=None))
        with pytest.raises(InputError, match=r"found images \(obs_shot\).*name numeric columns"):
            load_episodes(path)
    with pytest.raises(InputError, match=r"found images of shape \(2, 2, 3\) in the dictionary"):
        load_episodes(log(obs_shot=np.zeros((8, 2, 2, 3))))


@pytest.mark.parametrize("source", ["log.npz", "walks/mine-v0", "log.safetensors", "folder"])
def test_what_has_no_columns_takes_no_option(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=f"no `columns` but for a table.*'{source}'"):
        load_episodes(source, "obs=x")
    for source in (recording(2), list(recording(2))):
        with pytest.raises(InputError, match=f"no `columns` but.*{type(source).__name__}"):
            load_episodes(source, "obs=x")


# --- what else a table must do -------------------------------------------------------------------


def test_only_needed_columns_are_read(tmp_path):
    """Whatever is in the others: here lists that would be refused."""
    ragged = [[1.0] * n for n in range(8)]
    path = write_parquet(tmp_path / "log.parquet", log(telemetry=ragged))
    assert len(load_episodes(path)) == 3


def test_without_pyarrow_the_extra_is_named(tmp_path, import_path):
    (tmp_path / "log.csv").write_text("a\n1\n")
    (tmp_path / "robot" / "meta").mkdir(parents=True)
    (tmp_path / "robot" / "meta" / "info.json").write_text("{}")
    code = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "from tightrope.errors import InputError\n"
        "from tightrope.rollouts import load_episodes\n"
        "for name in ('log.csv', 'robot'):\n"
        "    try: load_episodes(name)\n"
        "    except InputError as error: print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == [
        "a .csv table needs the extra 'tables': pip install \"tightrope[tables]\"",
        "a LeRobot dataset needs the extra 'tables': pip install \"tightrope[tables]\"",
    ]
