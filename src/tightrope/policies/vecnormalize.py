"""SB3's VecNormalize: its statistics read as data, and whether a policy needs them.

A policy trained behind a VecNormalize has only ever seen normalised observations. The statistics
are not in its zip, and without them it is another policy.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible
from tightrope.policies.inert import Inert, array, pickled, read_pickle
from tightrope.policies.mlp import Normalizer

__all__ = ["find_statistics", "model_was_normalized", "read_statistics"]
__all__ += ["statistics_of", "zip_was_normalized"]

# Mean and variance by key of the observation; the key of one that is no dictionary is "".
_Moments = dict[str, tuple[Any, Any]]


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
    if not path.is_file():  # a pipe would never end
        raise InputError(f"expected observation statistics, found no file at {str(path)!r}")
    try:
        read = _from_arrays if path.suffix == ".npz" else _from_pickle
        normalizer = read(path, _unflattened(env))
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
    running = wrapper.obs_rms
    several = isinstance(running, dict)
    named = {key: running[key] for key in wrapper.norm_obs_keys} if several else {"": running}
    moments = {key: (each.mean, each.var) for key, each in named.items()}
    return _normalizer(
        moments, wrapper.observation_space, wrapper.epsilon, wrapper.clip_obs, source
    )


def _from_pickle(path: Path, space: Any) -> Normalizer | None:
    top = read_pickle(path.read_bytes())
    made = top
    if isinstance(top, Inert) and top.name == "_reconstructor":  # protocols 0 and 1
        made = top.arguments[0]
    if not isinstance(made, Inert) or made.name != "VecNormalize":
        found = f"{made.module}.{made.name}" if isinstance(made, Inert) else "another object"
        raise ValueError(f"expected a VecNormalize, found {found[:80]}")
    state = top.state
    if not isinstance(state, dict):
        raise ValueError("expected the attributes of a VecNormalize, found none")
    if not state.get("norm_obs", True):
        return None
    running = state["obs_rms"]
    named = running if isinstance(running, dict) else {"": running}
    moments = {
        key: (array(named[key].state["mean"]), array(named[key].state["var"]))
        for key in state.get("norm_obs_keys") or named
    }
    epsilon, clip = (float(array(state[name])) for name in ("epsilon", "clip_obs"))
    return _normalizer(moments, space, epsilon, clip, path.name)


def _from_arrays(path: Path, space: Any) -> Normalizer:
    with np.load(path, allow_pickle=False) as archive:
        require_plausible(path, sum(entry.file_size for entry in archive.zip.infolist()))
        arrays = {f".{name}": archive[name] for name in archive}
    epsilon, clip = float(arrays.pop(".epsilon", 1e-8)), float(arrays.pop(".clip", 10.0))
    keys = sorted({name.rpartition(".")[0] for name in arrays})
    moments = {key[1:]: (arrays[f"{key}.mean"], arrays[f"{key}.var"]) for key in keys}
    return _normalizer(moments, space, epsilon, clip, path.name)


def _normalizer(
    moments: _Moments, space: Any, epsilon: float, clip: float, source: str
) -> Normalizer:
    """For flat observations; keys that have no moments pass unchanged."""
    import gymnasium as gym

    if "" in moments:
        return Normalizer.of(moments[""], epsilon, clip, source)
    known = space.spaces if isinstance(space, gym.spaces.Dict) else {}
    if not moments or not set(moments) <= set(known):
        raise ValueError(f"expected statistics of keys among {[*known]}, found {sorted(moments)}")
    parts = []
    for key in known:  # in the order of FlattenObservation
        width = gym.spaces.flatdim(known[key])
        part = Normalizer(np.zeros(width), np.ones(width), np.inf)
        if key in moments:
            part = Normalizer.of(moments[key], epsilon, clip)
        if part.mean.shape != (width,):
            raise ValueError(f"expected {width} means of {key!r}, found {part.mean.shape}")
        parts.append((part.mean, part.scale, np.full(width, part.clip)))
    mean, scale, clips = map(np.concatenate, zip(*parts, strict=True))
    return Normalizer(mean, scale, clips, source)


def _unflattened(env: Any) -> Any:
    """The space of Dict observations below the wrapper that flattens them; None without one."""
    import gymnasium as gym

    while isinstance(env, gym.Wrapper):
        env = env.env
        if isinstance(env.observation_space, gym.spaces.Dict):
            return env.observation_space
    return None


# --- was there a VecNormalize? --------------------------------------------------------------------


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
    if not before or [each.shape for each in before] != [each.shape for each in after]:
        return None if off_policy else True
    pairs = list(zip(before, after, strict=True))
    if all(np.array_equal(old, new) for old, new in pairs):
        return False  # only rewards were normalised
    if any(old.dtype != new.dtype for old, new in pairs):
        return True
    if all(new.dtype != np.float32 for new in after):
        return False
    if not off_policy:
        return True
    if statistics is None:
        return None
    rows = len(after[0])
    old, new = (np.hstack([each.reshape(rows, -1) for each in part]) for part in (before, after))
    if statistics.mean.shape != old.shape[1:]:
        return None if isinstance(original, dict) else False
    return bool(np.abs(statistics(old) - new).mean() <= np.abs(old - new).mean())


def _arrays(observation: Any) -> list[NDArray[Any]]:
    """The array, or those of a dictionary, with a row per environment; none if unreadable."""
    values = list(observation.values()) if isinstance(observation, dict) else [observation]
    try:
        arrays = [each if isinstance(each, np.ndarray) else array(each) for each in values]
    except ValueError:
        return []
    return arrays if all(each.ndim > 0 for each in arrays) else []


def find_statistics(path: Path) -> Path | None:
    """Statistics that SB3, its callbacks or its zoo saved near a zip, by their usual names.

    That is ``vecnormalize.pkl`` or ``vec_normalize.pkl`` beside the zip or in the folder that has
    its name, and ``NAME_vecnormalize_1000_steps.pkl`` for a checkpoint ``NAME_1000_steps.zip``.
    """
    checkpoint = re.sub(r"(_\d+_steps)$", r"_vecnormalize\1", path.stem)
    names = (f"{checkpoint}.pkl", "vecnormalize.pkl", "vec_normalize.pkl")
    places = [folder / name for folder in (path.parent, path.with_suffix("")) for name in names]
    return next((place for place in places if place.is_file()), None)
