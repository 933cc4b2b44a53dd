"""`tightrope certify` of tables: of steps, of LeRobot folders, and with a row per episode."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command import run
from recordings import recording
from tables import WRITERS, rows_of, write_lerobot

from tightrope.certificates.verify import verify

pytest.importorskip("pyarrow")
QUICK = ("--return-range", "-20", "20", "--thin", "1", "--seed", "3")
COLUMNS = "obs=x*,reward=r,episode=run,step=t,terminated=fell,truncated=cut,success=won"


def rows():
    """A recording as columns, in which every third episode succeeds."""
    found = rows_of(list(recording(24, seed=1)))
    found["won"] = [
        bool(cut and int(run.removeprefix("run ")) % 3 == 0)
        for run, cut in zip(found["run"], found["cut"], strict=True)
    ]
    return found


def read_document(name):
    return json.loads(Path(name, "certificate.json").read_text())


def success(document):
    (found,) = (said for said in document["statements"] if said["target"] == "success")
    return found


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_table_gives_the_certificate_of_its_episodes(suffix, folder, capfd):
    WRITERS[suffix](f"robot.{suffix}", rows())
    code, _, said = run(
        capfd, "certify", f"robot.{suffix}", "--columns", COLUMNS, "--out", "c", *QUICK
    )
    assert (code, said) == (0, [])
    document = read_document("c")
    assert verify("c") == []
    record = document["subject"]["recording"]
    assert record["format"] == suffix
    assert record["columns"]["obs"] == ["x0", "x1", "x2"]
    assert success(document)["estimate"] == pytest.approx(6 / 18)  # of those that calibrate
    code, _, said = run(capfd, "certify", "log.npz", "--out", "d", *QUICK)
    assert (code, said) == (0, [])
    plain = read_document("d")  # the same episodes, without the statement on success
    assert document["test_error"] == plain["test_error"]
    assert document["train_error"] == pytest.approx(plain["train_error"])
    assert document["n"] == plain["n"]


def demonstrations():
    return [
        {
            "observation.state": episode.observations,
            "action": np.zeros((len(episode.rewards), 1), np.float32),
            "next.reward": episode.rewards.astype(np.float32),
            "next.done": np.arange(len(episode.rewards)) == len(episode.rewards) - 1,
            "next.success": np.full(len(episode.rewards), index % 2 == 0),
        }
        for index, episode in enumerate(recording(24, seed=1))
    ]


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_lerobot_folder_is_certified_and_says_what_it_did_not_see(version, folder, capfd):
    write_lerobot("robot", demonstrations(), version, video="observation.images.front")
    code, out, said = run(capfd, "certify", "robot", *QUICK)
    assert code == 0
    camera = "observation.images.front"
    assert said == [f"tightrope: warning: left the images {camera} out of the observation of robot"]
    document = read_document("certificate-robot")
    assert verify("certificate-robot") == []
    assert out.startswith("Risk certificate for robot")
    assert document["subject"]["recording"]["format"] == f"LeRobot {version}"
    unseen = f"The predictor does not see the images of the log ({camera})."
    assert unseen in document["assumptions"]
    assert success(document)["estimate"] == pytest.approx(0.5)
    named = ("--columns", "obs=observation.state,success=", "--out", "named")
    code, _, said = run(capfd, "certify", "robot", *named, *QUICK)
    assert (code, said) == (0, [])
    document = read_document("named")
    assert unseen not in document["assumptions"]
    assert not any(said["target"] == "success" for said in document["statements"])


# --- a row per episode ---------------------------------------------------------------------------


def test_a_monitor_file_of_a_training_needs_frozen(folder, capfd):
    rows = "".join(f"{i % 7},{10 + i % 3},{i}\n" for i in range(40))
    Path("monitor.csv").write_text('#{"t_start": 0.0, "env_id": "A-v1"}\nr,l,t\n' + rows)
    code, out, said = run(capfd, "certify", "monitor.csv", "--out", "c")
    assert (code, out, len(said)) == (2, "", 1)
    assert "give --frozen" in said[0]
    code, out, said = run(capfd, "certify", "monitor.csv", "--out", "c", "--frozen")
    assert (code, said) == (0, [])
    assert "All 40 episodes calibrate: hold-out bounds, no PAC-Bayes." in out
    assert "predictor.safetensors" not in os.listdir("c")
    assert verify("c") == []


def test_the_best_of_several_evaluations_is_paid_for(folder, capfd):
    rng = np.random.default_rng(0)
    results = rng.normal(5.0, 1.0, (4, 30))
    arrays = {"timesteps": np.arange(4), "results": results, "ep_lengths": np.ones((4, 30), int)}
    np.savez("evaluations.npz", **arrays)
    for which, row, candidates in (("last", 3, 1), ("2", 1, 1), ("best", None, 4)):
        given = ("--evaluation", which, "--out", which)
        code, _, said = run(capfd, "certify", "evaluations.npz", *given)
        assert (code, said) == (0, [])
        document = read_document(which)
        assert document["settings"]["candidates"] == candidates
        (returns,) = (s for s in document["statements"] if s["kind"] == "return")
        of = int(results.mean(axis=1).argmax()) if row is None else row
        assert f"mean of all {results[of].mean():.6g}" in returns["note"]
