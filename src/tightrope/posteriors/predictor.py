"""The return predictor in plain numpy, for calibration, pages and monitors; its file."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import load_tensors, save_tensors
from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.scaling import Clock, Scaling

if TYPE_CHECKING:
    from tightrope.rollouts import Episodes

__all__ = [
    "Prediction",
    "ReturnPredictor",
    "damaged",
    "load_predictor",
    "pack",
    "posterior_predictor",
    "save_predictor",
    "unpack",
]

FORMAT = "tightrope.predictor/3"
_EPSILON = 1e-5  # of torch's layer normalisation
_BLOCK = 512  # rows predicted at a time


class Prediction(NamedTuple):
    """Predicted returns."""

    mean: NDArray[np.float64]  # (rows,) in return units
    spread: NDArray[np.float64]  # (rows,) standard deviation over the networks


@dataclass(frozen=True, repr=False)
class ReturnPredictor:
    """A deterministic predictor: the clipped outputs of one or several networks, averaged.

    Attributes:
        layers: (networks, inputs + 1, outputs) each; the last row is the bias.
        scaling: return range, observation scaling and clock.
        layer_norm: whether hidden layers are normalised.

    Raises:
        InputError: the layers are not float32 and finite, or do not fit one another.
    """

    layers: tuple[NDArray[np.float32], ...]
    scaling: Scaling
    layer_norm: bool = True

    def __post_init__(self) -> None:
        inputs, networks = self.scaling.features, len(self.layers[0])
        if networks < 1:
            raise InputError("expected at least one network, found none")
        for values in self.layers:
            if values.dtype != np.float32 or not np.isfinite(values).all():
                raise InputError("expected finite float32 weights, found others")
            if values.ndim != 3 or values.shape[:2] != (networks, inputs + 1):
                raise InputError(f"expected a layer of {inputs} inputs, found {values.shape}")
            inputs = values.shape[2]
        if inputs != 1:
            raise InputError(f"expected one output, found {inputs}")

    def __call__(self, observations: ArrayLike, *, elapsed: ArrayLike | None = None) -> Prediction:
        """Predictions for observations (rows, features), or for one (features,).

        Args:
            observations: as the environment gives them, flat.
            elapsed: steps since the start of the episode, one per row; needed if the predictor has
                a clock, and not looked at without.

        Raises:
            InputError: an argument is missing, not finite, or of another shape.
        """
        features = len(self.scaling.mean)
        with np.errstate(over="ignore"):  # what float32 cannot hold is not finite, and refused
            raw = np.atleast_2d(np.asarray(observations, dtype=np.float32))
        if raw.ndim != 2 or raw.shape[1] != features:
            raise InputError(
                f"expected observations of {features} features, found shape "
                f"{np.shape(observations)}"
            )
        if not np.isfinite(raw).all():
            raise InputError("expected finite observations, found NaN or infinity")
        outputs = np.concatenate([*self._outputs(raw, elapsed)], axis=1)
        mean = self.scaling.returns(outputs.mean(axis=0))
        return Prediction(mean, self.scaling.width * outputs.std(axis=0))

    def normalised(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None
    ) -> NDArray[np.float64]:
        """(rows,) predictions in [0, 1]; without a clock, elapsed steps are not looked at."""
        means = [outputs.mean(axis=0) for outputs in self._outputs(observations, elapsed)]
        return np.concatenate(means)

    def along(self, episodes: "Episodes") -> NDArray[np.float64]:
        """(steps,) predicted returns at all steps of the episodes, in return units."""
        steps = np.arange(len(episodes.rewards))
        elapsed = steps - np.repeat(episodes.offsets[:-1], episodes.lengths)
        return self.scaling.returns(self.normalised(episodes.observations, elapsed))

    def _outputs(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None
    ) -> Iterator[NDArray[np.float64]]:
        """(networks, rows) clipped outputs, a block of rows at a time."""
        times = np.atleast_1d(np.asarray(elapsed))
        for start in range(0, max(1, len(observations)), _BLOCK):
            rows = slice(start, start + _BLOCK)
            hidden = self.scaling.inputs(observations[rows], times[rows]).astype(np.float64)
            for index, layer in enumerate(self._exact):
                if index:
                    hidden = self._activated(hidden)
                hidden = hidden @ layer[:, :-1]  # (networks, rows, outputs)
                hidden += layer[:, -1:]
            yield np.clip(hidden[:, :, 0], 0.0, 1.0)

    @cached_property
    def _exact(self) -> tuple[NDArray[np.float64], ...]:
        """The layers in float64: processors then agree to far more digits than limits have."""
        return tuple(layer.astype(np.float64) for layer in self.layers)

    def _activated(self, hidden: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.layer_norm:
            units = hidden.shape[-1]
            hidden -= np.add.reduce(hidden, axis=-1, keepdims=True) / units
            squares = np.einsum("mro,mro->mr", hidden, hidden)[:, :, None]
            hidden /= np.sqrt(squares / units + _EPSILON)
        return np.maximum(hidden, 0.0, out=hidden)

    def __repr__(self) -> str:
        networks, inputs, _ = self.layers[0].shape
        sizes = [inputs - 1, *(layer.shape[2] for layer in self.layers)]
        return (
            f"ReturnPredictor({networks} networks, {' x '.join(map(str, sizes))}, {self.scaling})"
        )


def posterior_predictor(gaussians: Gaussians, scaling: Scaling) -> ReturnPredictor:
    """The network of the means of a posterior."""
    layers = tuple(mean[None] for mean in gaussians.means)
    return ReturnPredictor(layers, scaling, gaussians.layer_norm)


def save_predictor(
    path: Path, predictor: ReturnPredictor, posteriors: tuple[Gaussians, ...]
) -> None:
    """Write a predictor to a new .safetensors file.

    Args:
        path: of the new file.
        predictor: that of the last posterior where there are any.
        posteriors: the first prior, then one posterior per fit; none for a regression.
    """
    arrays, header = pack(predictor)
    if posteriors:  # the layers are the last posterior's means
        arrays = {name: each for name, each in arrays.items() if not name.startswith("network.")}
    for t, one in enumerate(posteriors):
        arrays |= {f"{t}.{i}.mean": layer for i, layer in enumerate(one.means)}
        arrays |= {f"{t}.{i}.log_variance": layer for i, layer in enumerate(one.log_variances)}
    save_tensors(path, arrays, {**header, "format": FORMAT, "gaussians": len(posteriors)})


def load_predictor(path: Path) -> tuple[ReturnPredictor, tuple[Gaussians, ...]]:
    """Read what :func:`save_predictor` wrote.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    arrays, header = load_tensors(path, FORMAT)
    with damaged(path, "predictor"):
        layers, count = range(int(header["layers"])), int(header["gaussians"])
        posteriors = tuple(
            Gaussians(
                tuple(arrays[f"{t}.{i}.mean"] for i in layers),
                tuple(arrays[f"{t}.{i}.log_variance"] for i in layers),
                header["layer_norm"],
            )
            for t in range(count)
        )
        if posteriors:
            arrays |= {f"network.{i}": mean[None] for i, mean in enumerate(posteriors[-1].means)}
        predictor = unpack(arrays, header)
        for values in (part for one in posteriors for part in (one.means, one.log_variances)):
            replace(
                predictor, layers=tuple(value[None] for value in values)
            )  # refuses what is none
            if [v.shape for v in values] != [v.shape for v in posteriors[0].means]:
                raise InputError("expected Gaussians of one shape, found several")
        return predictor, posteriors


