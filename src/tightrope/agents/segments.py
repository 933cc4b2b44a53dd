"""The replay buffer on disk: a file for the rows that each checkpoint adds, never written again."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.errors import InputError
from tightrope.files import delete, load_tensors, save_tensors, sha256

__all__ = ["Segment", "read_segments", "sweep", "write_segment"]

_FORMAT = "tightrope.replay/1"
_ARRAYS = ("observations", "actions", "rewards", "dones", "timeouts")


@dataclass(frozen=True)
class Segment:
    """A file of rows.

    Attributes:
        first: number of its first row in the run.
        end: number of the row after its last.
        digest: SHA-256 of the file.
    """

    first: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """Of the file."""
        return _name(self.first, self.end)


def _name(first: int, end: int) -> str:
    return f"{first}-{end}.safetensors"


def write_segment(
    folder: Path, buffer: CompactReplayBuffer, segments: Iterable[Segment]
) -> tuple[Segment, ...]:
    """Write the rows that are not in `segments`; returns all that the buffer is made of now.

    Raises:
        InputError: the file cannot be written.
    """
    oldest = max(buffer.added - buffer.buffer_size, 0)
    needed = tuple(segment for segment in segments if segment.end > oldest)
    first, end = needed[-1].end if needed else oldest, buffer.added
    if first == end:
        return needed
    slots = [row % buffer.buffer_size for row in range(first, end)]
    apart = [row for row, slot in enumerate(slots) if slot in buffer.apart]  # the last one always
    arrays = {name: getattr(buffer, name)[slots] for name in _ARRAYS}
    arrays["apart"] = np.array(apart)
    arrays["next_observations"] = np.stack([buffer.apart[slots[row]] for row in apart])
    path = folder / _name(first, end)
    save_tensors(path, arrays, {"format": _FORMAT})
    return (*needed, Segment(first, end, sha256(path)))


def read_segments(folder: Path, buffer: CompactReplayBuffer, segments: tuple[Segment, ...]) -> None:
    """Fill a new buffer.

    Raises:
        InputError: a file is missing, damaged or of another run.
    """
    end = segments[-1].end if segments else 0
    for segment in segments:
        path = folder / segment.name
        wanted, found = segment.digest[:12], sha256(path)[:12] if path.is_file() else "nothing"
        if found != wanted:
            raise InputError(
                f"expected {str(path)!r}, a part of the checkpoint, with SHA-256 {wanted}…, found "
                f"{found}: put it back, or start anew in another `out`"
            )
        arrays, _ = load_tensors(path, _FORMAT)
        rows = np.arange(segment.first, segment.end)
        held = rows >= end - buffer.buffer_size
        slots = rows % buffer.buffer_size
        for name in _ARRAYS:
            getattr(buffer, name)[slots[held]] = arrays[name][held]
        for row, after in zip(arrays["apart"], arrays["next_observations"], strict=True):
            if held[row]:
                buffer.apart[int(slots[row])] = np.array(after)
    buffer.go_to(end)


def sweep(folder: Path, segments: Iterable[Segment]) -> None:
    """Delete the files of all other segments, and of a process that was killed while writing."""
    names = {segment.name for segment in segments}
    for path in list(folder.glob("*.safetensors")):
        if path.name not in names:
            with contextlib.suppress(InputError):
                delete(path)
    if not names:
        with contextlib.suppress(OSError):
            folder.rmdir()
