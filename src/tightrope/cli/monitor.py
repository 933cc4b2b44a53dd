"""tightrope monitor: episodes with the calibrated monitor of a certificate watching."""

from pathlib import Path
from typing import Annotated, Literal

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import printable
from tightrope.rollouts import Rollout
from tightrope.seeds import Seed

__all__ = ["monitor"]


@command()
def monitor(
    certificate: Path,
    /,
    *,
    policy: str,
    env: Annotated[str, "ID"] = "",
    episodes: int = 5,
    seed: Seed = "fresh",
    normalize: Literal["none"] | Path = "none",
    no_normalize: bool = False,
    trust: bool = False,
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
        normalize: Observation statistics of an SB3 policy, as for collect.
        no_normalize: Run an SB3 policy without the observation statistics of its training.
        trust: Allow loading files that execute code.
        sample: Draw actions from the policy's distribution instead of taking its mode.
        save: Also write the monitor to this new .safetensors file, for a machine without torch.
    """
    from tightrope.deploy.monitor import Monitor, check_destination
    from tightrope.deploy.watch import summary, watch

    if save != "none":
        check_destination(save)
    rollout = Rollout(normalize=normalize, no_normalize=no_normalize, trust=trust, sample=sample)
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
