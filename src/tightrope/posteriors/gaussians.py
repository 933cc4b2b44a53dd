"""Independent Gaussians over every learned number of a network: their KL, and draws from them.

The networks have hidden layers with ReLU, layer normalisation without learned numbers before it,
and one output clipped to [0, 1]. Every learned number is in the KL, and none is replaced by its
mean. Draws are made on the CPU: whoever verifies a certificate draws the same.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tightrope.posteriors.presets import Preset, Sampling
from tightrope.seeds import Stream, child_seed

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = [
    "Gaussians",
    "draw",
    "draw_losses",
    "draw_predictions",
    "informed_prior",
    "kaiming_means",
    "kl_divergence",
    "random_prior",
]

_CHUNK = 1024  # rows at a time; part of what a seed means, because it orders the noise

Layers = tuple[NDArray[np.float32], ...]  # (inputs + 1, outputs) each; the last row is the bias


@dataclass(frozen=True, repr=False)
class Gaussians:
    """A factorised Gaussian over the weights and biases of a network.

    Attributes:
        means: (inputs + 1, outputs) for each layer; the last row is the bias.
        log_variances: the same shapes.
        layer_norm: whether the network normalises its hidden layers.
    """

    means: Layers
    log_variances: Layers
    layer_norm: bool = True

    @property
    def features(self) -> int:
        """How many inputs the network has."""
        return len(self.means[0]) - 1

    def __repr__(self) -> str:
        sizes = [self.features, *(mean.shape[1] for mean in self.means)]
        return f"Gaussians({' x '.join(map(str, sizes))})"


def kaiming_means(sizes: Sequence[int], seed: int) -> Layers:
    """Kaiming-uniform weights and biases, as torch starts a linear layer."""
    import torch

    generator, layers = torch.Generator().manual_seed(seed), []
    for inputs, outputs in itertools.pairwise(sizes):
        limit = 1.0 / math.sqrt(inputs)  # torch's a = sqrt(5) makes both limits 1/sqrt(fan-in)
        draws = torch.rand(inputs + 1, outputs, generator=generator, device="cpu")
        layers.append(((2.0 * draws - 1.0) * limit).numpy())
    return tuple(layers)


def random_prior(preset: Preset, features: int, seed: int) -> Gaussians:
    """A prior with random means: independent of all data by construction."""
    sizes = (features, *preset.hidden, 1)
    means = kaiming_means(sizes, child_seed(seed, Stream.PRIOR_MEANS, 0))
    return _around(means, preset.prior_log_variance, preset)


def informed_prior(preset: Preset, layers: Layers) -> Gaussians:
    """A prior around a network that was fitted to data that the bound does not use."""
    return _around(layers, preset.informed_log_variance, preset)


def _around(means: Layers, log_variance: float, preset: Preset) -> Gaussians:
    variances = tuple(np.full_like(mean, log_variance) for mean in means)
    return Gaussians(means, variances, preset.layer_norm)


def kl_divergence(posterior: Gaussians, prior: Gaussians) -> float:
    r"""KL of posterior from prior, in float64 and closed form.

    .. math:: \tfrac12\sum_i \Bigl(\tfrac{\sigma_i^2 + (\mu_i-\mu_{0,i})^2}{\sigma_{0,i}^2} - 1
              + \ln\tfrac{\sigma_{0,i}^2}{\sigma_i^2}\Bigr)  \quad (G.1)
    """
    total = 0.0
    layers = zip(
        posterior.means, posterior.log_variances, prior.means, prior.log_variances, strict=True
    )
    for layer in layers:
        mean, log_variance, prior_mean, prior_log_variance = (v.astype(np.float64) for v in layer)
        ratio = log_variance - prior_log_variance
        shift = np.square(mean - prior_mean) * np.exp(-prior_log_variance)
        # exp(r) - 1 - r is at least 0; expm1 keeps its digits for small r
        total += 0.5 * float((np.expm1(ratio) - ratio + shift).sum())
    return max(total, 0.0)


def draw_predictions(
    posterior: Gaussians, inputs: NDArray[np.float32], *, passes: int, seed: int, sampling: Sampling
) -> NDArray[np.float32]:
    """(passes, rows) clipped predictions.

    With ``local`` sampling all entries are independent draws of the network; with ``weights``
    each pass is one draw, shared by all rows.
    """
    import torch

    generator, normalised = torch.Generator().manual_seed(seed), posterior.layer_norm
    numbers = zip(posterior.means, posterior.log_variances, strict=True)
    layers = [(torch.tensor(mean), torch.tensor(value)) for mean, value in numbers]
    rows, parts = torch.from_numpy(inputs), []
    with torch.inference_mode():
        if sampling == "weights":
            drawn = [draw(layers, rows, generator, sampling, normalised) for _ in range(passes)]
            parts.append(torch.stack(drawn))
        else:
            for chunk in torch.split(rows, _CHUNK):
                first = _moments(chunk, *layers[0])  # the same in all passes
                drawn = [_local(first, layers[1:], generator, normalised) for _ in range(passes)]
                parts.append(torch.stack(drawn))
        return torch.cat(parts, dim=1).clamp_(0.0, 1.0).numpy()


def draw_losses(
    posterior: Gaussians,
    inputs: NDArray[np.float32],
    targets: NDArray[np.floating],
    *,
    passes: int,
    seed: int,
    sampling: Sampling = "local",
) -> NDArray[np.float64]:
    """(passes, rows) squared errors in [0, 1] against normalised targets."""
    drawn = draw_predictions(posterior, inputs, passes=passes, seed=seed, sampling=sampling)
    return np.square(drawn.astype(np.float64) - targets)


def draw(
    layers: Sequence[tuple["Tensor", "Tensor"]],
    inputs: "Tensor",
    generator: "Generator",
    sampling: Sampling,
    layer_norm: bool,
) -> "Tensor":
    """(rows,) unclipped outputs of drawn networks, with gradients.

    ``local`` (local reparameterisation) draws the pre-activations: every row is an independent
    draw of the network, exact for that row. ``weights`` (Bayes by backprop) draws the weights once
    for all rows.

    Args:
        layers: means and log-variances of each layer.
        inputs: (rows, features).
        generator: of the noise, on the device of the inputs.
        sampling: where the noise enters.
        layer_norm: whether hidden layers are normalised.
    """
    import torch

    if sampling == "local":
        return _local(_moments(inputs, *layers[0]), layers[1:], generator, layer_norm)
    hidden = inputs
    for index, (mean, log_variance) in enumerate(layers):
        if index:
            hidden = _activated(hidden, layer_norm)
        weight = mean + (0.5 * log_variance).exp() * _normals(mean, generator)
        hidden = torch.addmm(weight[-1:], hidden, weight[:-1])  # (rows, outputs)
    return hidden.squeeze(1)


def _moments(inputs: "Tensor", mean: "Tensor", log_variance: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Means and standard deviations of a layer's pre-activations, (rows, outputs) each."""
    import torch

    variance = log_variance.exp()
    spread = torch.addmm(variance[-1:], inputs.square(), variance[:-1])
    return torch.addmm(mean[-1:], inputs, mean[:-1]), spread.sqrt()


def _local(
    first: tuple["Tensor", "Tensor"],
    layers: Sequence[tuple["Tensor", "Tensor"]],
    generator: "Generator",
    layer_norm: bool,
) -> "Tensor":
    """Local draws, from the moments of the first layer on."""
    centre, deviation = first
    hidden = centre + deviation * _normals(centre, generator)
    for layer in layers:
        centre, deviation = _moments(_activated(hidden, layer_norm), *layer)
        hidden = centre + deviation * _normals(centre, generator)
    return hidden.squeeze(1)


def _activated(hidden: "Tensor", layer_norm: bool) -> "Tensor":
    from torch.nn import functional

    return (functional.layer_norm(hidden, hidden.shape[-1:]) if layer_norm else hidden).relu()


def _normals(like: "Tensor", generator: "Generator") -> "Tensor":
    import torch

    return torch.randn(like.shape, generator=generator, device=generator.device).to(like.dtype)
