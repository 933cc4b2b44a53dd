"""The certified predictor at work: returns of new observations, in return units; its file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import load_tensors, save_tensors
from tightrope.posteriors.clock import Clock
from tightrope.posteriors.evaluate import draw_predictions
from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.network import Network, Sampling
from tightrope.posteriors.scaling import Scaling

__all__ = ["Chain", "Prediction", "ReturnPredictor", "load_chain", "save_chain"]

FORMAT = "tightrope.predictor/2"


class Prediction(NamedTuple):
    """Predicted returns."""

    mean: NDArray[np.float64]  # (rows,) in return units
    spread: NDArray[np.float64]  # (rows,) standard deviation over draws or averaged networks


@dataclass(frozen=True)
class ReturnPredictor:
    """The predictor of a certificate as a function of raw observations and elapsed steps.

    Without `draws` the prediction is that of the plain network: the posterior means, or the average
    of several networks; equal rows get equal predictions. A drawn prediction is what a PAC-Bayes
    bound speaks of.
    """

    network: Network
    gaussians: Gaussians | None  # None for a predictor without a posterior
    scaling: Scaling
    sampling: Sampling = "local"

    def __call__(
        self,
        observations: ArrayLike,
        *,
        elapsed: ArrayLike | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> Prediction:
        """Predictions for observations (rows, features), or for one (features,).

        Args:
            observations: as the environment gives them, flat.
            elapsed: steps since the start of the episode, one per row; needed if, and only if, the
                predictor has a clock.
            draws: how many predictors to draw from the posterior, at least 1; none by default.
            seed: of the draws.

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
        if elapsed is not None and self.scaling.clock is None:
            raise InputError("expected no `elapsed`: this predictor has no clock")
        if draws is None:
            blocks = self.scaling.blocks(raw, elapsed)
            drawn = np.concatenate([self.network.outputs(block) for block in blocks], axis=1)
        elif self.gaussians is None:
            raise InputError("expected no `draws`: this predictor has no posterior to draw from")
        elif draws < 1:
            raise InputError(f"expected `draws` of at least 1, found {draws}")
        else:
            drawn = draw_predictions(
                self.gaussians,
                self.scaling.inputs(raw, elapsed),
                passes=draws,
                seed=seed,
                sampling=self.sampling,
            ).astype(np.float64)
        mean = self.scaling.returns(drawn.mean(axis=0))
        return Prediction(mean, self.scaling.width * drawn.std(axis=0))


@dataclass(frozen=True, repr=False)
class Chain:
    """Everything fitted for one certificate, and the scaling it was fitted on.

    Attributes:
        gaussians: the first prior, then one posterior per fit; empty for a predictor that was
            fixed beforehand by regression.
        network: the predictor without dice: posterior means, or the average of an ensemble.
        scaling: return range, observation scaling and clock.
    """

    gaussians: tuple[Gaussians, ...]
    network: Network
    scaling: Scaling

    def predictions(
        self, observations: NDArray[np.float32], elapsed: ArrayLike | None
    ) -> NDArray[np.float64]:
        """(rows,) what the predictor without dice says, on the normalised scale."""
        blocks = self.scaling.blocks(observations, elapsed)
        return np.concatenate([self.network(block) for block in blocks])

    def predictor(self, sampling: Sampling) -> ReturnPredictor:
        """The predictor at work."""
        last = self.gaussians[-1] if self.gaussians else None
        return ReturnPredictor(self.network, last, self.scaling, sampling)

    def __repr__(self) -> str:
        posteriors = max(len(self.gaussians) - 1, 0)
        return f"Chain({posteriors} posteriors, {self.network}, {self.scaling})"


def save_chain(chain: Chain, path: Path) -> None:
    """Write a chain to a new .safetensors file."""
    scaling = chain.scaling
    arrays: dict[str, Any] = {
        "scaling.range": np.array([scaling.low, scaling.high]),
        "scaling.mean": scaling.mean,
        "scaling.deviation": scaling.deviation,
    }
    for t, gaussians in enumerate(chain.gaussians):
        for layer in range(len(gaussians.means)):
            arrays[f"{t}.{layer}.mean"] = gaussians.means[layer][0].contiguous().numpy()
            arrays[f"{t}.{layer}.log_variance"] = (
                gaussians.log_variances[layer][0].contiguous().numpy()
            )
    if not chain.gaussians:  # otherwise it is the last posterior's means
        for index, values in enumerate(chain.network.layers):
            arrays[f"network.{index}"] = values.contiguous().numpy()
    clock = scaling.clock
    header = {
        "format": FORMAT,
        "range": scaling.source,
        "gaussians": len(chain.gaussians),
        "layers": len(chain.network.layers),
        "clock": None if clock is None else {"limit": clock.limit, "gamma": clock.gamma},
    }
    save_tensors(path, arrays, header)


def load_chain(path: Path) -> Chain:
    """Read a chain written by :func:`save_chain`.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    arrays, header = load_tensors(path, FORMAT)
    try:
        low, high = arrays["scaling.range"]
        clock = None if header["clock"] is None else Clock(**header["clock"])
        scaling = Scaling(
            float(low),
            float(high),
            header["range"],
            arrays["scaling.mean"],
            arrays["scaling.deviation"],
            clock,
        )
        layers = range(int(header["layers"]))
        if header["gaussians"] == 0:
            network = Network(tuple(torch.from_numpy(arrays[f"network.{i}"]) for i in layers))
            _check(network.layers, scaling)
            return Chain((), network, scaling)
        gaussians = tuple(
            Gaussians(
                *(
                    tuple(torch.from_numpy(arrays[f"{t}.{i}.{what}"])[None] for i in layers)
                    for what in ("mean", "log_variance")
                )
            )
            for t in range(int(header["gaussians"]))
        )
        for values in (part for one in gaussians for part in (one.means, one.log_variances)):
            _check(values, scaling)
            if [v.shape for v in values] != [v.shape for v in gaussians[0].means]:
                raise InputError("expected Gaussians of one shape, found several")
        return Chain(gaussians, Network(gaussians[-1].means), scaling)
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else one_line(error)
        raise InputError(f"{str(path)!r} is damaged or no predictor: {what}") from None


def _check(layers: tuple[torch.Tensor, ...], scaling: Scaling) -> None:
    """Raise InputError unless all are float32, finite, and layers that fit one another."""
    inputs, members = scaling.features, len(layers[0])
    if members < 1:
        raise InputError("expected at least one network, found none")
    for values in layers:
        if values.dtype != torch.float32 or not values.isfinite().all():
            raise InputError("expected finite float32 weights, found others")
        if values.dim() != 3 or values.shape[:2] != (members, inputs + 1):
            raise InputError(f"expected a layer of {inputs} inputs, found {tuple(values.shape)}")
        inputs = values.shape[2]
    if inputs != 1:
        raise InputError(f"expected one output, found {inputs}")
