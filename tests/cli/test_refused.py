"""What cannot be done, for every verb: one line, exit code 2, and nothing written."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import custom_environments  # noqa: F401
import numpy as np
import pytest
from command import POLICY, STUDY, run
from recordings import recording, short_fits
from tables import rows_of, write_csv

from tightrope.rollouts import export_arrays, save

OWN = """
calls = []

def late(episode):
    return float("nan") if episode.seed == 5 else 1.0

def broken(episode):
    return 1 / (episode.seed - 7)

def counting(episode):
    calls.append(episode)
    return len(calls)
"""
LEROBOT = {"per_episode": [{"success": True}], "aggregated": {"pc_success": 100.0}}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder of logs, tables and other things to make mistakes with."""
    place = tmp_path_factory.mktemp("material")
    own = pytest.MonkeyPatch()
    own.chdir(place)
    Path("policy.py").write_text(POLICY)
    Path("mine.py").write_text(OWN)
    Path("there").mkdir()
    Path("other").mkdir()
    Path("other/thesis.tex").touch()
    log = recording(24, seed=1)
    export_arrays(log, Path("log.npz"))
    export_arrays(recording(24, seed=2, features=2), Path("narrow.npz"))
    save(log, "own.safetensors")
    with np.load("log.npz") as arrays:
        content = dict(arrays)
    for name in ("observations", "rewards"):
        spoilt = content[name].copy()
        spoilt[100] = np.nan
        np.savez(f"nan-{name}.npz", **{**content, name: spoilt})
    np.savez("constant.npz", **{**content, "rewards": np.zeros_like(content["rewards"])})
    np.savez("endless.npz", **{**content, "timeouts": np.zeros_like(content["timeouts"])})
    for name in ("text.csv", "text.parquet", "text.pkl"):
        Path(name).write_bytes(b"a,b\n1,2\n")
    steps = rows_of(list(log))
    write_csv("steps.csv", steps)
    steps["t"][3:6] = [4, 5, 6]
    write_csv("gap.csv", steps)
    rng = np.random.default_rng(0)
    values = rng.normal(size=30)
    write_csv("a.csv", {"return": values})
    write_csv("score.csv", {"score": values})
    write_csv("sorted.csv", {"return": np.sort(values)})
    write_csv("words.csv", {"success": ["yes", "perhaps"]})
    write_csv("high.csv", {"return": ["1.5", "high"]})
    write_csv("neither.csv", {"height": [1, 2], "width": [3, 4]})
    for name, tasks in (("lift", ("lift", "push")), ("pull", ("lift", "pull"))):
        write_csv(f"{name}.csv", {"task": np.repeat(tasks, 90), "return": rng.normal(size=180)})
    Path("monitor.csv").write_text('#{"t_start": 0}\nr,l,t\n1.0,5,0.1\n2.0,5,0.2\n')
    Path("eval_info.json").write_text(json.dumps(LEROBOT))
    for name, (old, new) in {
        "study": ("", ""),
        "agent": ("ppo", "dqn"),
        "scheme": ("rec-2", "rec-x"),
        "id": ("Pendulum-v1", "Pendulun-v1"),
        "few": ("episodes = [6]", "episodes = [1]"),
        "key": ("repetitions", "repetition"),
    }.items():
        Path(f"{name}.toml").write_text(STUDY.replace(old, new) if old else STUDY)
    own.undo()
    return place


@pytest.fixture
def place(material, monkeypatch):
    monkeypatch.chdir(material)
    with short_fits():
        yield material


def contents(place):
    return {path for path in place.rglob("*") if "__pycache__" not in path.parts}


PENDULUM = "policy.py:act --env Pendulum-v1"
COLUMNS = "--columns obs=x*,reward=r,episode=run,step=t,terminated=fell,truncated=cut"
REC = "certify log.npz --scheme rec-2"
SEARCH = "certify log.npz --until 'rms<=3'"
ROLL = f"collect {PENDULUM} --out new.npz"
FORMATS = (
    "recorded episodes (.safetensors, .npz, .hdf5, .csv, .tsv, .parquet, the folder of a "
    "LeRobot dataset, or the id or folder of a Minari dataset)"
)

