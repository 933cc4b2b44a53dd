"""Losses of drawn predictors: the Monte Carlo draws that the bounds are about.

Always on the CPU, whatever a fit ran on: whoever verifies a certificate draws the same.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import layer_norm

from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.network import Sampling, predict

__all__ = ["draw_losses", "draw_predictions"]

_CHUNK = 1024  # rows at a time; part of what a seed means, because it orders the noise


def draw_predictions(
    gaussians: Gaussians, inputs: torch.Tensor, *, passes: int, seed: int, sampling: Sampling
) -> NDArray[np.float32]:
    """(passes, rows) clipped predictions of one member.

    With ``local`` sampling all entries are independent draws of the network; with ``weights``
    each pass is one draw, shared by all rows.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        if sampling == "weights":
            drawn = [predict(gaussians, inputs, [generator], "weights") for _ in range(passes)]
            return torch.cat(drawn).numpy()
        chunks = [
            _local(gaussians, chunk, passes, generator) for chunk in torch.split(inputs, _CHUNK)
        ]
        return torch.cat(chunks, dim=1).numpy()


def draw_losses(
    gaussians: Gaussians,
    inputs: torch.Tensor,
    targets: NDArray[np.float64],
    *,
    passes: int,
    seed: int,
    sampling: Sampling = "local",
) -> NDArray[np.float64]:
    """(passes, rows) squared errors in [0, 1] of one member against normalised targets."""
    drawn = draw_predictions(gaussians, inputs, passes=passes, seed=seed, sampling=sampling)
    return np.square(drawn.astype(np.float64) - targets)


def _local(
    gaussians: Gaussians, inputs: torch.Tensor, passes: int, generator: torch.Generator
) -> torch.Tensor:
    """`network.predict` for many passes over the same rows, sharing the first layer's moments."""
    means = [mean[0] for mean in gaussians.means]
    variances = [value[0].exp() for value in gaussians.log_variances]
    first = torch.addmm(means[0][-1:], inputs, means[0][:-1])
    spread = torch.addmm(variances[0][-1:], inputs.square(), variances[0][:-1]).sqrt_()
    result = torch.empty(passes, len(inputs))
    for index in range(passes):
        hidden = torch.addcmul(first, spread, torch.randn(first.shape, generator=generator))
        for mean, variance in zip(means[1:], variances[1:], strict=True):
            hidden = layer_norm(hidden, hidden.shape[-1:]).relu_()
            centre = torch.addmm(mean[-1:], hidden, mean[:-1])
            deviation = torch.addmm(variance[-1:], hidden.square_(), variance[:-1]).sqrt_()
            hidden = centre.addcmul_(deviation, torch.randn(centre.shape, generator=generator))
        result[index] = hidden.squeeze(1).clamp_(0.0, 1.0)
    return result
