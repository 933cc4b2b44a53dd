"""Episodes with predictions along them: all that a statement may look at."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightrope.posteriors import ReturnPredictor, Scaling
from tightrope.rollouts import Episodes, Pairs, pairs

__all__ = ["UNSCALED", "Evidence", "every", "ordinal"]

Values = NDArray[np.float64]
# Where nothing is predicted: returns are as they are.
UNSCALED = Scaling(0.0, 1.0, "user", np.zeros(0, np.float32), np.zeros(0, np.float32))


@dataclass(frozen=True, repr=False)
class Evidence:
    """Episodes, their thinned pairs, and what is predicted at their steps.

    Attributes:
        episodes: whole episodes.
        pairs: the steps that count.
        predicted: (steps,) predicted return at every step, in return units; NaN where nothing was
            predicted, which is at no pair or at every one.
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
        cls,
        predictor: ReturnPredictor | None,
        episodes: Episodes,
        *,
        gamma: float,
        thin: int,
        everywhere: bool = True,
    ) -> "Evidence":
        """With predictions at every step, or at the pairs alone, which takes less time."""
        rows = pairs(episodes, gamma=gamma, thin=thin)
        if predictor is None:
            return cls.from_pairs(episodes, rows, None, UNSCALED, gamma, thin)
        if everywhere:
            along = predictor.along(episodes)
            return cls(episodes, rows, along, predictor.scaling, gamma, thin)
        normalised = predictor.normalised(rows.observations, rows.step)
        return cls.from_pairs(episodes, rows, normalised, predictor.scaling, gamma, thin)

    @classmethod
    def from_pairs(
        cls,
        episodes: Episodes,
        rows: Pairs,
        normalised: Values | None,
        scaling: Scaling,
        gamma: float,
        thin: int = 1,
    ) -> "Evidence":
        """With (pairs,) predictions on the normalised scale; None for none."""
        predicted = np.full(len(episodes.rewards), np.nan)
        if normalised is not None:
            predicted[episodes.offsets[rows.episode] + rows.step] = scaling.returns(normalised)
        return cls(episodes, rows, predicted, scaling, gamma, thin)

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

    def risks(self, unit: str) -> Values:
        """Clipped losses of every pair, or the mean of each episode."""
        values = self.losses if unit == "step" else self.mean_by_episode(self.losses)
        return np.clip(values, 0.0, 1.0)

    def units(self, unit: str, episodes: int, thin: int = 1) -> int:
        """Units of so many episodes like these, of which every `thin`-th pair counts."""
        per_episode = len(self.pairs) / len(self) / thin if unit == "step" else 1.0
        return max(1, round(per_episode * episodes))

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
    return f"every {ordinal(thin)}step"


def ordinal(rank: int) -> str:
    """Second, third and so on, followed by a blank; nothing for the first."""
    if rank < 4:
        return ("", "second ", "third ")[rank - 1]
    teen = rank % 100 in (11, 12, 13)
    return f"{rank}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')} "
