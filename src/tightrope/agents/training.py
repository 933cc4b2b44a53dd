"""Train an agent: snapshots at the paper's levels, a log, and checkpoints to resume from.

Off-policy runs write checkpoints between episodes, and every episode starts from a seed of its
own; so a resumed run is the run that was interrupted, bit for bit. PPO updates in the middle of
episodes; a resumed PPO run begins a new episode there.
"""

import time
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from tightrope import system
from tightrope.agents.checkpoint import Checkpoint
from tightrope.agents.evaluation import evaluate
from tightrope.agents.hyperparameters import THREADS
from tightrope.agents.log import Log
from tightrope.agents.snapshot import averaged, export
from tightrope.agents.specification import Run, build, specify
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import write_file
from tightrope.owned_folder import OwnedFolder
from tightrope.progress import progress_bar

__all__ = ["TrainingInterruptedError", "train"]

_ROWS = 200  # of the log in a whole run
_ALL_THREADS = torch.get_num_threads()  # what torch begins with: one per core, or OMP_NUM_THREADS
# Names that SB3's agents give to what the log has columns for.
_NAMES = {
    "train/critic_loss": "critic_loss",
    "train/value_loss": "critic_loss",
    "train/actor_loss": "actor_loss",
    "train/policy_gradient_loss": "actor_loss",
    "train/ent_coef": "temperature",
    "train/entropy": "entropy",
}
_DIVERGED = (
    "training diverged at step {:,} ({}): lower `learning_rate` and start anew in another `out`"
)


class TrainingInterruptedError(InputError):
    """Ctrl-C: the run can be resumed."""

    interrupted = True


def train(
    agent: str,
    env: str | EnvInfo,
    out: str | Path,
    *,
    threads: int | Literal["all"] | None = None,
    checkpoint_every: int = 10_000,
    progress: bool = False,
    **options: Any,
) -> dict[str, Path]:
    """Train, or go on where the same call was interrupted; returns the folder of each snapshot.

    Args:
        agent: redq, sac or ppo.
        env: id of the environment.
        out: folder of the run.
        threads: of torch, no more than there are cores (or OMP_NUM_THREADS says) and only
            meanwhile; all: as many. By default all for REDQ, two for SAC, one for PPO (`THREADS`).
        checkpoint_every: steps after which a checkpoint is due; off-policy agents write it at the
            end of the episode, unless that takes as many steps again.
        progress: show a bar on standard error.
        options: as for :func:`tightrope.agents.specify`.

    Raises:
        InputError: an argument is wrong, `out` holds something else, or the disk is full.
        TrainingInterruptedError: by Ctrl-C.
    """
    run, folder = specify(agent, env, **options), OwnedFolder(Path(out), "run", version=4)
    threads = THREADS[agent] if threads is None else threads
    for name, value in (("threads", threads), ("checkpoint_every", checkpoint_every)):
        if value != "all" and value < 1:
            raise InputError(f"`{name}` must be at least 1, found {value!r}")
    with system.threads(_ALL_THREADS if threads == "all" else min(threads, _ALL_THREADS)):
        training = _Training(run, folder, checkpoint_every)
        with folder.held(run.to_json(), "log.csv", "checkpoint.pt", "finished", *run.levels):
            return training.go(progress)


