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


def _make_commitment(folder):
    from tightrope.certificates.commitment import Commitment, save_commitment

    from tightrope.certificates.options import Options

    subject = {
        "policy": {"name": "p", "digest": "ab" * 32},
        "environment": {"id": "Pendulum-v1"},
        "versions": {"python": "3.11"},
    }
    save_commitment(Commitment.to(subject, Options(seed=7)), folder / "commitment.json")
    return folder / "commitment.json"


def _read_commitment(path):
    """As a file, and as what a certificate states, where no digest is in the way."""
    from tightrope.certificates.commitment import commitment_problems, load_commitment

    from tightrope.certificates.options import Options

    with contextlib.suppress(ValueError, RecursionError):
        stated = json.loads(path.read_text())
        commitment_problems({"commitment": stated}, Options(seed=7))
    load_commitment(path).options("challenge")


def _use(episodes):
    """What every user of episodes does first."""
    from tightrope.certificates.data import prepare

    from tightrope.certificates.options import Options

    repr(episodes)
    prepare(episodes, Options(pilot_episodes=2))


def _certificate(folder, **options):
    from recordings import short_fits

    from tightrope.certificates import certify, write

    with short_fits():
        made = certify(_recording(), mc_passes=2, pilot_episodes=2, seed=0, **options)
        write(made, folder / "certificate")
    return folder / "certificate"


def _make_predictor(folder):
    return _certificate(folder, scheme="rec-2", preset="paper") / "predictor.safetensors"


def _read_predictor(path):
    from tightrope.posteriors import load_chain

    chain = load_chain(path)
    features = len(chain.scaling.mean)
    elapsed = None if chain.scaling.clock is None else np.zeros(2, np.int64)
    chain.predictor("local")(np.zeros((2, features), np.float32), elapsed=elapsed)


def _make_document(folder):
    return _certificate(folder, scheme="auto") / "certificate.json"


def _read_document(path):
    from tightrope.certificates.document import fields_of, read_document
    from tightrope.certificates.folder import load_certificate

    load_certificate(path.parent, verify=False)
    fields_of(read_document(path.read_text(), str(path)))
    load_certificate(path.parent)


def _make_certificate(folder):
    return _certificate(folder, scheme="nonrec-noninf", preset="paper")


def _read_certificate(path):
    from recordings import short_fits

    from tightrope.certificates import load_certificate
    from tightrope.certificates.verify import verify
    from tightrope.reports import write_page

    with short_fits():
        problems = verify(path)
    assert all("\n" not in problem for problem in problems), problems
    certificate = load_certificate(path, verify=False)
    str(certificate)
    page = path.parent / "page"
    page.mkdir(exist_ok=True)
    write_page(certificate, page)


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
    from tightrope.certificates.request import Rollout, request

    from tightrope.certificates.options import Options
    from tightrope.errors import InputError
    from tightrope.policies import load_record

    request(path.parent, None, Options(preset="paper", seed=0), Rollout())
    with contextlib.suppress(InputError):
        repr(load_record(path))


def _make_study(folder):
    specification = Path(__file__).parents[2] / "studies" / "mini.toml"
    (folder / "study.toml").write_bytes(specification.read_bytes())
    return folder / "study.toml"


def _read_study(path):
    from tightrope.studies.config import load_study

    load_study(path)


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
        if kind in ("parquet", "feather"):
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


def _make_statistics(folder):
    np.savez(folder / "statistics.npz", mean=np.zeros(3), var=np.ones(3), epsilon=1e-8, clip=10.0)
    return folder / "statistics.npz"


def _read_statistics(path):
    from tightrope.policies.vecnormalize import read_statistics

    normalizer = read_statistics(path, _pendulum())
    normalizer(np.zeros((2, 3), np.float32))


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
    "commitment": Reader(_make_commitment, _read_commitment, {".json": mutations.document}, 0.5),
    "study": Reader(_make_study, _read_study, {".toml": mutations.lines}),
    "npz": Reader(_make_arrays(".npz"), _read_episodes, {".npz": mutations.archive}),
    "hdf5": Reader(_make_arrays(".hdf5"), _read_episodes, {}),
    "csv": Reader(_make_table("csv"), _read_episodes, {".csv": mutations.lines}),
    "tsv": Reader(_make_table("tsv"), _read_episodes, {".tsv": mutations.lines}, 0.5),
    "parquet": Reader(_make_table("parquet"), _read_episodes, {}),
    "feather": Reader(_make_table("feather"), _read_episodes, {}),
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
    "statistics": Reader(_make_statistics, _read_statistics, {".npz": mutations.archive}),
}
