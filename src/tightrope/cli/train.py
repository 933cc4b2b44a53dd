"""tightrope train AGENT: step i, resumable; a command for each agent, made from its settings."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from tightrope.agents.settings import AGENTS, LEVELS, THREADS, SACSettings, Settings

__all__ = ["Train"]

Auto = Literal["auto"]
All = Literal["all"]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train one of the paper's agents; the same command resumes an interrupted run."""

    kinds: ClassVar[Mapping[str, type["Train"]]]
    agent: ClassVar[str]

    env: Annotated[str, tyro.conf.arg(metavar="ID")]
    """Id of the environment, as for collect."""
    out: Path
    """Folder of the run: snapshots, log.csv, TensorBoard's files, a checkpoint until the end."""
    steps: int
    """Environment steps."""
    levels: tuple[int, int, int]
    """Steps at which starter, intermediate and expert are frozen, as far as they are reached."""
    seed: int = 0
    """Root of all randomness."""
    device: Annotated[str, tyro.conf.arg(metavar="{auto,cpu,cuda,cuda:N}")] = "auto"
    """What torch computes on; auto: cuda if there is one."""
    threads: int | All
    """Most threads of torch, never more than one per core; all: as many."""
    checkpoint_every: int = 10_000
    """Steps after which a checkpoint is due; redq and sac write it at the end of the episode."""
    evaluate_every: int | Auto = "auto"
    """Steps between evaluations; auto: a fiftieth of the run."""
    evaluation_episodes: int = 10
    """Deterministic episodes in each evaluation."""
    settings: Settings
    """Of this agent."""

    def run(self) -> int:
        """Train, or resume."""
        from tightrope.agents import train

        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given |= vars(given.pop("settings"))
        if given["evaluate_every"] == "auto":
            given["evaluate_every"] = None
        snapshots = train(self.agent, given.pop("env"), given.pop("out"), progress=True, **given)
        for name, folder in snapshots.items():
            print(f"{name}: {folder}")
        last = list(snapshots.values())[-1]
        # A module of the user's own is imported only where the command names it.
        named = f" --env {self.env}" if ":" in self.env else ""
        print(f"certify the last with: tightrope certify {last}{named}")
        return 0


@dataclass(frozen=True, kw_only=True)
class _Compiled(Train):
    compile: Literal["auto", "always", "never"] = "auto"
    """Run updates through torch.compile; auto: for runs long enough to make up for it."""


def _command(agent: str) -> type[Train]:
    """The command with what is that agent's own: settings, and defaults of the shared options."""
    kind, levels = AGENTS[agent], LEVELS[agent]
    own = [
        ("steps", int, levels["expert"]),
        ("levels", tuple[int, int, int], tuple(levels.values())),
        ("threads", int | All, THREADS[agent]),
        ("settings", kind, field(default_factory=kind)),
    ]
    return make_dataclass(
        f"Train{agent.upper()}",
        own,
        bases=(_Compiled,) if issubclass(kind, SACSettings) else (Train,),
        namespace={"agent": agent, "__doc__": kind.__doc__, "__module__": __name__},
        frozen=True,
        kw_only=True,
    )


Train.kinds = {agent: _command(agent) for agent in AGENTS}
