"""Stable-Baselines3 zips, without executing anything that is inside them.

An SB3 zip holds a JSON file `data`, whose larger values are pickles, and weights. Unpickling
runs code, so the default path reads only plain JSON values and the weights (`weights_only`), and
rebuilds the multilayer-perceptron policies of PPO, A2C, SAC, TD3 and DDPG, and those of our own
agents. Everything else needs `trust=True`, which hands the file to SB3 itself.
"""

import importlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.policies.base import Policy
from tightrope.policies.mlp import ACTIVATIONS, Head, MLPPolicy, Normalizer
from tightrope.policies.objects import PredictPolicy

__all__ = ["load_sb3"]

_ALGORITHMS = ("PPO", "A2C", "SAC", "TD3", "DDPG", "DQN")
_TRUST = "pass --trust if you trust the file's author, since loading it then executes code"
# policy_kwargs that change neither the actor's function nor how it is read here
_HARMLESS = {
    *("net_arch", "activation_fn", "use_sde", "log_std_init", "ortho_init", "n_critics"),
    *("share_features_extractor", "optimizer_class", "optimizer_kwargs", "normalize_images"),
    "critics",
}
_OUR_MODULE = "tightrope.agents.policies"  # SACPolicy, REDQPolicy and PPOPolicy


def load_sb3(path: Path, env: Any, *, normalize: Path | None, trust: bool, sample: bool) -> Policy:
    """The policy in an SB3 zip, for the spaces of `env`; with `trust`, SB3 itself loads it.

    Raises:
        InputError: the file is damaged, holds a policy that cannot be rebuilt without
            executing it, or does not fit the environment.
    """
    data, state = _read(path)
    normalizer = None if normalize is None else _normalizer(normalize, trust)
    digest = sha256(path) if normalize is None else sha256(path, normalize)
    if trust:
        name = _algorithm(data)
        if name not in (*_ALGORITHMS, "REDQ"):
            raise InputError(
                f"expected a policy of {', '.join(_ALGORITHMS)}, found another in {path.name}: "
                "give it as file.py:name"
            )
        # By name, when it is needed: agents make policies, and no policy depends on an agent.
        home = "tightrope.agents" if name == "REDQ" else "stable_baselines3"
        model = getattr(importlib.import_module(home), name).load(path, device="cpu")
        return PredictPolicy(model.policy, f"{path.name} ({name})", digest, not sample, normalizer)
    features = env.observation_space.shape
    if normalizer is not None and normalizer.mean.shape != features:
        raise InputError(
            f"expected statistics of shape {features} for {env.observation_space}, found "
            f"{normalizer.mean.shape} in {normalize}"
        )
    activation = _activation(path, data)
    ours = _policy_module(data) == _OUR_MODULE
    try:
        layers, norms, head, log_std = _actor(path, state, ours=ours)
        weights = tuple(np.ascontiguousarray(state[f"{name}.weight"].T) for name in layers)
        biases = tuple(state[f"{name}.bias"] for name in layers)
        scales = tuple((state[f"{name}.weight"], state[f"{name}.bias"]) for name in norms)
    except KeyError as error:
        raise InputError(f"expected the weights {error} in {path.name}, found none") from None
    low, high = _bounds(path, env, head, len(biases[-1]))
    if sample and log_std is None:
        raise InputError(f"{path.name} holds a deterministic policy: leave out --sample")
    return MLPPolicy(
        name=f"{path.name} ({_algorithm(data)})",
        digest=digest,
        weights=weights,
        biases=biases,
        activation=activation,
        head=head,
        low=low,
        high=high,
        normalizer=normalizer,
        log_std=log_std if sample else None,
        norms=scales,
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
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
        line = " ".join(str(error).split())[:120]
        raise InputError(f"cannot read {str(path)!r} as an SB3 zip: {line}") from None
    if not isinstance(data, dict) or not isinstance(data.get("policy_kwargs") or {}, dict):
        raise InputError(f"expected SB3's data as a JSON object, found another in {str(path)!r}")
    import torch

    try:
        state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a hostile or damaged file
        line = " ".join(str(error).split())[:120]
        raise InputError(f"cannot read the weights in {str(path)!r} safely: {line}") from None
    tensors = isinstance(state, dict) and all(isinstance(v, torch.Tensor) for v in state.values())
    if not tensors:
        raise InputError(f"expected named tensors as weights, found others in {str(path)!r}")
    return data, {name: tensor.float().numpy() for name, tensor in state.items()}


def _algorithm(data: dict[str, Any]) -> str:
    """SB3's name of the algorithm; its data do not say, but they differ in what they hold."""
    if _policy_module(data) == _OUR_MODULE and "subset" in data:
        return "REDQ"  # otherwise like SAC
    match = re.match(r"stable_baselines3\.(\w+)\.", _policy_module(data))
    if match is not None and match.group(1).upper() in _ALGORITHMS:
        return match.group(1).upper()
    marks = {"PPO": "clip_range", "SAC": "target_entropy", "TD3": "policy_delay"}
    marks |= {"DQN": "exploration_fraction", "A2C": "gae_lambda"}
    return next((name for name, mark in marks.items() if mark in data), "unknown")


def _policy_module(data: dict[str, Any]) -> str:
    """From the plain-text description that SB3 writes beside each pickle."""
    described = data.get("policy_class")
    return str(described.get("__module__", "")) if isinstance(described, dict) else ""


def _activation(path: Path, data: dict[str, Any]) -> str:
    kwargs = data.get("policy_kwargs") or {}
    described = {key: value for key, value in kwargs.items() if not key.startswith(":")}
    unknown = sorted(set(described) - _HARMLESS)
    if unknown or data.get("use_sde"):
        raise InputError(
            f"cannot rebuild {path.name} without executing it (its policy uses "
            f"{', '.join(unknown) or 'state-dependent exploration'}): {_TRUST}"
        )
    shape = str((data.get("observation_space") or {}).get("_shape", ""))
    if "," in shape:  # SB3 treats images in ways that no weight shows
        raise InputError(
            f"cannot rebuild {path.name} without executing it (its observations have the shape "
            f"{shape}): {_TRUST}"
        )
    module = _policy_module(data)
    if module == _OUR_MODULE:
        return "CReLU"  # always
    if not module.startswith("stable_baselines3."):
        raise InputError(
            f"cannot rebuild {path.name} without executing it (policy class from "
            f"{module or 'an unknown module'!r}): {_TRUST}"
        )
    default = "Tanh" if module == "stable_baselines3.common.policies" else "ReLU"
    written = str(described.get("activation_fn", ""))
    match = re.search(r"activation\.(\w+)'>", written)
    name = match.group(1) if match else default
    if (written and not match) or name not in ACTIVATIONS:
        raise InputError(
            f"expected an activation among {', '.join(ACTIVATIONS)}, found {written or name!r} in "
            f"{path.name}: {_TRUST}"
        )
    return name


def _actor(
    path: Path, state: dict[str, Any], *, ours: bool
) -> tuple[list[str], list[str], Head, Any]:
    """Names of the actor's linear layers and layer norms in order, its head, and its spread."""
    used = [name for name in state if name.startswith(("features_extractor", "actor.features"))]
    # Critics take no part in acting; those of REDQ are one ensemble of three-dimensional tensors.
    acting = [name for name in state if not name.startswith(("critic.", "critic_target."))]
    if used or any(np.ndim(state[name]) > 2 for name in acting):
        raise InputError(
            f"cannot rebuild {path.name}: it has a learned feature extractor: {_TRUST}"
        )
    if "actor.mu.weight" in state:  # SAC
        layers, norms = _stack(path, state, "actor.latent_pi", with_norms=ours)
        spread = state["actor.log_std.weight"].T, state["actor.log_std.bias"]
        return [*layers, "actor.mu"], norms, "squashed", spread
    if "actor.mu.0.weight" in state:  # TD3, DDPG
        layers, _ = _stack(path, state, "actor.mu", with_norms=False)
        return layers, [], "squashed", None
    if "action_net.weight" in state:  # PPO, A2C
        layers, norms = _stack(path, state, "mlp_extractor.policy_net", with_norms=ours)
        layers = [*layers, "action_net"]
        if "log_std" in state:
            return layers, norms, "clipped", (None, state["log_std"])
        return layers, norms, "discrete", (None, np.zeros(0, np.float32))
    raise InputError(
        f"expected the weights of a PPO, A2C, SAC, TD3 or DDPG perceptron in {path.name}, found "
        f"{sorted(state)[:4]}: {_TRUST}"
    )


def _stack(
    path: Path, state: dict[str, Any], prefix: str, *, with_norms: bool
) -> tuple[list[str], list[str]]:
    """Names of the linear layers and layer norms in a torch Sequential.

    SB3 has linear layers at 0, 2, 4, ..., each followed by its activation, which has no weights;
    our agents have linear layers at 0, 3, 6, ... and a layer norm after each.
    """
    weights = {name: state[name].ndim for name in state if name.startswith(f"{prefix}.")}
    stride = 3 if with_norms else 2
    count = sum(1 for name, ndim in weights.items() if name.endswith(".weight") and ndim == 2)
    linear = [f"{prefix}.{stride * index}" for index in range(count)]
    norms = [f"{prefix}.{stride * index + 1}" for index in range(count)] if with_norms else []
    expected = {f"{name}.weight": 2 for name in linear} | {f"{name}.weight": 1 for name in norms}
    expected |= {f"{name}.bias": 1 for name in (*linear, *norms)}
    if weights != expected:
        raise InputError(
            f"cannot rebuild {path.name}: expected {', '.join(sorted(expected)) or 'no weights'} "
            f"in its hidden layers, found {', '.join(sorted(weights)) or 'none'}: {_TRUST}"
        )
    return linear, norms


def _bounds(path: Path, env: Any, head: Head, outputs: int) -> tuple[Any, Any]:
    import gymnasium as gym

    actions = env.action_space
    wanted = int(actions.n) if isinstance(actions, gym.spaces.Discrete) else actions.shape
    if wanted not in (outputs, (outputs,)):
        raise InputError(
            f"expected a policy for the actions {actions}, found one with {outputs} outputs in "
            f"{path.name}: it is for another environment"
        )
    box = isinstance(env.action_space, gym.spaces.Box)
    if box == (head == "discrete"):
        kind = "discrete" if head == "discrete" else "continuous"
        raise InputError(
            f"expected a policy for the actions {env.action_space}, found one with {kind} actions: "
            "this policy is for another environment"
        )
    if not box:
        return np.zeros(0, np.float32), np.zeros(0, np.float32)
    return env.action_space.low.astype(np.float32), env.action_space.high.astype(np.float32)


def _normalizer(path: Path, trust: bool) -> Normalizer | None:
    """VecNormalize statistics: a pickle (with trust) or an .npz with mean, var, epsilon, clip."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                mean, variance = arrays["mean"], arrays["var"]
                epsilon = float(arrays.get("epsilon", 1e-8))
                clip = float(arrays.get("clip", 10.0))
            return Normalizer.of(mean, variance, epsilon, clip)
        if trust:
            import pickle

            with path.open("rb") as stream:
                saved = pickle.load(stream)
            return None if not saved.norm_obs else _statistics(saved)
        raise InputError(
            f"{path.name} is a pickle: {_TRUST}; or put mean, var, epsilon and clip in an .npz"
        )
    except InputError:
        raise
    except Exception as error:  # both formats raise many kinds for a damaged file
        raise InputError(
            f"cannot read observation statistics from {str(path)!r}: {error}"
        ) from None


def _statistics(wrapper: Any) -> Normalizer:
    """Of an SB3 VecNormalize."""
    running = wrapper.obs_rms
    return Normalizer.of(running.mean, running.var, wrapper.epsilon, wrapper.clip_obs)
