"""Fit a chain of portions: each posterior is the prior of a later one."""

from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.posteriors.fit import Curves, FitSettings, Tick, fit
from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.objectives import Stage
from tightrope.posteriors.rows import Rows
from tightrope.seeds import Stream, child_seed

__all__ = ["Link", "fit_chain"]


@dataclass(frozen=True)
class Link:
    """One fit of a chain.

    Attributes:
        start: first row that the fit may see.
        stop: row after the last.
        stage: the bound that its posterior will be put into.
    """

    start: int
    stop: int
    stage: Stage


def fit_chain(
    prior: Gaussians,
    links: Sequence[Link],
    rows: Rows,
    settings: FitSettings,
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    tick: Tick | None = None,
    first: int = 0,
) -> tuple[list[Gaussians], list[Curves]]:
    """Posteriors and curves of all links in order, for all members at once.

    The fit of link t sees rows `start` to `stop` of that link and the posterior before it, nothing
    else: what later portions hold cannot reach it. A chain that is continued passes the number of
    links before as `first`, so that its seeds go on where they were.
    """
    posteriors, curves = [], []
    for index, link in enumerate(links, start=first):
        seen = rows.span(link.start, link.stop)
        own = [child_seed(seed, Stream.FIT, index) for seed in seeds]
        prior, curve = fit(prior, seen, link.stage, settings, own, device=device, tick=tick)
        posteriors.append(prior)
        curves.append(curve)
    return posteriors, curves
