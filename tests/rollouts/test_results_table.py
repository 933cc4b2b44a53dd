"""Tables with a row per episode: each format as its library writes it, and mistakes in one line."""

import json

import numpy as np
import pytest

from tightrope.errors import InputError
from tightrope.rollouts.results_table import counts_of, is_results, read_results, unit_of

PLAIN = "seed,Return,success,torque,note\n3,1.5,true,8,a\n1,2.5,False,9,b\n2,-4,1,7.5,c\n"


def write(folder, text, name="results.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, text, name="results.csv", **options):
    return read_results(write(folder, text, name), **options)


def rows_of(table):
    return [each.tolist() for each in (table.returns, table.success, table.keys)]


ROWS = [[1.5, 2.5, -4.0], [True, False, True], [3, 1, 2]]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("results.csv", lambda text: text),
        ("results.csv", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
        ("results.csv", lambda text: text.replace(",", ";")),
        ("results.tsv", lambda text: text.replace(",", "\t")),
    ],
    ids=["csv", "a mark and CRLF", "semicolons", "tsv"],
)
def test_a_text_table_is_read_by_the_usual_names(tmp_path, name, change):
    table = read(tmp_path, change(PLAIN), name)
    assert rows_of(table) == ROWS
    assert table.properties["torque"].tolist() == [8.0, 9.0, 7.5]
    assert list(table.properties) == ["torque"]  # a text is none
    assert table.tasks == (("", 3),)
    assert unit_of(table.columns) == "return"


@pytest.mark.parametrize("name", ["results.jsonl", "results.json"])
def test_json_objects_are_read(tmp_path, name):
    rows = [{"return": r, "success": s, "seed": k} for r, s, k in zip(*ROWS, strict=True)]
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    text = lines if name.endswith("l") else json.dumps(rows)
    assert rows_of(read(tmp_path, text, name)) == ROWS


def test_a_parquet_table_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(("return", "success", "seed"), ROWS, strict=True))
    parquet.write_table(pyarrow.table(columns), tmp_path / "r.parquet")
    assert rows_of(read_results(tmp_path / "r.parquet")) == ROWS
    parquet.write_table(pyarrow.table({"return": [[1.0], [2.0]]}), tmp_path / "n.parquet")
    with pytest.raises(InputError, match=r"a finite number in .* 'return', found '\[1\.\]'"):
        read_results(tmp_path / "n.parquet")


def test_columns_are_named_and_left_out(tmp_path):
    named = read(tmp_path, PLAIN, columns="return=torque,success=,seed=")
    assert named.returns.tolist() == [8.0, 9.0, 7.5]
    assert named.success is None
    assert named.keys.tolist() == [-1, -1, -1]
    assert unit_of(named.columns) == "torque"
    same = read(tmp_path, PLAIN, columns={"return": "torque", "success": None, "seed": ()})
    assert same.columns == named.columns


def test_tasks_seeds_and_checkpoints_that_vary_are_parts_in_order(tmp_path):
    text = "task,env,seed,success\nb,x,0,1\na,x,0,0\nb,x,1,1\na,x,1,1\nb,x,1,0\n"
    table = read(tmp_path, text)
    assert table.tasks == (
        *(("task b, seed 0", 1), ("task a, seed 0", 1)),
        *(("task b, seed 1", 2), ("task a, seed 1", 1)),
    )
    assert table.success.tolist() == [True, False, True, False, True]
    own = read(tmp_path, text.replace("0,1\na", "7,1\na").replace("1,0\n", "9,0\n"),
               columns="seed=,task=task")  # fmt: skip
    assert own.tasks == (("task b", 3), ("task a", 2))


@pytest.mark.parametrize("missing", ["", "-1", "1.5", "total"])
def test_seeds_that_only_some_rows_have_are_refused(tmp_path, missing):
    """In recorded order, one row's seed could then be in the pair of another."""
    text = f"seed,episode,return\n3,a,1\n{missing},b,2\n5,c,3\n"
    with pytest.raises(InputError, match=f"in every row .* found '{missing}' in row 2: or leave"):
        read(tmp_path, text)
    assert read(tmp_path, text, columns="seed=").keys.tolist() == [-1, -1, -1]


