"""tightrope collect: episodes only."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError
from tightrope.rollouts.collecting import Rollout
from tightrope.seeds import Seed

__all__ = ["collect"]


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
    from tightrope.seeds import resolve_seed

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
