"""Train an agent: snapshots at the paper's levels, a log, and checkpoints to resume from.

Off-policy runs write checkpoints between episodes, and every episode starts from a seed of its
own; so a resumed run is the run that was interrupted, bit for bit. PPO updates in the middle of
episodes; a resumed PPO run begins a new episode there.
"""

import math
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from tightrope import system
from tightrope.agents.checkpoint import (
    delete_checkpoint,
    load_checkpoint,
    restore,
    save_checkpoint,
)
from tightrope.agents.evaluation import evaluate
from tightrope.agents.hyperparameters import THREADS
from tightrope.agents.log import Log
from tightrope.agents.run_folder import claim
from tightrope.agents.segments import Segment
from tightrope.agents.snapshot import averaged, export
from tightrope.agents.specification import Run, build, specify
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import write_file
from tightrope.progress import progress_bar

__all__ = ["TrainingInterruptedError", "train"]

_ROWS = 200  # of the log in a whole run
_ALL_THREADS = torch.get_num_threads()  # what torch begins with: one per core, or OMP_NUM_THREADS
# Names that SB3's agents give to what the log has columns for.
_NAMES = {
    "critic_loss": ("train/critic_loss", "train/value_loss"),
    "actor_loss": ("train/actor_loss", "train/policy_gradient_loss"),
    "temperature": ("train/ent_coef",),
    "entropy": ("train/entropy",),
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
    run = specify(agent, env, **options)
    threads = THREADS[agent] if threads is None else threads
    for name, value in (("threads", threads), ("checkpoint_every", checkpoint_every)):
        if value != "all" and value < 1:
            raise InputError(f"`{name}` must be at least 1, found {value!r}")
    with system.threads(_ALL_THREADS if threads == "all" else min(threads, _ALL_THREADS)):
        model, statistics = build(run)
        with claim(Path(out), run):
            return _Training(run, Path(out), model, statistics, checkpoint_every).go(progress)


class _Training:
    """One process's part of a run."""

    def __init__(
        self,
        run: Run,
        folder: Path,
        model: BaseAlgorithm,
        statistics: TrainingStatistics,
        checkpoint_every: int,
    ) -> None:
        self.run, self.folder, self.model, self.statistics = run, folder, model, statistics
        self.snapshots = {name: folder / name for name in run.levels}
        self.checkpoint, self.checkpoint_every = folder / "checkpoint.pt", checkpoint_every
        self.segments: tuple[Segment, ...] = ()  # of the checkpoint
        self.finished = folder / "finished"
        self.row_every = max(run.steps // _ROWS, 1)
        self.saved = self.tried = self.previous = 0  # steps: checkpoint written, tried, last visit
        self.earlier = 0.0  # seconds before this process

    def go(self, progress: bool) -> dict[str, Path]:
        """Train to the end."""
        run, model = self.run, self.model
        if self.finished.is_file():
            delete_checkpoint(self.checkpoint)
            return self._found()
        if self.checkpoint.is_file():
            self._resume()
        else:
            delete_checkpoint(self.checkpoint)  # segments that a kill left before the first one
        # Snapshots of steps that are about to be taken again are replaced when it is their turn.
        self.taken = {name for name, at in run.levels.items() if at <= self.saved}
        self.begun = time.monotonic()
        model.set_logger(Logger(None, []))
        title = f"training {run.agent} on {run.environment.id}"
        self.log = Log(self.folder, resume_at=self.saved)
        with progress_bar(title, run.steps, start=self.saved, shown=progress) as self.report:
            try:
                model.learn(
                    run.steps - model.num_timesteps,
                    callback=_BetweenUpdates(self.visit),
                    log_interval=None,  # type: ignore[arg-type]  # SB3 takes None for never
                    reset_num_timesteps=False,
                )
                self.visit()
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
        self._require_folder()
        write_file(self.finished, lambda temporary: None, replace=True)
        delete_checkpoint(self.checkpoint)
        return self.snapshots

    def _found(self) -> dict[str, Path]:
        """What a finished run left."""
        for name, path in self.snapshots.items():
            if not (path / "policy.json").is_file():
                raise InputError(
                    f"expected {name!r} in {str(self.folder)!r}, a finished run, found it gone: "
                    "put it back, or train anew in another `out`"
                )
        return self.snapshots

    def _require_folder(self) -> None:
        """Before anything is written: what is not whole must not look like a run."""
        if not (self.folder / "run.json").is_file():
            raise InputError(
                f"expected the run that was begun in {str(self.folder)!r}, found it gone: put it "
                "back and give the same command, or start anew"
            )

    def _resume(self) -> None:
        content = load_checkpoint(self.checkpoint)
        self.segments = restore(self.checkpoint, content, self.model, self.statistics)
        self.saved = self.tried = self.previous = self.model.num_timesteps
        self.earlier = content["seconds"]

    def visit(self) -> None:
        """Whatever is due; called between updates, when model, buffer and environment agree."""
        step, run = self.model.num_timesteps, self.run
        finished = step >= run.steps
        self._require_finite(step)
        if self._crossed(step, 50) or finished:
            recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            self.report(step, f"steps, return {np.mean(recent):.0f}" if recent else "steps")
        evaluated = self._crossed(step, run.evaluate_every) or finished
        if evaluated or self._crossed(step, self.row_every):
            self.log.add(self._row(step, evaluated))
        for name, at in run.levels.items():
            if step >= at and name not in self.taken:
                self._snapshot(name)
                self.taken.add(name)
        due = step // self.checkpoint_every > self.tried // self.checkpoint_every
        late = step - self.tried >= 2 * self.checkpoint_every  # an episode without end
        if due and not finished and (late or self._between_episodes()):
            self._save(step)
        self.previous = step

    def _crossed(self, step: int, every: int) -> bool:
        return step // every > self.previous // every

    def _between_episodes(self) -> bool:
        on_policy = not isinstance(self.model, OffPolicyAlgorithm)
        return on_policy or self.statistics.between_episodes

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.begun

    def _row(self, step: int, evaluated: bool) -> dict[str, Any]:
        recent = list(self.model.ep_info_buffer or ())
        values = self.model.logger.name_to_value
        row: dict[str, Any] = {
            "step": step,
            "seconds": round(self._seconds(), 1),
            "episodes": self.statistics.episodes,
            "train_return": np.mean([episode["r"] for episode in recent]) if recent else None,
            "train_length": np.mean([episode["l"] for episode in recent]) if recent else None,
        }
        for column, names in _NAMES.items():
            row[column] = next((values[name] for name in names if name in values), None)
        if evaluated:
            run = self.run
            with averaged(self.model):
                seen = evaluate(
                    self.model,
                    run.environment,
                    episodes=run.evaluation_episodes,
                    gamma=run.settings.gamma,
                    seed=run.seed,
                )
            row |= {"eval_return": np.mean(seen.returns), "eval_deviation": np.std(seen.returns)}
            row["eval_length"] = np.mean(seen.lengths)
            if not math.isnan(seen.value):
                row |= {"eval_value": seen.value, "eval_discounted": seen.discounted}
        return row

    def _require_finite(self, step: int) -> None:
        """Before anything of this step is written: a checkpoint of NaN would replace a good one."""
        for name, value in self.model.logger.name_to_value.items():
            if not np.isfinite(value):
                raise InputError(_DIVERGED.format(step, f"{name} is {value}"))

    def _snapshot(self, name: str) -> None:
        self._require_folder()
        export(
            self.snapshots[name],
            self.model,
            self.statistics,
            agent=self.run.agent,
            env_info=self.run.environment,
            chosen=self.run.settings,
            seed=self.run.seed,
        )

    def _save(self, step: int) -> None:
        self._require_folder()
        self.tried = step
        try:
            self.segments = save_checkpoint(
                self.checkpoint, self.model, self.statistics, self._seconds(), self.segments
            )
            self.saved = step
        except InputError as error:  # a full disk, most likely
            stands = f"the one of step {self.saved:,} stands" if self.saved else "there is none yet"
            warnings.warn(f"no checkpoint at step {step:,} ({stands}): {error}", stacklevel=2)


class _BetweenUpdates(BaseCallback):
    """SB3 starts a roll-out after each round of updates."""

    def __init__(self, visit: Any) -> None:
        super().__init__()
        self.visit = visit

    def _on_rollout_start(self) -> None:
        self.visit()

    def _on_step(self) -> bool:
        return True
