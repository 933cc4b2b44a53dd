"""Worker processes: a fresh Python with a pipe to whoever started it.

Not through multiprocessing, which would import the caller's main script again.
"""

import os
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import IO

__all__ = ["start_worker"]


def start_worker(
    module: str, *descriptors: int, stderr: IO[bytes] | None = None
) -> tuple[subprocess.Popen, Connection]:
    """Run `main` of a module in a process of its own, on one thread.

    Args:
        module: whose `main` finds the descriptor of its end of the pipe, and then `descriptors`,
            as arguments of the command line.
        descriptors: of files that it inherits.
        stderr: where it writes errors to; by default where we do.
    """
    ours, theirs = Pipe()
    inherited = (theirs.fileno(), *descriptors)
    # One thread each: the workers themselves fill the cores.
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {module} import main; main()", *map(str, inherited)],
        pass_fds=inherited,
        env={**os.environ, **single, "PYTHONPATH": _python_path()},
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        process_group=0,  # Ctrl-C is for the parent, which decides what it means
    )
    theirs.close()
    return process, ours


def _python_path() -> str:
    """The parent's import path: a policy pickled by reference must be importable in the worker."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)