def test_a_file_of_steps_is_none_of_results(tmp_path):
    steps = write(tmp_path, "obs_0,reward,episode\n1,2,0\n", "steps.csv")
    assert not is_results(steps)
    assert is_results(write(tmp_path, PLAIN))
    assert not is_results(write(tmp_path, PLAIN), columns="obs=torque,reward=Return")
    assert not is_results(tmp_path / "nowhere.csv")
    assert is_results("74/80")


# --- what other libraries write -------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A monitor file and an evaluations.npz, by Stable-Baselines3 itself."""
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    folder = tmp_path_factory.mktemp("sb3")
    env = Monitor(gym.make("CartPole-v1"), str(folder / "run"))
    evaluated = Monitor(gym.make("CartPole-v1"))
    callback = EvalCallback(
        evaluated, eval_freq=64, n_eval_episodes=4, log_path=str(folder), verbose=0, warn=False
    )
    small = {"net_arch": [4]}
    PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=0, policy_kwargs=small).learn(
        192, callback=callback
    )
    env.close()
    return folder, env.get_episode_rewards()


def test_a_monitor_file_needs_the_word_that_its_policy_was_frozen(written):
    folder, rewards = written
    with pytest.raises(InputError, match=r"which records training: .* give `frozen`"):
        read_results(folder / "run.monitor.csv")
    table = read_results(folder / "run.monitor.csv", frozen=True)
    np.testing.assert_allclose(table.returns, rewards, atol=1e-6)
    assert not table.properties  # lengths and times are no results
    assert "frozen policy, as stated" in table.notes[0]


def test_an_evaluation_is_the_last_one_or_a_choice_that_costs(written):
    path = written[0] / "evaluations.npz"
    results = np.load(path)["results"]
    assert len(results) == 3
    last = read_results(path)
    assert last.returns.tolist() == results[-1].tolist()
    assert (last.candidates, is_results(path)) == (1, True)
    assert read_results(path, evaluation=1).returns.tolist() == results[0].tolist()
    best = read_results(path, evaluation="best")
    assert best.returns.mean() == results.mean(axis=1).max()
    assert best.candidates == 3
    assert "is the best of 3" in best.notes[0]
    assert "luck" in best.notes[0]
    shares = {**np.load(path), "successes": np.full(results.shape, 0.5)}
    np.savez(written[0] / "shares.npz", **shares)
    with pytest.raises(InputError, match="successes of 0 or 1"):
        read_results(written[0] / "shares.npz")
    for wrong in (0, 4):
        with pytest.raises(InputError, match="`evaluation` from 1 to 3, last or best"):
            read_results(path, evaluation=wrong)


LEROBOT = {
    "per_task": [
        {
            "task_group": "libero_10",
            "task_id": task,
            "metrics": {
                "sum_rewards": [1.0, 0.0, 1.0],
                "max_rewards": [1.0, 0.0, 1.0],
                "successes": [True, False, task == 0],
                "video_paths": [],
            },
        }
        for task in (0, 1)
    ],
    "per_group": {"libero_10": {"pc_success": 50.0}},
    "overall": {"pc_success": 50.0},
}


def test_lerobots_evaluation_has_its_tasks(tmp_path):
    table = read(tmp_path, json.dumps(LEROBOT), "eval_info.json")
    assert table.tasks == (("task_id 0", 3), ("task_id 1", 3))
    assert table.success.tolist() == [True, False, True, True, False, False]
    assert table.returns.tolist() == [1.0, 0.0, 1.0] * 2


def test_counts_have_neither_order_nor_pairs():
    assert counts_of(" 74/80 ") == (74, 80)
    assert counts_of("results.csv") is None
    assert counts_of(3) is None
    table = read_results("3/5")
    assert (int(table.success.sum()), len(table), table.ordered) == (3, 5, False)
    assert table.returns is None


