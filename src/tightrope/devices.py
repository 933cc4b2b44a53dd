"""Where torch computes: the processor, or a GPU."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from tightrope.errors import InputError

__all__ = ["check_device", "multiplies_bfloat16", "resolve_device", "threads"]


def check_device(device: str) -> str:
    """The name of a device as it is, without asking whether there is one.

    Raises:
        InputError: it is none of auto, cpu, cuda, or cuda:1 and so on.
    """
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise InputError(f"`device` must be auto, cpu, cuda or such as cuda:1, found {device!r}")
    return device


def resolve_device(device: str) -> str:
    """A device that is there; auto is a GPU where torch can use one.

    Raises:
        InputError: there is no such device.
    """
    check_device(device)
    if device == "cpu":
        return device
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if count else "cpu"
    if int(device.partition(":")[2] or 0) >= count:
        found = f"{count}, counted from cuda:0" if count else "none that torch can use"
        raise InputError(f"expected a GPU for `device` {device}, found {found}: give cpu or auto")
    return device


def multiplies_bfloat16(device: str) -> bool:
    """Whether torch multiplies matrices in bfloat16 there, as far as it tells; GPUs not tried."""
    import torch

    # Older versions of torch do not tell what the processor has; and torch may be held back.
    has: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    used = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return device == "cpu" and used and any(has.get(name) for name in ("avx512_bf16", "amx_bf16"))


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Meanwhile torch has so many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
