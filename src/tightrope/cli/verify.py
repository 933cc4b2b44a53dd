"""tightrope verify: whether every number of a certificate follows from its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError
from tightrope.rollouts.collect import Rollout

__all__ = ["Verify"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Verify:
    """Recompute every number of a certificate from the files beside it."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify wrote."""
    replay: int = 0
    """Run so many of its episodes, drawn at random, again with the policy."""
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY", help_behavior_hint="")] = ""
    """With replay: the policy that was certified."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """With replay: its environment; by default the one that the certificate names."""
    normalize: Literal["none"] | Path = "none"
    """With replay: observation statistics of an SB3 policy, as for certify."""
    no_normalize: bool = False
    """With replay: an SB3 policy without the observation statistics of its training."""
    trust: bool = False
    """With replay: allow loading files that execute code."""
    json: bool = False
    """Print the outcome as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Exit code 0 if all agrees, 1 with a list of what does not."""
        import json

        from tightrope.certificates.verify import verify

        if self.replay < 0 or bool(self.replay) != bool(self.policy):
            raise InputError("expected `replay` of at least 1 with `policy`, and neither alone")
        loading = Rollout(
            normalize=self.normalize, no_normalize=self.no_normalize, trust=self.trust
        )
        if not self.replay and (self.env or loading != Rollout()):
            raise InputError("expected `replay` with `env`, `normalize` and `trust`, found none")
        problems = verify(self.folder)
        replayed: list[str] = []
        if self.replay and not problems:
            from tightrope.deploy.replay import replay

            episodes, problems = replay(
                self.folder, self.policy, self.env or None, episodes=self.replay, rollout=loading
            )
            replayed = [str(one) for one in episodes]
        if self.json:
            outcome = {"verified": not problems, "problems": problems}
            outcome |= {"replayed": replayed} if self.replay else {}
            print(json.dumps(outcome, indent=1))
            return 1 if problems else 0
        for line in (*replayed, *problems):
            print(line)
        if problems:
            count = f"{len(problems)} disagreement{'s' if len(problems) > 1 else ''}"
            print(f"NOT verified: {count} in {self.folder}")
            return 1
        print(f"verified: every number in {self.folder} follows from its files")
        if replayed:
            print(f"verified: {len(replayed)} of its episodes are those of {self.policy}")
        if (self.folder / "report.html").exists():
            print("report.html was not looked at; tightrope report draws it again")
        return 0
