"""What an update needs to be compiled as one graph: torch.compile, memory, Adam as a function."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

from tightrope.errors import one_line

__all__ = ["AdamState", "adam_state", "compiled", "descend", "gradients", "keep_freed_memory"]

_LEAST_RATE = 1e-30  # torch divides by the rate; a schedule may end at 0


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile as one graph, or the function itself if that fails.

    The function may change its arguments in place. A compiler that fails has not run any of it;
    what fails in the graph itself is raised.
    """
    fast: Callable[..., Any] | None = torch.compile(function, dynamic=False, fullgraph=True)
    # A torch before this setting (about 2.11) refuses gradients within a graph.
    known = hasattr(torch._dynamo.config, "trace_autograd_ops")
    whole: Any = torch._dynamo.config.patch(trace_autograd_ops=True) if known else nullcontext()
    errors = torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit
    ran = False

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal fast, ran
        if fast is not None:
            try:
                with whole:
                    result = fast(*args, **kwargs)
                ran = True
                return result
            except Exception as error:  # no C++ compiler, or whatever the compiler raises
                if ran and not isinstance(error, errors):
                    raise
                fast = None
                line = one_line(error, 160)
                warnings.warn(f"torch.compile failed, going on without it: {line}", stacklevel=2)
        return function(*args, **kwargs)

    return call


def keep_freed_memory() -> None:
    """Have the C library keep what one update frees for the next.

    glibc gives back to the system what is larger than the largest block freed so far, up to 32 MB,
    and the pages that the next update gets instead are filled with zeros first: a tenth of an
    update with layer norm in ten critics. Other libraries do not mind.
    """
    torch.empty(2**25 - 2**13, dtype=torch.uint8)


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
