"""Return range, observation scaling and clock: fixed before the validation data are seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError
from tightrope.policies import TrainingRecord
from tightrope.posteriors.clock import Clock
from tightrope.posteriors.network import BLOCK
from tightrope.posteriors.rows import Rows
from tightrope.rollouts import Pairs

__all__ = ["RangeSource", "Scaling", "moments", "range_from_pilot", "range_from_training"]

RangeSource = Literal["pilot", "user", "training"]
_WIDENING = 0.1  # of the pilot's range, on each side
# The squares of a width must be numbers, and so must the bounds that they are multiplied with; and
# returns far from 0 must be told apart, whatever rounding a thousand sums of rewards add.
_NARROWEST, _WIDEST, _APART = 1e-100, 1e100, 1e-10
_FAR = np.float32(1e4)  # scaled observations are clipped here: their squares must stay finite


@dataclass(frozen=True, repr=False)
class Scaling:
    """From return units to [0, 1], and from raw observations and elapsed steps to inputs.

    Attributes:
        low: smallest return of the range.
        high: largest return of the range.
        source: where the range comes from.
        mean: (features,) subtracted from observations.
        deviation: (features,) that they are then divided by.
        clock: features of the elapsed time that are added to the inputs; None for none.
    """

    low: float
    high: float
    source: RangeSource
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]
    clock: Clock | None = None

    def __post_init__(self) -> None:
        for name in ("mean", "deviation"):
            array = getattr(self, name)
            if array.dtype != np.float32 or array.ndim != 1:
                raise InputError(
                    f"expected one float32 {name} per feature, found {array.dtype} of shape "
                    f"{array.shape}"
                )
            if not np.isfinite(array).all():
                raise InputError(f"expected a finite {name} per feature, found NaN or infinity")
        if self.mean.shape != self.deviation.shape or not (self.deviation > 0).all():
            raise InputError("expected positive deviations, one for each mean, found others")
        if self.source not in get_args(RangeSource):
            raise InputError(
                f"expected a range from pilot, user or training, found {self.source!r}"
            )
        if not 0 < self.high - self.low < np.inf:  # false for NaN, too
            raise InputError(
                f"expected a finite return range with LO < HI, found [{self.low}, {self.high}]"
            )
        if not _NARROWEST <= self.width <= _WIDEST:
            raise InputError(
                f"expected a return range between {_NARROWEST:g} and {_WIDEST:g} wide, found "
                f"[{self.low:g}, {self.high:g}]: scale the rewards"
            )
        if self.width < _APART * max(abs(self.low), abs(self.high)):
            raise InputError(
                f"expected a return range of at least {_APART:g} of its largest value, found "
                f"[{self.low!r}, {self.high!r}]: subtract a constant from the rewards"
            )

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        return self.high - self.low

    @property
    def features(self) -> int:
        """How many inputs the predictor has."""
        return len(self.mean) + (0 if self.clock is None else self.clock.size)

    def inputs(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None = None
    ) -> torch.Tensor:
        """(rows, features) scaled observations and, if there is a clock, its features.

        Without a clock, elapsed steps are not looked at.

        Raises:
            InputError: there is a clock and elapsed steps are missing or do not fit.
        """
        with np.errstate(over="ignore"):
            scaled = (observations - self.mean) / self.deviation
        scaled = np.clip(scaled, -_FAR, _FAR)
        if self.clock is None:
            return torch.from_numpy(scaled)
        features = self.clock.features(_times(elapsed, len(observations)))
        return torch.from_numpy(np.concatenate([scaled, features], axis=1))

    def blocks(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None = None
    ) -> Iterator[torch.Tensor]:
        """The inputs of a block of rows at a time, so that a log is never scaled as a whole.

        Raises:
            InputError: as for :meth:`inputs`.
        """
        times = None if self.clock is None else _times(elapsed, len(observations))
        for start in range(0, max(1, len(observations)), BLOCK):
            part = slice(start, start + BLOCK)
            yield self.inputs(observations[part], None if times is None else times[part])

    def targets(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns on the normalised scale, clipped to [0, 1]."""
        return np.asarray(np.clip((returns - self.low) / self.width, 0.0, 1.0))

    def returns(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions on the normalised scale in return units."""
        return self.low + self.width * predictions

    def clipped_share(self, returns: NDArray[np.float64]) -> float:
        """Share of returns outside the range."""
        return float(np.mean((returns < self.low) | (returns > self.high)))

    def rows(self, *groups: Pairs) -> Rows:
        """Pairs, of one group after the other, as the rows that a fit takes."""
        inputs = torch.empty(
            sum(map(len, groups)), self.features, dtype=torch.float32, device="cpu"
        )
        filled = 0
        for pairs in groups:
            for block in self.blocks(pairs.observations, pairs.step):
                inputs[filled : filled + len(block)] = block
                filled += len(block)
        targets = [torch.from_numpy(self.targets(pairs.returns)).float() for pairs in groups]
        return Rows(inputs, torch.cat(targets))

    def __repr__(self) -> str:
        clock = "no clock" if self.clock is None else f"clock to {self.clock.limit}"
        features = f"{len(self.mean)} features, {clock}"
        return f"Scaling([{self.low:g}, {self.high:g}] from {self.source}, {features})"


def _times(elapsed: ArrayLike | None, rows: int) -> NDArray[np.generic]:
    """Elapsed steps, one for each row."""
    if elapsed is None:
        raise InputError(
            "expected `elapsed`, the steps since the start of the episode, for a predictor "
            "with a clock, found none"
        )
    times = np.atleast_1d(np.asarray(elapsed))
    if len(times) != rows:
        raise InputError(f"expected `elapsed` for each of {rows} observations, found {len(times)}")
    return times


def moments(
    groups: Sequence[NDArray[np.float32]], features: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation per feature; 0 and 1 without observations, 1 where they do not vary."""
    count = sum(map(len, groups))
    if not count:
        return np.zeros(features, np.float32), np.ones(features, np.float32)
    blocks = [each[i : i + BLOCK] for each in groups for i in range(0, len(each), BLOCK)]
    mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / count
    spread = np.sqrt(sum(np.square(block - mean).sum(axis=0) for block in blocks) / count)
    return mean.astype(np.float32), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)


def range_from_pilot(returns: NDArray[np.float64]) -> tuple[float, float]:
    """The range of the pilot's returns, widened by a tenth on each side.

    Raises:
        InputError: they are constant.
    """
    low, high = float(returns.min()), float(returns.max())
    if low == high:
        raise InputError(
            f"expected returns that vary, found the constant {low:g} in all pilot episodes: "
            "there is nothing to predict, or give `return_range`"
        )
    margin = _WIDENING * (high - low)
    return low - margin, high + margin


def range_from_training(record: TrainingRecord) -> tuple[float, float]:
    """The range of a training record, as it is, since training saw many returns.

    Raises:
        InputError: no episode of the training finished, or all had the same return.
    """
    low, high = float(record.return_low), float(record.return_high)
    if not (record.episodes and np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(
            f"expected a return range with LO < HI in the training record, found [{low:g}, "
            f"{high:g}] from {record.episodes} finished episodes: give `pilot_episodes` instead"
        )
    return low, high
