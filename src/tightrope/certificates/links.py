"""The fits of a scheme: what each may see, and which bound its posterior will be put into."""

import numpy as np

from tightrope.certificates.data import Data
from tightrope.certificates.ledger import recursive_ledger
from tightrope.certificates.options import Options
from tightrope.posteriors import PRESETS, Link, Stage

__all__ = ["links", "starts"]


def starts(data: Data, options: Options) -> list[int]:
    """First episode of each portion, and at the end the number of validation episodes."""
    pilot = 0 if data.shares.pilot is None else len(data.shares.pilot)
    sizes = options.division.sizes(data.validation.episodes, pilot)
    return [0, *np.cumsum(sizes).tolist()]


def links(data: Data, options: Options) -> list[Link]:
    """The posteriors to fit, in order; none where regression has fixed the predictor."""
    kind, episodes = options.division.kind, starts(data, options)
    rows = [data.row_of_episode(episode) for episode in episodes]

    def units_from(portion: int) -> int:
        """Units in this portion and later, as far as a fit that ends with this portion may know.

        How many rows later episodes have is part of the data that a prior must not depend on, so
        they are taken to be as long as those seen.
        """
        seen = min(portion + 1, len(episodes) - 1)
        per_episode = 1.0 if options.unit == "episode" else rows[seen] / episodes[seen]
        return int(max(1, round(per_episode * (episodes[-1] - episodes[portion]))))

    portions = len(options.division.weights) if kind == "recursive" else 2
    share = recursive_ledger(
        portions, delta=options.delta, delta_prime=options.delta_prime
    ).failure("portion 1: risk")  # the same for every portion
    if kind == "recursive":
        kappas = [0.0, *[options.kappa] * (portions - 1)]
        return [
            Link(0, rows[t + 1], Stage(units_from(t), share, kappas[t])) for t in range(portions)
        ]
    # Free data are fitted by regression where the preset has one. Otherwise the first portion is
    # fitted like that of rec-2, so that the schemes can share it.
    regressed = PRESETS[options.preset].regression is not None
    first = [] if regressed else [Link(0, rows[1], Stage(units_from(0), share, 0.0))]
    if options.division.fixed:
        return first
    return [*first, Link(rows[1], rows[2], Stage(units_from(1), options.delta, 0.0))]
