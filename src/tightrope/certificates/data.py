"""Episodes on their way into a certificate: shared out, thinned, scaled; nothing leaks back."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.options import Options
from tightrope.environments import known_thinning
from tightrope.errors import InputError
from tightrope.posteriors import Rows, Scaling, scaling_from_pilot
from tightrope.rollouts import Episodes, Pairs, Shares, pairs, share_out

__all__ = ["Data", "prepare"]


@dataclass(frozen=True)
class Data:
    """One data set for certificates.

    The scaling and the thinning come from the pilot, the user or the environment, never from
    validation or test episodes.
    """

    shares: Shares
    thin: int
    scaling: Scaling
    pilot: Rows | None
    validation: Pairs
    rows: Rows
    targets: NDArray[np.float64]  # (rows,) of the validation pairs, in float64
    test: Pairs | None

    def row_of_episode(self, episode: int) -> int:
        """First row of a validation episode; the number of rows for the one after the last."""
        return int(np.searchsorted(self.validation.episode, episode))


def prepare(episodes: Episodes, options: Options, scaling: Scaling | None = None) -> Data:
    """Share out and scale; a scaling from a training record goes before the pilot's.

    Raises:
        InputError: there are too few episodes, or the returns are constant or out of range.
    """
    if len(episodes) < 2:
        raise InputError(f"expected at least 2 episodes, found {len(episodes)}: record more")
    partial = episodes.subject.get("partial")
    if partial is not None:
        raise InputError(
            f"expected a whole collection, found a partial one ({partial}): it favours short "
            "episodes, so collect again"
        )
    shares = share_out(
        episodes,
        pilot=options.pilot_episodes,
        validation=options.episodes,
        test=options.test_episodes,
    )
    _require_distinct(shares.all_episodes)
    thin = options.thin if options.thin is not None else _default_thinning(shares)
    pilot = None if shares.pilot is None else pairs(shares.pilot, gamma=options.gamma, thin=thin)
    validation = pairs(shares.validation, gamma=options.gamma, thin=thin)
    test = None if shares.test is None else pairs(shares.test, gamma=options.gamma, thin=thin)
    features = shares.validation.observations.shape[1]
    if scaling is not None and len(scaling.mean) != features:
        raise InputError(
            f"expected a scaling for {features} features, found one for {len(scaling.mean)}: "
            "its training record is of another environment"
        )
    if scaling is None:
        scaling = scaling_from_pilot(pilot, features=features, return_range=options.return_range)
    if validation.returns.min() == validation.returns.max():
        raise InputError(
            f"expected returns that vary, found the constant {validation.returns[0]:g} in all "
            "validation episodes: there is nothing to predict"
        )
    clipped = scaling.clipped_share(validation.returns)
    if clipped > 0.5:
        warnings.warn(
            f"{clipped:.0%} of the validation returns lie outside the return range "
            f"[{scaling.low:g}, {scaling.high:g}] and are clipped: the certificate says little "
            "about the returns themselves; use a wider range",
            stacklevel=2,
        )
    return Data(
        shares=shares,
        thin=thin,
        scaling=scaling,
        pilot=None if pilot is None else scaling.rows(pilot),
        validation=validation,
        rows=scaling.rows(validation),
        targets=scaling.targets(validation.returns),
        test=test,
    )


def _require_distinct(episodes: Episodes) -> None:
    """Equal seeds, or equal episodes, are not independent ones."""
    seeds = episodes.seeds[episodes.seeds >= 0]
    if len(np.unique(seeds)) < len(seeds):
        values, counts = np.unique(seeds, return_counts=True)
        raise InputError(
            f"expected episodes with distinct seeds, found the seed {values[counts > 1][0]} "
            f"{counts[counts > 1][0]} times"
        )
    contents = {(e.rewards.tobytes(), e.observations.tobytes()) for e in episodes}
    if len(contents) < len(episodes):
        warnings.warn(
            f"{len(episodes) - len(contents)} of {len(episodes)} episodes repeat another one "
            "exactly: are they independent?",
            stacklevel=3,
        )


def _default_thinning(shares: Shares) -> int:
    """From the environment's recipe; for a log, from its pilot: 5 for fixed lengths, else 3."""
    environment = shares.validation.subject.get("environment", {})
    recorded = environment.get("thin") or known_thinning(str(environment.get("id", "")))
    if recorded is not None:
        return int(recorded)
    pilot = shares.pilot
    fixed = pilot is not None and not pilot.terminated.any() and len(set(pilot.lengths)) == 1
    return 5 if fixed else 3
