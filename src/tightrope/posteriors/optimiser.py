"""Adam by its fused kernel alone: a torch.optim.Adam imports torch._dynamo, two seconds."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Adam"]

_BETAS = {"beta1": 0.9, "beta2": 0.999}
_PLAIN = {"weight_decay": 0.0, "amsgrad": False, "maximize": False}


class Adam:
    """Adam over tensors that are changed in place."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [torch.zeros((), device=p.device) for p in self.parameters]

    @torch.no_grad()
    def descend(self, value: Tensor, rate: float, clip: float | None = None) -> None:
        """One update against the gradient of `value`, whose norm is cut down to `clip`."""
        gradients = [*torch.autograd.grad(value, self.parameters)]
        if clip is not None:
            norms = torch.stack([torch.linalg.vector_norm(g) for g in gradients])
            scale = (clip / (torch.linalg.vector_norm(norms) + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(scale)
        torch._foreach_add_(self.steps, 1.0)
        state = self.means, self.squares, list[Tensor](), self.steps
        options: dict[str, Any] = {"lr": rate, "eps": 1e-8, **_BETAS, **_PLAIN}
        torch._fused_adam_(self.parameters, gradients, *state, **options)
