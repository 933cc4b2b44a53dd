"""Episodes with predictions along them: all that a statement may look at."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightrope.posteriors import ReturnPredictor, Scaling
from tightrope.rollouts import Episodes, Pairs, pairs

__all__ = ["Evidence", "every"]

Values = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Evidence:
    """Episodes, their thinned pairs, and what is predicted at their steps.

    Attributes:
        episodes: whole episodes.
        pairs: the steps that count.
        predicted: (steps,) predicted return at every step, in return units; NaN where nothing was
            predicted, which is at no pair.
        scaling: return range and clock.
        gamma: discount factor.
        thin: every `thin`-th step is a pair.
    """

    episodes: Episodes
    pairs: Pairs
    predicted: Values
    scaling: Scaling
    gamma: float
    thin: int

    @classmethod
    def of(
        cls, predictor: ReturnPredictor, episodes: Episodes, *, gamma: float, thin: int
    ) -> "Evidence":
        """With predictions at every step."""
        return cls(
            episodes=episodes,
            pairs=pairs(episodes, gamma=gamma, thin=thin),
            predicted=predictor.along(episodes),
            scaling=predictor.scaling,
            gamma=gamma,
            thin=thin,
        )

    @classmethod
    def left_out(
        cls,
        episodes: Episodes,
        rows: Pairs,
        left_out: Values | None,
        scaling: Scaling,
        gamma: float,
    ) -> "Evidence":
        """The fitting set, each row predicted by a network that has not seen its episode."""
        predicted = np.full(len(episodes.rewards), np.nan)
        if left_out is not None:
            predicted[episodes.offsets[rows.episode] + rows.step] = scaling.returns(left_out)
        return cls(episodes, rows, predicted, scaling, gamma, 1)

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def time_limit(self) -> int | None:
        """Of the predictor's clock; None without one."""
        return None if self.scaling.clock is None else self.scaling.clock.limit

    @property
    def is_predicted(self) -> bool:
        """Whether there are predictions at the pairs."""
        return bool(len(self.pairs)) and bool(np.isfinite(self.at_pairs[0]))

    @property
    def steps(self) -> str:
        """The steps that the pairs are, in words."""
        return every(self.thin)

    @cached_property
    def at_pairs(self) -> Values:
        """(pairs,) predicted returns."""
        rows = self.episodes.offsets[self.pairs.episode] + self.pairs.step
        return np.asarray(self.predicted[rows])

    @cached_property
    def errors(self) -> Values:
        """(pairs,) predicted minus observed return, in return units, not clipped."""
        return self.at_pairs - self.pairs.returns

    @cached_property
    def losses(self) -> Values:
        """(pairs,) squared errors of clipped returns, in [0, 1]."""
        normalised = (self.at_pairs - self.scaling.low) / self.scaling.width
        return np.clip(np.square(normalised - self.scaling.targets(self.pairs.returns)), 0.0, 1.0)

    @cached_property
    def rms(self) -> Values:
        """(episodes,) RMS error of each, in return units, not clipped."""
        return np.sqrt(self.mean_by_episode(np.square(self.errors)))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self.pairs.episode, np.arange(len(self.episodes))))

    def mean_by_episode(self, values: Values) -> Values:
        """(episodes,) means of (pairs,) values."""
        counts = np.diff(self._starts, append=len(values))
        return np.asarray(np.add.reduceat(values, self._starts) / counts)

    def max_by_episode(self, values: Values) -> Values:
        """(episodes,) largest of (pairs,) values."""
        return np.asarray(np.maximum.reduceat(values, self._starts))


def every(thin: int) -> str:
    """The steps that are kept, in words: "every step", "every third step"."""
    return "every " + {1: "", 2: "second ", 3: "third "}.get(thin, f"{thin}th ") + "step"
