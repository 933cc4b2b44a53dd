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

    signs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("signs", torch.tensor([[1.0], [-1.0]]), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., width) to (..., 2 width).

        Written with |x|, which is exact up to half the largest float: of relu(x) the compiler keeps
        a mask for the way back, and an update without layer norm takes 1.8 times as long. And with
        both signs at once: of torch.cat it writes the halves to memory before a last layer sums.
        """
        each = inputs.unsqueeze(-2)  # (..., 1, width)
        return (0.5 * (each.abs() + self.signs * each)).flatten(-2)


def hidden_layers(inputs: int, widths: Sequence[int], *, learned_norm: bool) -> nn.Sequential:
    """Linear, layer norm and CReLU for each width; the output is twice the last width.

    The scale and shift of a layer norm that is not learned stay 1 and 0, but are there, so that
    all our networks are read in one way.
    """
    layers: list[nn.Module] = []
    for width in widths:
        norm = nn.LayerNorm(width).requires_grad_(learned_norm)
        layers += [nn.Linear(inputs, width), norm, CReLU()]
        inputs = 2 * width
    return nn.Sequential(*layers)


class EnsembleLinear(nn.Module):
    """One linear layer per member, each initialised as torch.nn.Linear does it.

    Args:
        members: how many.
        inputs: of each.
        outputs: of each.
        halved: batched products round what they multiply to bfloat16; weights, the inputs shared by
            all members and a single output stay float32.
    """

    def __init__(self, members: int, inputs: int, outputs: int, *, halved: bool = False) -> None:
        super().__init__()
        self.halved = halved
        limit = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-limit, limit))

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, inputs) or (batch, inputs) to (members, batch, outputs).

        Inputs shared by all members are not copied. A compiler fuses what is not a batched product:
        a single output with what comes before it, a bias with what comes after.
        """
        if inputs.dim() == 2:
            return torch.bmm(inputs.expand(len(weight), -1, -1), weight) + bias
        if weight.shape[-1] == 1:
            return (inputs * weight.transpose(1, 2)).sum(dim=-1, keepdim=True) + bias
        if self.halved:
            return torch.bmm(inputs.bfloat16(), weight.bfloat16()).float() + bias
        return torch.bmm(inputs, weight) + bias


class EnsembleNorm(nn.Module):
    """One layer norm per member, whose scale and shift are learned or stay 1 and 0."""

    def __init__(self, members: int, width: int, learned: bool) -> None:
        super().__init__()
        self.learned = learned
        self.weight = nn.Parameter(torch.ones(members, 1, width), requires_grad=learned)
        self.bias = nn.Parameter(torch.zeros(members, 1, width), requires_grad=learned)

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(members, batch, width), normalised over the width."""
        normal = functional.layer_norm(inputs, inputs.shape[-1:])
        return torch.addcmul(bias, normal, weight) if self.learned else normal
