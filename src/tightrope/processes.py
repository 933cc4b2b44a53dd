"""Worker processes: a fresh Python with a pipe to whoever started it.

Not through multiprocessing, which would import the caller's main script again.
"""

import os
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe

__all__ = ["start_worker", "worker_environment"]


def start_worker(module: str, *descriptors: int) -> tuple[subprocess.Popen, Connection]:
    """Run `main` of a module in a process of its own, on one thread.

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
