"""An update through torch.compile, and memory for it."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from tightrope.errors import one_line

__all__ = ["compiled", "keep_freed_memory"]


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
