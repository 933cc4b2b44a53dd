"""Every reader of files that a stranger may have written, with good files to do harm to."""

import contextlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import mutations
import numpy as np
import onnx
import stable_baselines3
from recordings import certified, recording, short_fits
from small_policies import perceptron, write_trained
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from study_tables import study_table
from tables import WRITERS, write_lerobot, write_minari, write_parquet

from tightrope.certificates import Options, as_text, load_certificate, settle, to_document
from tightrope.certificates.certify import certify
from tightrope.certificates.folder import document_digest, read_document
from tightrope.certificates.split import split_episodes
from tightrope.certificates.text import details, summary
from tightrope.certificates.verify import verify
from tightrope.deploy import Conditions, Monitor
from tightrope.deploy.check import check
from tightrope.deploy.plan import forecast
from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import (
    check_fit,
    find_run,
    load_policy,
    load_record,
    run_environment,
    save_mlp,
)
from tightrope.policies.vecnormalize import read_statistics
from tightrope.posteriors import load_predictor
from tightrope.reports import certificate_page
from tightrope.reports.index import entries
from tightrope.rollouts import (
    Episode,
    export_arrays,
    is_recording,
    join,
    load_episodes,
    policy_source,
    save,
)
from tightrope.rollouts.results_table import is_results, read_results
from tightrope.studies.certificate_records import read_table
from tightrope.studies.config import load_study

# By the suffix of the file that is harmed; bytes of any file may be.
HARMS = {
    ".safetensors": mutations.tensors,
    ".json": mutations.document,
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".toml", ".yml"), mutations.lines),
    **dict.fromkeys((".npz", ".zip"), mutations.archive),
}


class Reader(NamedTuple):
    """How a good file is made and read, and how often it is harmed.

    Attributes:
        name: of the file or folder that is read; `make` may put others beside it.
        make: writes it to the path that it is given.
        read: reads that path; it may raise InputError and nothing else.
        share: of the cases of a campaign, compared with others.
    """

    name: str
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    share: float = 1.0


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# --- our own files ---------------------------------------------------------------------------


def log():
    return recording(12, seed=1)


def read_episodes(path):
    """And what every user of episodes does first."""
    is_recording(path)
    episodes = load_episodes(path)
    repr(episodes)
    split_episodes(episodes, settle(Options(fit_episodes=2), episodes))


def make_certificate(path, scheme="auto"):
    """The folder of the file, or the folder itself."""
    recursive = {"preset": "paper", "mc_passes": 2, "pilot_episodes": 2}
    options = {} if scheme == "auto" else recursive
    folder = path.parent if path.suffix else path
    certified(log(), seed=0, scheme=scheme, **options).save(folder)


def read_predictor(path):
    predictor, _ = load_predictor(path)
    elapsed = None if predictor.scaling.clock is None else np.zeros(2, np.int64)
    predictor(np.zeros((2, predictor.scaling.features), np.float32), elapsed=elapsed)


def read_certificate_json(path):
    """Whatever reads the document alone; its own digest is made right."""
    with contextlib.suppress(ValueError, RecursionError, AttributeError, TypeError):
        spoilt = json.loads(path.read_text())
        spoilt["digests"]["certificate"] = document_digest(spoilt)
        path.write_text(as_text(spoilt))
    (entry,) = entries(path.parent.parent)  # shows it, or says why not
    assert "\n" not in entry.problem
    record, _ = read_document(path)
    to_document(record), summary(record), details(record)
    check(path, Conditions(max_rms=9.0, min_return=0.0, max_failure=0.5, min_confidence=0.5))
    forecast(load_certificate(path.parent, verify=False), 400)


def read_certificate(path):
    with short_fits():
        problems = verify(path)
    assert all("\n" not in problem for problem in problems), problems
    certificate_page(load_certificate(path, verify=False))


def read_monitor(path):
    monitor = Monitor(path)
    monitor.reset(np.zeros(monitor.features, np.float32))
    monitor.step(1.0, np.zeros(monitor.features, np.float32), False, False)


