"""`tightrope train` as a user sees it."""

import json

import pytest

from tightrope.cli import main

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
    capsys.readouterr()
    out = tmp_path / "certificate"
    words = ["--out", str(out), "--episodes", "20", "--test-episodes", "0", "--scheme", "holdout"]
    assert main(["certify", str(run / "final"), *words]) == 0
    assert "training" in capsys.readouterr().out
    document = json.loads((out / "certificate.json").read_text())
    record = json.loads((run / "final" / "policy.json").read_text())
    assert document["return_range"]["source"] == "training"
    assert document["return_range"]["low"] == record["return_low"]
    assert document["episodes"]["pilot"] == 10  # for the first prior alone
    assert document["subject"]["environment"]["id"] == "InvertedPendulum-v5"
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train", "a2c", "--env", "Pendulum-v1"], "expected an agent among redq, sac, ppo"),
        (["train", "sac", "--env", "CartPole-v1"], "expected continuous actions for sac"),
        (["train", "sac", "--env", "Nowhere-v1"], "expected the id of an environment"),
        (["train", "sac", "--env", "Pendulum-v1", "--critics", "3"], "found --critics"),
        (["train", "sac", "--env", "Pendulum-v1", "--preset", "mine"], "invalid choice"),
        (["train", "sac"], "env"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(words, line, tmp_path, capsys):
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_run_is_refused_with_exit_code_2(tmp_path, capsys):
    options = ["--env", "Pendulum-v1", "--out", str(tmp_path / "run"), *QUICK]
    assert main(["train", "sac", *options]) == 0
    assert main(["train", "redq", *options]) == 2
    assert "was begun with (agent sac), found redq" in capsys.readouterr().err
