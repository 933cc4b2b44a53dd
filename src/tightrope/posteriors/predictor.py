"""The certified predictor at work: returns of new observations, in return units."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError
from tightrope.files import write_atomically
from tightrope.posteriors.evaluate import draw_predictions
from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.network import Sampling
from tightrope.posteriors.scaling import Scaling

__all__ = ["Chain", "Prediction", "ReturnPredictor", "load_chain", "save_chain"]

FORMAT = "tightrope.predictor/1"


class Prediction(NamedTuple):
    """Predicted returns."""

    mean: NDArray[np.float64]  # (rows,) in return units
    spread: NDArray[np.float64]  # (rows,) standard deviation over drawn predictors


@dataclass(frozen=True)
class ReturnPredictor:
    """The last posterior of a certificate as a function of raw observations.

    A single draw is the predictor that the certificate speaks of; `mean` averages over draws, whose
    squared error is at most theirs on average (Jensen).
    """

    gaussians: Gaussians
    scaling: Scaling
    sampling: Sampling = "local"

    def __call__(self, observations: ArrayLike, *, draws: int = 64, seed: int = 0) -> Prediction:
        """Mean and spread for observations (rows, features) or one (features,)."""
        raw = np.atleast_2d(np.asarray(observations, dtype=np.float32))
        if raw.ndim != 2 or raw.shape[1] != self.gaussians.features:
            raise InputError(
                f"expected observations of {self.gaussians.features} features, found shape "
                f"{np.shape(observations)}"
            )
        drawn = draw_predictions(
            self.gaussians,
            self.scaling.inputs(raw),
            passes=draws,
            seed=seed,
            sampling=self.sampling,
        ).astype(np.float64)
        width = self.scaling.width
        return Prediction(self.scaling.low + width * drawn.mean(axis=0), width * drawn.std(axis=0))


@dataclass(frozen=True, repr=False)
class Chain:
    """All Gaussians of one certificate, the first prior included, and their scaling."""

    gaussians: tuple[Gaussians, ...]  # prior, then one posterior per fit
    scaling: Scaling

    def __repr__(self) -> str:
        return f"Chain({len(self.gaussians) - 1} posteriors, {self.gaussians[0]}, {self.scaling})"


def save_chain(chain: Chain, path: Path) -> None:
    """Write a chain to a new .safetensors file."""
    from safetensors.numpy import save_file

    arrays: dict[str, Any] = {
        "scaling.range": np.array([chain.scaling.low, chain.scaling.high]),
        "scaling.mean": chain.scaling.mean,
        "scaling.deviation": chain.scaling.deviation,
    }
    for t, gaussians in enumerate(chain.gaussians):
        for layer in range(len(gaussians.means)):
            arrays[f"{t}.{layer}.mean"] = gaussians.means[layer][0].contiguous().numpy()
            arrays[f"{t}.{layer}.log_variance"] = (
                gaussians.log_variances[layer][0].contiguous().numpy()
            )
    header = {"tightrope": f"{FORMAT} {chain.scaling.source}"}
    write_atomically(path, lambda temporary: save_file(arrays, temporary, metadata=header))


def _check(gaussians: tuple[Gaussians, ...], scaling: Scaling) -> None:
    """Raise InputError unless all are float32, finite, and layers that fit one another."""
    features = len(scaling.mean)
    for one in gaussians:
        inputs = features
        for mean, log_variance in zip(one.means, one.log_variances, strict=True):
            for values in (mean, log_variance):
                if values.dtype != torch.float32 or not values.isfinite().all():
                    raise InputError("expected finite float32 means and log-variances")
            if mean.dim() != 3 or mean.shape[1] != inputs + 1 or log_variance.shape != mean.shape:
                raise InputError(f"expected a layer of {inputs} inputs, found {tuple(mean.shape)}")
            inputs = mean.shape[2]
        if inputs != 1:
            raise InputError(f"expected one output, found {inputs}")


def load_chain(path: Path) -> Chain:
    """Read a chain written by :func:`save_chain`.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    from safetensors import safe_open

    try:
        with safe_open(path, framework="np") as archive:
            tag, _, source = (archive.metadata() or {}).get("tightrope", "").partition(" ")
            if tag != FORMAT:
                raise InputError(f"expected the format {FORMAT}, found {tag!r} in {str(path)!r}")
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        low, high = arrays["scaling.range"]
        scaling = Scaling(
            float(low),
            float(high),
            source,
            arrays["scaling.mean"],
            arrays["scaling.deviation"],
        )
        indices = [
            name.split(".")[:2] for name in arrays if name.endswith(".mean") and name[0].isdigit()
        ]
        count = 1 + max(int(t) for t, _ in indices)
        layers = 1 + max(int(layer) for _, layer in indices)
        gaussians = tuple(
            Gaussians(
                tuple(torch.from_numpy(arrays[f"{t}.{i}.mean"])[None] for i in range(layers)),
                tuple(
                    torch.from_numpy(arrays[f"{t}.{i}.log_variance"])[None] for i in range(layers)
                ),
            )
            for t in range(count)
        )
        _check(gaussians, scaling)
        return Chain(gaussians, scaling)
    except Exception as error:  # a damaged file can fail in any of these steps
        line = " ".join(str(error).split())
        raise InputError(f"{str(path)!r} is damaged or no predictor: {line}") from None
