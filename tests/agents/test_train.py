"""Runs: resumed, killed, refused; all small, all real."""

import contextlib
import fcntl
import json
import math
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from interruptions import interrupt_at
from stable_baselines3.common.logger import Logger

from tightrope.agents import COLUMNS, TrainingInterruptedError, read_log, specify, train
from tightrope.agents import train as train_function
from tightrope.agents.checkpoint import load_checkpoint
from tightrope.agents.evaluation import evaluate
from tightrope.agents.snapshot import averaged, export
from tightrope.agents.specification import build
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import load_policy, load_record

SMALL = {"hidden": (8, 8), "batch": 16, "evaluation_episodes": 1, "evaluate_every": 250}
OFF = {**SMALL, "warmup": 40, "steps": 500, "levels": (300, 400, 900), "checkpoint_every": 100}
PENDULUM = "Pendulum-v1"  # episodes of 200 steps
KEPT = ("hidden", "batch", "warmup", "steps")


def weights(folder):
    with zipfile.ZipFile(folder / "policy.zip") as archive, archive.open("policy.pth") as stream:
        return torch.load(stream, weights_only=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A function that trains an agent (once) with OFF, to the end or as far as `until`."""
    folders = {}

    def run(agent, until=None):
        if (agent, until) not in folders:
            folders[agent, until] = tmp_path_factory.mktemp(agent) / "run"
            with pytest.MonkeyPatch.context() as patched, contextlib.ExitStack() as stack:
                if until is not None:
                    interrupt_at(patched, until)
                    stack.enter_context(pytest.raises(TrainingInterruptedError))
                train(agent, PENDULUM, folders[agent, until], **OFF)
        return folders[agent, until]

    return run


@pytest.fixture
def finished(kept, tmp_path):
    """A finished run of sac, for one test."""
    return shutil.copytree(kept("sac"), tmp_path / "run")


@pytest.fixture
def begun(kept, tmp_path):
    """A run of sac that was interrupted at step 450, for one test."""
    return shutil.copytree(kept("sac", 450), tmp_path / "run")


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("agent", "options", "step", "saved"),
    [
        ("redq", {"huber": 1.0}, 460, 400),
        ("redq", {"precision": "bfloat16"}, 460, 400),
        ("sac", {"warmup": 300}, 350, 200),  # in the warm-up, and after a snapshot at 300
        ("sac", {"buffer": 150}, 460, 400),  # with a full buffer
    ],
)
def test_a_resumed_run_is_the_run_that_was_interrupted(
    agent, options, step, saved, tmp_path, monkeypatch
):
    """Bit for bit: weights, record and log."""
    options = OFF | options
    whole = train(agent, PENDULUM, tmp_path / "whole", **options)
    words = rf"at step {step - 1}; .* from step {saved}"
    with monkeypatch.context() as patched:
        interrupt_at(patched, step)
        with pytest.raises(TrainingInterruptedError, match=words):
            train(agent, PENDULUM, tmp_path / "parts", **options)
    assert (tmp_path / "parts" / "checkpoint.pt").is_file()
    parts = train(agent, PENDULUM, tmp_path / "parts", **options)
    assert list(whole) == list(parts) == ["starter", "intermediate", "final"]
    for name in whole:
        assert same(weights(whole[name]), weights(parts[name])), name
        ours, theirs = (
            json.loads((folder[name] / "policy.json").read_text()) for folder in (whole, parts)
        )
        assert {**ours, "digests": 0} == {**theirs, "digests": 0}
    assert not same(weights(whole["intermediate"]), weights(whole["final"]))
    rows = [read_log(tmp_path / name / "log.csv") for name in ("whole", "parts")]
    for ours, theirs in zip(*rows, strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
    assert not (tmp_path / "parts" / "checkpoint.pt").exists()


def test_an_episode_that_does_not_end_does_not_hold_up_the_checkpoint(tmp_path, monkeypatch):
    late = {**OFF, "checkpoint_every": 50}  # in episodes of 200
    with monkeypatch.context() as patched:
        interrupt_at(patched, 150)
        with pytest.raises(TrainingInterruptedError, match="from step 100"):
            train("sac", PENDULUM, tmp_path / "run", **late)
    folders = train("sac", PENDULUM, tmp_path / "run", **late)
    assert (
        load_record(folders["final"] / "policy.json").episodes == 2
    )  # from 100 on: two whole ones


def test_a_resumed_ppo_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    options = {**SMALL, "steps": 640, "rollout": 64, "checkpoint_every": 128}
    with monkeypatch.context() as patched:
        interrupt_at(patched, 300)
        with pytest.raises(TrainingInterruptedError, match="from step 256"):
            train("ppo", PENDULUM, tmp_path / "run", **options)
    content = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert content["counters"]["num_timesteps"] == 256
    interrupt_at(monkeypatch, 640 - 256 + 1)  # exactly the steps that are left
    folders = train("ppo", PENDULUM, tmp_path / "run", **options)
    assert load_record(folders["final"] / "policy.json").steps == 640


def test_a_finished_run_is_left_alone_unless_it_lost_a_snapshot(finished, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("policy*")}
    interrupt_at(monkeypatch, 1)
    train("sac", PENDULUM, finished, **OFF)
    assert before == {p: p.stat().st_mtime_ns for p in finished.rglob("policy*")}
    shutil.rmtree(finished / "starter")
    with pytest.raises(InputError, match=r"expected 'starter' in .* found it gone"):
        train("sac", PENDULUM, finished, **OFF)
    assert (finished / "final" / "policy.zip").is_file()


@pytest.mark.parametrize("agent", ["redq", "ppo"])
def test_a_run_that_diverges_is_one_line(agent, tmp_path):
    options = {**SMALL, "steps": 1000, "learning_rate": 1e30}
    more = {"rollout": 128} if agent == "ppo" else {"warmup": 40}
    with pytest.raises(InputError, match=r"training diverged at step .* lower `learning_rate`"):
        train(agent, PENDULUM, tmp_path / "run", **options, **more)


def test_bfloat16_reaches_the_critics_and_a_run_goes_on_only_in_it(tmp_path, monkeypatch):
    halved = {**OFF, "precision": "bfloat16"}
    folders = train("sac", PENDULUM, tmp_path / "run", **halved)
    assert load_record(folders["final"] / "policy.json").settings["precision"] == "bfloat16"
    model, _ = build(specify("redq", PENDULUM, precision="bfloat16", compile="never"))
    for critic in (model.critic, model.critic_target):
        assert [layer.halved for layer in critic.layers] == [True, True, False]
    load_policy(folders["final"] / "policy.zip", make_env(PENDULUM))
    monkeypatch.setattr("torch.cpu.get_capabilities", dict, raising=False)
    with pytest.raises(InputError, match=r"precision bfloat16.*found float32: give the same"):
        train("sac", PENDULUM, tmp_path / "run", **OFF)
    train("sac", PENDULUM, tmp_path / "run", **halved)


@pytest.mark.parametrize(
    ("flags", "used", "device", "found"),
    [
        ({"avx512_bf16": True, "avx512_f": True}, "AVX512", "cpu", "bfloat16"),
        ({"amx_bf16": True}, "AVX512", "cpu", "bfloat16"),
        ({"avx512_bf16": False}, "AVX512", "cpu", "float32"),
        ({"avx512_bf16": True}, "DEFAULT", "cpu", "float32"),  # ATEN_CPU_CAPABILITY
        ({"avx512_bf16": True}, "AVX512", "cuda", "float32"),
    ],
)
def test_by_default_the_precision_is_what_the_processor_multiplies_fast(
    monkeypatch, flags, used, device, found
):
    """And is on record as such: on another processor the run does not go on otherwise."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: flags, raising=False)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: used)
    for agent in ("redq", "sac"):
        run = specify(agent, PENDULUM, device=device)
        assert run.to_json()["settings"]["precision"] == found
        for given in ("float32", "bfloat16"):
            assert specify(agent, PENDULUM, precision=given).settings.precision == given


def test_threads_are_no_more_than_cores_and_given_back(tmp_path, monkeypatch):
    seen, before = [], torch.get_num_threads()

    def spy(run):
        seen.append(torch.get_num_threads())
        raise InputError("enough")

    monkeypatch.setattr("tightrope.agents.training.build", spy)
    monkeypatch.setattr("tightrope.agents.training._ALL_THREADS", 2)
    for agent, threads in (("redq", None), ("sac", None), ("ppo", None), ("sac", 1), ("sac", 9)):
        with pytest.raises(InputError, match="enough"):
            train(agent, PENDULUM, tmp_path / "run", threads=threads)
    assert seen == [2, 2, 1, 1, 2]
    assert torch.get_num_threads() == before


def test_observations_are_scaled_by_the_moments_of_the_warm_up(tmp_path):
    """As the run itself records them in its replay buffer; with nothing but them."""
    run = specify("redq", PENDULUM, compile="never", **{k: v for k, v in OFF.items() if k in KEPT})
    model, _ = build(run)
    model.set_logger(Logger(None, []))
    model.learn(41, log_interval=None)
    seen = model.replay_buffer.observations[:41, 0].astype(np.float64)
    for network in (model.actor, model.policy.average, model.critic, model.critic_target):
        np.testing.assert_allclose(network.features_extractor.mean, seen.mean(axis=0), rtol=1e-5)
        deviation = np.maximum(seen.std(axis=0), 0.01)
        np.testing.assert_allclose(network.features_extractor.deviation, deviation, rtol=1e-5)
    model.learn(50, log_interval=None, reset_num_timesteps=False)
    np.testing.assert_allclose(model.actor.features_extractor.mean, seen.mean(axis=0), rtol=1e-5)


def test_a_scaled_policy_leaves_with_its_scaling(kept, tmp_path):
    folder, env = kept("sac") / "final", make_env(PENDULUM)
    kept = weights(folder)
    mean = kept["actor.features_extractor.mean"].double().numpy()
    assert np.abs(mean).max() > 0
    for name in ("policy.zip", "policy.safetensors"):
        frozen = load_policy(folder / name, env)
        np.testing.assert_array_equal(frozen.normalizer.mean, mean)
        assert np.isinf(frozen.normalizer.clip)
    short = {**OFF, "steps": 60, "scaled_observations": False}
    plain = train("sac", PENDULUM, tmp_path / "plain", **short)["final"]
    assert load_policy(plain / "policy.safetensors", env).normalizer is None


@pytest.mark.parametrize(("share", "ratio"), [(0.4, 2), (1.0, 1)])
def test_a_policy_leaves_with_the_average_of_its_actor(share, ratio, tmp_path):
    """Of about the last tenth, as long as the share is not the larger, by a loop of its own."""
    small = {k: v for k, v in OFF.items() if k in KEPT} | {"replay_ratio": ratio}
    run = specify("redq", PENDULUM, compile="never", actor_average=share, **small)
    model, statistics = build(run)
    model.set_logger(Logger(None, []))
    seen, step = [], model._step
    model._step = lambda *given, **also: (step(*given, **also), seen.append(values(model.actor)))[0]
    model.learn(60, log_interval=None)
    expected = np.zeros(len(seen[0]))
    for count, actor in enumerate(seen, start=1):
        expected += max(share, 10 / (count + 9)) * (actor - expected)
    average = values(model.policy.average)
    np.testing.assert_allclose(average, expected, rtol=1e-4, atol=1e-6)
    assert np.abs(seen[-1] - average).max() > 1e-4 or share == 1
    assert np.array_equal(seen[-1], average) == (share == 1)
    with contextlib.suppress(KeyboardInterrupt), averaged(model):
        np.testing.assert_array_equal(values(model.actor), average)
        raise KeyboardInterrupt
    np.testing.assert_array_equal(values(model.actor), seen[-1])
    statistics.low, statistics.high = -1.0, 0.0  # no episode has ended
    export(tmp_path / "snapshot", model, statistics, run)
    np.testing.assert_array_equal(values(model.actor), seen[-1])
    policy = load_policy(tmp_path / "snapshot" / "policy.safetensors", statistics)
    np.testing.assert_array_equal(policy.weights[-1].T, model.policy.average.mu.weight)


def values(actor):
    return np.concatenate([p.detach().double().numpy().ravel() for p in actor.parameters()])


WITHOUT_US = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tightrope":
            raise ImportError("tightrope is not installed here")
sys.meta_path.insert(0, Absent())
import numpy as np
import stable_baselines3
model = getattr(stable_baselines3, sys.argv[1].upper()).load(sys.argv[2])
rows = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
print(model.predict(rows, deterministic=True)[0].ravel().tolist())
"""


@pytest.mark.parametrize("agent", ["redq", "ppo"])  # sac is written as redq is
def test_stock_sb3_loads_the_zips_without_our_package_and_acts_alike(agent, tmp_path):
    """Its own predict, in a process of its own, against policy.safetensors in numpy."""
    ppo = {**SMALL, "steps": 256, "rollout": 128}
    options = ppo if agent == "ppo" else {**OFF, "precision": "bfloat16"}
    folder = list(train(agent, "InvertedPendulum-v5", tmp_path / "run", **options).values())[-1]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_US, agent.replace("redq", "sac"), folder / "policy.zip"],
        capture_output=True,
        text=True,
        check=True,
    )
    env = make_env("InvertedPendulum-v5")
    rows = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
    ours = load_policy(folder / "policy.safetensors", env).act(rows, np.zeros((8, 0), np.float32))
    np.testing.assert_allclose(json.loads(done.stdout), ours.ravel(), atol=1e-5)
    assert load_policy(folder / "policy.safetensors", env, sample=True).noise_size == 1


@pytest.mark.parametrize(
    ("agent", "env", "options", "words"),
    [
        ("a2c", PENDULUM, {}, "expected an agent among redq, sac, ppo, found 'a2c'"),
        ("sac", "CartPole-v1", {}, "expected continuous actions for sac"),
        ("redq", "Pendulum-v9", {}, "expected the id of an environment"),
        ("redq", PENDULUM, {"steps": 0}, "`steps` must be at least 1"),
        ("redq", PENDULUM, {"seed": -1}, "`seed` must be at least 0"),
        ("redq", PENDULUM, {"steps": 10_000}, "`steps` must be above `warmup` 10,000"),
        ("redq", PENDULUM, {"levels": (3, 2, 1)}, "`levels` must be three rising"),
        ("redq", PENDULUM, {"subset": 11}, "`subset` must be at most `critics` 10"),
        ("redq", PENDULUM, {"hidden": (0,)}, r"`hidden`\[0\] must be at least 1"),
        ("redq", PENDULUM, {"huber": math.nan}, "`huber` must be above 0"),
        ("redq", PENDULUM, {"tau": math.inf}, "`tau` must be a finite number"),
        ("redq", PENDULUM, {"actor_climbs": "all"}, "`actor_climbs` must be 'minimum' or 'mean'"),
        ("redq", PENDULUM, {"learned_norm": 1}, "`learned_norm` must be true or false"),
        ("sac", PENDULUM, {"actor_average": 1.5}, "`actor_average` must be at most 1"),
        ("redq", PENDULUM, {"warmup": 9}, "`warmup` must be at least 10 to scale observations"),
        ("redq", PENDULUM, {"target_entropy": 10**400}, "`target_entropy` must be a number or"),
        ("redq", PENDULUM, {"device": "gpu"}, "`device` must be auto, cpu, cuda or such as"),
        ("redq", PENDULUM, {"device": "cuda:99"}, "expected a GPU for `device` cuda:99"),
        ("sac", PENDULUM, {"critics": 5}, "expected options among gamma, .*, found 'critics'"),
        ("ppo", PENDULUM, {"compile": "always"}, "`compile` always is for redq and sac"),
        ("sac", PENDULUM, {"compile": True}, "`compile` must be among auto, always, never"),
        ("sac", PENDULUM, {"hidden": 64}, "`hidden` must be a list"),
        ("ppo", PENDULUM, {"warmup": 5}, "found 'warmup'"),
        ("ppo", PENDULUM, {"rollout": 100}, "`rollout` must be a multiple of a `batch`"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(agent, env, options, words, tmp_path):
    with pytest.raises(InputError, match=words):
        # few steps, in case it is not refused
        train_function(agent, env, tmp_path / "run", **{"steps": 12_000, **options})
    assert not (tmp_path / "run").exists()


def test_the_defaults_are_the_papers_table():
    redq, sac, ppo = (specify(agent, "Hopper-v4") for agent in ("redq", "sac", "ppo"))
    assert redq.levels == {"starter": 100_000, "intermediate": 200_000, "expert": 300_000}
    assert sac.levels == {"starter": 50_000, "intermediate": 100_000, "expert": 1_000_000}
    assert ppo.levels == {"starter": 1_000_000, "intermediate": 3_000_000, "expert": 5_000_000}
    for run in (redq, sac, ppo):
        assert run.steps == run.levels["expert"]
        chosen = run.settings
        assert (chosen.gamma, chosen.hidden) == (0.99, (256, 256))
        assert (chosen.learning_rate, chosen.batch) == (3e-4, 256)
    assert (redq.settings.critics, redq.settings.subset) == (10, 2)
    assert (redq.settings.buffer, redq.settings.warmup) == (100_000, 10_000)
    assert redq.settings.tau == sac.settings.tau == 5e-3
    assert redq.settings.replay_ratio == 1
    for chosen in (redq.settings, sac.settings):  # not the paper's: docs/agents.md
        departures = (chosen.critic_norm, chosen.scaled_observations, chosen.actor_average)
        assert departures == (False, True, 3e-4)
    assert redq.settings.huber == math.inf
    assert specify("sac", "Hopper-v4", levels=(1, 2, 3)).steps == 1_000_000
    assert redq.compile
    assert not specify("redq", "Hopper-v4", steps=20_000).compile


def test_a_run_whose_folder_is_gone_ends_with_a_line_and_leaves_nothing(tmp_path, monkeypatch):
    """It would otherwise say that it has snapshots that are not there."""
    plain, steps = TrainingStatistics.step, [0]

    def stepping(self, action):
        steps[0] += 1
        if steps[0] == 250:
            shutil.rmtree(tmp_path / "run")
        return plain(self, action)

    monkeypatch.setattr(TrainingStatistics, "step", stepping)
    short = {**OFF, "steps": 300, "warmup": 290, "evaluate_every": 300, "levels": (300, 400, 900)}
    with pytest.raises(InputError, match="found it gone"), pytest.warns(match="TensorBoard"):
        train("sac", PENDULUM, tmp_path / "run", **{**short, "checkpoint_every": 200})
    assert not (tmp_path / "run").exists()


def test_snapshots_are_of_their_steps_and_carry_the_record_and_the_log(kept):
    for name, steps in (("starter", 300), ("intermediate", 400), ("final", 500)):
        record = load_record(kept("redq") / name / "policy.json")
        assert (record.agent, record.steps, record.gamma) == ("redq", steps, 0.99)
        assert record.episodes == steps // 200
        assert record.return_low < record.return_high <= 0
        assert record.settings["critics"] == 10
        assert record.environment["id"] == PENDULUM
    for path in (kept("redq") / "run.json", kept("redq") / "final" / "policy.json"):
        content = json.loads(path.read_text(), parse_constant=pytest.fail)
        assert content["settings"]["huber"] == "inf"  # JSON has no infinity
    path = kept("redq") / "log.csv"
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    rows = read_log(path)
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    assert [row["step"] for row in rows if "eval_return" in row] == [250, 500]
    assert {"critic_loss", "actor_loss", "temperature", "entropy"} <= set(rows[-1])
    assert rows[-1]["episodes"] == 2
    assert list((path.parent / "tensorboard").glob("events*"))


def test_evaluations_are_of_the_averaged_actor(tmp_path, monkeypatch):
    shown = []

    def evaluated(model, *args, **kwargs):
        shown.append((values(model.actor), values(model.policy.average)))
        return evaluate(model, *args, **kwargs)

    monkeypatch.setattr("tightrope.agents.training.evaluate", evaluated)
    train("sac", PENDULUM, tmp_path / "run", **{**OFF, "steps": 120, "evaluate_every": 60})
    assert len(shown) >= 2
    for actor, average in shown:
        np.testing.assert_array_equal(actor, average)


def test_another_run_in_the_same_folder_is_refused_and_nothing_is_lost(begun, tmp_path):
    """Nor in a folder with something else, nor while another process is at it."""
    before = (begun / "checkpoint.pt").read_bytes()
    for agent, env, change, words in (
        ("sac", PENDULUM, {"seed": 1}, r"seed 0\), found 1"),
        ("sac", PENDULUM, {"steps": 600}, r"steps 500\), found 600"),
        ("sac", PENDULUM, {"batch": 32}, r"settings: batch 16\), found 32"),
        ("redq", PENDULUM, {}, r"agent sac\), found redq"),
        ("sac", "MountainCarContinuous-v0", {}, r"environment: id Pendulum-v1\), found Mountain"),
    ):
        with pytest.raises(InputError, match=words):
            train(agent, env, begun, **OFF | change)
    with (begun / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is using the run in"):
            train("sac", PENDULUM, begun, **OFF)
    path = begun / "run.json"
    content = json.loads(path.read_text())
    content["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"versions: torch 1\.0\), found"):
        train("sac", PENDULUM, begun, **OFF)
    assert (begun / "checkpoint.pt").read_bytes() == before
    for name in ("thesis.tex", ".gitlab-ci.yml"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("years of work")
        with pytest.raises(InputError, match="with other content: choose another `out`"):
            train("sac", PENDULUM, folder, **OFF)
        assert [path.name for path in folder.iterdir()] == [name]


def test_a_specification_is_json_with_pythons_numbers(monkeypatch):
    run = specify("sac", PENDULUM, steps=np.int64(20_000), seed=np.int32(3), hidden=(np.int64(8),))
    json.dumps(run.to_json())
    assert run == specify("sac", PENDULUM, steps=20_000, seed=3, hidden=(8,))
    for asked, expected in (("auto", -1.0), (np.float32(-0.5), -0.5)):
        run = specify("redq", PENDULUM, target_entropy=asked, compile="never")
        assert build(run)[0].target_entropy == expected
        assert json.loads(json.dumps(run.to_json()))["settings"]["target_entropy"] == asked
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for device, found in (("auto", "cuda"), ("cpu", "cpu"), ("cuda:1", "cuda:1")):
        assert specify("sac", PENDULUM, device=device).to_json()["device"] == found
