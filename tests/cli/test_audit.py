"""`tightrope audit` as a user sees it."""

from pathlib import Path

import pytest
from command import run
from inline import Inline
from tightrope.studies.audit import run as audits

from tightrope.certificates import issue

FEW = (
    *("--repetitions", 2, "--episodes", 12, "--pilot-episodes", 2, "--truth-episodes", 200),
    *("--updates", 10, "--width", 8, "--mc-passes", 2),
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def inline(place, monkeypatch):
    monkeypatch.setattr(audits, "engine_of", lambda engine, folder, *_: Inline(folder.jobs))


def test_an_audit_prints_a_verdict_for_every_row_and_writes_tables(place, capsys):
    """With the local engine and a real process."""
    code, out, err = run(capsys, "audit", "independent", *FEW, "--workers", 1)
    assert code == 0, out
    assert out.startswith("Audit of independent: independent steps")
    assert "preset tight with at most 10 updates and hidden layers of 8" in out
    assert out.count("too few runs") >= 10
    assert "repeat 1/1" in err[-1]
    assert out.rstrip().endswith("Written to audit-independent/results")
    names = {path.name for path in Path("audit-independent/results").iterdir()}
    assert names == {"audit.csv", "statements.csv", "warnings.csv"}


def test_a_broken_promise_is_exit_code_1(inline, capsys, monkeypatch):
    from dataclasses import replace

    real = issue.certify_many

    def mutant(*arguments, **keywords):
        (row,) = real(*arguments, **keywords)
        (made,) = row
        return [[replace(made, statements=tuple(replace(s, value=0.0) for s in made.statements))]]

    monkeypatch.setattr(issue, "certify_many", mutant)
    few = [*FEW, "--repetitions", 6, "--schemes", "holdout"]
    code, out, _ = run(capsys, "audit", "independent", *few)
    assert code == 1
    assert "BROKEN: holdout, mean risk, unit episode" in out
    code, out, _ = run(capsys, "audit", "drifting", *few)
    assert code == 0  # nothing was promised of a process that drifts
    assert "broken (outside its assumption)" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected a process or a policy, or --demo, found neither"),
        (["--demo", "independent"], "expected --demo alone"),
        (["independant"], "expected a process among independent, correlated"),
        (["independent", "--env", "Hopper-v4"], "expected no --env for the built-in process"),
        (["independent", "--repetitions", "0"], "--repetitions must be at least 1"),
        (["independent", "--updates", "3"], "--updates must be at least 10"),
        (["independent", "--schemes", "best"], "expected a scheme among"),
        (["independent", "--workers", "0"], "--workers must be at least 1"),
        (["independent", "--address", "host:1"], "expected --address for --engine ray"),
        (["independent", "--delta", "2"], "--delta must be in (0, 1)"),
        (["independent", "--gamma", "1"], "expected an option, found '--gamma'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(place, capsys, arguments, words):
    code, out, err = run(capsys, "audit", *arguments)
    assert (code, out) == (2, "")
    assert len(err) == 1
    assert words in err[0]
    assert not list(place.glob("audit-*/results"))


def test_a_folder_of_something_else_is_refused(place, capsys):
    Path("other").mkdir()
    Path("other/thesis.tex").touch()
    code, _, err = run(capsys, "audit", "independent", *FEW, "--out", "other")
    assert code == 2
    assert "expected a new folder or that of an audit" in err[0]
