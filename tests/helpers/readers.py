"""Every reader of files that a stranger may have written, with good files to do harm to."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
import numpy as np

Harm = Callable[[bytes, bytes, Any], bytes]


@dataclass(frozen=True)
class Reader:
    """How good files are made, which harm is done to them, and how they are read.

    Attributes:
        make: fills a folder with good files and returns the path that is read.
        read: reads that path; it may raise InputError and nothing else.
        harms: by the suffix of the file that is harmed; bytes of any file may be.
        share: of the cases of a campaign, compared with others.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    harms: dict[str, Harm]
    share: float = 1.0


def _recording(count=12):
    from recordings import recording

    return recording(count, seed=1)


# --- our own files ---------------------------------------------------------------------------


def _make_episodes(folder):
    from tightrope.rollouts import save

    save(_recording(), folder / "episodes.safetensors")
    return folder / "episodes.safetensors"


def _read_episodes(path):
    from tightrope.rollouts import is_recording, load_episodes

    is_recording(path)
    _use(load_episodes(path))


def _use(episodes):
    """What every user of episodes does first."""
    from tightrope.certificates import Options, settle
    from tightrope.certificates.split import split_episodes

    repr(episodes)
    split_episodes(episodes, settle(Options(fit_episodes=2), episodes))


def _certificate(folder, **options):
    from recordings import certified

    certified(_recording(), seed=0, **options).save(folder / "certificate")
    return folder / "certificate"


_RECURSIVE = {"scheme": "rec-2", "preset": "paper", "mc_passes": 2, "pilot_episodes": 2}


def _make_predictor(folder):
    return _certificate(folder, **_RECURSIVE) / "predictor.safetensors"


def _read_predictor(path):
    from tightrope.posteriors import load_predictor

    predictor, _ = load_predictor(path)
    elapsed = None if predictor.scaling.clock is None else np.zeros(2, np.int64)
    predictor(np.zeros((2, predictor.scaling.features), np.float32), elapsed=elapsed)


def _make_document(folder):
    return _certificate(folder) / "certificate.json"


def _read_document(path):
    """Whatever reads the document alone; its own digest is made right."""
    from tightrope.certificates import as_text, load_certificate, to_document
    from tightrope.certificates.folder import document_digest, read_document
    from tightrope.certificates.text import details, summary
    from tightrope.deploy import Conditions
    from tightrope.deploy.check import check
    from tightrope.deploy.plan import forecast
    from tightrope.reports.index import entries

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


def _make_certificate(folder):
    return _certificate(folder, **{**_RECURSIVE, "scheme": "nonrec-noninf"})


def _read_certificate(path):
    from recordings import short_fits

    from tightrope.certificates import load_certificate
    from tightrope.certificates.verify import verify
    from tightrope.reports import certificate_page

    with short_fits():
        problems = verify(path)
    assert all("\n" not in problem for problem in problems), problems
    certificate_page(load_certificate(path, verify=False))


def _make_monitor(folder):
    from tightrope.certificates import load_certificate
    from tightrope.deploy import Monitor

    made = _certificate(folder)
    Monitor(load_certificate(made)).save(folder / "monitor.safetensors")
    return folder / "monitor.safetensors"


def _read_monitor(path):
    from tightrope.deploy import Monitor

    monitor = Monitor(path)
    monitor.reset(np.zeros(monitor.features, np.float32))
    monitor.step(1.0, np.zeros(monitor.features, np.float32), False, False)


def _make_policy(folder):
    from conftest import perceptron
    from tightrope.policies import save_mlp

    save_mlp(
        perceptron(3, 1, log_std=0.1), folder / "policy.safetensors", environment="Pendulum-v1"
    )
    return folder / "policy.safetensors"


def _pendulum():
    from tightrope.environments import make_env

    return make_env("Pendulum-v1")


def _read_policy(path, **given):
    from tightrope.policies import check_fit, load_policy

    env = _pendulum()
    check_fit(load_policy(path, env, **given), env)


def _make_record(folder):
    from tightrope.environments import EnvInfo
    from tightrope.files import sha256
    from tightrope.policies import TrainingRecord, save_record

    weights = _make_policy(folder)
    record = TrainingRecord(
        agent="sac",
        environment=EnvInfo.of("Pendulum-v1").to_json(),
        steps=1000,
        episodes=5,
        gamma=0.99,
        return_low=-900.0,
        return_high=0.5,
        observation_mean=np.float32([0.1, 0.2, 0.3]),
        observation_deviation=np.float32([1.0, 2.0, 3.0]),
        settings={"seed": 0},
        versions={},
        digests={weights.name: sha256(weights)},
    )
    save_record(record, folder / "policy.json")
    return folder / "policy.json"


def _read_record(path):
    from tightrope.policies import load_record
    from tightrope.rollouts import policy_source

    repr(load_record(path))
    policy_source(path.parent)


