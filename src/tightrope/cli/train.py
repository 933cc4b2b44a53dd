"""tightrope train AGENT: step i, resumable; a command for each agent, made from its settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App

from tightrope.agents.hyperparameters import AGENTS, LEVELS, THREADS
from tightrope.cli.flags import command
from tightrope.cli.text import show

__all__ = ["app"]


def _trainer(agent: str) -> Callable[..., int]:
    """The command of an agent, with defaults and settings of its own."""

    def trainer(
        *,
        env: Annotated[str, "ID"],
        out: Path,
        steps: int = LEVELS[agent]["expert"],
        levels: tuple[int, int, int] = tuple(LEVELS[agent].values()),  # type: ignore[assignment]
        seed: int = 0,
        device: str = "auto",
        threads: int | Literal["all"] = THREADS[agent],
        compile: Literal["auto", "always", "never"] = "auto",  # noqa: A002
        checkpoint_every: int = 10_000,
        evaluate_every: int | Literal["auto"] = "auto",
        evaluation_episodes: int = 10,
        settings: AGENTS[agent],  # type: ignore[valid-type]
    ) -> int:
        from tightrope.agents import train

        snapshots = train(
            agent,
            env,
            out,
            steps=steps,
            levels=levels,
            seed=seed,
            device=device,
            threads=threads,
            compile=compile,
            checkpoint_every=checkpoint_every,
            evaluate_every=None if evaluate_every == "auto" else evaluate_every,
            evaluation_episodes=evaluation_episodes,
            progress=True,
            **vars(settings),
        )
        for name, folder in snapshots.items():
            show(f"{name}: {folder}")
        last = list(snapshots.values())[-1]
        # A module of the user's own is imported only where the command names it.
        named = f" --env {env}" if ":" in env else ""
        show(f"certify the last with: tightrope certify {last}{named}")
        return 0

    trainer.__doc__ = f"{str(AGENTS[agent].__doc__).partition(chr(10))[0]}\n{_ARGUMENTS}"
    return command("env out steps levels seed device threads gamma learning_rate")(trainer)


_ARGUMENTS = """
Args:
    env: Environment, as for collect.
    out: Folder for snapshots, logs and the checkpoint; the same command resumes.
    steps: Environment steps.
    levels: Steps at which starter, intermediate and expert are frozen, as far as they are reached.
    seed: Root of all randomness.
    device: What torch computes on: auto, cpu, cuda or such as cuda:1; auto: cuda if there is one.
    threads: Most threads of torch, never more than one per core; all: as many.
    compile: Run updates of redq and sac through torch.compile; auto: for runs long enough to make
        up for it.
    checkpoint_every: Steps after which a checkpoint is due; redq and sac write it at the end of the
        episode.
    evaluate_every: Steps between evaluations; auto: a fiftieth of the run.
    evaluation_episodes: Deterministic episodes in each evaluation.
"""

app = App(name="train", help_flags=(), version_flags=())
for _agent in AGENTS:
    app.command(_trainer(_agent), name=_agent)