REFUSED = {
    # options of a certificate
    f"{REC} --episodes 5 --scheme=rec-6": "--scheme specified multiple times",
    "certify log.npz --episodes 5 --scheme rec-6": "at least 6",
    f"{REC} --episodes 30": "found 24",
    f"{REC} --delta 0": "--delta must be above 0, found '0'",
    f"{REC} --delta 0.5 --delta-prime 0.5": "below 1",
    f"{REC} --return-range 2 2": "--return-range LO < HI",
    f"{REC} --return-range 0 inf": "--return-range[1] must be",
    f"{REC} --return-floor 1 --pilot-episodes 4": "a lower one may be certified on other episodes",
    f"{REC} --pilot-episodes 0": "--pilot-episodes of at least 1",
    f"{REC} --fit-episodes 3": "no --fit-episodes with rec-2",
    f"{REC} --mc-passes 0": "--mc-passes must be at least 1",
    f"{REC} --seed -1": "--seed must be",
    f"{REC} --device gpu": "--device must be auto, cpu, cuda or such as",
    f"{REC} --device cuda:99": "expected a GPU for --device cuda:99",
    f"{REC} --clock off --time-limit 6": "--time-limit with --clock off",
    f"{REC} --fail-below nan": "--fail-below must be a finite number",
    "certify log.npz --pilot-episodes 4": "no --pilot-episodes with auto",
    "certify log.npz --scheme rec-x": "rec-T",
    SEARCH: "a policy to roll out with --until",
    # options that are for something else
    "certify log.npz --evaluation 2": "expected --evaluation for a table of results",
    "certify log.npz --env Hopper-v4": "no --env for",
    "certify log.npz --workers 2": "no --workers for",
    "certify log.npz --trust": "no --trust for",
    "certify steps.csv --columns colour=x0": "roles among return, success, seed, episode, task in",
    "certify steps.csv --columns x0": "expected --columns as ROLE=NAME,...",
    f"certify steps.csv {COLUMNS},obs=y*": "'steps.csv': expected a column y* for obs",
    f"certify gap.csv {COLUMNS}": "--columns step= skips this check",
    "certify log.npz --columns obs=x": "expected no --columns but for a table",
    f"certify {PENDULUM} --columns obs=x": "no --columns for a policy",
    # properties
    "certify own.safetensors --property x=mine.py:late": "episode 5 (seed 5), found nan",
    "certify own.safetensors --property x=mine.py:broken": "(seed 7) failed: ZeroDivisionError",
    "certify own.safetensors --property x=mine.py:counting": "episode 23 (seed 23): it depends on",
    "certify own.safetensors --property x=mine.py:nothing": "a function 'nothing' in 'mine.py'",
    "certify own.safetensors --property =mine.py:late": "--property NAME=FILE.py:FUNCTION, found",
    "certify own.safetensors --property x=": "expected a function for property 'x', found none",
    "certify own.safetensors --property-limit 'y<=3'": "NAME of a --property (there is none)",
    "certify own.safetensors --property x --property-limit x=3": "NAME<=LIMIT or NAME>=LIMIT",
    # sources
    "certify": "policy or recorded episodes, or --demo",
    "certify --demo log.npz": "--demo alone",
    "certify --demo --env Hopper-v4": "--demo alone",
    "certify policy.py:act": "--env",
    "certify nothing": FORMATS,
    "certify nothing.npz": "nothing at 'nothing.npz'",
    "certify nothing.safetensors": "nothing at 'nothing.safetensors'",
    "certify nothing.csv": "found nothing at 'nothing.csv'",
    "certify nothing.zip --env Pendulum-v1": "nothing.zip",
    "certify there": "Minari",
    "certify text.csv": "'text.csv': expected a column of returns or successes",
    "certify text.parquet": "cannot read 'text.parquet'",
    "certify text.pkl": "executes code",
    "certify policy.py": "file.py:name",
    "certify policy.py:act --env Pendlum-v1": "Pendulum-v1",
    "certify nan-observations.npz": "found NaN",
    "certify nan-rewards.npz": "found NaN",
    "certify constant.npz": "returns that vary",
    "certify constant.npz --return-range -1 1": "returns that vary",
    "certify endless.npz": "at least one episode with an end",
    # places
    f"{REC} --out there": "'there' already there",
    f"{REC} --out log.npz": "'log.npz' already there",
    f"{REC} --out log.npz/new": "log.npz",
    "compare log.npz log.npz --out log.npz": "already there",
    f"collect {PENDULUM} --out policy.py": "policy.py",
    f"collect {PENDULUM} --out policy.py/new.npz": "policy.py",
    f"collect {PENDULUM} --out new.csv": ".safetensors, .npz or .hdf5",
    f"collect {PENDULUM} --out new.npz --keep-partial": "ending in .safetensors with",
    "audit independent --out other": "expected a new folder or ",
    # roll-outs
    "collect nothing.zip --env Pendulum-v1 --out new.npz": "nothing at",
    "collect policy.py:nope --env Pendulum-v1 --out new.npz": "policy.py:nope",
    "collect not_a_package.module:act --env Pendulum-v1 --out new.npz": "not_a_package",
    "collect policy.txt --env Pendulum-v1 --out new.npz": "expected a Stable-Baselines3 .zip",
    "collect policy.py:wild --env Pendulum-v1 --out new.npz": "Box(-2.0, 2.0, (1,), float32)",
    "collect policy.py:wide --env Pendulum-v1 --out new.npz": "Box(-2.0, 2.0, (1,), float32)",
    "collect policy.py:act --env Nested-v0 --out new.npz": "Dict('left'",
    "collect policy.py:act --env Pendlum-v1 --out new.npz": "did you mean Pendulum-v1",
    "collect policy.py:act --out new.npz": "--env",
    "collect log.npz --env Pendulum-v1 --out new.npz": "recorded episodes",
    f"{ROLL} --episodes 0": "episodes must be",
    f"{ROLL} --seed -1": "seed must be",
    f"{ROLL} --workers 0": "workers must be",
    f"{ROLL} --timeout 0": "timeout must be",
    f"{ROLL} --normalize x.npz": "--normalize",
    f"{ROLL} --normalize x.npz --no-normalize": "expected --normalize or --no-normalize",
    # counts and results per episode
    "compare 80/74 91/120": "two whole numbers such as 74/80, the second at least the first",
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
    "compare a.csv nowhere.csv": "nowhere.csv",
    "compare a.csv policy.py:act": "found recorded episodes as A and a policy as B",
    "compare a.csv 3/5": "successes of one task to compare with counts",
    "compare 3/5 4/5 --out page.html": "no --out for counts",
    "compare log.npz narrow.npz": "observations of one size in numbers, found 3 in A and 2 in B",
    "compare log.npz log.npz --env Pendulum-v1": "expected no --env for the recorded episodes",
    "compare log.npz log.npz --batch 1": "--batch must be",
    "compare log.npz log.npz --return-range 0 0.001": "give a wider --return-range",
    # conditions
    "check a.csv": "expected a condition among --max-rms, --min-return",
    "check 74/80 --max-failure 2": "--max-failure must be at most 1",
    "check 74/80 --share 0.5": "expected --max-rms or --min-return with --share, found none",
    "check there --max-rms 1": "expected a certificate",
    "plan policy.py:act": "a certificate, recorded episodes or a table of results",
    "plan 74/80 --numbers 0": "--numbers must be at least 1 each",
    **{f"verify {name}": "certificate" for name in ("nowhere", "there", "log.npz")},
    **{f"report {name}": "certificate" for name in ("nowhere", "there", "log.npz")},
    "verify there --replay 2": "--replay of at least 1 with --policy",
    "verify there --env Pendulum-v1": "expected --replay with --env",
    # studies and audits
    "study agent.toml": "found 'dqn'",
    "study scheme.toml": "expected a scheme among",
    "study id.toml": "Pendulun-v1",
    "study few.toml": "at least 2 validation episodes",
    "study key.toml": "found 'repetition'",
    "study study.toml --address host:1": "expected --address for --engine ray",
    "study study.toml --engine ray --workers 2": "expected --workers for --engine local",
    "study study.toml --dry-run --status": "expected --dry-run or --status",
    "study study.toml --status": "expected a study in 'study-small', found none",
    "study study.toml --engine slurm": "slurm",
    "audit": "expected a synthetic task or a policy",
    "audit --demo independent": "--demo",
    "audit independant": "expected a synthetic task among independent, correlated",
    "audit independent --env Hopper-v4": "expected no --env for the synthetic task",
    "audit independent --repetitions 0": "--repetitions must be at least 1",
    "audit independent --schemes best": "expected a scheme among",
    "audit independent --address host:1": "expected --address for --engine ray",
    "audit independent --via callback --until 'rms<=1'": "expected --until or",
    "audit independent --gamma 1": "--gamma",
    # training
    "train a2c": "expected an agent among redq, sac, ppo",
    "train sac --out new --env CartPole-v1": "continuous actions for sac",
    "train sac --out new --env Nowhere-v1": "the id of an environment",
    "train sac --out new --env Pendulum-v1 --critics 3": "Unknown option: --critics",
    "train sac --out new --env Pendulum-v1 --steps 10": "--steps must be above --warmup",
    "train redq --out new --env Pendulum-v1 --learning-rate 0": "--learning-rate must be",
    "train redq --out new --env Pendulum-v1 --huber 0": "--huber must be",
    "train sac --out new --env Pendulum-v1 --device cuda:7": "a GPU for --device cuda:7",
    "train sac --out new --env Pendulum-v1 --device tpu": "--device must be auto, cpu, cuda or",
}


