"""Commands on policies and their episodes: collect, train, compare and monitor."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App

from tightrope.agents.hyperparameters import AGENTS, LEVELS, THREADS
from tightrope.cli.flags import command
from tightrope.cli.text import show, show_json
from tightrope.comparison.compare import CompareOptions
from tightrope.errors import InputError, printable
from tightrope.rollouts.collecting import Loading, Rollout
from tightrope.rollouts.results_table import Reading
from tightrope.seeds import Seed, resolve_seed

__all__ = ["collect", "compare", "monitor", "train"]

Statistics = Literal["same", "none"] | Path


@command("env out episodes seed workers trust")
def collect(
    policy: str,
    /,
    *,
    out: Path,
    env: Annotated[str, "ID"] = "",
    episodes: int = 100,
    seed: Seed = "fresh",
    rollout: Rollout,
    keep_partial: bool = False,
) -> int:
    """Roll out a frozen policy and record whole episodes.

    Args:
        policy: An SB3 .zip, an .onnx file, a folder that train wrote, file.py:name or
            package.module:name; with --trust also a TorchScript .pt or a torch.export .pt2.
        out: File to write: .safetensors (tightrope's own), .npz or .hdf5 (D4RL names).
        env: Environment, such as Hopper-v4, dm_control/walker-walk-v0 or reach-v3; by default the
            one that the policy was trained in, if train wrote it.
        episodes: How many episodes.
        seed: Root of the episodes' seeds; the same seed gives the same episodes. fresh: one that is
            drawn and recorded.
        keep_partial: If an episode fails, write those that finished; they are marked as partial.
    """
    from tightrope import rollouts

    rollouts.check_destination(out)
    if keep_partial and out.suffix != ".safetensors":
        raise InputError(
            f"expected a name ending in .safetensors with `keep_partial`, found {out}: other "
            "formats cannot mark episodes as partial"
        )
    subject = rollouts.policy_source(policy, env or None, rollout.env_kwargs)
    root = resolve_seed(seed)
    try:
        found = rollouts.collect(
            subject.policy,
            subject.environment,
            episodes,
            root,
            progress=True,
            **rollout.arguments,
        )
    except rollouts.CollectionError as error:
        if not keep_partial:
            raise
        kept = "nothing had finished, so nothing was written"
        if error.partial is not None:
            rollouts.write_episodes(error.partial, out)
            kept = f"kept {len(error.partial)} finished episodes in {out}"
        raise rollouts.CollectionError(f"{error}; {kept}", None, error.interrupted) from None
    found = replace(found, subject={**found.subject, **subject.training()})
    rollouts.write_episodes(found, out)
    steps, where = len(found.rewards), subject.environment.id
    show(f"{len(found)} episodes, {steps:,} steps of {where} (seed {root}) in {out}")
    return 0


@command(
    "env columns out max_episodes batch gamma return_range fail_below order candidates delta seed "
    "workers json"
)
def compare(
    a: str,
    b: str,
    /,
    *,
    env: Annotated[str, "ID"] = "",
    reading: Reading,
    out: Literal["none"] | Path = "none",
    options: CompareOptions,
    rollout: Rollout,
    normalize_b: Statistics = "same",
    json: bool = False,
) -> int:
    """Decide which of two policies returns more, fails less often and is more predictable.

    Args:
        a: A policy (as for collect; rolled out here), recorded episodes or a table of results (as
            for certify), counts such as 74/80, or the folder of a certificate.
        b: The other one, of the same kind.
        env: Environment to roll both policies out in; by default the one that they were trained in,
            if train wrote them.
        out: Also write a page to this new file; not for counts.
        normalize_b: Observation statistics of B, if they are not those of --normalize.
        json: Print the comparison as JSON on standard output, and nothing else there.
    """
    from tightrope.comparison import Comparison
    from tightrope.comparison import compare as library
    from tightrope.files import refuse_to_overwrite

    if out != "none":
        refuse_to_overwrite(out)
    other = rollout
    if normalize_b != "same":
        other = replace(rollout, normalize=normalize_b, no_normalize=False)
    comparison = library.compare(
        a,
        b,
        env or None,
        rollout=rollout,
        other_rollout=other,
        progress=True,
        **vars(reading),
        **vars(options),
    )
    if out != "none":
        from tightrope.reports.comparison import write_comparison

        if not isinstance(comparison, Comparison):
            raise InputError("expected no `out` for counts, which have no page")
        write_comparison(comparison, out)
    if json:
        show_json(comparison.to_json())
    else:
        show(comparison, lines=True)
        if out != "none":
            show("")
            show(f"Written to {out}")
    return 0


@command()
def monitor(
    certificate: Path,
    /,
    *,
    policy: str,
    env: Annotated[str, "ID"] = "",
    episodes: int = 5,
    seed: Seed = "fresh",
    loading: Loading,
    sample: bool = False,
    save: Literal["none"] | Path = "none",
) -> int:
    """Run a policy with the monitor of a certificate watching; a line for each episode.

    Args:
        certificate: Folder that certify wrote, or a file that Monitor.save wrote.
        policy: The policy to run, as for collect.
        env: Environment to run it in; by default the one that was certified.
        episodes: How many episodes.
        seed: Root of the episodes' seeds.
        sample: Draw actions from the policy's distribution instead of taking its mode.
        save: Also write the monitor to this new .safetensors file, for a machine without torch.
    """
    from tightrope.deploy.monitor import Monitor, check_destination
    from tightrope.deploy.watch import summary, watch

    if save != "none":
        check_destination(save)
    rollout = Rollout(**vars(loading), sample=sample)
    watching, watched = Monitor(certificate), []
    for episode in watch(
        watching, policy, env or None, episodes=episodes, seed=seed, rollout=rollout
    ):
        watched.append(episode)
        print(printable(str(episode)), flush=True)
    show(summary(watching, watched))
    if save != "none":
        watching.save(save)
        show(f"Written to {save}")
    return 0


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
        from tightrope import agents

        snapshots = agents.train(
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
        # A module of the user's own is imported only where the command names it.
        named = f" --env {env}" if ":" in env else ""
        show(f"certify the last with: tightrope certify {list(snapshots.values())[-1]}{named}")
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

train = App(name="train", help_flags=(), version_flags=())
for _agent in AGENTS:
    train.command(_trainer(_agent), name=_agent)
