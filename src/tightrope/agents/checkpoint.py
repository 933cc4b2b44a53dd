"""A checkpoint holds all that a run needs to go on as if nothing had happened.

Weights, optimisers, the state of every random number generator and the training statistics are in
one file, replaced in one step and read without unpickling. It names the segments of the replay
buffer in the folder beside it, each with the rows that one checkpoint added, never written again: a
new one is written before the file, and those that are no longer needed are deleted after it. So
whatever file is there is whole.
"""

import contextlib
import random
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm

from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.errors import InputError, one_line
from tightrope.files import (
    WriteError,
    delete,
    load_tensors,
    save_tensors,
    sha256,
    write_file,
)

__all__ = ["Checkpoint", "Segment", "load_checkpoint", "read_segments", "sweep", "write_segment"]

_FORMAT, _SEGMENT_FORMAT = "tightrope.checkpoint/2", "tightrope.replay/1"
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num")
_ARRAYS = ("observations", "actions", "rewards", "dones", "timeouts")  # of the replay buffer


class Segment(NamedTuple):
    """A file of rows of the replay buffer: first, one after the last, SHA-256 of the file."""

    first: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.first}-{self.end}.safetensors"


class Checkpoint:
    """The checkpoint of a run: of its agent and environment, between two updates.

    Attributes:
        path: of the file; it may not be there yet.
        segments: of the replay buffer in it.
    """

    def __init__(self, path: Path, model: BaseAlgorithm, statistics: TrainingStatistics) -> None:
        self.path, self.model, self.statistics = path, model, statistics
        self.folder = path.with_name("replay")
        self.segments: tuple[Segment, ...] = ()
        buffer = getattr(model, "replay_buffer", None)
        self.buffer = buffer if isinstance(buffer, CompactReplayBuffer) else None

    def save(self, seconds: float) -> None:
        """Write it; the file that was there stands until the new one does.

        Args:
            seconds: of training so far.

        Raises:
            InputError: a file cannot be written; the checkpoint that was there stands.
        """
        segments: tuple[Segment, ...] = ()
        try:
            if self.buffer is not None:
                segments = write_segment(self.folder, self.buffer, self.segments)
            content = self._content(seconds, segments)
            try:
                write_file(
                    self.path, lambda temporary: torch.save(content, temporary), replace=True
                )
            except RuntimeError as error:  # what torch makes of a full disk
                raise WriteError(self.path, f"is the disk full? ({one_line(error)})") from None
        except InputError:
            there = load_checkpoint(self.path)["segments"] if self.path.is_file() else ()
            sweep(self.folder, [Segment(*fields) for fields in there])
            raise
        self.segments = segments
        sweep(self.folder, segments)

    def _content(self, seconds: float, segments: Iterable[Segment]) -> dict[str, Any]:
        model = self.model
        _, variables = model._get_torch_save_params()
        return {
            "format": _FORMAT,
            "seconds": seconds,
            "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
            "recent": [[float(e["r"]), int(e["l"])] for e in model.ep_info_buffer or ()],
            "parameters": model.get_parameters(),
            "variables": {name: getattr(model, name).detach() for name in variables},
            "segments": [tuple(segment) for segment in segments],
            "experience": self.statistics.state(),
            "random": _random(model),
        }

    def restore(self) -> float:
        """Bring a newly built agent and environment into its state; seconds of training so far.

        Segments that it does not name, of a process that was killed while writing, are deleted.

        Raises:
            InputError: the file or a segment is missing, damaged or of another run.
        """
        content, model = load_checkpoint(self.path), self.model
        self.segments = tuple(Segment(*fields) for fields in content["segments"])
        if self.buffer is not None:
            read_segments(self.folder, self.buffer, self.segments)
        sweep(self.folder, self.segments)
        model.set_parameters(content["parameters"])
        with torch.no_grad():
            for name, value in content["variables"].items():
                getattr(model, name).copy_(value)
        for name, value in content["counters"].items():
            setattr(model, name, value)
        recent = ({"r": r, "l": length, "t": 0.0} for r, length in content["recent"])
        model.ep_info_buffer = deque(recent, maxlen=model._stats_window_size)
        model.ep_success_buffer = deque(maxlen=model._stats_window_size)
        self.statistics.restore(content["experience"])
        _restore_random(content["random"], model)
        return float(content["seconds"])

    def delete(self) -> None:
        """Delete the file and its segments, if they are there."""
        delete(self.path)
        sweep(self.folder, ())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What is in the file of a checkpoint.

    Raises:
        InputError: the file is damaged or of another kind.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        found = content["format"]
    except Exception as error:  # torch raises many kinds for a hostile or damaged file
        raise InputError(f"cannot read the checkpoint {str(path)!r}: {one_line(error)}") from None
    if found != _FORMAT:
        raise InputError(
            f"expected the format {_FORMAT}, found {found!r} in {str(path)!r}: start anew in "
            "another `out`, or finish the run with the version of tightrope that began it"
        )
    return content  # type: ignore[no-any-return]


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
    path = folder / Segment(first, end, "").name
    save_tensors(path, arrays, {"format": _SEGMENT_FORMAT})
    return (*needed, Segment(first, end, sha256(path)))


def read_segments(folder: Path, buffer: CompactReplayBuffer, segments: Sequence[Segment]) -> None:
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
        arrays, _ = load_tensors(path, _SEGMENT_FORMAT)
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
    with contextlib.suppress(OSError):
        for path in list(folder.glob("*.safetensors")):
            if path.name not in names:
                with contextlib.suppress(InputError):
                    delete(path)
        if not names:
            folder.rmdir()


def _random(model: BaseAlgorithm) -> dict[str, Any]:
    """SB3 draws from the global generators, and warm-up actions from the action space."""
    _, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    version, words, spare = random.getstate()
    on_gpu = model.device.type == "cuda"
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(model.device) if on_gpu else None,
        "numpy": [torch.from_numpy(np.asarray(keys)), position, has_gauss, gauss],
        "python": [version, list(words), spare],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def _restore_random(state: dict[str, Any], model: BaseAlgorithm) -> None:
    torch.set_rng_state(state["torch"])
    if model.device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], model.device)
    keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy(), position, has_gauss, gauss))  # noqa: NPY002
    version, words, spare = state["python"]
    random.setstate((version, tuple(words), spare))
    model.action_space.np_random.bit_generator.state = state["actions"]