class _Training(BaseCallback):
    """One process's part of a run; a callback that SB3 calls between rounds of updates."""

    def __init__(self, run: Run, folder: OwnedFolder, checkpoint_every: int) -> None:
        super().__init__()
        self.run, self.folder, self.checkpoint_every = run, folder, checkpoint_every
        self.model, self.statistics = build(run)
        path = folder.path
        self.checkpoint = Checkpoint(path / "checkpoint.pt", self.model, self.statistics)
        self.snapshots = {name: path / name for name in run.levels}
        self.finished = path / "finished"
        self.row_every = max(run.steps // _ROWS, 1)
        self.earlier = 0.0  # seconds before this process

    def go(self, progress: bool) -> dict[str, Path]:
        """Train to the end."""
        run, model = self.run, self.model
        if self.finished.is_file():
            self.checkpoint.delete()
            return self._found()
        if self.checkpoint.path.is_file():
            self.earlier = self.checkpoint.restore()
        else:
            self.checkpoint.delete()  # segments that a kill left before the first one
        # Steps: of the checkpoint, when one was last tried, of the last visit.
        self.saved = self.tried = self.previous = model.num_timesteps
        # Snapshots of steps that are about to be taken again are replaced when it is their turn.
        self.taken = {name for name, at in run.levels.items() if at <= self.saved}
        self.begun = time.monotonic()
        model.set_logger(Logger(None, []))
        title = f"training {run.agent} on {run.environment.id}"
        self.log = Log(self.folder.path, resume_at=self.saved)
        with progress_bar(title, run.steps, start=self.saved, shown=progress) as self.report:
            try:
                model.learn(
                    run.steps - model.num_timesteps,
                    callback=self,
                    log_interval=None,  # type: ignore[arg-type]  # SB3 takes None for never
                    reset_num_timesteps=False,
                )
                self._on_rollout_start()
            except ValueError as error:
                if isinstance(error, InputError) or "nan" not in str(error):
                    raise  # torch's distributions refuse a mean that is not a number
                raise InputError(_DIVERGED.format(model.num_timesteps, "actions are NaN")) from None
            except KeyboardInterrupt:
                raise TrainingInterruptedError(
                    f"interrupted at step {model.num_timesteps:,}; the same command goes on from "
                    f"step {self.saved:,}"
                ) from None
            finally:
                self.log.close()
        self.folder.require_there()
        write_file(self.finished, lambda temporary: None, replace=True)
        self.checkpoint.delete()
        return self.snapshots

    def _found(self) -> dict[str, Path]:
        """What a finished run left."""
        for name, path in self.snapshots.items():
            if not (path / "policy.json").is_file():
                raise InputError(
                    f"expected {name!r} in {self.folder}, a finished run, found it gone: put it "
                    "back, or train anew in another `out`"
                )
        return self.snapshots

    def _on_rollout_start(self) -> None:
        """Whatever is due; called between updates, when model, buffer and environment agree."""
        step, run = self.model.num_timesteps, self.run
        at_end = step >= run.steps
        self._require_finite(step)

        def due(every: int) -> bool:
            return at_end or step // every > self.previous // every

        if due(50):
            recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            self.report(step, f"steps, return {np.mean(recent):.0f}" if recent else "steps")
        if due(run.evaluate_every):
            self.log.add(self._row(step) | self._evaluation())
        elif due(self.row_every):
            self.log.add(self._row(step))
        for name, level in run.levels.items():
            if step >= level and name not in self.taken:
                self.folder.require_there()  # a snapshot alone must not look like a run
                export(self.snapshots[name], self.model, self.statistics, run)
                self.taken.add(name)
        if not at_end and step // self.checkpoint_every > self.tried // self.checkpoint_every:
            between_episodes = self.checkpoint.buffer is None or self.statistics.between_episodes
            if between_episodes or step - self.tried >= 2 * self.checkpoint_every:
                self._save(step)
        self.previous = step

    def _on_step(self) -> bool:
        return True

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.begun

    def _row(self, step: int) -> dict[str, Any]:
        row = {"step": step, "seconds": round(self._seconds(), 1)}
        row["episodes"] = self.statistics.episodes
        if recent := self.model.ep_info_buffer:
            row["train_return"] = float(np.mean([episode["r"] for episode in recent]))
            row["train_length"] = float(np.mean([episode["l"] for episode in recent]))
        values = self.model.logger.name_to_value
        return row | {_NAMES[name]: value for name, value in values.items() if name in _NAMES}

    def _evaluation(self) -> dict[str, float]:
        run = self.run
        with averaged(self.model):
            return evaluate(
                self.model,
                run.environment,
                episodes=run.evaluation_episodes,
                gamma=run.settings.gamma,
                seed=run.seed,
            )

    def _require_finite(self, step: int) -> None:
        """Before anything of this step is written: a checkpoint of NaN would replace a good one."""
        for name, value in self.model.logger.name_to_value.items():
            if not np.isfinite(value):
                raise InputError(_DIVERGED.format(step, f"{name} is {value}"))

    def _save(self, step: int) -> None:
        self.folder.require_there()
        self.tried = step
        try:
            self.checkpoint.save(self._seconds())
            self.saved = step
        except InputError as error:  # a full disk, most likely
            stands = f"the one of step {self.saved:,} stands" if self.saved else "there is none yet"
            warnings.warn(f"no checkpoint at step {step:,} ({stands}): {error}", stacklevel=2)