def make_policy(path):
    save_mlp(perceptron(3, 1, log_std=0.1), path, environment="Pendulum-v1")


def read_policy(path):
    env = make_env("Pendulum-v1")
    check_fit(load_policy(path, env), env)


def read_record(path):
    repr(load_record(path))
    policy_source(path.parent)


def make_study(path):
    path.write_bytes((Path(__file__).parents[2] / "studies" / "mini.toml").read_bytes())


def make_study_table(path):
    table = study_table(presets=("tight",), levels=("expert",), schemes=("auto", "rec-6"))
    table.to_csv(path, index=False)


# --- logs and results of others --------------------------------------------------------------


def make_table(path):
    last = [step == 4 for _ in range(6) for step in range(5)]
    columns = {
        "episode": [f"run {index}" for index in range(6) for _ in range(5)],
        "step": [step for _ in range(6) for step in range(5)],
        **{f"obs_{name}": draw(30).tolist() for name in "xy"},
        "reward": draw(30).tolist(),
        "terminated": last,
        "truncated": [False] * 30,
        "success": last,
    }
    if path.suffix == ".parquet":
        columns["obs_z"] = np.arange(60.0).reshape(30, 2)
    WRITERS[path.suffix[1:]](path, columns)


def make_lerobot(path, version):
    episodes = [
        {
            "observation.state": draw(length, 2),
            "action": draw(length, 3),
            "next.reward": draw(length),
            "next.done": np.arange(length) == length - 1,
        }
        for length in (3, 1, 5, 2, 4)
    ]
    write_lerobot(path, episodes, version)


def make_minari(path):
    arrays = {"observations": draw(4, 2), "actions": draw(4, 1), "final_observation": draw(2)}
    rewards = np.arange(4.0)
    episodes = [
        Episode(rewards=rewards, terminated=True, truncated=False, seed=seed, **arrays)
        for seed in range(5)
    ]
    os.environ["MINARI_DATASETS_PATH"] = str(path.parent)
    write_minari(path.name, join(episodes))


def make_evaluations(path):
    steps, lengths = np.arange(1, 4) * 1000, np.full((3, 5), 200)
    np.savez(path, timesteps=steps, results=draw(3, 5), ep_lengths=lengths)


def make_results_parquet(path):
    write_parquet(path, {"return": draw(20), "success": [True] * 20, "note": ["a"] * 20})


def writing(text):
    return lambda path: path.write_text(text)


def read_results_file(path):
    is_results(path)
    read_results(path, frozen=True)
    details(certify(path, frozen=True, seed=0))


