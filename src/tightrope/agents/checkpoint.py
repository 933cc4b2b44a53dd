"""A checkpoint holds all that a run needs to go on as if nothing had happened.

Weights, optimisers, the state of every random number generator and the training statistics are in
one file, replaced in one step and read without unpickling. It names the segments of the replay
buffer in the folder beside it: a new one is written before the file, and those that are no longer
needed are deleted after it. So whatever file is there is whole.
"""

import random
from collections import deque
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.agents.segments import Segment, read_segments, sweep, write_segment
from tightrope.agents.training_statistics import TrainingStatistics
from tightrope.errors import InputError, one_line
from tightrope.files import WriteError, delete, write_file

__all__ = ["delete_checkpoint", "load_checkpoint", "restore", "save_checkpoint"]

_FORMAT = "tightrope.checkpoint/2"
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num")
_REPLAY = "replay"  # folder of the segments


def save_checkpoint(
    path: Path,
    model: BaseAlgorithm,
    statistics: TrainingStatistics,
    seconds: float,
    segments: tuple[Segment, ...] = (),
) -> tuple[Segment, ...]:
    """Write the state of a run between two updates; the file that was there stands until then.

    Args:
        path: of the file.
        model: the agent.
        statistics: its environment.
        seconds: of training so far.
        segments: of the file that was there.

    Returns:
        Those of the new one.

    Raises:
        InputError: a file cannot be written; the checkpoint that was there stands.
    """
    try:
        written = _write(path, model, statistics, seconds, segments)
    except InputError:
        stands = _segments(load_checkpoint(path)) if path.is_file() else ()
        sweep(path.with_name(_REPLAY), stands)
        raise
    sweep(path.with_name(_REPLAY), written)
    return written


def _write(
    path: Path,
    model: BaseAlgorithm,
    statistics: TrainingStatistics,
    seconds: float,
    segments: tuple[Segment, ...],
) -> tuple[Segment, ...]:
    if isinstance(model, OffPolicyAlgorithm):
        segments = write_segment(path.with_name(_REPLAY), _buffer(model), segments)
    _, variables = model._get_torch_save_params()
    content = {
        "format": _FORMAT,
        "seconds": seconds,
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
        "recent": [[float(e["r"]), int(e["l"])] for e in model.ep_info_buffer or ()],
        "parameters": model.get_parameters(),
        "variables": {name: getattr(model, name).detach() for name in variables},
        "segments": [astuple(segment) for segment in segments],
        "experience": statistics.state(),
        "random": _random(model),
    }
    try:
        write_file(path, lambda temporary: torch.save(content, temporary), replace=True)
    except RuntimeError as error:  # what torch makes of a full disk
        raise WriteError(path, f"is the disk full? ({one_line(error)})") from None
    return segments


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What :func:`save_checkpoint` wrote.

    Raises:
        InputError: the file is damaged or of another kind.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a hostile or damaged file
        raise InputError(f"cannot read the checkpoint {str(path)!r}: {one_line(error)}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        found = repr(content.get("format")) if isinstance(content, dict) else "another"
        raise InputError(
            f"expected the format {_FORMAT}, found {found} in {str(path)!r}: start anew in another "
            "`out`, or finish the run with the version of tightrope that began it"
        )
    return content


def restore(
    path: Path, content: dict[str, Any], model: BaseAlgorithm, statistics: TrainingStatistics
) -> tuple[Segment, ...]:
    """Bring a newly built agent and environment into the state of the checkpoint.

    Segments that it does not name, of a process that was killed while writing, are deleted.

    Returns:
        The segments of its replay buffer.

    Raises:
        InputError: one of these is missing, damaged or of another run.
    """
    segments = _segments(content)
    if isinstance(model, OffPolicyAlgorithm):
        read_segments(path.with_name(_REPLAY), _buffer(model), segments)
    sweep(path.with_name(_REPLAY), segments)
    model.set_parameters(content["parameters"])
    with torch.no_grad():
        for name, value in content["variables"].items():
            getattr(model, name).copy_(value)
    for name, value in content["counters"].items():
        setattr(model, name, value)
    recent = ({"r": r, "l": length, "t": 0.0} for r, length in content["recent"])
    model.ep_info_buffer = deque(recent, maxlen=model._stats_window_size)
    model.ep_success_buffer = deque(maxlen=model._stats_window_size)
    statistics.restore(content["experience"])
    _restore_random(content["random"], model)
    return segments


def delete_checkpoint(path: Path) -> None:
    """Delete the file and its segments, if they are there."""
    delete(path)
    sweep(path.with_name(_REPLAY), ())


def _segments(content: dict[str, Any]) -> tuple[Segment, ...]:
    return tuple(Segment(*fields) for fields in content["segments"])


def _buffer(model: OffPolicyAlgorithm) -> CompactReplayBuffer:
    assert isinstance(model.replay_buffer, CompactReplayBuffer)  # built with the model
    return model.replay_buffer


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
