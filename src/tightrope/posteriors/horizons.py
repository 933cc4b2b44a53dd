"""Returns under earlier time limits, which the recorded rewards tell as well."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.posteriors.scaling import Scaling
from tightrope.rollouts import Episodes, Pairs, discounted_returns

__all__ = ["Horizons", "horizons_of"]


@dataclass(frozen=True)
class Horizons:
    """Rows of the fitting set with fewer steps left than they had, and their returns then.

    A policy that does not look at the time acts the same however much of it is left. So a recorded
    episode also tells what each of its states would have returned under an earlier time limit, and
    one that terminated what it would have returned at any time: G_t - gamma^u G_(t+u) with u steps
    left. A regression that sees such rows learns late falls from early ones.

    Attributes:
        scaling: return range and clock.
        returns: (steps,) return from every step, not clipped.
        position: (rows,) the step that a row is.
        end: (rows,) step after the last of its episode.
        longest: (rows,) largest number of steps left whose return is known.
    """

    scaling: Scaling
    returns: NDArray[np.float64]
    position: NDArray[np.int64]
    end: NDArray[np.int64]
    longest: NDArray[np.int64]

    def draw(
        self, rows: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Features of the clock and normalised returns of rows, each at a drawn time.

        Args:
            rows: (batch,) which rows.
            uniform: (batch,) numbers in [0, 1): where between the nearest and the farthest limit.
        """
        clock = self.scaling.clock
        assert clock is not None  # horizons_of
        left = 1 + (uniform * self.longest[rows]).astype(np.int64)
        position, later = self.position[rows], self.position[rows] + left
        inside = later < self.end[rows]
        beyond = np.where(inside, self.returns[np.where(inside, later, 0)], 0.0)
        returns = self.returns[position] - clock.gamma**left * beyond
        return clock.features(clock.limit - left, len(left)), self.scaling.targets(returns)


def horizons_of(episodes: Episodes, rows: Pairs, scaling: Scaling) -> Horizons | None:
    """Those of the fitting set; None without a clock, for then the time left is unknown."""
    if scaling.clock is None:
        return None
    position = episodes.offsets[rows.episode] + rows.step
    end = episodes.offsets[rows.episode + 1]
    ended = episodes.terminated[rows.episode]
    return Horizons(
        scaling=scaling,
        returns=discounted_returns(episodes, scaling.clock.gamma),
        position=position,
        end=end,
        longest=np.where(ended, scaling.clock.limit, end - position),
    )