ROWS = [{"seed": i, "return": 1.5 * i, "success": i % 3 > 0, "peak": -i / 7} for i in range(12)]
CSV = "\n".join([",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)])
MONITOR = '#{"t_start": 1.5, "env_id": "Pendulum-v1"}\nr,l,t\n' + "-1.5,200,0.1\n-2,200,0.2\n" * 6
METRICS = {"sum_rewards": [0.5, 1.0] * 4, "successes": [True, False] * 4}
TASKS = [{"task_group": "libero", "task_id": task, "metrics": METRICS} for task in range(3)]
EVALUATION = {"per_task": TASKS, "overall": {"pc_success": 50.0}}


# --- policies of others ----------------------------------------------------------------------


def make_sb3(path, algorithm):
    extra = {} if algorithm == "PPO" else {"buffer_size": 10}
    kind, env = getattr(stable_baselines3, algorithm), gym.make("Pendulum-v1")
    small = {"net_arch": [8, 8]}
    kind("MlpPolicy", env, policy_kwargs=small, device="cpu", **extra).save(path)


def make_onnx(path):
    constants = {"w": draw(3, 1), "b": np.zeros(1, np.float32)}
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["observations", "w"], ["a"]),
            helper.make_node("Add", ["a", "b"], ["c"]),
            helper.make_node("Tanh", ["c"], ["actions"]),
        ],
        "policy",
        [helper.make_tensor_value_info("observations", kind, ["batch", 3])],
        [helper.make_tensor_value_info("actions", kind, ["batch", 1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def make_statistics(path):
    if path.suffix == ".npz":
        np.savez(path, mean=np.zeros(3), var=np.ones(3), epsilon=1e-8, clip=10.0)
    else:
        VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")])).save(str(path))


def read_statistics_file(path):
    normalizer = read_statistics(path, make_env("Pendulum-v1"))
    if normalizer is not None:
        normalizer(np.zeros((2, 3), np.float32))


CONFIG = """!!python/object/apply:collections.OrderedDict
- - - batch_size
    - 64
  - - env_wrapper
    - - sb3_contrib.common.wrappers.TimeFeatureWrapper: {max_steps: 200}
  - - normalize
    - 'dict(norm_obs=False, norm_reward=False)'
  - - policy_kwargs
    - &id001 dict(log_std_init=-1)
  - - again
    - *id001
"""


def make_zoo(path):
    run = path / "Pendulum-v1"
    run.mkdir(parents=True)
    (path / "Pendulum-v1.zip").write_bytes(b"")
    (run / "args.yml").write_text("algo: ppo\nenv: Pendulum-v1\nenv_kwargs: {g: 9.8}\n")
    (run / "config.yml").write_text(CONFIG)


def read_zoo(path):
    run = find_run(path)
    if run is None:
        raise InputError("no run")
    run_environment(run)
    run.require_statistics()


RECURSIVE = partial(make_certificate, scheme="rec-2")
READERS = {
    "episodes": Reader("e.safetensors", lambda path: save(log(), path), read_episodes, 2),
    "predictor": Reader("certificate/predictor.safetensors", RECURSIVE, read_predictor),
    "policy": Reader("policy.safetensors", make_policy, read_policy),
    "document": Reader("c/certificate.json", make_certificate, read_certificate_json, 2),
    "certificate": Reader(
        "certificate", partial(make_certificate, scheme="nonrec-noninf"), read_certificate, 0.6
    ),
    "record": Reader("policy.json", lambda path: write_trained(path.parent), read_record),
    "monitor": Reader(
        "m.safetensors", lambda path: Monitor(certified(log(), seed=0)).save(path), read_monitor
    ),
    "study table": Reader("table.csv", make_study_table, lambda path: read_table(path.parent), 0.2),
    "study": Reader("study.toml", make_study, load_study),
    "npz": Reader("log.npz", lambda path: export_arrays(log(), path), read_episodes),
    "hdf5": Reader("log.hdf5", lambda path: export_arrays(log(), path), read_episodes),
    "csv": Reader("log.csv", make_table, read_episodes),
    "tsv": Reader("log.tsv", make_table, read_episodes, 0.5),
    "parquet": Reader("log.parquet", make_table, read_episodes),
    "lerobot-2": Reader("robot", partial(make_lerobot, version="v2.1"), read_episodes),
    "lerobot-3": Reader("robot", partial(make_lerobot, version="v3.0"), read_episodes),
    "minari": Reader("walk-v0", make_minari, read_episodes, 0.6),
    "sb3-ppo": Reader("model.zip", partial(make_sb3, algorithm="PPO"), read_policy),
    "sb3-sac": Reader("model.zip", partial(make_sb3, algorithm="SAC"), read_policy, 0.5),
    "onnx": Reader("policy.onnx", make_onnx, read_policy),
    "statistics": Reader("vecnormalize.npz", make_statistics, read_statistics_file),
    "pickle": Reader("vecnormalize.pkl", make_statistics, read_statistics_file, 2),
    "zoo": Reader("zoo", make_zoo, read_zoo),
    "results.csv": Reader("results.csv", writing(CSV), read_results_file),
    "results.jsonl": Reader(
        "results.jsonl", writing("\n".join(map(json.dumps, ROWS))), read_results_file
    ),
    "results.parquet": Reader("results.parquet", make_results_parquet, read_results_file),
    "monitor.csv": Reader("monitor.csv", writing(MONITOR), read_results_file),
    "evaluations.npz": Reader("evaluations.npz", make_evaluations, read_results_file),
    "eval_info.json": Reader("eval_info.json", writing(json.dumps(EVALUATION)), read_results_file),
}
