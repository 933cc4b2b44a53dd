"""tightrope monitor: episodes with the calibrated monitor of a certificate watching."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError
from tightrope.seeds import Seed

__all__ = ["Monitor"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Monitor:
    """Run a policy with the monitor of a certificate watching; a line for each episode."""

    certificate: Annotated[Positional[Path], tyro.conf.arg(metavar="CERT")]
    """Folder that certify wrote, or a file that Monitor.save wrote."""
    policy: str
    """The policy to run, as for collect."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment to run it in; by default the one that was certified."""
    episodes: int = 5
    """How many episodes."""
    seed: Seed = "fresh"
    """Root of the episodes' seeds."""
    normalize: Literal["none"] | Path = "none"
    """Observation statistics of an SB3 policy, as for collect."""
    no_normalize: bool = False
    """Run an SB3 policy without the observation statistics of its training, on purpose."""
    trust: bool = False
    """Allow loading files that execute code."""
    sample: bool = False
    """Draw actions from the policy's distribution instead of taking its mode."""
    save: Literal["none"] | Path = "none"
    """Also write the monitor to this new .safetensors file, for a machine without torch."""

    def run(self) -> int:
        """Watch, and show what the monitor says."""
        from tightrope.deploy.monitor import Monitor as Watching
        from tightrope.deploy.monitor import check_destination
        from tightrope.deploy.watch import MonitoredEpisode, summary, watch

        if self.no_normalize and self.normalize != "none":
            raise InputError("expected `normalize` or `no_normalize`, found both")
        if self.save != "none":
            check_destination(self.save)
        given = None if self.normalize == "none" else self.normalize
        out = sys.stdout  # what environments print goes elsewhere meanwhile

        def show(episode: MonitoredEpisode) -> None:
            print(episode, file=out, flush=True)

        watching = Watching(self.certificate)
        episodes = watch(
            watching,
            self.policy,
            self.env or None,
            episodes=self.episodes,
            seed=self.seed,
            normalize=False if self.no_normalize else given,
            trust=self.trust,
            sample=self.sample,
            show=show,
        )
        print(summary(watching, episodes))
        if self.save != "none":
            watching.save(self.save)
            print(f"written: {self.save}")
        return 0
