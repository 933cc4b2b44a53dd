"""A checkpoint holds all that a run needs to go on as if nothing had happened.

One file, replaced in one step, read without unpickling: weights, optimisers, replay buffer, the
state of every random number generator, and the record of experience.
"""

import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from tightrope.agents.experience import Experience
from tightrope.errors import InputError, one_line
from tightrope.files import WriteError, replace_atomically

__all__ = ["load_checkpoint", "restore", "save_checkpoint"]

_FORMAT = "tightrope.checkpoint/1"
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num")
_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def save_checkpoint(
    path: Path, model: BaseAlgorithm, experience: Experience, seconds: float
) -> None:
    """Write the state of a run between two updates; the file that was there stands until then.

    Raises:
        InputError: the file cannot be written.
    """
    _, variables = model._get_torch_save_params()
    content = {
        "format": _FORMAT,
        "seconds": seconds,
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
        "recent": [[float(e["r"]), int(e["l"])] for e in model.ep_info_buffer or ()],
        "parameters": model.get_parameters(),
        "variables": {name: getattr(model, name).detach() for name in variables},
        "buffer": _buffer(model),
        "experience": experience.state(),
        "random": _random(model),
    }
    try:
        replace_atomically(path, lambda temporary: torch.save(content, temporary))
    except RuntimeError as error:  # what torch makes of a full disk
        raise WriteError(path, f"is the disk full? ({one_line(error)})") from None


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
        raise InputError(f"expected the format {_FORMAT}, found another in {str(path)!r}")
    return content


def restore(content: dict[str, Any], model: BaseAlgorithm, experience: Experience) -> None:
    """Bring a newly built agent and environment into the state of the checkpoint."""
    model.set_parameters(content["parameters"])
    with torch.no_grad():
        for name, value in content["variables"].items():
            getattr(model, name).copy_(value)
    for name, value in content["counters"].items():
        setattr(model, name, value)
    recent = ({"r": r, "l": length, "t": 0.0} for r, length in content["recent"])
    model.ep_info_buffer = deque(recent, maxlen=model._stats_window_size)
    model.ep_success_buffer = deque(maxlen=model._stats_window_size)
    if isinstance(model, OffPolicyAlgorithm):
        buffer, stored = model.replay_buffer, content["buffer"]
        assert buffer is not None  # built with the model
        buffer.pos, buffer.full = stored["pos"], stored["full"]
        for name in _ARRAYS:
            getattr(buffer, name)[: buffer.size()] = stored[name].numpy()
    experience.restore(content["experience"])
    _restore_random(content["random"], model)


def _buffer(model: BaseAlgorithm) -> dict[str, Any]:
    if not isinstance(model, OffPolicyAlgorithm):
        return {}
    buffer = model.replay_buffer
    assert buffer is not None  # built with the model
    arrays = {name: torch.from_numpy(getattr(buffer, name)[: buffer.size()]) for name in _ARRAYS}
    return {"pos": buffer.pos, "full": buffer.full, **arrays}


def _random(model: BaseAlgorithm) -> dict[str, Any]:
    """SB3 draws from the global generators, and warm-up actions from the action space."""
    _, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    version, words, spare = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "numpy": [torch.from_numpy(np.asarray(keys)), position, has_gauss, gauss],
        "python": [version, list(words), spare],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def _restore_random(state: dict[str, Any], model: BaseAlgorithm) -> None:
    torch.set_rng_state(state["torch"])
    keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy(), position, has_gauss, gauss))  # noqa: NPY002
    version, words, spare = state["python"]
    random.setstate((version, tuple(words), spare))
    model.action_space.np_random.bit_generator.state = state["actions"]
