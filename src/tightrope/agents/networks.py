"""The layers that all agents share: linear, layer norm, CReLU; one network, or many as one.

An ensemble keeps the weights of all its members in one tensor per layer, so that a pass through
all of them is one batched matrix product per layer, not a Python loop.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CReLU", "EnsembleLinear", "EnsembleNorm", "hidden_layers"]


class CReLU(nn.Module):
    """Concatenate relu(x) and relu(-x): twice as wide, and no unit is ever dead on both sides."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., width) to (..., 2 width)."""
        return torch.cat((functional.relu(inputs), functional.relu(-inputs)), dim=-1)


def hidden_layers(inputs: int, widths: Sequence[int]) -> nn.Sequential:
    """Linear, layer norm and CReLU for each width; the output is twice the last width."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), CReLU()]
        inputs = 2 * width
    return nn.Sequential(*layers)


class EnsembleLinear(nn.Module):
    """One linear layer per member, each initialised as torch.nn.Linear does it."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        limit = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-limit, limit))

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, inputs) to (members, batch, outputs), with these weights."""
        return torch.baddbmm(bias, inputs, weight)


class EnsembleNorm(nn.Module):
    """One layer norm per member, with its own scale and shift."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, width), normalised over the width."""
        return torch.addcmul(bias, functional.layer_norm(inputs, inputs.shape[-1:]), weight)
