"""tightrope compare: which of two policies, or recordings, is better."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.certificates.request import Rollout
from tightrope.monitors.comparing import Comparing

__all__ = ["Compare"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Compare:
    """Say which of two policies returns more, fails less and is more predictable."""

    first: Annotated[Positional[str], tyro.conf.arg(metavar="A")]
    """A policy (as for collect; rolled out here), recorded episodes (as for certify), or the folder
    of a certificate."""
    second: Annotated[Positional[str], tyro.conf.arg(metavar="B")]
    """The other one, of the same kind."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment to roll both policies out in; by default the one that they were trained
    in, if train wrote them."""
    out: Path = Path("comparison.html")
    """New file for the page."""
    comparing: Comparing = field(default_factory=Comparing)
    """What is compared, how surely, and when to stop."""
    rollout: Rollout = field(default_factory=Rollout)
    normalize_b: Literal["same", "none"] | Path = "same"
    """Observation statistics of B, if they are not those of normalize."""
    json: bool = False
    """Print the comparison as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Roll out in batches or load, compare, write, print."""
        import json

        from tightrope.files import refuse_to_overwrite
        from tightrope.monitors.compare import compare
        from tightrope.monitors.comparing import with_statistics
        from tightrope.reports.comparison import write_comparison

        refuse_to_overwrite(self.out)
        found = compare(
            self.first,
            self.second,
            self.env or None,
            rollout=self.rollout,
            other_rollout=with_statistics(self.rollout, self.normalize_b),
            progress=True,
            **vars(self.comparing),
        )
        write_comparison(found, self.out)
        if self.json:
            print(json.dumps(found.to_json(), indent=1, allow_nan=False))
        else:
            print(found)
            print(f"\nWritten to {self.out}")
        return 0
