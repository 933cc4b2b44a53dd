"""tightrope compare: which of two policies, or recordings, is better."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from tightrope.comparison.compare_options import CompareOptions
from tightrope.rollouts import Rollout

__all__ = ["Compare", "with_statistics"]

Statistics = Literal["same", "none"] | Path


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Compare:
    """Decide which of two policies returns more, fails less often and is more predictable."""

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
    comparison: CompareOptions = field(default_factory=CompareOptions)
    """What is compared, how surely, and when to stop."""
    rollout: Rollout = field(default_factory=Rollout)
    normalize_b: Statistics = "same"
    """Observation statistics of B, if they are not those of normalize."""
    json: bool = False
    """Print the comparison as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Roll out in batches or load, compare, write, print."""
        import json

        from tightrope.comparison.compare import compare
        from tightrope.files import refuse_to_overwrite
        from tightrope.reports.comparison import write_comparison

        refuse_to_overwrite(self.out)
        comparison = compare(
            self.first,
            self.second,
            self.env or None,
            rollout=self.rollout,
            other_rollout=with_statistics(self.rollout, self.normalize_b),
            progress=True,
            **vars(self.comparison),
        )
        write_comparison(comparison, self.out)
        if self.json:
            print(json.dumps(comparison.to_json(), indent=1, allow_nan=False))
        else:
            print(comparison)
            print(f"\nWritten to {self.out}")
        return 0


def with_statistics(rollout: Rollout, normalize: Statistics) -> Rollout:
    """The roll-out of B: with observation statistics of its own, if they are given."""
    if normalize == "same":
        return rollout
    return replace(rollout, normalize=normalize, no_normalize=False)
