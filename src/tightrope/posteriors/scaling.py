"""Return range and observation scaling: fixed before the validation data are seen."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tightrope.errors import InputError
from tightrope.policies import TrainingRecord
from tightrope.posteriors.fit import Rows
from tightrope.rollouts import Pairs

__all__ = ["RangeSource", "Scaling", "scaling_from_pilot", "scaling_from_training"]

RangeSource = Literal["pilot", "user", "training"]
_WIDENING = 0.1  # of the pilot's range, on each side
_FAR = np.float32(1e4)  # scaled observations are clipped here: their squares must stay finite


@dataclass(frozen=True, repr=False)
class Scaling:
    """From return units to [0, 1] and from raw to scaled observations.

    Attributes:
        low: smallest return of the range.
        high: largest return of the range.
        source: where the range comes from.
        mean: (features,) subtracted from observations.
        deviation: (features,) that they are then divided by.
    """

    low: float
    high: float
    source: RangeSource
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name in ("mean", "deviation"):
            array = getattr(self, name)
            if array.dtype != np.float32 or array.ndim != 1 or not np.isfinite(array).all():
                raise InputError(f"expected a finite {name} per feature, found {array!r}")
        if self.mean.shape != self.deviation.shape or not (self.deviation > 0).all():
            raise InputError("expected positive deviations, one for each mean, found others")
        if self.source not in ("pilot", "user", "training"):
            raise InputError(
                f"expected a range from pilot, user or training, found {self.source!r}"
            )
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"expected a finite return range with LO < HI, found [{self.low}, {self.high}]"
            )

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        return self.high - self.low

    def inputs(self, observations: NDArray[np.float32]) -> torch.Tensor:
        """Scaled observations."""
        with np.errstate(over="ignore"):
            scaled = (observations - self.mean) / self.deviation
        return torch.from_numpy(np.clip(scaled, -_FAR, _FAR))

    def targets(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns on the normalised scale, clipped to [0, 1]."""
        return np.asarray(np.clip((returns - self.low) / self.width, 0.0, 1.0))

    def clipped_share(self, returns: NDArray[np.float64]) -> float:
        """Share of returns outside the range."""
        return float(np.mean((returns < self.low) | (returns > self.high)))

    def rows(self, pairs: Pairs) -> Rows:
        """Pairs as the rows that a fit takes."""
        targets = torch.from_numpy(self.targets(pairs.returns)).float()
        return Rows(self.inputs(pairs.observations), targets)

    def __repr__(self) -> str:
        return (
            f"Scaling([{self.low:g}, {self.high:g}] from {self.source}, {len(self.mean)} features)"
        )


def scaling_from_pilot(
    pilot: Pairs | None, *, features: int, return_range: tuple[float, float] | None = None
) -> Scaling:
    """Range and scaling from pilot episodes; a range given by the user goes first.

    Raises:
        InputError: there is neither a pilot nor a range, or the pilot's returns are constant.
    """
    mean, deviation = np.zeros(features, np.float32), np.ones(features, np.float32)
    if pilot is not None:
        mean = pilot.observations.mean(axis=0, dtype=np.float64).astype(np.float32)
        spread = pilot.observations.std(axis=0, dtype=np.float64)
        deviation = np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
    if return_range is not None:
        low, high = return_range
        return Scaling(float(low), float(high), "user", mean, deviation)
    if pilot is None:
        raise InputError(
            "expected --return-range LO HI with --pilot-episodes 0: nothing else fixes the range"
        )
    low, high = float(pilot.returns.min()), float(pilot.returns.max())
    if low == high:
        raise InputError(
            f"expected returns that vary, found the constant {low:g} in all pilot episodes: "
            "there is nothing to predict, or give --return-range LO HI"
        )
    margin = _WIDENING * (high - low)
    return Scaling(low - margin, high + margin, "pilot", mean, deviation)


def scaling_from_training(record: TrainingRecord) -> Scaling:
    """Range and scaling from a training record: as they are, since training saw many returns.

    Raises:
        InputError: no episode of the training finished, or all had the same return.
    """
    low, high = float(record.return_low), float(record.return_high)
    if not (record.episodes and np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(
            f"expected a return range with LO < HI in the training record, found [{low:g}, "
            f"{high:g}] from {record.episodes} finished episodes: use --pilot-episodes N instead"
        )
    mean, deviation = record.observation_mean, record.observation_deviation
    return Scaling(low, high, "training", mean, deviation)
