"""`tightrope compare`: verdicts on standard output, a page on request, one line for a mistake."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, tightrope
from tables import write_csv


def test_two_logs_are_compared_and_a_page_is_written_on_request(folder, capfd):
    code, out, said = run(capfd, "compare", "log.npz", "log.npz", "--out", "page.html")
    assert (code, said) == (0, [])
    assert out.startswith("A: log.npz, B: log.npz, in an unnamed environment\n")
    assert out.count("not decided with ") == 3
    assert out.endswith("Written to page.html\n")
    assert "not decided with 24 pairs" in Path("page.html").read_text("utf-8")


def test_json_is_all_on_standard_output_and_the_same_as_from_the_library(folder, capfd):
    import tightrope as tr

    given = ("--return-range", -99, 99)
    code, out, said = run(capfd, "compare", "log.npz", "log.npz", "--json", *given)
    assert (code, said) == (0, [])
    found = json.loads(out)
    assert [each["verdict"] for each in found["intervals"]] == ["not decided"] * 4
    expected = tr.compare("log.npz", "log.npz", return_range=(-99.0, 99.0)).to_json()
    assert found == json.loads(json.dumps(expected))
    assert not list(folder.glob("*.html"))


def test_counts_are_two_lines_and_take_at_most_three_seconds_of_a_processor(tmp_path):
    done = tightrope("compare", "74/80", "91/120", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    fixed, looked = done.stdout.splitlines()[3:5]
    assert fixed.startswith("Number of episodes fixed beforehand: A better (p = 0.0020, Boschloo)")
    assert looked.startswith("Looked at on the way, or not sure:   not decided")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tables(folder):
    rng = np.random.default_rng(0)
    values = rng.normal(size=30)
    write_csv("a.csv", {"return": values})
    write_csv("sorted.csv", {"return": np.sort(values)})
    write_csv("lift.csv", {"task": np.repeat(["lift", "push"], 90), "return": rng.normal(size=180)})


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
