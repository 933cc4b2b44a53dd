"""Jobs on this machine: a process per job, one thread each."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from weakref import WeakSet

from tightrope.errors import InputError
from tightrope.files import write_text
from tightrope.studies.jobs import Job, JobError
from tightrope.system import worker_environment

__all__ = ["LocalPool", "run_command"]

_LOGGED = 1 << 20  # bytes of the end of what a failed job said
Process = subprocess.Popen[bytes]


class LocalPool:
    """Processes of this machine; one that dies takes only its own job with it."""

    def __init__(self, folder: Path, workers: int | None = None) -> None:
        """Prepare; processes start when there is something to do.

        Args:
            folder: of the jobs; what failed ones printed goes to `logs` beside it.
            workers: processes at once; by default one per core.

        Raises:
            InputError: there is to be no worker.
        """
        self.folder = folder
        self.slots = _cores() if workers is None else workers
        if self.slots < 1:
            raise InputError(f"`workers` must be at least 1, found {self.slots}")
        self._threads = ThreadPoolExecutor(self.slots)
        self._lock, self._closed = threading.Lock(), False
        self._running: WeakSet[Process] = WeakSet()

    def submit(self, job: Job) -> Future[None]:
        """Run the job in a process of its own."""
        return self._threads.submit(run_command, job, self.folder, self._watch)

    def shutdown(self) -> None:
        """Kill what runs; a training resumes from its checkpoint next time."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
        self._threads.shutdown(cancel_futures=True)

    def _watch(self, process: Process) -> None:
        with self._lock:
            self._running.add(process)
            if self._closed:
                process.kill()


def run_command(
    job: Job, folder: Path, started: Callable[[Process], None] = lambda process: None
) -> None:
    """Run a job in a process of its own, which ends with this one.

    Args:
        job: what to do.
        folder: of the jobs.
        started: called with the process.

    Raises:
        JobError: it failed, or was killed.
    """
    command = [sys.executable, "-P", "-m", "tightrope.studies.jobs", str(folder)]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=said,
            env=worker_environment(),
            process_group=0,  # Ctrl-C is for the study, which decides what it means
        ) as process,
    ):
        started(process)
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # if it died, its exit code says why
            process.stdin.write(json.dumps(job.to_json()).encode() + b"\n")
            process.stdin.flush()
        reason = process.stdout.read().decode().strip()
        code = process.wait()
        said.seek(max(os.fstat(said.fileno()).st_size - _LOGGED, 0))
        text = said.read().decode(errors="replace")
    if code == 0:
        return
    if text:
        write_text(folder.parent / "logs" / f"{job.id}.log", text)
    cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    raise JobError(reason or f"its process died ({cause})")


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
