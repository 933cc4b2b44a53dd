"""SB3's VecNormalize: its statistics read as data, and whether a policy needs them.

A policy trained behind a VecNormalize has only ever seen normalised observations. The statistics
are not in its zip, and without them it is another policy.
"""

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.policies.mlp import Normalizer
from tightrope.policies.pickles import Call, Global, array, read_pickle

__all__ = ["find_statistics", "model_was_normalized", "pickled", "read_statistics"]
__all__ += ["statistics_of", "zip_was_normalized"]

_CLIP, _EPSILON = 10.0, 1e-8  # VecNormalize's defaults
_Moments = tuple[Any, Any] | dict[str, tuple[Any, Any]]


def read_statistics(path: Path, env: Any) -> Normalizer | None:
    """The statistics in a file, for the flat observations of `env`; None if it says not to.

    The file is a VecNormalize pickle of any age, of which nothing is executed, or an ``.npz`` with

    - ``mean`` and ``var`` of the flat observation, or, for Dict observations, ``KEY.mean`` and
      ``KEY.var`` for each key that is normalised; the others are left alone, as with SB3's
      `norm_obs_keys`;
    - ``epsilon`` (added to the variances, 1e-8) and ``clip`` (10), if they are not these.

    Raises:
        InputError: the file cannot be read, or is for other observations.
    """
    normalizer: Normalizer | None
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                require_plausible(path, sum(entry.file_size for entry in arrays.zip.infolist()))
                numbers = {name: arrays[name] for name in arrays}
            normalizer = _from_arrays(numbers, path.name, env)
        else:
            normalizer = _from_pickle(path.read_bytes(), path.name, env)
    except InputError:
        raise
    except Exception as error:  # both formats raise many kinds for a damaged file
        raise InputError(
            f"cannot read observation statistics from {str(path)!r}: {one_line(error)}"
        ) from None
    if normalizer is not None and normalizer.mean.shape != env.observation_space.shape:
        raise InputError(
            f"expected statistics of shape {env.observation_space.shape} for "
            f"{env.observation_space}, found {normalizer.mean.shape} in {str(path)!r}"
        )
    return normalizer


def statistics_of(wrapper: Any, source: str) -> Normalizer | None:
    """Statistics of a VecNormalize in memory; None if it leaves observations alone."""
    if not wrapper.norm_obs:
        return None
    running, space = wrapper.obs_rms, wrapper.observation_space
    moments: _Moments
    if isinstance(running, dict):
        moments = {key: (running[key].mean, running[key].var) for key in wrapper.norm_obs_keys}
    else:
        moments = running.mean, running.var
    return _normalizer(moments, space, wrapper.epsilon, wrapper.clip_obs, source)


def _from_pickle(content: bytes, source: str, env: Any) -> Normalizer | None:
    top = read_pickle(content)
    made = top.function if isinstance(top, Call) else None
    if isinstance(made, Global) and made.name == "_reconstructor":  # protocols 0 and 1
        made = top.arguments[0]
    if not isinstance(made, Global) or made.name != "VecNormalize":
        found = f"{made.module}.{made.name}" if isinstance(made, Global) else "another object"
        raise ValueError(f"expected a VecNormalize, found {found[:80]}")
    state = top.state
    if not isinstance(state, dict):
        raise ValueError("expected the attributes of a VecNormalize, found none")
    if not state.get("norm_obs", True):
        return None
    running = state["obs_rms"]
    moments: _Moments
    if isinstance(running, dict):
        keys = state.get("norm_obs_keys") or list(running)
        moments = {key: _moments(running[key]) for key in keys}
    else:
        moments = _moments(running)
    numbers = {name: float(array(state[name])) for name in ("epsilon", "clip_obs")}
    return _normalizer(moments, _unflattened(env), numbers["epsilon"], numbers["clip_obs"], source)


