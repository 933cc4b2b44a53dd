"""Stable-Baselines3 zips, without executing anything that is inside them.

An SB3 zip holds a JSON file `data`, whose larger values are pickles, and weights. Unpickling
runs code, so the default path reads only plain JSON values and the weights (`weights_only`), and
rebuilds perceptrons. What cannot be rebuilt needs `trust=True`, which hands the file to SB3 itself.
"""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Literal

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible, sha256
from tightrope.policies.base import Policy
from tightrope.policies.mlp import Normalizer
from tightrope.policies.objects import PredictPolicy
from tightrope.policies.perceptrons import (
    OUR_MODULE,
    OUR_SCALING,
    NeedsTrustError,
    policy_module,
    rebuild,
)
from tightrope.policies.statistics import find_statistics, read_statistics, zip_was_normalized

__all__ = ["load_sb3"]

_ALGORITHMS = ("PPO", "A2C", "SAC", "TD3", "DDPG", "DQN")


def load_sb3(
    path: Path,
    env: Any,
    *,
    normalize: Path | Literal[False] | None,
    trust: bool,
    sample: bool,
) -> Policy:
    """The policy in an SB3 zip, for the spaces of `env`.

    Args:
        path: of the zip.
        env: an environment with flat observations.
        normalize: its VecNormalize statistics; False to use a policy without those that it was
            trained with.
        trust: let SB3 load what cannot be rebuilt, and pickles of statistics be unpickled.
        sample: draw actions from the policy's distribution.

    Raises:
        InputError: the file is damaged, its statistics are missing, it holds a policy that cannot
            be rebuilt without executing it, or it does not fit the environment.
    """
    data, state = _read(path)
    _refuse_unsupported(path, data, state)
    algorithm, name = _algorithm(data), f"{path.name} ({_algorithm(data)})"
    normalizer, digest = _statistics(path, env, data, normalize, trust), sha256(path)
    if normalizer is not None:
        name += f", normalised by {normalizer.source}"
    elif normalize is not None and OUR_SCALING[0] not in state:
        name += ", not normalised"
    if normalize:
        digest = sha256(path, normalize)
    try:
        return rebuild(
            *(path, env, data, state),
            name=name,
            digest=digest,
            normalizer=normalizer,
            sample=sample,
        )
    except NeedsTrustError:
        if not trust:
            raise
    predictor = _load_by_sb3(path, algorithm)
    return PredictPolicy(predictor, name, digest, not sample, normalizer)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            require_plausible(path, sum(entry.file_size for entry in archive.infolist()))
            broken = archive.testzip()
            if broken is not None:
                raise InputError(f"{str(path)!r} is damaged at {broken!r}: save it again")
            names = archive.namelist()
            if "data" not in names or "policy.pth" not in names:
                raise InputError(
                    f"expected a Stable-Baselines3 zip with 'data' and 'policy.pth', "
                    f"found {names[:6]} in {str(path)!r}"
                )
            data = json.loads(archive.read("data"))
            weights = archive.read("policy.pth")
    except InputError:
        raise
    except Exception as error:  # zipfile raises many kinds for a damaged file
        raise InputError(f"cannot read {str(path)!r} as an SB3 zip: {one_line(error)}") from None
    if not isinstance(data, dict) or not isinstance(data.get("policy_kwargs") or {}, dict):
        raise InputError(f"expected SB3's data as a JSON object, found another in {str(path)!r}")
    import torch

    try:
        state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a hostile or damaged file
        raise InputError(
            f"cannot read the weights in {str(path)!r} safely: {one_line(error)}"
        ) from None
    if not isinstance(state, dict) or not all(_is_plain(tensor) for tensor in state.items()):
        raise InputError(f"expected named tensors as weights, found others in {str(path)!r}")
    return data, {name: tensor.detach().float().numpy() for name, tensor in state.items()}


