"""tightrope collect: episodes only."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError
from tightrope.rollouts.collect import Rollout
from tightrope.seeds import Seed

__all__ = ["Collect"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Collect:
    """Roll out a frozen policy and record whole episodes."""

    policy: Annotated[Positional[str], tyro.conf.arg(metavar="POLICY")]
    """An SB3 .zip, an .onnx file, a folder that train wrote, file.py:name or package.module:name;
    with trust also a TorchScript .pt or a torch.export .pt2."""
    out: Path
    """File to write: .safetensors (tightrope's own), .npz or .hdf5 (D4RL names)."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment, such as Hopper-v4, dm_control/walker-walk-v0 or reach-v3; by default
    the one that the policy was trained in, if train wrote it."""
    episodes: int = 100
    """How many episodes."""
    seed: Seed = "fresh"
    """Root of the episodes' seeds; the same seed gives the same episodes. fresh: one that is drawn
    and recorded."""
    rollout: Rollout = field(default_factory=Rollout)
    keep_partial: bool = False
    """If an episode fails, write those that finished; they are marked as partial."""

    def run(self) -> int:
        """Collect and save."""
        from tightrope.rollouts import (
            CollectionError,
            check_destination,
            collect,
            policy_source,
            write_episodes,
        )
        from tightrope.seeds import resolve_seed

        check_destination(self.out)
        if self.keep_partial and self.out.suffix != ".safetensors":
            raise InputError(
                f"expected a name ending in .safetensors with `keep_partial`, found {self.out}: "
                "other formats cannot mark episodes as partial"
            )
        subject = policy_source(self.policy, self.env or None, self.rollout.env_kwargs)
        seed = resolve_seed(self.seed)
        try:
            episodes = collect(
                subject.policy,
                subject.environment,
                self.episodes,
                seed,
                progress=True,
                **self.rollout.arguments,
            )
        except CollectionError as error:
            if not self.keep_partial:
                raise
            kept = "nothing had finished, so nothing was written"
            if error.partial is not None:
                write_episodes(error.partial, self.out)
                kept = f"kept {len(error.partial)} finished episodes in {self.out}"
            raise CollectionError(f"{error}; {kept}", None, error.interrupted) from None
        episodes = replace(episodes, subject={**episodes.subject, **subject.training()})
        write_episodes(episodes, self.out)
        steps = len(episodes.rewards)
        where = subject.environment.id
        print(f"{len(episodes)} episodes, {steps:,} steps of {where} (seed {seed}) in {self.out}")
        return 0
