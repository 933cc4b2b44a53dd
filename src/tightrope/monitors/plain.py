"""The certified predictor as plain arrays: one observation at a time, with nothing but numpy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tightrope.posteriors import Chain

__all__ = ["PlainPredictor"]

_EPSILON = np.float32(1e-5)  # of torch's layer normalisation
_FAR = np.float32(1e4)  # where scaled observations are clipped, as in `posteriors.scaling`

Floats = NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class PlainPredictor:
    """A return predictor without dice, made of arrays.

    Attributes:
        layers: (members, inputs + 1, outputs) each; the last row is the bias.
        mean: (features,) subtracted from observations.
        deviation: (features,) that they are then divided by.
        low: return at an output of 0.
        width: return units per 1 of output.
        limit: time limit of the clock; None for no clock.
        gamma: discount factor of the returns.
    """

    layers: tuple[Floats, ...]
    mean: Floats
    deviation: Floats
    low: float
    width: float
    limit: int | None
    gamma: float

    @classmethod
    def of(cls, chain: "Chain", gamma: float) -> "PlainPredictor":
        """The network of a certificate, its scaling and its clock."""
        scaling = chain.scaling
        return cls(
            layers=tuple(np.ascontiguousarray(layer.numpy()) for layer in chain.network.layers),
            mean=scaling.mean,
            deviation=scaling.deviation,
            low=scaling.low,
            width=scaling.width,
            limit=None if scaling.clock is None else scaling.clock.limit,
            gamma=gamma,
        )

    def __call__(self, observation: Floats, elapsed: int) -> float:
        """The predicted return, in return units.

        Args:
            observation: (features,) finite.
            elapsed: steps since the start of the episode, below the limit.
        """
        with np.errstate(over="ignore"):
            scaled = np.clip((observation - self.mean) / self.deviation, -_FAR, _FAR)
        clock: tuple[float, ...] = ()
        if self.limit is not None:
            left = float(self.limit - elapsed)
            clock = (2.0 * (1.0 - left / self.limit) - 1.0, 2.0 * (1.0 - self.gamma**left) - 1.0)
        inputs = np.concatenate([scaled, np.asarray(clock, np.float32)])
        hidden = np.broadcast_to(inputs, (len(self.layers[0]), 1, len(inputs)))
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            hidden = hidden @ layer[:, :-1] + layer[:, -1:]  # (members, 1, outputs)
            if index < last:
                centred = hidden - hidden.mean(axis=-1, keepdims=True)
                variance = np.square(centred).mean(axis=-1, keepdims=True)
                hidden = np.maximum(centred / np.sqrt(variance + _EPSILON), 0)
        outputs = np.clip(hidden.ravel(), 0.0, 1.0).astype(np.float64)
        return self.low + self.width * float(outputs.mean())

    def __repr__(self) -> str:
        members, sizes = len(self.layers[0]), [len(self.mean), *(v.shape[2] for v in self.layers)]
        clock = "no clock" if self.limit is None else f"clock to {self.limit}"
        return f"PlainPredictor({members} members, {' x '.join(map(str, sizes))}, {clock})"
