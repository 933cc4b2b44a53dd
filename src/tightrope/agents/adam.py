"""torch's Adam as a function of tensors, so that a compiler sees it together with the gradients."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

__all__ = ["AdamState", "adam_state", "descend", "gradients"]

_LEAST_RATE = 1e-30  # torch divides by the rate; a schedule may end at 0


class AdamState(NamedTuple):
    """What Adam keeps for each weight that learns, and its settings."""

    weights: list[Tensor]
    means: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    settings: dict[str, Any]


def adam_state(optimizer: torch.optim.Optimizer) -> AdamState:
    """The optimizer's own tensors, which its checkpoints hold.

    Raises:
        ValueError: it is another optimizer, or a kind of Adam that is not supported.
    """
    group = optimizer.param_groups[0]
    kind = type(optimizer) is torch.optim.Adam and len(optimizer.param_groups) == 1
    # torch 2.13 compiles a product plus 0.1 times a weight, as decay needs, to product plus weight.
    if not kind or group["amsgrad"] or group["weight_decay"]:
        raise ValueError(
            "expected torch.optim.Adam with one group of weights, without amsgrad and weight "
            f"decay, found {optimizer}"
        )
    weights = [weight for weight in group["params"] if weight.requires_grad]
    for weight in weights:
        kept = optimizer.state[weight]
        if not kept:
            kept["step"] = torch.zeros((), device=weight.device)
            kept["exp_avg"] = torch.zeros_like(weight)
            kept["exp_avg_sq"] = torch.zeros_like(weight)
        kept["step"] = kept["step"].to(weight.device)  # where a checkpoint of SB3 leaves it
    each = [optimizer.state[weight] for weight in weights]
    beta1, beta2 = group["betas"]
    settings = {"beta1": beta1, "beta2": beta2, "eps": group["eps"], "maximize": group["maximize"]}
    means, squares, steps = (
        [kept[name] for kept in each] for name in ("exp_avg", "exp_avg_sq", "step")
    )
    return AdamState(weights, means, squares, steps, settings)


def gradients(loss: Tensor, state: AdamState) -> list[Tensor]:
    """Of each weight; zeros for what the loss does not depend on."""
    return [*torch.autograd.grad(loss, state.weights, allow_unused=True, materialize_grads=True)]


@torch.no_grad()
def descend(state: AdamState, given: list[Tensor], rate: Tensor) -> None:
    """One step of Adam down these gradients.

    Compiled it is arithmetic that is fused with what gives the gradients; otherwise one call for
    all weights, which takes for granted that gradients are laid out as these.
    """
    compiling = torch.compiler.is_compiling()
    if not compiling:
        given = [
            gradient
            if gradient.stride() == weight.stride()
            else torch.empty_like(weight).copy_(gradient)
            for weight, gradient in zip(state.weights, given, strict=True)
        ]
    adam(
        state.weights,
        given,
        state.means,
        state.squares,
        [],
        state.steps,
        foreach=False,
        capturable=compiling,
        fused=not compiling,
        amsgrad=False,
        weight_decay=0,
        lr=rate.clamp(min=_LEAST_RATE),
        **state.settings,
    )
