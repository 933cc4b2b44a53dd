"""A worker process of the local engine: does one job after the other until the pipe closes."""

import contextlib
import os
import pickle
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tightrope.errors import InputError, one_line
from tightrope.studies.jobs import Job, run_job

__all__ = ["attempt", "main"]


def main() -> None:
    """Entry point: the descriptor of the pipe as argument; jobs come in, reasons go out."""
    connection = Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    sys.path.append(os.getcwd())
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # no parent
        while True:
            job, folder = pickle.loads(connection.recv_bytes())
            connection.send(attempt(job, folder))


def attempt(job: Job, folder: Path) -> str | None:
    """Do a job; None, or in one line why it could not be done."""
    try:
        run_job(job, folder)
    except InputError as error:
        return one_line(error, limit=500)
    except Exception as error:  # whatever environments, policies and libraries raise
        return f"{type(error).__name__}: {one_line(error, limit=500)}"
    return None


def _leave_with_parent(parent: int) -> None:
    """End when the parent is gone, even in the middle of a job: nobody waits for it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)
