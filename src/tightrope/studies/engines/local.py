"""Jobs on this machine: as many worker processes as cores, one thread each."""

import contextlib
import os
import pickle
import signal
import subprocess
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tightrope.errors import InputError
from tightrope.processes import start_worker
from tightrope.studies.engines.base import Outcome
from tightrope.studies.jobs import Job

__all__ = ["LocalEngine"]


@dataclass
class _Worker:
    """One process, and the job that it is at."""

    process: subprocess.Popen
    connection: Connection
    job: Job | None = None


class LocalEngine:
    """A pool of processes; one that dies takes only its own job with it."""

    def __init__(self, folder: Path, workers: int | None = None) -> None:
        """Prepare; processes start when there is something to do.

        Args:
            folder: of the jobs; what workers print goes to `logs` beside it.
            workers: processes; by default one per core.

        Raises:
            InputError: there is to be no worker.
        """
        self.folder, self.logs = folder, folder.parent / "logs"
        self._slots = _cores() if workers is None else workers
        if self._slots < 1:
            raise InputError(f"`workers` must be at least 1, found {self._slots}")
        self._workers: list[_Worker] = []
        self._waiting: deque[Job] = deque()

    @property
    def slots(self) -> int:
        """Worker processes."""
        return self._slots

    def submit(self, job: Job) -> None:
        """Have an idle worker do the job, or the next that is."""
        self._waiting.append(job)
        self._hand_out()

    def wait(self, seconds: float) -> list[Outcome]:
        """What has ended."""
        busy = {worker.connection: worker for worker in self._workers if worker.job is not None}
        ended = []
        for connection in wait(list(busy), timeout=seconds):
            worker = busy[connection]  # type: ignore[index]
            job, worker.job = worker.job, None
            assert job is not None
            try:
                ended.append(Outcome(job, worker.connection.recv()))
            except (EOFError, ConnectionResetError):
                self._workers.remove(worker)
                worker.connection.close()
                ended.append(Outcome(job, f"its process died ({_cause(worker.process.wait())})"))
        self._hand_out()
        return ended

    def close(self) -> None:
        """Kill the workers; a training goes on from its checkpoint next time."""
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()  # roll-outs that it started end with it
            worker.process.wait()
        self._workers.clear()
        self._waiting.clear()

    def _hand_out(self) -> None:
        while self._waiting:
            worker = self._idle()
            if worker is None:
                return
            worker.job = self._waiting.popleft()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # If it died, waiting for it tells why.
                worker.connection.send_bytes(pickle.dumps((worker.job, self.folder)))

    def _idle(self) -> _Worker | None:
        for worker in self._workers:
            if worker.job is None:
                return worker
        if len(self._workers) == self._slots:
            return None
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"worker-{len(self._workers)}.log").open("ab") as log:
            process, connection = start_worker("tightrope.studies.worker", stderr=log)
        self._workers.append(_Worker(process, connection))
        return self._workers[-1]


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
