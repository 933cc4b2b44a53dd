"""A frozen policy leaves: SB3's zip, weights without pickle, and the training record."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents import networks, policies, replay_buffer
from tightrope.agents.hyperparameters import Settings
from tightrope.agents.redq import REDQ
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.environments import EnvInfo
from tightrope.errors import one_line
from tightrope.files import WriteError, sha256, write_folder
from tightrope.policies import MLPPolicy, TrainingRecord, load_policy, save_mlp, save_record
from tightrope.system import library_versions

__all__ = ["averaged", "export"]

_CARRIED = (networks, policies, replay_buffer)


def export(
    folder: Path,
    model: BaseAlgorithm,
    statistics: TrainingStatistics,
    *,
    agent: str,
    env_info: EnvInfo,
    chosen: Settings,
    seed: int,
) -> None:
    """Write policy.zip, policy.safetensors and policy.json to `folder`, whole or not at all.

    The actor that leaves is the averaged one, if there is one.
    A folder of that name, which a run that is being repeated left, is replaced.

    Raises:
        InputError: the folder cannot be written.
    """

    def fill(new: Path) -> None:
        path = new / "policy.zip"
        with _self_contained(), averaged(model), path.open("wb") as stream:
            try:
                model.save(stream)
            except RuntimeError as error:  # what torch makes of a full disk
                raise WriteError(folder, one_line(error)) from None
        policy = load_policy(path, statistics, sample=True)
        assert isinstance(policy, MLPPolicy)  # what the zips of our agents hold
        steps = model.num_timesteps
        policy = replace(policy, name=f"{agent} on {env_info.id}, {steps:,} steps")
        about = f"{agent}, seed {seed}"
        save_mlp(policy, new / "policy.safetensors", environment=env_info.id, about=about)
        files = ("policy.safetensors", "policy.zip")
        record = TrainingRecord(
            agent=agent,
            environment=env_info.to_json(),
            steps=steps,
            episodes=statistics.episodes,
            gamma=chosen.gamma,
            return_low=statistics.low,
            return_high=statistics.high,
            observation_mean=statistics.mean.astype(np.float32),
            observation_deviation=statistics.deviation.astype(np.float32),
            settings={**chosen.to_json(), "seed": seed},
            versions=library_versions(),
            digests={file: sha256(new / file) for file in files},
        )
        save_record(record, new / "policy.json")

    write_folder(folder, fill, replace=True)


def averaged(model: BaseAlgorithm) -> contextlib.AbstractContextManager[None]:
    """Meanwhile it acts by its averaged actor, if it is an agent that has one: REDQ or our SAC."""
    return model.policy.averaged() if isinstance(model, REDQ) else contextlib.nullcontext()


@contextlib.contextmanager
def _self_contained() -> Iterator[None]:
    """The zips carry the classes they name: stock SB3 loads them without us."""
    for module in _CARRIED:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in _CARRIED:
            cloudpickle.unregister_pickle_by_value(module)
