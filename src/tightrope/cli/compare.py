"""tightrope compare: which of two policies, or recordings, is better."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.comparison.compare_options import CompareOptions
from tightrope.errors import InputError
from tightrope.rollouts import Rollout
from tightrope.rollouts.results_table import Reading

__all__ = ["compare", "with_statistics"]

Statistics = Literal["same", "none"] | Path


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
    import json as text

    from tightrope.comparison import Comparison
    from tightrope.comparison.compare import compare as decide
    from tightrope.files import refuse_to_overwrite

    if out != "none":
        refuse_to_overwrite(out)
    comparison = decide(
        a,
        b,
        env or None,
        rollout=rollout,
        other_rollout=with_statistics(rollout, normalize_b),
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
        print(text.dumps(comparison.to_json(), indent=1, allow_nan=False))
    else:
        show(str(comparison), lines=True)
        if out != "none":
            show("")
            show(f"Written to {out}")
    return 0


def with_statistics(rollout: Rollout, normalize: Statistics) -> Rollout:
    """The roll-out of B: with observation statistics of its own, if they are given."""
    if normalize == "same":
        return rollout
    return replace(rollout, normalize=normalize, no_normalize=False)
