"""tightrope train: step i, resumable."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

__all__ = ["Train"]

Preset = Literal["preset"]
Auto = Literal["auto"]
_LEFT = ("preset", "auto")  # to the library


@dataclass(frozen=True)
class Train:
    """Train an agent as the paper does; the same command resumes an interrupted run.

    Settings are the preset's for that agent; those of another agent are refused.
    """

    agent: Annotated[Positional[str], tyro.conf.arg(metavar="AGENT")]
    """redq, sac or ppo."""
    env: str
    """Id of the environment, as for collect."""
    out: Path
    """Folder of the run: snapshots, log.csv, TensorBoard's files and, until the end, a
    checkpoint."""
    preset: Literal["paper"] = "paper"
    """Where steps, levels and settings come from."""
    steps: int | Preset = "preset"
    """Environment steps; preset: until the expert is frozen."""
    levels: tuple[int, int, int] | Preset = "preset"
    """Steps at which starter, intermediate and expert are frozen."""
    seed: int = 0
    """Root of all randomness."""
    warmup: int | Preset = "preset"
    """redq, sac: steps with random actions before the first update."""
    gamma: float | Preset = "preset"
    """Discount factor."""
    hidden: tuple[int, ...] | Preset = "preset"
    """Widths of the hidden layers."""
    learning_rate: float | Preset = "preset"
    """Of Adam."""
    batch: int | Preset = "preset"
    """Transitions in a mini-batch."""
    tau: float | Preset = "preset"
    """redq, sac: share of the new weights in each soft update of the targets."""
    buffer: int | Preset = "preset"
    """redq, sac: transitions that the replay buffer holds."""
    replay_ratio: int | Preset = "preset"
    """redq, sac: updates per environment step."""
    critics: int | Preset = "preset"
    """redq: size of the ensemble."""
    subset: int | Preset = "preset"
    """redq: target critics drawn for each update."""
    huber: float | Preset = "preset"
    """redq: error beyond which the critics' loss is linear instead of square."""
    rollout: int | Preset = "preset"
    """ppo: steps between two rounds of updates."""
    epochs: int | Preset = "preset"
    """ppo: passes over these steps."""
    gae_lambda: float | Preset = "preset"
    """ppo: of generalised advantage estimation."""
    clip: float | Preset = "preset"
    """ppo: range of the clipped surrogate."""
    entropy_weight: float | Preset = "preset"
    """ppo: of the entropy in the loss."""
    value_weight: float | Preset = "preset"
    """ppo: of the critic's error in the loss."""
    gradient_norm: float | Preset = "preset"
    """ppo: largest norm of a gradient."""
    compile: Literal["auto", "always", "never"] = "auto"
    """redq: torch.compile; auto for long runs."""
    threads: int | Auto = "auto"
    """Threads of torch; auto: all cores for redq, one for the others."""
    checkpoint_every: int = 10_000
    """Steps after which a checkpoint is due; redq and sac write it at the end of the episode."""
    evaluate_every: int | Auto = "auto"
    """Steps between evaluations; auto: a fiftieth of the run."""
    evaluation_episodes: int = 10
    """Deterministic episodes in each evaluation."""

    def run(self) -> int:
        """Train, or resume."""
        from tightrope.agents import train

        given = {name: value for name, value in vars(self).items() if value not in _LEFT}
        for name in ("agent", "env", "out", "preset"):  # there is one preset
            given.pop(name, None)
        snapshots = train(self.agent, self.env, self.out, progress=True, **given)
        for name, folder in snapshots.items():
            print(f"{name}: {folder}")
        last = list(snapshots.values())[-1]
        # A module of the user's own is imported only where the command names it.
        named = f" --env {self.env}" if ":" in self.env else ""
        print(f"certify the last with: tightrope certify {last}{named}")
        return 0