def _make_study(folder):
    specification = Path(__file__).parents[2] / "studies" / "mini.toml"
    (folder / "study.toml").write_bytes(specification.read_bytes())
    return folder / "study.toml"


def _read_study(path):
    from tightrope.studies.config import load_study

    load_study(path)


def _make_study_table(folder):
    from study_tables import study_table

    table = study_table(presets=("tight",), levels=("expert",), schemes=("auto", "rec-6"))
    table.to_csv(folder / "table.csv", index=False)
    return folder


def _read_study_table(path):
    from tightrope.studies.certificate_records import read_table

    read_table(path)


# --- logs of others --------------------------------------------------------------------------


def _make_arrays(suffix):
    def make(folder):
        from tightrope.rollouts import export_arrays

        export_arrays(_recording(), folder / f"log{suffix}")
        return folder / f"log{suffix}"

    return make


def _rows():
    rng = np.random.default_rng(0)
    last = [step == 4 for _ in range(6) for step in range(5)]
    return {
        "episode": [index for index in range(6) for _ in range(5)],
        "step": [step for _ in range(6) for step in range(5)],
        **{f"obs_{name}": rng.normal(size=30).tolist() for name in "xy"},
        "reward": rng.normal(size=30).tolist(),
        "terminated": last,
        "truncated": [False] * 30,
        "success": last,
    }


def _make_table(kind):
    def make(folder):
        from tables import WRITERS

        columns = _rows()
        if kind == "parquet":
            columns["obs_z"] = np.arange(60.0).reshape(30, 2)
            columns["episode"] = [f"run {index}" for index in columns["episode"]]
        return Path(WRITERS[kind](folder / f"log.{kind}", columns))

    return make


def _make_lerobot(version):
    def make(folder):
        from tables import write_lerobot

        rng = np.random.default_rng(0)
        episodes = [
            {
                "observation.state": rng.normal(size=(length, 2)).astype(np.float32),
                "action": rng.normal(size=(length, 3)).astype(np.float32),
                "next.reward": rng.normal(size=length).astype(np.float32),
                "next.done": np.arange(length) == length - 1,
            }
            for length in (3, 1, 5, 2, 4)
        ]
        return write_lerobot(folder / "robot", episodes, version)

    return make


def _make_minari(folder):
    import os

    from tables import write_minari

    from tightrope.rollouts import Episode, join

    rng = np.random.default_rng(0)
    episodes = [
        Episode(
            observations=rng.normal(size=(4, 2)).astype(np.float32),
            rewards=rng.normal(size=4),
            terminated=True,
            truncated=False,
            seed=index,
            actions=rng.normal(size=(4, 1)).astype(np.float32),
            final_observation=rng.normal(size=2).astype(np.float32),
        )
        for index in range(5)
    ]
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    write_minari("walk-v0", join(episodes))
    return folder / "walk-v0"


def _make_results(name, text=""):
    def make(folder):
        path = folder / name
        if name == "evaluations.npz":
            steps, lengths = np.arange(1, 4) * 1000, np.full((3, 5), 200)
            returns = np.random.default_rng(0).normal(size=(3, 5))
            np.savez(path, timesteps=steps, results=returns, ep_lengths=lengths)
        elif name == "results.parquet":
            from tables import write_parquet

            numbers = np.random.default_rng(0).normal(size=20)
            write_parquet(path, {"return": numbers, "success": [True] * 20, "note": ["a"] * 20})
        else:
            path.write_text(text)
        return path

    return make


def _read_results(path):
    from tightrope.certificates.certify import certify
    from tightrope.certificates.text import details
    from tightrope.rollouts.results_table import is_results, read_results

    is_results(path)
    read_results(path, frozen=True)
    details(certify(path, frozen=True, seed=0))


_ROWS = [{"seed": i, "return": 1.5 * i, "success": i % 3 > 0, "peak": -i / 7} for i in range(12)]
_CSV = "\n".join([",".join(_ROWS[0]), *(",".join(map(str, row.values())) for row in _ROWS)])
_MONITOR = (
    '#{"t_start": 1.5, "env_id": "Pendulum-v1"}\nr,l,t\n' + "-1.5,200,0.1\n-2.5,200,0.2\n" * 6
)
_EVALUATION = {
    "per_task": [
        {
            "task_group": "libero",
            "task_id": task,
            "metrics": {"sum_rewards": [0.5, 1.0] * 4, "successes": [True, False] * 4},
        }
        for task in range(3)
    ],
    "overall": {"pc_success": 50.0},
}


# --- policies of others ----------------------------------------------------------------------


def _make_sb3(algorithm):
    def make(folder):
        import gymnasium as gym
        import stable_baselines3

        extra = {} if algorithm == "PPO" else {"buffer_size": 10}
        kind = getattr(stable_baselines3, algorithm)
        model = kind(
            "MlpPolicy",
            gym.make("Pendulum-v1"),
            policy_kwargs={"net_arch": [8, 8]},
            device="cpu",
            **extra,
        )
        model.save(folder / "model.zip")
        return folder / "model.zip"

    return make


