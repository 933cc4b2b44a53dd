"""SB3's VecNormalize: reading its statistics, and noticing that they are missing.

A policy trained behind a VecNormalize has only ever seen normalised observations. The statistics
are not in its zip, and without them it is another policy.
"""

import base64
import pickle
import pickletools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.policies.mlp import Normalizer

__all__ = ["find_statistics", "model_was_normalized", "read_statistics", "statistics_of"]
__all__ += ["zip_was_normalized"]

_CLIP, _EPSILON = 10.0, 1e-8  # VecNormalize's defaults


def read_statistics(path: Path, env: Any, *, trust: bool) -> Normalizer | None:
    """The statistics in a file, for the flat observations of `env`; None if it says not to.

    A VecNormalize pickle needs `trust`. An ``.npz`` needs none and holds

    - ``mean`` and ``var`` of the flat observation, or, for Dict observations, ``KEY.mean`` and
      ``KEY.var`` for each key that is normalised; the others are left alone, as with SB3's
      `norm_obs_keys`;
    - ``epsilon`` (added to the variances, 1e-8) and ``clip`` (10), if they are not these.

    Raises:
        InputError: the file cannot be read, needs `trust`, or is for other observations.
    """
    normalizer: Normalizer | None
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                require_plausible(path, sum(entry.file_size for entry in arrays.zip.infolist()))
                normalizer = _from_arrays({name: arrays[name] for name in arrays}, path.name, env)
        elif not trust:
            raise InputError(
                f"{path.name} is a pickle: pass `trust` if you trust its author, since loading it "
                "then executes code; or put mean, var, epsilon and clip in an .npz"
            )
        else:
            with path.open("rb") as stream:
                saved = pickle.load(stream)
            normalizer = statistics_of(saved, path.name)
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
    """Those of a VecNormalize; None if it leaves observations alone."""
    if not wrapper.norm_obs:
        return None
    running = wrapper.obs_rms
    if not isinstance(running, Mapping):
        mean, variance = np.ravel(running.mean), np.ravel(running.var)
        return Normalizer.of(mean, variance, wrapper.epsilon, wrapper.clip_obs, source)
    keyed = {key: (running[key].mean, running[key].var) for key in wrapper.norm_obs_keys}
    space = wrapper.observation_space
    return _concatenated(keyed, space, wrapper.epsilon, wrapper.clip_obs, source)


def _from_arrays(arrays: dict[str, Any], source: str, env: Any) -> Normalizer:
    epsilon = float(arrays.pop("epsilon", _EPSILON))
    clip = float(arrays.pop("clip", _CLIP))
    if "mean" in arrays:
        mean, variance = np.ravel(arrays["mean"]), np.ravel(arrays["var"])
        return Normalizer.of(mean, variance, epsilon, clip, source)
    keys = sorted({name.rpartition(".")[0] for name in arrays})
    keyed = {key: (arrays[f"{key}.mean"], arrays[f"{key}.var"]) for key in keys}
    return _concatenated(keyed, _unflattened(env), epsilon, clip, source)


def _concatenated(
    keyed: dict[str, tuple[Any, Any]], space: Any, epsilon: float, clip: float, source: str
) -> Normalizer:
    """In the order of FlattenObservation; keys that are not normalised pass unchanged."""
    import gymnasium as gym

    known = list(space.spaces) if isinstance(space, gym.spaces.Dict) else []
    if not keyed or not set(keyed) <= set(known):
        raise ValueError(f"expected statistics of keys among {known}, found {sorted(keyed)}")
    parts = []
    for key in known:
        width = gym.spaces.flatdim(space.spaces[key])
        part = Normalizer(np.zeros(width), np.ones(width), np.inf)
        if key in keyed:
            mean, variance = (np.ravel(array) for array in keyed[key])
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


def zip_was_normalized(data: dict[str, Any]) -> bool | None:
    """Whether SB3's `data` show that a policy was trained on normalised observations.

    SB3 keeps the observation before normalisation as `_last_original_obs`. On-policy algorithms set
    it only behind a VecNormalize. Off-policy ones always do, but normalisation turns observations
    to float32: where the environment's are float64, as MuJoCo's, the kinds of the two differ.
    Pickles are looked at here, not executed.

    Returns:
        None if the data do not show it: off-policy, and observations of float32.
    """
    original = data.get("_last_original_obs")
    off_policy = "replay_buffer_class" in data or "learning_starts" in data
    if original is None:
        return None if off_policy else False
    return _judge(off_policy, _pickled_kinds(original), _pickled_kinds(data.get("_last_obs")))


def model_was_normalized(model: Any) -> bool | None:
    """The same for an SB3 algorithm in memory."""
    original = getattr(model, "_last_original_obs", None)
    off_policy = hasattr(model, "replay_buffer")
    if original is None:
        return None if off_policy else False
    return _judge(off_policy, _kinds(original), _kinds(getattr(model, "_last_obs", None)))


def _judge(off_policy: bool, original: set[str], last: set[str]) -> bool | None:
    if last and "f4" not in last:
        return False
    if off_policy:
        return True if original != last and original and last else None
    return True


def _kinds(observation: Any) -> set[str]:
    arrays = observation.values() if isinstance(observation, dict) else [observation]
    return {array.dtype.str[1:] for array in arrays if isinstance(array, np.ndarray)}


def _pickled_kinds(described: Any) -> set[str]:
    """Kinds of number, such as ``f8``, in a pickled array or dict of arrays."""
    try:
        content = base64.b64decode(described[":serialized:"])
        texts = {text for _, text, _ in pickletools.genops(content) if isinstance(text, str)}
    except Exception:  # no pickle, or a damaged one: then it shows nothing
        return set()
    return {text for text in texts if re.fullmatch(r"[fiub]\d+", text)}


def find_statistics(path: Path) -> Path | None:
    """Statistics that SB3, its callbacks or its zoo saved near a zip, by their usual names.

    That is ``vecnormalize.pkl`` or ``vec_normalize.pkl`` beside the zip or in the folder that has
    its name, and ``NAME_vecnormalize_1000_steps.pkl`` for a checkpoint ``NAME_1000_steps.zip``.
    """
    checkpoint = re.sub(r"(_\d+_steps)$", r"_vecnormalize\1", path.stem)
    names = ("vecnormalize.pkl", "vec_normalize.pkl", f"{checkpoint}.pkl")
    places = [folder / name for folder in (path.parent, path.with_suffix("")) for name in names]
    return next((place for place in places if place.is_file()), None)