def refused(capfd, place, *arguments):
    """The one line on standard error; the folder must be as it was."""
    before = contents(place)
    code, out, said = run(capfd, *arguments)
    assert (code, out, len(said)) == (2, "", 1), (out, said)
    assert said[0].startswith("tightrope: ")
    assert "`" not in said[0] or arguments[0] == "study"  # there, keys of its file
    assert contents(place) == before
    return said[0]


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_input_is_one_line_in_flags_exit_code_2_and_nothing_written(line, place, capfd):
    assert REFUSED[line] in refused(capfd, place, *shlex.split(line))


EARLY = ["--scheme rec-6 --episodes 5", "--scheme rec-2 --delta 0.5 --delta-prime 0.5",
         "--scheme rec-2 --pilot-episodes 0", "--out there", "--out policy.py/new",
         "--until 'rms<=3' --episodes 9"]  # fmt: skip


@pytest.mark.parametrize("options", EARLY)
def test_what_options_show_to_be_wrong_is_said_before_a_roll_out(
    options, place, capfd, monkeypatch
):
    monkeypatch.setattr("tightrope.certificates.certify.collect", lambda *_, **__: 1 / 0)
    refused(capfd, place, "certify", *shlex.split(f"{PENDULUM} {options}"))


UNUSABLE = {
    "no finished episode": (
        {"episodes": 0, "return_low": np.inf, "return_high": -np.inf},
        "--pilot-episodes",
    ),
    "a range of one point": ({"return_low": 0.5}, "--pilot-episodes"),
    "a policy that was changed": (
        {"digests": {"policy.safetensors": "0" * 64}},
        "changed after training",
    ),
    "another width": (
        {f"observation_{name}": np.ones(4, np.float32) for name in ("mean", "deviation")},
        "expected a training record for 3 features, found one for 4",
    ),
}