def _make_onnx(folder):
    import onnx

    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(3, 1)).astype(np.float32), "b": np.zeros(1, np.float32)}
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
    (folder / "policy.onnx").write_bytes(model.SerializeToString())
    return folder / "policy.onnx"


def _make_statistics(suffix):
    def make(folder):
        path = folder / f"vecnormalize{suffix}"
        if suffix == ".npz":
            np.savez(path, mean=np.zeros(3), var=np.ones(3), epsilon=1e-8, clip=10.0)
        else:
            import gymnasium as gym
            from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

            VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")])).save(str(path))
        return path

    return make


def _read_statistics(path):
    from tightrope.policies.vecnormalize import read_statistics

    normalizer = read_statistics(path, _pendulum())
    if normalizer is not None:
        normalizer(np.zeros((2, 3), np.float32))


_CONFIG = """!!python/object/apply:collections.OrderedDict
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


def _make_zoo(folder):
    run = folder / "Pendulum-v1"
    run.mkdir()
    (folder / "Pendulum-v1.zip").write_bytes(b"")
    (run / "args.yml").write_text("algo: ppo\nenv: Pendulum-v1\nenv_kwargs: {g: 9.8}\n")
    (run / "config.yml").write_text(_CONFIG)
    return folder


def _read_zoo(path):
    from tightrope.errors import InputError
    from tightrope.policies import find_run, run_environment

    run = find_run(path)
    if run is None:
        raise InputError("no run")
    run_environment(run)
    run.require_statistics()


_LINES = {".csv": mutations.lines, ".jsonl": mutations.lines, ".json": mutations.document}

READERS = {
    "episodes": Reader(_make_episodes, _read_episodes, {".safetensors": mutations.tensors}, 2),
    "predictor": Reader(_make_predictor, _read_predictor, {".safetensors": mutations.tensors}),
    "policy": Reader(_make_policy, _read_policy, {".safetensors": mutations.tensors}),
    "document": Reader(_make_document, _read_document, {".json": mutations.document}, 2),
    "certificate": Reader(
        _make_certificate,
        _read_certificate,
        {".json": mutations.document, ".safetensors": mutations.tensors},
        0.6,
    ),
    "record": Reader(_make_record, _read_record, {".json": mutations.document}),
    "monitor": Reader(_make_monitor, _read_monitor, {".safetensors": mutations.tensors}),
    "study table": Reader(_make_study_table, _read_study_table, {".csv": mutations.lines}, 0.2),
    "study": Reader(_make_study, _read_study, {".toml": mutations.lines}),
    "npz": Reader(_make_arrays(".npz"), _read_episodes, {".npz": mutations.archive}),
    "hdf5": Reader(_make_arrays(".hdf5"), _read_episodes, {}),
    "csv": Reader(_make_table("csv"), _read_episodes, {".csv": mutations.lines}),
    "tsv": Reader(_make_table("tsv"), _read_episodes, {".tsv": mutations.lines}, 0.5),
    "parquet": Reader(_make_table("parquet"), _read_episodes, {}),
    "lerobot-2": Reader(
        _make_lerobot("v2.1"),
        _read_episodes,
        {".json": mutations.document, ".jsonl": mutations.lines},
    ),
    "lerobot-3": Reader(_make_lerobot("v3.0"), _read_episodes, {".json": mutations.document}),
    "minari": Reader(_make_minari, _read_episodes, {".json": mutations.document}, 0.6),
    "sb3-ppo": Reader(_make_sb3("PPO"), _read_policy, {".zip": mutations.archive}),
    "sb3-sac": Reader(_make_sb3("SAC"), _read_policy, {".zip": mutations.archive}, 0.5),
    "onnx": Reader(_make_onnx, _read_policy, {}),
    "statistics": Reader(_make_statistics(".npz"), _read_statistics, {".npz": mutations.archive}),
    "pickle": Reader(_make_statistics(".pkl"), _read_statistics, {}, 2),
    "zoo": Reader(_make_zoo, _read_zoo, {".yml": mutations.lines}),
    "results.csv": Reader(_make_results("results.csv", _CSV), _read_results, _LINES),
    "results.jsonl": Reader(
        _make_results("results.jsonl", "\n".join(map(json.dumps, _ROWS))), _read_results, _LINES
    ),
    "results.parquet": Reader(_make_results("results.parquet"), _read_results, {}),
    "monitor.csv": Reader(_make_results("monitor.csv", _MONITOR), _read_results, _LINES),
    "evaluations.npz": Reader(
        _make_results("evaluations.npz"), _read_results, {".npz": mutations.archive}
    ),
    "eval_info.json": Reader(
        _make_results("eval_info.json", json.dumps(_EVALUATION)), _read_results, _LINES
    ),
}
