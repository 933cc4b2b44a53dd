"""`tightrope audit` as a user sees it."""

from dataclasses import replace
from pathlib import Path

import pytest
from command import run
from inline import Inline

from tightrope.certificates import certify
from tightrope.studies import runner

FEW = (
    *("--episodes", 12, "--truth-episodes", 200),
    *("--updates", 10, "--width", 8, "--mc-passes", 2),
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def inline(place, monkeypatch):
    monkeypatch.setattr(runner, "LocalPool", lambda folder, workers: Inline(folder))


def test_an_audit_prints_a_verdict_for_every_row_and_writes_tables(place, capsys):
    """With the local engine, in a process of its own."""
    code, out, err = run(capsys, "audit", "independent", *FEW, "--repetitions", 2, "--workers", 1)
    assert code == 0, out
    assert out.startswith("Audit of independent: independent steps")
    assert "preset tight, at most 10 updates, hidden layers of 8" in out
    assert out.count("too few runs") >= 10
    assert "repeat 1/1" in err[-1]
    assert out.rstrip().endswith("Written to audit-independent/results")
    names = {path.name for path in Path("audit-independent/results").iterdir()}
    assert names == {"coverage.csv", "checks.csv", "warnings.csv"}


def test_a_violated_claim_is_exit_code_1(inline, capsys, monkeypatch):
    real = certify.issue

    def mutant(*arguments, **keywords):
        made = real(*arguments, **keywords)
        return replace(made, statements=tuple(replace(s, value=0.0) for s in made.statements))

    monkeypatch.setattr(certify, "issue", mutant)
    few = [*FEW, "--repetitions", 6, "--schemes", "holdout"]
    code, out, _ = run(capsys, "audit", "independent", *few)
    assert code == 1
    assert "VIOLATED: holdout, mean over episodes" in out
    code, out, _ = run(capsys, "audit", "drifting", *few)
    assert code == 0  # nothing is claimed of a task that drifts
    assert "assumption violated" in out
