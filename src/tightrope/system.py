"""What the numbers are computed on: devices, threads, and versions of libraries."""

import contextlib
import functools
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tightrope.errors import InputError

__all__ = [
    "check_device",
    "library_versions",
    "multiplies_bfloat16",
    "resolve_device",
    "threads",
]

_PACKAGES = (
    "tightrope",
    "numpy",
    "scipy",
    "torch",
    "stable_baselines3",
    "gymnasium",
    "mujoco",
    "dm_control",
    "metaworld",
)


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
    try:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    except ImportError:  # a table of results needs no torch
        count = 0
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
    """Limit torch to `count` threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def library_versions() -> dict[str, str]:
    """Installed versions of Python and of the packages that results depend on."""
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