def _moments(running: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    return array(running.state["mean"]), array(running.state["var"])


def _from_arrays(arrays: dict[str, Any], source: str, env: Any) -> Normalizer:
    epsilon = float(arrays.pop("epsilon", _EPSILON))
    clip = float(arrays.pop("clip", _CLIP))
    moments: _Moments
    if "mean" in arrays:
        moments = arrays["mean"], arrays["var"]
    else:
        keys = sorted({name.rpartition(".")[0] for name in arrays})
        moments = {key: (arrays[f"{key}.mean"], arrays[f"{key}.var"]) for key in keys}
    return _normalizer(moments, _unflattened(env), epsilon, clip, source)


def _normalizer(
    moments: _Moments, space: Any, epsilon: float, clip: float, source: str
) -> Normalizer:
    """For flat observations; keys that have no moments pass unchanged."""
    import gymnasium as gym

    if not isinstance(moments, dict):
        mean, variance = (np.ravel(each) for each in moments)
        return Normalizer.of(mean, variance, epsilon, clip, source)
    known = list(space.spaces) if isinstance(space, gym.spaces.Dict) else []
    if not moments or not set(moments) <= set(known):
        raise ValueError(f"expected statistics of keys among {known}, found {sorted(moments)}")
    parts = []
    for key in known:  # in the order of FlattenObservation
        width = gym.spaces.flatdim(space.spaces[key])
        part = Normalizer(np.zeros(width), np.ones(width), np.inf)
        if key in moments:
            mean, variance = (np.ravel(each) for each in moments[key])
            part = Normalizer.of(mean, variance, epsilon, clip)
        if part.mean.shape != (width,):
            raise ValueError(f"expected {width} means of {key!r}, found {part.mean.shape}")
        parts.append(part)
    mean, scale = (np.concatenate([getattr(p, name) for p in parts]) for name in ("mean", "scale"))
    clips = np.concatenate([np.full(part.mean.shape, part.clip) for part in parts])
    return Normalizer(mean, scale, clips, source)


def _unflattened(env: Any) -> Any:
    """The space of Dict observations below the wrapper that flattens them; None without one."""
    import gymnasium as gym

    while isinstance(env, gym.Wrapper):
        env = env.env
        if isinstance(env.observation_space, gym.spaces.Dict):
            return env.observation_space
    return None


# --- was there a VecNormalize? ----------------------------------------------------------------


def pickled(value: Any) -> Any:
    """The value that SB3's JSON holds as a pickle; None if it cannot be read as data."""
    try:
        return read_pickle(base64.b64decode(value[":serialized:"]))
    except (TypeError, KeyError, ValueError):
        return None


def zip_was_normalized(data: dict[str, Any], statistics: Normalizer | None = None) -> bool | None:
    """Whether SB3's `data` show that a policy was trained on normalised observations.

    Args:
        data: of the zip.
        statistics: found near the zip, which may belong to it or to another policy.

    Returns:
        None if the data do not show it.
    """
    if "n_delta" in data:  # ARS keeps no observation
        return None
    original, last = (data.get(f"_last_{name}") for name in ("original_obs", "obs"))
    off_policy = "replay_buffer_class" in data or "learning_starts" in data
    return _judge(off_policy, original is not None, pickled(original), pickled(last), statistics)


def model_was_normalized(model: Any) -> bool | None:
    """Whether an SB3 algorithm in memory was trained on normalised observations."""
    original, last = getattr(model, "_last_original_obs", None), getattr(model, "_last_obs", None)
    return _judge(hasattr(model, "replay_buffer"), original is not None, original, last, None)


def _judge(
    off_policy: bool, kept: bool, original: Any, last: Any, statistics: Normalizer | None
) -> bool | None:
    """Compare the observation before normalisation, `_last_original_obs`, with `_last_obs`.

    On-policy algorithms keep the former only behind a VecNormalize. Off-policy ones always do:
    behind one it is of the same step as the latter, else of the step before. Normalisation turns
    observations to float32, also from the float64 of environments such as MuJoCo's.
    """
    if not kept:
        return None if off_policy else False
    before, after = _arrays(original), _arrays(last)
    if before is None or after is None or [a.shape for a in before] != [a.shape for a in after]:
        return None if off_policy else True
    if all(np.array_equal(old, new) for old, new in zip(before, after, strict=True)):
        return False  # only rewards were normalised
    if any(old.dtype != new.dtype for old, new in zip(before, after, strict=True)):
        return True
    if all(new.dtype != np.float32 for new in after):
        return False
    if not off_policy:
        return True
    if statistics is None:
        return None
    old, new = (
        np.concatenate([a.reshape(len(a), -1) for a in each], 1) for each in (before, after)
    )
    if statistics.mean.shape != old.shape[1:]:
        return None if isinstance(original, dict) else False
    return bool(np.abs(statistics(old) - new).mean() <= np.abs(old - new).mean())


def _arrays(observation: Any) -> list[NDArray[Any]] | None:
    """The array, or those of a dictionary, with a row for each environment; None if unreadable."""
    values = list(observation.values()) if isinstance(observation, dict) else [observation]
    try:
        arrays = [each if isinstance(each, np.ndarray) else array(each) for each in values]
    except ValueError:
        return None
    return arrays if arrays and all(each.ndim > 0 for each in arrays) else None


def find_statistics(path: Path) -> Path | None:
    """Statistics that SB3, its callbacks or its zoo saved near a zip, by their usual names.

    That is ``vecnormalize.pkl`` or ``vec_normalize.pkl`` beside the zip or in the folder that has
    its name, and ``NAME_vecnormalize_1000_steps.pkl`` for a checkpoint ``NAME_1000_steps.zip``.
    """
    checkpoint = re.sub(r"(_\d+_steps)$", r"_vecnormalize\1", path.stem)
    names = (f"{checkpoint}.pkl", "vecnormalize.pkl", "vec_normalize.pkl")
    places = [folder / name for folder in (path.parent, path.with_suffix("")) for name in names]
    return next((place for place in places if place.is_file()), None)
