"""The return predictor: a network with Gaussian weights, or an average of plain ones.

Two hidden layers, layer normalisation without learned numbers before each ReLU, one output
clipped to [0, 1]. Where a KL is paid, every learned number is in it and nothing is replaced by its
mean; where none is (a predictor fixed beforehand), the plain network is the predictor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm

from tightrope.posteriors.gaussians import Gaussians

__all__ = ["BLOCK", "HIDDEN", "Network", "Noise", "Sampling", "draw", "forward", "predict"]

HIDDEN = (256, 256)
BLOCK = 8192  # rows worked on at a time, so that what is derived from a log stays small

Sampling = Literal["local", "weights"]
Noise = Sequence[torch.Generator]  # one generator per member


def forward(layers: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Unclipped outputs (members, batch) of plain networks.

    Args:
        layers: one (members, inputs + 1, outputs) each; the last row is the bias.
        inputs: (members, batch, features), or (batch, features) for all members alike.
    """
    hidden = inputs if inputs.dim() == 3 else inputs.expand(len(layers[0]), *inputs.shape)
    for index, layer in enumerate(layers):
        hidden = torch.baddbmm(layer[:, -1:], hidden, layer[:, :-1])  # (members, batch, outputs)
        if index < len(layers) - 1:
            hidden = layer_norm(hidden, hidden.shape[-1:]).relu()
    return hidden.squeeze(-1)


@dataclass(frozen=True, repr=False)
class Network:
    """A predictor without dice: the clipped average of one or several plain networks."""

    layers: tuple[Tensor, ...]  # (members, inputs + 1, outputs)

    @property
    def features(self) -> int:
        """How many inputs there are."""
        return int(self.layers[0].shape[1]) - 1

    def member(self, index: int) -> "Network":
        """One of the averaged networks."""
        return Network(tuple(layer[index : index + 1] for layer in self.layers))

    def outputs(self, inputs: Tensor) -> NDArray[np.float64]:
        """(members, rows) clipped predictions of each network."""
        with torch.inference_mode():
            parts = [forward(self.layers, part) for part in torch.split(inputs, BLOCK)]
            return torch.cat(parts, dim=1).clamp(0.0, 1.0).double().numpy()

    def __call__(self, inputs: Tensor) -> NDArray[np.float64]:
        """(rows,) predictions in [0, 1]."""
        return np.asarray(self.outputs(inputs).mean(axis=0))

    def __repr__(self) -> str:
        sizes = [self.features, *(layer.shape[2] for layer in self.layers)]
        return f"Network({len(self.layers[0])} members, {' x '.join(map(str, sizes))})"


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
    shape = like.shape[1:]
    draws = [torch.randn(shape, generator=one, device=one.device) for one in noise]
    return torch.stack(draws) if len(draws) > 1 else draws[0][None]
