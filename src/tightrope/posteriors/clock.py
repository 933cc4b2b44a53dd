"""Elapsed time as an input of the predictor: near a time limit no state shows what is left."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError

__all__ = ["Clock"]


@dataclass(frozen=True)
class Clock:
    """Two fixed features of the elapsed steps t with a time limit H; docs/tightness.md.

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
