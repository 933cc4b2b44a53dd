"""Jobs on a Ray cluster: a task each, whose machine runs the job's command in a shared folder."""

import contextlib
import os
import secrets
import socket
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line
from tightrope.files import delete, write_text
from tightrope.imports import needed
from tightrope.studies.jobs import Job, JobError
from tightrope.studies.local_pool import run_command

__all__ = ["RayPool"]

_TOKEN = ".shared"
_ANSWER = 10.0  # seconds
_NODE_FAILURES = 5  # of machines under a task, before it counts as failed


class RayPool:
    """Ray tasks of one core each; every machine has tightrope and sees the study's folder."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        """Connect.

        Args:
            folder: of the jobs.
            address: of the cluster; by default one is started on this machine.

        Raises:
            InputError: Ray is not installed, or the address does not answer.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self._ray = ray = needed("ray", "`engine` ray", "ray")
        self.folder = folder.absolute()
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, address)
        self._token = secrets.token_hex(16)
        write_text(self.folder / _TOKEN, self._token)
        self._task = self._ray.remote(num_cpus=1, max_retries=_NODE_FAILURES)(_run_on_node)
        self._references: dict[Future[None], Any] = {}

    @property
    def slots(self) -> int:
        """Cores of the cluster now."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, job: Job) -> Future[None]:
        """Run the job wherever there is a core."""
        reference = self._task.options(name=job.name).remote(job, self.folder, self._token)
        found: Future[None] = Future()
        self._references[found] = reference

        def settle(answer: Future[str]) -> None:
            self._references.pop(found, None)
            if (error := answer.exception()) is not None:
                reason = f"{type(error).__name__}: {one_line(error, limit=500)}"
            else:
                reason = answer.result()
            found.set_exception(JobError(reason)) if reason else found.set_result(None)

        reference.future().add_done_callback(settle)
        return found

    def shutdown(self) -> None:
        """Cancel what runs, and leave the cluster."""
        for reference in list(self._references.values()):
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        delete(self.folder / _TOKEN)
        if self._connected:
            self._ray.shutdown()


def _run_on_node(job: Job, folder: Path, token: str) -> str:
    """Run the job's command; nothing, or in one line why it could not be done."""
    path = folder / _TOKEN
    if not path.is_file() or path.read_text() != token:
        return (
            f"expected the study's folder {str(folder)!r} on the node {socket.gethostname()}, "
            "found none: put --out on a disk that all nodes share"
        )
    try:
        run_command(job, folder)
    except JobError as error:
        return str(error)
    return ""


def _connect(ray: Any, address: str | None) -> None:
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if address and not (host and colon and port.isdigit()):
        raise InputError(f"expected an `address` such as 10.0.0.1:6379, found {address!r}")
    options = {"address": address} if address else {"address": "local", "include_dashboard": False}
    try:
        if address:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=_ANSWER).close()
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
    except Exception as error:  # ConnectionError, TimeoutError, RuntimeError, by version
        raise InputError(
            f"expected a Ray cluster at `address` {address}, found none that answers "
            f"({one_line(error)}): start one with ray start --head"
        ) from None
