"""A frozen policy leaves: SB3's zip, weights without pickle, and the training record."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents import policies, replay_buffer
from tightrope.agents.redq import REDQ
from tightrope.agents.specification import Run
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.errors import one_line
from tightrope.files import WriteError, sha256, write_folder
from tightrope.policies import MLPPolicy, TrainingRecord, load_policy, save_mlp, save_record
from tightrope.system import library_versions

__all__ = ["averaged", "export"]


def export(folder: Path, model: BaseAlgorithm, statistics: TrainingStatistics, run: Run) -> None:
    """Write policy.zip, policy.safetensors and policy.json to `folder`, whole or not at all.

    The actor that leaves is the averaged one, if there is one.
    A folder of that name, which a run that is being repeated left, is replaced.

    Raises:
        InputError: the folder cannot be written.
    """
    steps, env_id = model.num_timesteps, run.environment.id

    def fill(new: Path) -> None:
        archive, weights = new / "policy.zip", new / "policy.safetensors"
        with _self_contained(), averaged(model), archive.open("wb") as stream:
            try:
                model.save(stream)
            except RuntimeError as error:  # what torch makes of a full disk
                raise WriteError(folder, one_line(error)) from None
        policy = load_policy(archive, statistics, sample=True)
        assert isinstance(policy, MLPPolicy)  # what the zips of our agents hold
        policy = replace(policy, name=f"{run.agent} on {env_id}, {steps:,} steps")
        save_mlp(policy, weights, environment=env_id, about=f"{run.agent}, seed {run.seed}")
        record = TrainingRecord(
            agent=run.agent,
            environment=run.environment.to_json(),
            steps=steps,
            episodes=statistics.episodes,
            gamma=run.settings.gamma,
            return_low=statistics.low,
            return_high=statistics.high,
            observation_mean=statistics.mean.astype(np.float32),
            observation_deviation=statistics.deviation.astype(np.float32),
            settings={**run.settings.to_json(), "seed": run.seed},
            versions=library_versions(),
            digests={file.name: sha256(file) for file in (weights, archive)},
        )
        save_record(record, new / "policy.json")

    write_folder(folder, fill, replace=True)


def averaged(model: BaseAlgorithm) -> contextlib.AbstractContextManager[None]:
    """Meanwhile it acts by its averaged actor, if it is an agent that has one: REDQ or our SAC."""
    return model.policy.averaged() if isinstance(model, REDQ) else contextlib.nullcontext()


@contextlib.contextmanager
def _self_contained() -> Iterator[None]:
    """The zips carry the classes they name: stock SB3 loads them without us."""
    carried = policies, replay_buffer
    for module in carried:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in carried:
            cloudpickle.unregister_pickle_by_value(module)