@pytest.mark.parametrize(("changes", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_training_record_that_cannot_be_used_is_one_line(changes, words, folder, trained, capfd):
    trained("run", **changes)
    few = "--episodes 3 --test-episodes 1 --workers 1 --scheme rec-2 --preset paper"
    assert words in refused(capfd, folder, "certify", "run", *few.split())


@pytest.mark.parametrize("what", ["save_predictor", "save", "as_text"])
def test_a_failure_while_writing_leaves_no_folder(what, folder, capfd, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"tightrope.certificates.folder.{what}", full)
    line = refused(capfd, folder, "certify", "log.npz", "--out", "new")
    assert line == "tightrope: cannot write 'new': No space left on device"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs to mount a disk")
@pytest.mark.parametrize("file", ["predictor.safetensors", "rollouts.safetensors", "report.html"])
def test_a_really_full_disk_is_one_line_and_leaves_nothing(file, issued, folder, capfd):
    """A file system of 8 MB, filled until half of that file fits; may be forbidden even to root."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is forbidden here")
    order = ["predictor.safetensors", "rollouts.safetensors", "certificate.json", "report.html"]
    before = [(issued / name).stat().st_size for name in order[: order.index(file)]]
    room = sum(size + 4096 for size in before) + (issued / file).stat().st_size // 2
    given = "--scheme rec-2 --mc-passes 2 --pilot-episodes 4 --out"
    try:
        (disk / "ballast").write_bytes(bytes(8 * 2**20 - 4096 - room))
        line = refused(capfd, folder, "certify", "log.npz", *given.split(), disk / "new")
        assert line == f"tightrope: cannot write '{disk / 'new'}': No space left on device"
    finally:
        subprocess.run(["umount", str(disk)], check=True)