def _is_plain(entry: tuple[Any, Any]) -> bool:
    """Whether weights are a tensor of real numbers that are all there.

    A tensor may say that one stored number stands in 10¹² places.
    """
    import torch

    name, tensor = entry
    return (
        isinstance(name, str)
        and isinstance(tensor, torch.Tensor)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_complex() or tensor.is_quantized)
        and tensor.nbytes <= tensor.untyped_storage().nbytes()
    )


def _refuse_unsupported(path: Path, data: dict[str, Any], state: dict[str, Any]) -> None:
    """Say at once what no setting would make work."""
    module = policy_module(data)
    if module.startswith("sb3_contrib.common.recurrent") or any("lstm" in name for name in state):
        raise InputError(
            f"expected a policy without memory, found a recurrent one in {path.name}: record its "
            "episodes with your own code and certify the recording"
        )
    space = data.get("observation_space") or {}
    sizes = re.findall(r"\d+", str(space.get("_shape")))
    # SB3 treats what it takes for images in ways that no weight shows.
    image = len(sizes) == 3 and "uint8" in str(space.get("dtype"))
    if image or any(".cnn." in name for name in state):
        raise InputError(
            f"expected a policy of vectors (MlpPolicy or MultiInputPolicy), found one of images in "
            f"{path.name}: give it as file.py:name, a function of the flattened observations"
        )
    if module.startswith("sb3_contrib."):
        raise InputError(
            f"expected a policy of {', '.join(_ALGORITHMS)}, found one of {module} in {path.name}: "
            "give it as file.py:name, a function that returns the loaded model"
        )


def _algorithm(data: dict[str, Any]) -> str:
    """SB3's name of the algorithm; its data do not say, but they differ in what they hold."""
    if policy_module(data) == OUR_MODULE and "subset" in data:
        return "REDQ"  # otherwise like SAC
    match = re.match(r"stable_baselines3\.(\w+)\.", policy_module(data))
    if match is not None and match.group(1).upper() in _ALGORITHMS:
        return match.group(1).upper()
    marks = {"PPO": "clip_range", "SAC": "target_entropy", "TD3": "policy_delay"}
    marks |= {"DQN": "exploration_fraction", "TRPO": "cg_max_steps", "A2C": "gae_lambda"}
    return next((name for name, mark in marks.items() if mark in data), "unknown")


def _statistics(
    path: Path,
    env: Any,
    data: dict[str, Any],
    normalize: Path | Literal[False] | None,
    trust: bool,
) -> Normalizer | None:
    """Those given, or none; refuse a policy that was trained with some if nothing is said."""
    if normalize is False:
        return None
    if normalize is not None:
        return read_statistics(normalize, env, trust=trust)
    shown, beside = zip_was_normalized(data), find_statistics(path)
    if shown or (shown is None and beside is not None):
        hint = "" if beside is None else f" ({str(beside)!r} may be it)"
        raise InputError(
            f"expected the observation statistics that {path.name} was trained with, SB3's "
            f"VecNormalize, found none: give their file as `normalize`{hint}, or pass "
            "`normalize=False` if it is to act without"
        )
    return None


def _load_by_sb3(path: Path, algorithm: str) -> Any:
    """SB3's own policy object, by unpickling."""
    if algorithm not in _ALGORITHMS:
        raise InputError(
            f"expected a policy of {', '.join(_ALGORITHMS)}, found another in {path.name}: "
            "give it as file.py:name, a function that returns the loaded model"
        )
    try:
        import stable_baselines3

        policy = getattr(stable_baselines3, algorithm).load(path, device="cpu").policy
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot load {path.name}: it needs the module {error.name!r}, which is not installed "
            "here: install it, or run where it can be imported"
        ) from error
    except Exception as error:  # whatever the unpickled code raises
        raise InputError(
            f"SB3 cannot load {path.name} ({type(error).__name__}: {one_line(error)}): load it in "
            "Python and give it as file.py:name"
        ) from error
    if len(getattr(policy.observation_space, "shape", None) or ()) != 1:
        raise InputError(
            f"expected a policy of vectors, found one of {policy.observation_space} in "
            f"{path.name}: give it as file.py:name, a function of the flattened observations"
        )
    return policy
