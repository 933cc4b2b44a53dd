"""Jobs on a Ray cluster: a task each.

Every machine needs tightrope installed. A task that finds the study's folder (and the same token in
it) works there, like a local one; one that does not is sent what it needs, works in a temporary
folder, and sends the job's folder back.
"""

import contextlib
import io
import os
import secrets
import socket
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, one_line
from tightrope.studies.engines.base import Outcome
from tightrope.studies.jobs import Job, is_done, read_job
from tightrope.studies.worker import attempt

__all__ = ["RayEngine"]

_TOKEN = ".shared"
_DOOR = 10.0  # seconds
_SILENT = (
    "expected a Ray cluster at `address` {}, found none that answers ({}): start one with ray "
    "start --head"
)
_DEATHS = 5  # of machines or processes under a task, before it counts as failed


class RayEngine:
    """Ray tasks of one core each."""

    def __init__(self, folder: Path, address: str | None = None, *, shared: bool = True) -> None:
        """Connect.

        Args:
            folder: of the jobs.
            address: of the cluster; by default one is started on this machine.
            shared: whether machines may use `folder` where they see it.

        Raises:
            InputError: Ray is not installed, or the address does not answer.
        """
        self._ray = ray = _import_ray()
        self.folder = folder
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, address)
        self._token = secrets.token_hex(16)
        if shared:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _TOKEN).write_text(self._token)
        self._task = ray.remote(num_cpus=1, max_retries=_DEATHS)(_run)
        self._jobs: dict[Any, tuple[Job, bool]] = {}  # by reference: the job, and whether packed

    @property
    def slots(self) -> int:
        """Cores of the cluster now."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, job: Job) -> None:
        """Have it run wherever there is a core."""
        self._send(job, None)

    def wait(self, seconds: float) -> list[Outcome]:
        """What has ended."""
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        ended = []
        for reference in ready:
            job, packed = self._jobs.pop(reference)
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                ended.append(Outcome(job, f"{type(error).__name__}: {one_line(error, limit=500)}"))
                continue
            if answer is None and not packed:  # it does not see our folder
                self._send(job, {need: _pack(self.folder / need) for need in job.needs})
            elif isinstance(answer, str):
                ended.append(Outcome(job, answer or None))
            else:
                ended.append(Outcome(job, self._receive(job, answer)))
        return ended

    def close(self) -> None:
        """Cancel what runs, and leave the cluster."""
        for reference in self._jobs:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._jobs.clear()
        (self.folder / _TOKEN).unlink(missing_ok=True)
        if self._connected:
            self._ray.shutdown()

    def _send(self, job: Job, packed: dict[str, bytes] | None) -> None:
        reference = self._task.options(name=f"{job.stage} {job.label}").remote(
            job, str(self.folder), self._token, packed
        )
        self._jobs[reference] = job, packed is not None

    def _receive(self, job: Job, content: bytes) -> str | None:
        """Put a folder that was sent back where it belongs."""
        from tightrope.files import write_folder

        if is_done(self.folder / job.id):
            return None
        try:
            write_folder(self.folder / job.id, lambda new: _unpack(content, new))
        except InputError as error:
            return str(error)
        return None


def _run(job: Job, folder: str, token: str, packed: dict[str, bytes] | None) -> str | bytes | None:
    """On a machine of the cluster: "" if done, a reason, the packed folder, or None.

    None means that the study's folder is not here, and nothing was sent.
    """
    import torch

    torch.set_num_threads(1)
    here = Path(folder)
    with contextlib.suppress(OSError):
        if (here / _TOKEN).read_text() == token:
            return attempt(job, here) or ""
    if packed is None:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        for name, content in packed.items():
            (here / name).mkdir()
            _unpack(content, here / name)
        return attempt(job, here) or _pack(here / job.id)


def _pack(folder: Path) -> bytes:
    """A finished job's folder as bytes."""
    read_job(folder)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, str(path.relative_to(folder)), recursive=False)
    return stream.getvalue()


def _unpack(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")  # no path out of the folder


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise InputError(
            "expected Ray for `engine` ray, found it not installed: pip install 'tightrope[ray]'"
        ) from None
    return ray


def _require_answer(address: str) -> None:
    """Ask at the door: Ray itself waits for minutes before it says that nobody is there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isdigit()):
        raise InputError(f"expected an `address` such as 10.0.0.1:6379, found {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=_DOOR).close()
    except (OSError, OverflowError) as error:
        raise InputError(_SILENT.format(address, one_line(error))) from None


def _connect(ray: Any, address: str | None) -> None:
    if address is not None:
        _require_answer(address)
    local = {} if address is not None else {"include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level="ERROR",
            **local,
        )
    except Exception as error:  # ConnectionError, TimeoutError, RuntimeError, by version
        raise InputError(_SILENT.format(address, one_line(error))) from None