# --- mistakes -------------------------------------------------------------------------------------

WRONG = {
    "more successes than episodes": ("80/74", "two whole numbers such as 74/80.*found 80/74"),
    "a negative count": ("-1/5", "found -1/5"),
    "half an episode": ("7.5/10", "found 7.5/10"),
    "no episodes": ("0/0", "found 0/0"),
    "no such file": ("nowhere.csv", "'nowhere.csv': expected a table of results, found nothing"),
}
FILES = {
    "neither return nor success": ("a,b\n1,2\n", "a column of returns or successes.*found a, b"),
    "a word for a number": ("return\n1\nhigh\n", "finite number.*found 'high' in row 2"),
    "a number without a square": ("return\n-1e308\n", "up to 1e.90 in every row.*'-1e308'"),
    "an empty cell": ("return,success\n,1\n", "finite number.*found '' in row 1"),
    "a share for a success": ("success\n1\n0.8\n", "found '0.8' in row 2 .a share or per cent"),
    "per cent": ("success\n100\n0\n", "found '100' in row 1 .a share or per cent"),
    "a word for a success": ("success\n1\nmaybe\n", "true or false,.*found 'maybe' in row 2"),
    "a ragged row": ("return,success\n1\n", "expected 2 cells in row 1"),
    "a name twice": ("return,return\n1,2\n", "a name for each column"),
    "no rows": ("return\n", "at least one row"),
    "nothing": ("", "expected"),
    "a quote that never ends": ('return\n"1\n', "cannot read"),
    "an episode twice": ("episode,return\n1,2\n1,3\n", "a number twice in column 'episode'"),
    "a monitor without its columns": ("#{}\na,b\n1,2\n", "columns r, l and t"),
}
JSON = {
    "an older layout": ({"per_episode": [], "aggregated": {}}, "older layout"),
    "lists": ([{"return": [1, 2]}], r"found '\[1, 2\]' in row 1"),
    "numbers": ([1, 2], "JSON object for each episode"),
    "other columns": ([{"return": 1}, {"success": True}], "columns return in row 2"),
    "ragged tasks": (
        {"per_task": [{"metrics": {"sum_rewards": [1.0], "successes": [True, False]}}]},
        "with as many rewards as successes",
    ),
    "a deep one": ("[" * 100_000, "cannot read"),
}


def refused(words, **options):
    with pytest.raises(InputError, match=words) as caught:
        read_results(**options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_every_mistake_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, words in WRONG.values():
        refused(words, source=source)
    path = tmp_path / "results.csv"
    for text, words in FILES.values():
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        refused(words, source=path)
    path = tmp_path / "eval_info.json"
    for document, words in JSON.values():
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        refused(words, source=path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "return=height"}, "a column height for return, found"),
        ({"columns": "height=Return"}, "roles among return, success, .* in `columns`"),
        ({"evaluation": 2}, "`evaluation` for an evaluations.npz"),
    ],
)
def test_options_that_do_not_fit_are_one_line(tmp_path, options, words):
    refused(words, source=write(tmp_path, PLAIN), **options)


def test_another_npz_is_no_evaluation(tmp_path):
    np.savez(tmp_path / "a.npz", results=np.zeros((2, 2)))
    assert not is_results(tmp_path / "a.npz")
    refused("the evaluations.npz of an EvalCallback", source=tmp_path / "a.npz")
    flat = {"timesteps": [1], "ep_lengths": [1]}
    np.savez(tmp_path / "evaluations.npz", results=np.zeros(2), **flat)
    refused("expected results .evaluations, episodes.", source=tmp_path / "evaluations.npz")
    pickled = np.array([{}], object)
    np.savez(tmp_path / "evaluations.npz", results=pickled, **flat)
    refused("cannot read", source=tmp_path / "evaluations.npz")