def pack(predictor: ReturnPredictor) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a predictor, and what the header of their file must say."""
    scaling, clock = predictor.scaling, predictor.scaling.clock
    arrays: dict[str, NDArray[Any]] = {
        "scaling.range": np.array([scaling.low, scaling.high]),
        "scaling.mean": scaling.mean,
        "scaling.deviation": scaling.deviation,
    }
    arrays |= {f"network.{index}": layer for index, layer in enumerate(predictor.layers)}
    return arrays, {
        "range": scaling.source,
        "layers": len(predictor.layers),
        "layer_norm": predictor.layer_norm,
        "clock": None if clock is None else asdict(clock),
    }


def unpack(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> ReturnPredictor:
    """The predictor in what :func:`pack` returned; call it inside of :func:`damaged`."""
    low, high = arrays["scaling.range"]
    clock = None if header["clock"] is None else Clock(**header["clock"])
    mean, deviation = arrays["scaling.mean"], arrays["scaling.deviation"]
    scaling = Scaling(float(low), float(high), header["range"], mean, deviation, clock)
    layer_norm = header["layer_norm"]
    if not isinstance(layer_norm, bool):
        raise InputError(f"expected `layer_norm` as true or false, found {layer_norm!r}")
    layers = tuple(arrays[f"network.{index}"] for index in range(int(header["layers"])))
    return ReturnPredictor(layers, scaling, layer_norm)


@contextlib.contextmanager
def damaged(path: Path, what: str) -> Iterator[None]:
    """Say in one line that a file is damaged, whatever its contents make of the reading."""
    try:
        yield
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else one_line(error)
        raise InputError(f"{str(path)!r} is damaged or no {what}: {reason}") from None
