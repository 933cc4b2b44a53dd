"""Python on the pages: all of it compiles, tutorials and extensions run as they are written."""

import doctest

import numpy as np
import pytest
from documents import DOCS, PAGES, ROOT, blocks
from recordings import short_fits


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_on_a_page_compiles(page):
    for block in blocks(page, "python"):
        compile(block.text, f"{page.name}:{block.line}", "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_on_a_page_say_what_python_says(page):
    names = {}
    for block in blocks(page, "pycon"):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        parsed = doctest.DocTestParser().get_doctest(block.text, names, page.name, None, block.line)
        said = []
        runner.run(parsed, out=said.append, clear_globs=False)
        names = parsed.globs
        assert runner.summarize(verbose=False).failed == 0, "".join(said)


def run(page, folder, monkeypatch):
    """Execute the Python of a page in order, in a folder of its own; what it has defined."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # one worker: starting them takes longest
    (folder / "studies").symlink_to(ROOT / "studies")
    names = {"__name__": "a_page"}  # no module of this name: functions travel to workers by value
    with short_fits():
        for block in blocks(DOCS / f"{page}.md", "python"):
            exec(compile(block.text, f"{page}.md:{block.line}", "exec"), names)
    return names


def test_the_tutorial_on_policies_runs(tmp_path, monkeypatch, capsys):
    names = run("tutorial-policy", tmp_path, monkeypatch)
    assert names["again"].statements == names["certificate"].statements
    assert {path.name for path in (tmp_path / "certificate").iterdir()} >= {
        "certificate.json",
        "predictor.safetensors",
        "rollouts.safetensors",
    }
    assert len(names["report"].conditions) == 2
    assert "Risk certificate for swing in Pendulum-v1" in capsys.readouterr().out


def test_the_tutorial_on_logs_runs(tmp_path, monkeypatch, capsys):
    names = run("tutorial-log", tmp_path, monkeypatch)
    found = names["certificate"]
    assert (found.episodes.fit, found.episodes.calibration, found.episodes.test) == (15, 45, 0)
    assert found.truncated_episodes == 60
    assert names["known"].return_range.source == "user"
    assert "this was not checked" in capsys.readouterr().out


def test_the_tutorial_on_the_paper_runs(tmp_path, monkeypatch, capsys):
    names = run("tutorial-paper", tmp_path, monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    schemes = [line.split()[0] for line in lines[:4]]
    assert schemes == ["nonrec-noninf", "nonrec-inf", "rec-2", "rec-6"]
    assert names["study"].name == "paper"


def test_the_examples_of_extensions_run(tmp_path, monkeypatch, capsys):
    names = run("extending", tmp_path, monkeypatch)
    losses = names["losses"]
    assert losses.shape == (20,)
    plain = losses.mean() + np.sqrt(np.log(40) / 40)
    assert names["hoeffding_upper"](losses, delta=0.025) == pytest.approx(min(1, plain))
    assert names["certificate"].time_limit == 50
    assert names["limit"].share == 0.9
    printed = capsys.readouterr().out
    assert "property: peak speed" in printed
    assert "property limit: peak speed" in printed
    assert "source='training'" in printed
    assert "\n50\n" in printed
    assert len(names["read"]("runs.jsonl")) == 30
