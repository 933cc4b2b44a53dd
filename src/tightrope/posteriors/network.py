"""The return predictor: a network with Gaussian weights, drawn anew for every row (or pass).

Two hidden layers, layer normalisation without learned numbers before each ReLU, one output
clipped to [0, 1]. Every learned number is in the KL; nothing is replaced by its mean.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tightrope.posteriors.gaussians import Gaussians

__all__ = ["Noise", "Sampling", "draw", "predict"]

Sampling = Literal["local", "weights"]
Noise = Sequence[torch.Generator]  # one generator per member


def draw(
    gaussians: Gaussians, inputs: Tensor, noise: Noise, sampling: Sampling = "local"
) -> Tensor:
    """Unclipped predictions (members, batch) of networks drawn from the Gaussians.

    ``local`` (local reparameterisation) draws the pre-activations: every row is an independent
    draw of the network, exact for that row. ``weights`` (Bayes by backprop) draws the weights once
    for the whole batch.

    Args:
        gaussians: the distribution.
        inputs: (members, batch, features), or (batch, features) for all members alike.
        noise: one generator per member, so that a member does not depend on its neighbours.
        sampling: where the noise enters.
    """
    members = gaussians.members
    hidden = inputs if inputs.dim() == 3 else inputs.expand(members, *inputs.shape)
    last = len(gaussians.means) - 1
    for index, (mean, log_variance) in enumerate(
        zip(gaussians.means, gaussians.log_variances, strict=True)
    ):
        if sampling == "local":
            variance = log_variance.exp()
            centre = torch.baddbmm(mean[:, -1:], hidden, mean[:, :-1])  # (members, batch, outputs)
            spread = torch.baddbmm(variance[:, -1:], hidden.square(), variance[:, :-1])
            hidden = centre + spread.sqrt() * _normals(centre, noise)
        else:
            weight = mean + (0.5 * log_variance).exp() * _normals(mean, noise)
            hidden = torch.baddbmm(weight[:, -1:], hidden, weight[:, :-1])
        if index < last:
            hidden = layer_norm(hidden, hidden.shape[-1:]).relu()
    return hidden.squeeze(-1)


def predict(
    gaussians: Gaussians, inputs: Tensor, noise: Noise, sampling: Sampling = "local"
) -> Tensor:
    """Predictions (members, batch) of drawn networks, clipped to [0, 1]."""
    return draw(gaussians, inputs, noise, sampling).clamp(0.0, 1.0)


def _normals(like: Tensor, noise: Noise) -> Tensor:
    draws = [torch.randn(like.shape[1:], generator=generator) for generator in noise]
    return torch.stack(draws) if len(draws) > 1 else draws[0][None]
