"""Return range, observation scaling and clock: fixed before the calibration data are seen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from tightrope.errors import InputError
from tightrope.records import checked

if TYPE_CHECKING:
    from tightrope.policies import TrainingRecord
    from tightrope.rollouts import Pairs

__all__ = ["Clock", "RangeSource", "Scaling", "moments", "range_from_training", "range_of_returns"]

RangeSource = Literal["fit", "pilot", "user", "training"]
_BLOCK = 512  # rows worked on at a time, so that what is derived from a log stays small
_WIDENING = 0.1  # of the range of the returns, on each side
# The squares of a width must be numbers, and so must the bounds that they are multiplied with; and
# returns far from 0 must be told apart, whatever rounding a thousand sums of rewards add.
_NARROWEST, _WIDEST, _APART = 1e-100, 1e100, 1e-10
_FAR = np.float32(1e4)  # scaled observations are clipped here: their squares must stay finite


@checked
class Clock:
    """Two fixed features of the elapsed steps t with a time limit H; benchmarks/tightness.md.

    With u = H - t steps left, they are t/H and 1 - gamma^u, the share of an endless return that
    the time left can still earn; both stretched to [-1, 1]. Nothing in them is learned.

    Attributes:
        limit: H, the number of steps after which an episode is cut.
        gamma: discount factor of the returns.

    Raises:
        InputError: the limit is no whole number of at least 1, or gamma is outside [0, 1].
    """

    size: ClassVar[int] = 2  # features
    limit: Annotated[int, Field(ge=1)]
    gamma: Annotated[float, Field(ge=0, le=1)]

    def features(self, elapsed: ArrayLike | None, rows: int) -> NDArray[np.float32]:
        """(rows, 2) features of the elapsed steps, whole numbers from 0 to below the limit.

        Raises:
            InputError: they are missing, of another number, or none of these.
        """
        steps = np.atleast_1d(np.asarray(elapsed))
        fits = steps.shape == (rows,) and steps.dtype.kind in "iuf"
        if not fits or not ((steps >= 0) & (steps < self.limit) & (steps == np.floor(steps))).all():
            raise InputError(
                f"expected `elapsed`, the steps since the start of the episode, for each of {rows} "
                f"observations: whole numbers from 0 to {self.limit - 1}, below the time limit; "
                f"found {steps.tolist()!s:.80}"
            )
        left = self.limit - steps.astype(np.float64)
        features = np.stack([1.0 - left / self.limit, 1.0 - self.gamma**left], axis=1)
        return (2.0 * features - 1.0).astype(np.float32)


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
            if array.dtype != np.float32 or array.ndim != 1 or not np.isfinite(array).all():
                raise InputError(
                    f"expected one finite float32 {name} per feature, found {array.dtype} "
                    f"{array.tolist()!s:.80}"
                )
        if self.mean.shape != self.deviation.shape or not (self.deviation > 0).all():
            raise InputError("expected positive deviations, one for each mean, found others")
        if self.source not in get_args(RangeSource):
            raise InputError(
                f"expected a range from fit, pilot, user or training, found {self.source!r}"
            )
        # Both are false for NaN.
        apart = self.width >= _APART * max(abs(self.low), abs(self.high))
        if not (_NARROWEST <= self.width <= _WIDEST and apart):
            raise InputError(
                f"expected a return range with LO < HI, between {_NARROWEST:g} and {_WIDEST:g} "
                f"wide and at least {_APART:g} of its largest value, found [{self.low!r}, "
                f"{self.high!r}]: scale the rewards, or subtract a constant from them"
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
    ) -> NDArray[np.float32]:
        """(rows, features) scaled observations and, if there is a clock, its features.

        Without a clock, elapsed steps are not looked at.

        Raises:
            InputError: there is a clock and elapsed steps are missing or do not fit.
        """
        found = np.empty((len(observations), self.features), np.float32)
        scaled = found[:, : len(self.mean)]
        with np.errstate(over="ignore"):
            np.subtract(observations, self.mean, out=scaled)
            scaled /= self.deviation
        np.maximum(np.minimum(scaled, _FAR, out=scaled), -_FAR, out=scaled)
        if self.clock is not None:
            found[:, len(self.mean) :] = self.clock.features(elapsed, len(observations))
        return found

    def targets(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns on the normalised scale, clipped to [0, 1]."""
        return np.asarray(np.clip((returns - self.low) / self.width, 0.0, 1.0))

    def returns(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions on the normalised scale in return units."""
        return self.low + self.width * predictions

    def clipped_share(self, returns: NDArray[np.float64]) -> float:
        """Share of returns outside the range."""
        return float(np.mean((returns < self.low) | (returns > self.high)))

    def rows(self, pairs: "Pairs") -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Inputs and normalised returns of pairs."""
        inputs = self.inputs(pairs.observations, pairs.step)
        return inputs, self.targets(pairs.returns).astype(np.float32)

    def __repr__(self) -> str:
        clock = "no clock" if self.clock is None else f"clock to {self.clock.limit}"
        features = f"{len(self.mean)} features, {clock}"
        return f"Scaling([{self.low:g}, {self.high:g}] from {self.source}, {features})"


def moments(
    observations: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation per feature, 1 where it does not vary."""
    count = len(observations)
    blocks = [observations[i : i + _BLOCK] for i in range(0, count, _BLOCK)]
    mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / count
    spread = np.sqrt(sum(np.square(block - mean).sum(axis=0) for block in blocks) / count)
    return mean.astype(np.float32), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)


def range_of_returns(returns: NDArray[np.float64]) -> tuple[float, float]:
    """The range of returns, widened by a tenth on each side.

    Raises:
        InputError: they are constant.
    """
    low, high = float(returns.min()), float(returns.max())
    if low == high:
        raise InputError(
            f"expected returns that vary, found the constant {low:g} in the episodes that fix the "
            "range: there is nothing to predict, or give `return_range`"
        )
    margin = _WIDENING * (high - low)
    return low - margin, high + margin


def range_from_training(record: "TrainingRecord") -> tuple[float, float]:
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
