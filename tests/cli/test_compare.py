"""`tightrope compare`: verdicts on standard output, a page on request, one line for a mistake."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, tightrope
from recordings import recording

from tightrope.rollouts import export_arrays

LEROBOT = {"per_episode": [{"success": True}], "aggregated": {"pc_success": 100.0}}


@pytest.fixture
def logs(folder):
    export_arrays(recording(24, seed=2, features=2), Path("narrow.npz"))
    return folder


def test_two_logs_are_compared_and_a_page_is_written_on_request(logs, capfd):
    code, out, said = run(capfd, "compare", "log.npz", "log.npz", "--out", "page.html")
    assert (code, said) == (0, [])
    assert out.startswith("A: log.npz, B: log.npz, in an unnamed environment\n")
    assert out.count("not decided with ") == 3
    assert out.endswith("Written to page.html\n")
    assert "not decided with 24 pairs" in Path("page.html").read_text("utf-8")


def test_json_is_all_on_standard_output_and_the_same_as_from_the_library(logs, capfd):
    import tightrope as tr

    given = ("--return-range", -99, 99)
    code, out, said = run(capfd, "compare", "log.npz", "log.npz", "--json", *given)
    assert (code, said) == (0, [])
    found = json.loads(out)
    assert [each["verdict"] for each in found["intervals"]] == ["not decided"] * 4
    expected = tr.compare("log.npz", "log.npz", return_range=(-99.0, 99.0)).to_json()
    assert found == json.loads(json.dumps(expected))
    assert not list(logs.glob("*.html"))


def test_counts_are_two_lines_and_take_at_most_three_seconds_of_a_processor(tmp_path):
    done = tightrope("compare", "74/80", "91/120", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    fixed, looked = done.stdout.splitlines()[3:5]
    assert fixed.startswith("Number of episodes fixed beforehand: A better (p = 0.0020, Boschloo)")
    assert looked.startswith("Looked at on the way, or not sure:   not decided")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tables(logs):
    """Tables to make mistakes with."""
    rng = np.random.default_rng(0)
    column = {name: rng.normal(size=30) for name in ("a", "b")}

    def write(name, head, *columns):
        rows = "\n".join(",".join(map(str, row)) for row in zip(*columns, strict=True))
        Path(name).write_text(f"{head}\n{rows}\n")

    for name, values in column.items():
        write(f"{name}.csv", "return", values)
    write("score.csv", "score", column["a"])
    write("sorted.csv", "return", np.sort(column["a"]))
    write("words.csv", "success", ["yes", "perhaps"])
    write("high.csv", "return", ["1.5", "high"])
    write("neither.csv", "height,width", [1, 2], [3, 4])
    for name, tasks in (("lift", "lift push"), ("pull", "lift pull")):
        labels = [task for task in tasks.split() for _ in range(90)]
        write(f"{name}.csv", "task,return", labels, rng.normal(size=180))
    Path("monitor.csv").write_text('#{"t_start": 0}\nr,l,t\n1.0,5,0.1\n2.0,5,0.2\n')
    Path("eval_info.json").write_text(json.dumps(LEROBOT))
    return logs


WRONG = {
    "compare 80/74 91/120": "two whole numbers such as 74/80, the first not above the second",
    "compare -- -1/5 3/5": "found -1/5",
    "compare 7.5/10 3/5": "found 7.5/10",
    "check 0/0 --max-failure 0.1": "found 0/0",
    "plan 5/3 --max-failure 0.1": "found 5/3",
    "certify high.csv": "a finite number in every row of column 'return'",
    "check words.csv --max-failure 0.1": "true or false, or 1 or 0, in column 'success'",
    "certify neither.csv": "a column of returns or successes",
    "compare lift.csv pull.csv": "the same tasks, found task lift, task push in A and task lift",
    "compare sorted.csv a.csv": "sorted by return: bring it in that order, or give --order random",
    "compare a.csv score.csv": "returns of one unit, found return in A and score in B",
    "certify eval_info.json": "an older layout",
    "compare eval_info.json a.csv": "an older layout",
    "certify monitor.csv": "if the policy was frozen, give --frozen",
    "check a.csv --max-failure 0.1 --evaluation 2": "--evaluation for an evaluations.npz",
    "check a.csv": "expected a condition among --max-rms",
    "compare a.csv nowhere.csv": "nowhere.csv",
    "compare a.csv policy.py:act": "found recorded episodes as A and a policy as B",
    "compare a.csv 3/5": "successes of one task to compare with counts",
    "compare 3/5 4/5 --out page.html": "no --out for counts",
    "compare log.npz narrow.npz": "observations of one size in numbers, found 3 in A and 2 in B",
    "compare log.npz log.npz --env Pendulum-v1": "expected no --env for the recorded episodes",
    "compare log.npz log.npz --batch 1": "--batch must be",
    "compare log.npz log.npz --return-range 0 0.001": "give a wider --return-range",
    "compare log.npz log.npz --out log.npz": "already there",
    "plan policy.py:act": "a certificate, recorded episodes or a table of results",
    "plan 74/80 --numbers 0": "--numbers must be at least 1 each",
}


def test_every_mistake_is_one_line_exit_code_2_and_nothing_written(tables, capfd):
    before = sorted(path.name for path in tables.iterdir())
    for call, words in WRONG.items():
        code, out, said = run(capfd, *call.split())
        assert (code, out, len(said)) == (2, "", 1), (call, code, out, said)
        assert words in said[0], (call, said)
        assert sorted(path.name for path in tables.iterdir()) == before, call


def test_tables_are_checked_planned_and_compared_without_a_certificate(tables, capfd):
    code, out, said = run(capfd, "check", "74/80", "--max-failure", 0.2, "--min-success", 0.8)
    assert (code, said) == (0, [])
    assert [line.split()[0] for line in out.splitlines()] == ["holds", "holds"]
    assert run(capfd, "check", "a.csv", "--min-return", 0)[0] == 1
    assert run(capfd, "check", "lift.csv", "--min-return", -9)[1].count("holds") == 2  # each task
    code, out, _ = run(capfd, "plan", "76/80", "--max-failure", 0.08)
    count = int(out.splitlines()[-1].split()[1].replace(",", ""))
    assert code == 0
    for number, passed in ((1.03, 0), (0.93, 1)):  # a forecast: as many like these
        n = round(count * number)
        counts = f"{round(0.95 * n)}/{n}"
        assert run(capfd, "check", counts, "--max-failure", 0.08)[0] == passed, counts
    code, out, _ = run(capfd, "plan", "74/80", "--max-failure", 0.05)
    assert code == 1
    assert "Not even 10,000 episodes would meet these conditions:\n  FAILS  --max-failure" in out
    code, out, _ = run(capfd, "compare", "sorted.csv", "a.csv", "--order", "random", "--seed", 1)
    assert (code, "for this number of episodes only" in out) == (0, True)
