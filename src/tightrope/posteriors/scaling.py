"""Return range, observation scaling and clock: fixed before the calibration data are seen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError

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


@dataclass(frozen=True)
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

    limit: int
    gamma: float

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise InputError(
                f"expected a time limit of a whole number of steps, found {self.limit!r}"
            )
        if not 0 <= self.gamma <= 1:
            raise InputError(f"expected a discount factor in [0, 1], found {self.gamma!r}")

    @property
    def size(self) -> int:
        """How many features there are."""
        return 2

    def features(self, elapsed: ArrayLike) -> NDArray[np.float32]:
        """(rows, 2) features of the elapsed steps, whole numbers from 0 to below the limit.

        Raises:
            InputError: a number is none of these.
        """
        steps = np.atleast_1d(np.asarray(elapsed))
        if steps.ndim != 1 or steps.dtype.kind not in "iuf":
            raise InputError(
                f"expected `elapsed` as one number of steps per row, found {steps.dtype} of shape "
                f"{steps.shape}"
            )
        wrong = ~((steps >= 0) & (steps < self.limit) & (steps == np.floor(steps)))
        if wrong.any():
            raise InputError(
                f"expected `elapsed` as whole steps from 0 to {self.limit - 1}, below the time "
                f"limit, found {steps[wrong][0]:g}"
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
                f"expected a range from fit, pilot, user or training, found {self.source!r}"
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
    ) -> NDArray[np.float32]:
        """(rows, features) scaled observations and, if there is a clock, its features.

        Without a clock, elapsed steps are not looked at.

        Raises:
            InputError: there is a clock and elapsed steps are missing or do not fit.
        """
        with np.errstate(over="ignore"):
            scaled = (observations - self.mean) / self.deviation
        scaled = np.asarray(np.minimum(np.maximum(scaled, -_FAR), _FAR))
        if self.clock is None:
            return scaled
        features = self.clock.features(_times(elapsed, len(observations)))
        return np.concatenate([scaled, features], axis=1)

    def blocks(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """The inputs of a block of rows at a time, so that a log is never scaled as a whole.

        Raises:
            InputError: as for :meth:`inputs`.
        """
        times = None if self.clock is None else _times(elapsed, len(observations))
        for start in range(0, max(1, len(observations)), _BLOCK):
            part = slice(start, start + _BLOCK)
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

    def rows(self, pairs: "Pairs") -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Inputs and normalised returns of pairs."""
        inputs = np.empty((len(pairs), self.features), np.float32)
        filled = 0
        for block in self.blocks(pairs.observations, pairs.step):
            inputs[filled : filled + len(block)] = block
            filled += len(block)
        return inputs, self.targets(pairs.returns).astype(np.float32)

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
