"""What the numbers are computed on: devices, threads, worker processes, versions of libraries."""

import contextlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection, Pipe
from typing import Any

from tightrope.errors import InputError

__all__ = [
    "check_device",
    "library_versions",
    "multiplies_bfloat16",
    "resolve_device",
    "start_worker",
    "threads",
    "worker_environment",
]

_PACKAGES = "tightrope numpy scipy torch stable_baselines3 gymnasium mujoco dm_control metaworld"


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
    if check_device(device) == "cpu":
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
    versions = {"python": platform.python_version()}
    for package in _PACKAGES.split():
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def start_worker(module: str, *descriptors: int) -> tuple[subprocess.Popen, Connection]:
    """Run `main` of a module in a fresh Python of its own, on one thread, with a pipe to us.

    Not through multiprocessing, which would import the caller's main script again.

    Args:
        module: whose `main` finds the descriptor of its end of the pipe, and then `descriptors`,
            as arguments of the command line.
        descriptors: of files that it inherits.
    """
    ours, theirs = Pipe()
    inherited = (theirs.fileno(), *descriptors)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {module} import main; main()", *map(str, inherited)],
        pass_fds=inherited,
        env=worker_environment(),
        stdin=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for the parent, which decides what it means
    )
    theirs.close()
    return process, ours


def worker_environment() -> dict[str, str]:
    """Variables of a worker: one thread, for workers fill the cores; the parent's import path.

    A policy pickled by reference must be importable in the worker.
    """
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, **single, "PYTHONPATH": path}
