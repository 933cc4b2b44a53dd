"""`tightrope compare`: verdicts on standard output, a page beside, one line for a mistake."""

import json
from pathlib import Path

import pytest
from command import run
from recordings import recording

from tightrope.rollouts import export_arrays


@pytest.fixture
def logs(folder):
    export_arrays(recording(24, seed=2, features=2), Path("narrow.npz"))
    return folder


def test_two_logs_are_compared_and_the_page_is_written(logs, capfd):
    code, out, said = run(capfd, "compare", "log.npz", "log.npz", "--out", "page.html")
    assert (code, said) == (0, [])
    assert out.startswith("A: log.npz, B: log.npz, in an unnamed environment\n")
    assert out.count("not decided with 24 episodes") == 3
    assert out.endswith("Written to page.html\n")
    assert "not decided with 24 episodes" in Path("page.html").read_text("utf-8")


def test_json_is_all_on_standard_output(logs, capfd):
    code, out, said = run(
        capfd, "compare", "log.npz", "log.npz", "--json", "--return-range", -99, 99
    )
    assert (code, said) == (0, [])
    found = json.loads(out)
    assert [answer["verdict"] for answer in found["answers"]] == ["not decided"] * 3
    assert found["answers"][0]["measure"] == "expected return of A - expected return of B"
    assert Path("comparison.html").is_file()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("log.npz narrow.npz", "expected observations of one size, found 3 features in A and 2"),
        ("log.npz policy.py:act", "found recorded episodes as A and a policy as B"),
        ("log.npz log.npz --env Pendulum-v1", "expected no --env for recorded episodes"),
        ("log.npz log.npz --batch 1", "--batch must be a whole number of at least 2"),
        ("log.npz log.npz --return-range 0 0.001", "give a wider --return-range"),
        ("log.npz nowhere.npz", "nowhere.npz"),
        ("log.npz log.npz --out log.npz", "already there"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_no_page(words, answer, logs, capfd):
    code, out, said = run(capfd, "compare", *words.split())
    assert (code, out) == (2, "")
    (line,) = said
    assert answer in line
    assert not list(logs.glob("*.html"))


def test_the_library_and_the_command_ask_the_same_with_the_same_defaults(logs, capfd):
    import tightrope

    code, out, _ = run(capfd, "compare", "log.npz", "log.npz", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(
        json.dumps(tightrope.compare("log.npz", "log.npz").to_json())
    )
