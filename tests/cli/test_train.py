"""`tightrope train` as a user sees it."""

import dataclasses
import inspect
import json
import math
import os
import re
import shlex
import signal
import subprocess

import pytest
from command import lines, run, tightrope, words
from recordings import short_fits
from waiting import wait_until

from tightrope.agents import AGENTS, LEVELS, specify, train
from tightrope.agents.hyperparameters import THREADS
from tightrope.cli import main
from tightrope.cli.app import parse

SMALL = ["--hidden", "8", "8", "--batch", "16", "--evaluation-episodes", "1"]
QUICK = [*SMALL, "--steps", "400", "--warmup", "40", "--evaluate-every", "400"]


def test_train_then_certify_and_verify(tmp_path, capsys):
    """The two commands of the README, on a cheap task."""
    run = tmp_path / "run"
    options = ["--env", "InvertedPendulum-v5", "--out", str(run), *QUICK]
    assert main(["train", "sac", *options]) == 0
    said = capsys.readouterr().out
    assert f"final: {run / 'final'}" in said
    assert f"tightrope certify {run / 'final'}" in said
    assert main(["train", "sac", *options]) == 0  # finished: nothing left to do
    assert main(["train", "redq", *options]) == 2
    assert "was begun with (agent sac), found redq" in capsys.readouterr().err
    out = tmp_path / "certificate"
    words = ["--out", str(out), "--episodes", "20", "--scheme", "holdout"]
    with short_fits():
        assert main(["certify", str(run / "final"), *words]) == 0
    document = json.loads((out / "certificate.json").read_text())
    assert document["return_range"]["source"] == "fit"  # holdout needs none from training
    assert document["subject"]["environment"]["id"] == "InvertedPendulum-v5"
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize("agent", AGENTS)
def test_every_setting_is_an_option_with_its_default_and_of_no_other_agent(agent, capsys):
    """The dataclass is all there is: a field added to it is found here."""
    code, out, said = run(capsys, "train", agent, "--help-all")
    assert (code, said) == (0, [])
    shown, levels = " ".join(out.split()), LEVELS[agent]
    own = {field.name: field.default for field in dataclasses.fields(AGENTS[agent])}
    own |= {"steps": levels["expert"], "levels": tuple(levels.values())}
    for name, default in own.items():
        text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        default = "" if isinstance(default, bool) else rf" \[{re.escape(text)}\]"
        assert re.search(rf"--(no-)?{flag(name)}[^\[\]]+\S{default}", shown), name
    every = {field.name for each in AGENTS.values() for field in dataclasses.fields(each)}
    assert not [name for name in every - set(own) if f"--{flag(name)} " in shown]


def flag(name):
    return name.replace("_", "-")


@pytest.mark.parametrize("agent", AGENTS)
def test_what_help_shows_is_what_the_library_does(agent, capsys, monkeypatch):
    """The command without an option gives the same specification as the call without one."""
    seen = []

    def spy(agent, env, out, *, progress, threads, checkpoint_every, **options):
        seen.append((specify(agent, env, **options), threads, checkpoint_every))
        return {"final": out}

    monkeypatch.setattr("tightrope.agents.train", spy)
    assert run(capsys, "train", agent, "--env", "Pendulum-v1", "--out", "run")[0] == 0
    monkeypatch.undo()
    kinds = inspect.signature(train).parameters
    threads, every = THREADS[agent], kinds["checkpoint_every"].default
    assert seen == [(specify(agent, "Pendulum-v1"), threads, every)]


def test_switches_and_infinity_are_understood():
    for words_, field, expected in (
        ("--learned-norm", "learned_norm", True),
        ("--no-scaled-observations", "scaled_observations", False),
        ("--huber inf", "huber", math.inf),
    ):
        line = f"train redq --env Pendulum-v1 --out run {words_}"
        assert parse(line.split())[1].kwargs[field] == expected


def test_the_command_that_train_prints_certifies_in_an_environment_of_ones_own(tmp_path, helpers):
    """In processes of their own, as typed; what only the record names is not imported."""
    module = tmp_path / "custom_environments.py"
    module.symlink_to(helpers / module.name)
    own = ("--env", "custom_environments:Counting-v0", "--out", "run")
    few = ("--steps", "60", "--warmup", "20", "--evaluate-every", "60")
    trained = tightrope("train", "sac", *own, *SMALL, *few, cwd=tmp_path)
    assert (trained.returncode, lines(trained.stderr)) == (0, []), trained.stderr
    printed = trained.stdout.splitlines()[-1].partition("certify the last with: ")[2]
    command, *arguments = shlex.split(printed)
    assert command == "tightrope"
    quick = ("--scheme", "holdout", "--episodes", "12", "--workers", "1")
    made = ("--out", "certificate")
    certified = tightrope(*arguments, *quick, *made, cwd=tmp_path, short=True)
    assert (certified.returncode, lines(certified.stderr)) == (0, []), certified.stderr
    document = json.loads((tmp_path / "certificate" / "certificate.json").read_text())
    assert document["subject"]["environment"]["id"] == "custom_environments:Counting-v0"
    module.unlink()
    module.write_text("import os; os.mkdir('marker')")
    refused = tightrope("certify", "run/final", "--out", "new", cwd=tmp_path)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "a record that names 'custom_environments:Counting-v0'" in refused.stderr
    assert "name it in --env" in refused.stderr
    assert not {"marker", "new"} & set(os.listdir(tmp_path))


def test_ctrl_c_is_one_line_that_says_where_the_same_command_goes_on(tmp_path, interruptible):
    given = ("--env", "Pendulum-v1", "--out", "run", *SMALL, "--steps", "1e6", "--warmup", "40")
    process = subprocess.Popen(
        words("train", "sac", *given, "--checkpoint-every", "100", "--compile", "never"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        wait_until(lambda: (tmp_path / "run" / "checkpoint.pt").exists() or process.poll())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, "")
    (line,) = lines(err)
    assert line.startswith("tightrope: interrupted at step ")
    assert "the same command goes on from step " in line
