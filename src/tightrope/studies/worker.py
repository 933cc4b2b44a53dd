"""A worker process of the local engine: does one job after the other until the pipe closes."""

import contextlib
import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

from tightrope.errors import InputError, one_line
from tightrope.studies.jobs import Job, run_job

__all__ = ["attempt", "main"]


def main() -> None:
    """Entry point: the descriptor of the pipe as argument; jobs come in, reasons go out."""
    connection = Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    sys.path.append(os.getcwd())
    handed: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, handed), daemon=True).start()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # no parent
        while True:
            job, folder = pickle.loads(handed.get())
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


def _receive(connection: Connection, handed: "SimpleQueue[bytes]") -> None:
    """Hand on what comes in; end at once when the parent is gone, even in the middle of a job.

    Nobody waits for that job, and who resumes the study must not find its training in use.
    """
    with contextlib.suppress(EOFError, OSError):
        while True:
            handed.put(connection.recv_bytes())
    os._exit(0)
