"""Zips of Stable-Baselines3 and sb3-contrib, without executing anything that is inside them.

A zip holds a JSON file `data`, whose larger values are pickles, and weights. Unpickling runs code,
so the default path reads the weights (`weights_only`), reads pickles as data, and rebuilds
perceptrons. What cannot be rebuilt needs `trust`, which hands the file to SB3 itself.
"""

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible, sha256
from tightrope.imports import needed
from tightrope.policies.inert import Inert, pickled
from tightrope.policies.mlp import ACTIVATIONS, Head, MLPPolicy, Normalizer
from tightrope.policies.policy import FunctionPolicy, Policy, predicting
from tightrope.policies.vecnormalize import find_statistics, read_statistics, zip_was_normalized

__all__ = ["load_sb3"]

_OURS = "tightrope.agents.policies"  # the module of our SACPolicy and PPOPolicy
# Package of each algorithm, and what its zips alone have: a part of the name of the policy's
# module, or a key of the data. DDPG is TD3 to a frozen policy.
_ALGORITHMS = {
    "MaskablePPO": ("sb3_contrib", "maskable"),
    "QRDQN": ("sb3_contrib", "qrdqn"),
    "TQC": ("sb3_contrib", "tqc"),
    "PPO": ("stable_baselines3", "clip_range"),
    "SAC": ("stable_baselines3", "target_entropy"),
    "TD3": ("stable_baselines3", "policy_delay"),
    "DQN": ("stable_baselines3", "exploration_fraction"),
    "TRPO": ("sb3_contrib", "cg_max_steps"),
    "ARS": ("sb3_contrib", "n_delta"),
    "A2C": ("stable_baselines3", "gae_lambda"),
}
# Stacks of hidden layers, and the output layer where it is not the last of a stack.
_ACTORS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (("actor.latent_pi",), "actor.mu"),  # SAC, TQC
    (("actor.latent_pi", "actor.mu"), None),  # TD3, DDPG; SAC and TQC whose mean is limited (gSDE)
    (("mlp_extractor.shared_net", "mlp_extractor.policy_net"), "action_net"),  # PPO, A2C, TRPO
    (("action_net",), None),  # ARS
    (("q_net.q_net",), None),  # DQN
    (("quantile_net.quantile_net",), None),  # QR-DQN
)
# Keywords of a policy that do not change the actor's function, or that are heeded here.
_KNOWN = {
    *("net_arch", "use_sde", "log_std_init", "full_std", "use_expln", "sde_net_arch", "ortho_init"),
    *("n_critics", "n_quantiles", "share_features_extractor", "features_extractor_kwargs"),
    *("optimizer_class", "optimizer_kwargs", "normalize_images", "device", "with_bias"),
    *("activation_fn", "features_extractor_class", "squash_output", "clip_mean"),
}
_KNOWN_OURS = {"critics", "critic_norm", "learned_norm", "halved", "bfloat16", "scaled"}
# Critics, targets and exploration take no part in acting; learned extractors do.
_IDLE: tuple[str, ...] = ("critic.", "critic_target.", "q_net_target.", "quantile_net_target.")
_IDLE += ("actor.sde_features_extractor.", "sde_features_extractor.")
_LEARNED: tuple[str, ...] = ("features_extractor", "pi_features", "actor.features")
_LEARNED += ("q_net.features", "quantile_net.features")
_EXTRACTORS = ("", "FlattenExtractor", "CombinedExtractor")  # they flatten vectors
_SCALING = ("actor.features_extractor.mean", "actor.features_extractor.deviation")  # of our agents
_DENSEST = 50  # SB3 packs nothing; packed again, weights hardly shrink, texts to a tenth
_SHARED = 8  # names of one tensor, at the most


class NeedsTrustError(InputError):
    """A policy cannot be rebuilt; SB3 itself could load it, which executes code."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"cannot rebuild {path.name} without executing it ({reason}): pass `trust` if you "
            "trust the file's author, since loading it then executes code"
        )


@dataclass(frozen=True)
class _Zip:
    """What a zip holds: SB3's JSON, weights by name, the policy's class and its keywords."""

    path: Path
    data: dict[str, Any]
    state: dict[str, Any]
    module: str
    policy: str
    keywords: Mapping[str, Any]

    @property
    def ours(self) -> bool:
        """Whether `tightrope train` wrote it."""
        return self.module == _OURS

    @property
    def algorithm(self) -> str:
        """SB3's name of it; the data do not say, but they differ in what they hold."""
        if self.ours and "subset" in self.data:
            return "REDQ"  # otherwise like SAC
        marks = {*self.module.split("."), *self.data}
        return next((name for name, (_, mark) in _ALGORITHMS.items() if mark in marks), "unknown")


def load_sb3(
    path: Path,
    env: Any,
    *,
    normalize: Path | Literal[False] | None,
    trust: bool,
    sample: bool,
    alone: bool = False,
) -> Policy:
    """The policy in an SB3 zip, for the spaces of `env`.

    Args:
        path: of the zip.
        env: an environment with flat observations.
        normalize: its VecNormalize statistics; False to use a policy without those that it was
            trained with.
        trust: let SB3 load what cannot be rebuilt.
        sample: draw actions from the policy's distribution.
        alone: it is the only policy in its folder, so statistics there are its own.

    Raises:
        InputError: the file is damaged, its statistics are missing, it holds a policy that cannot
            be rebuilt without executing it, or it does not fit the environment.
    """
    archive = _read(path)
    _refuse_unsupported(archive, env)
    name = f"{path.name} ({archive.algorithm})"
    normalizer = _statistics(archive, env, normalize, alone)
    if normalizer is not None:
        name += f", normalised by {normalizer.source}"
    elif normalize is not None and _SCALING[0] not in archive.state:
        name += ", not normalised"
    digest = sha256(path, normalize) if normalize else sha256(path)
    try:
        return _rebuild(archive, env, name, digest, normalizer, sample)
    except NeedsTrustError:
        if not trust:
            raise
    function = predicting(_load_by_sb3(archive), name, deterministic=not sample)
    return FunctionPolicy(function, name, digest, not sample, normalizer)


def _read(path: Path) -> _Zip:
    try:
        with zipfile.ZipFile(path) as archive:
            stated = sum(entry.file_size for entry in archive.infolist())
            require_plausible(path, stated, _DENSEST)
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
    keywords = (data.get("policy_kwargs") or {}) if isinstance(data, dict) else None
    if not isinstance(keywords, dict):
        raise InputError(f"expected SB3's data as a JSON object, found another in {str(path)!r}")
    inside = pickled(keywords)  # beside it stand its values as texts
    if not isinstance(inside, dict):
        inside = {key: value for key, value in keywords.items() if not key.startswith(":")}
    return _Zip(path, data, _weights(path, weights), *_class(data.get("policy_class")), inside)


def _class(value: Any) -> tuple[str, str]:
    """Module and name of a class, from its pickle or from the text beside it."""
    found = value if isinstance(value, Inert) else pickled(value)
    if isinstance(found, Inert) and found.arguments is None:
        return found.module, found.name
    if isinstance(value, dict):
        text = re.match(r"<function (\w+)\.", str(value.get("__init__")))
        return str(value.get("__module__", "")), text[1] if text else ""
    text = re.search(r"'([\w.]+)\.(\w+)'>", str(value))
    return (text[1], text[2]) if text else ("", "")


def _weights(path: Path, content: bytes) -> dict[str, Any]:
    import torch

    try:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as inner:
            stated = sum(entry.file_size for entry in inner.infolist())
            if stated > len(content):  # packed again, as torch never does
                raise InputError(
                    f"{str(path)!r} is damaged or made to fill the memory: its weights state "
                    f"{stated:,} bytes in {len(content):,}"
                )
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds for a hostile or damaged file
        raise InputError(
            f"cannot read the weights in {str(path)!r} safely: {one_line(error)}"
        ) from None
    plain = isinstance(state, dict) and all(_is_plain(*entry) for entry in state.items())
    # Parts of a policy share some tensors, and no file needs them more often.
    if not plain or sum(each.nbytes for each in state.values()) > _SHARED * len(content):
        raise InputError(f"expected named tensors as weights, found others in {str(path)!r}")
    return {name: tensor.detach().float().numpy() for name, tensor in state.items()}


def _is_plain(name: Any, tensor: Any) -> bool:
    """Whether weights are a tensor of real numbers that are all there.

    A tensor may say that one stored number stands in 10¹² places.
    """
    import torch

    return (
        isinstance(name, str)
        and isinstance(tensor, torch.Tensor)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_complex() or tensor.is_quantized)
        and tensor.nbytes <= tensor.untyped_storage().nbytes()
    )


def _refuse_unsupported(archive: _Zip, env: Any) -> None:
    """Say at once what no setting would make work."""
    space = archive.data.get("observation_space")
    space = space if isinstance(space, dict) else {}
    sizes = re.findall(r"\d+", str(space.get("_shape") or space.get("shape")))
    layers = " ".join(archive.state)
    recurrent = ".recurrent" in archive.module or "lstm" in layers
    masked = "maskable" in archive.module and hasattr(env.unwrapped, "action_masks")
    # SB3 treats what it takes for images in ways that no weight shows.
    images = ".cnn." in layers or (len(sizes) == 3 and "uint8" in str(space.get("dtype")))
    for found, wanted, what, instead in (
        (recurrent, "without memory", "a recurrent one", "of a `seed` that rolls it out"),
        (masked, "without masks", "a MaskablePPO and `action_masks`", "that masks its actions"),
        (images, "of vectors", "one of images", "of the flattened observations"),
    ):
        if found:
            raise InputError(
                f"expected a policy {wanted}, found {what} in {archive.path.name}: give it as "
                f"file.py:name, a function {instead}"
            )


def _statistics(
    archive: _Zip, env: Any, normalize: Path | Literal[False] | None, alone: bool
) -> Normalizer | None:
    """Those given, or none; refuse a policy that was trained with some if nothing is said."""
    if normalize is not None:
        return read_statistics(normalize, env) if normalize else None
    beside, statistics = find_statistics(archive.path), None
    if beside is not None:
        try:
            statistics = read_statistics(beside, env)
        except InputError:
            beside = None  # it is for other observations
    needed = zip_was_normalized(archive.data, statistics)
    if needed is False or (needed is None and statistics is None):
        return None
    if alone and statistics is not None:
        return statistics
    name = archive.path.name
    if needed is None:
        raise InputError(
            f"expected `normalize`, found {str(beside)!r} beside {name}, which does not say "
            "whether it was trained with it: give that file, or `normalize=False`"
        )
    hint = "" if beside is None else f" ({str(beside)!r} may be it)"
    raise InputError(
        f"expected the observation statistics that {name} was trained with, SB3's VecNormalize, "
        f"found none: give their file as `normalize`{hint}, or pass `normalize=False` if it is to "
        "act without"
    )


# --- rebuilding -----------------------------------------------------------------------------------


def _rebuild(
    archive: _Zip, env: Any, name: str, digest: str, normalizer: Normalizer | None, sample: bool
) -> MLPPolicy:
    """The policy with these weights, for the spaces of `env`."""
    path, state = archive.path, archive.state
    _require_known(archive)
    try:
        network = _network(archive, env.action_space)
        scaled = archive.keywords.get("scaled") or any(key in state for key in _SCALING)
        if archive.ours and scaled:
            if normalizer is not None:
                raise InputError(
                    f"expected no `normalize` for {path.name}: it scales observations itself"
                )
            mean, deviation = (np.asarray(state[key], np.float64) for key in _SCALING)
            variance = np.where(deviation >= 1e-6, deviation**2, 0.0)  # none is refused
            normalizer = Normalizer.of((mean, variance), 0.0, np.inf, "its warm-up")
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"expected the weights {error} in {path.name}, found none") from None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"cannot rebuild {path.name}: {one_line(error)}") from None
    inputs = len(network["weights"][0])
    if inputs != env.observation_space.shape[0]:
        raise InputError(
            f"expected a policy for the observations {env.observation_space}, found one with "
            f"{inputs} inputs in {path.name}: was it trained in another environment, or behind a "
            "wrapper? (`env` takes file.py:function)"
        )
    if sample and network["log_std"] is None:
        raise InputError(
            f"{path.name} holds a deterministic policy, or one whose noise depends on its states "
            "(gSDE): leave out `sample`"
        )
    if not sample:
        network["log_std"] = None
    return MLPPolicy(name=name, digest=digest, normalizer=normalizer, **network)


def _require_known(archive: _Zip) -> None:
    """Raise NeedsTrustError for a policy class, or a keyword, that may change the function."""
    if not archive.ours and not archive.module.startswith(("stable_baselines3.", "sb3_contrib.")):
        raise NeedsTrustError(
            archive.path, f"policy class from {archive.module or 'an unknown module'!r}"
        )
    known = _KNOWN | (_KNOWN_OURS if archive.ours else set())
    used = sorted(str(key) for key in set(archive.keywords) - known)
    extractor = _class(archive.keywords.get("features_extractor_class"))[1]
    used += [extractor] if extractor not in _EXTRACTORS else []
    if used:
        raise NeedsTrustError(archive.path, f"its policy uses {', '.join(used)[:200]}")
    scaling = _SCALING if archive.ours else ()
    for name, weight in archive.state.items():
        acts = not name.startswith(_IDLE) and name not in scaling
        if acts and (name.startswith(_LEARNED) or np.ndim(weight) > 2):
            raise NeedsTrustError(archive.path, "it has a learned feature extractor")


def _network(archive: _Zip, space: Any) -> dict[str, Any]:
    """The fields of an MLPPolicy that the weights decide, for actions in `space`."""
    state, keywords = archive.state, archive.keywords
    for stacks, output in _ACTORS:
        if f"{output or f'{stacks[-1]}.0'}.weight" in state:
            break
    else:
        listed = ", ".join(sorted(state)[:4]) or "none"
        raise NeedsTrustError(archive.path, f"it has the weights {listed}, ...")
    stacked = [_stack(archive, prefix) for prefix in stacks]
    layers = [layer for linear, _ in stacked for layer in linear] + ([output] if output else [])
    norms = [norm for _, between in stacked for norm in between]
    weights = [np.ascontiguousarray(state[f"{layer}.weight"].T) for layer in layers]
    biases = [state[f"{layer}.bias"] for layer in layers]
    log_std, clip_mean = None, np.inf
    head: Head = "discrete"
    if stacks[0] == "actor.latent_pi":
        head = "squashed"
        if "actor.log_std" in state:  # gSDE, with SB3's default limit of the mean
            clip_mean = np.inf if output else float(keywords.get("clip_mean", 2.0))
        elif output:
            log_std = state["actor.log_std.weight"].T, state["actor.log_std.bias"]
    elif output == "action_net":
        log_std = None, state.get("log_std", np.zeros(0, np.float32))
        if "log_std" in state:
            head = "squashed" if keywords.get("squash_output") else "clipped"
        if log_std[1].ndim > 1:  # gSDE
            log_std = None
    elif stacks == ("action_net",) and hasattr(space, "low"):
        squashed = keywords.get("squash_output", archive.policy != "ARSLinearPolicy")
        head = "squashed" if squashed else "clipped"
    elif stacks == ("quantile_net.quantile_net",):  # the mean of linear outputs is linear
        quantiles = int(keywords.get("n_quantiles", 200))
        weights[-1], biases[-1] = (
            last.reshape(*last.shape[:-1], quantiles, -1).mean(axis=-2)
            for last in (weights[-1], biases[-1])
        )
    return {
        "weights": tuple(weights),
        "biases": tuple(biases),
        "activation": _activation(archive, "Tanh" if output == "action_net" else "ReLU"),
        "log_std": log_std,
        "norms": tuple((state[f"{norm}.weight"], state[f"{norm}.bias"]) for norm in norms),
        "clip_mean": clip_mean,
        **_actions(archive, space, head, np.size(biases[-1])),
    }


def _stack(archive: _Zip, prefix: str) -> tuple[list[str], list[str]]:
    """Names of the linear layers and layer norms in a torch Sequential.

    SB3 has linear layers at 0, 2, 4, ..., each followed by its activation, which has no weights;
    our agents have linear layers at 0, 3, 6, ... and a layer norm after each.
    """
    state, stride = archive.state, 3 if archive.ours else 2
    found = {name: state[name].ndim for name in state if name.startswith(f"{prefix}.")}
    count = sum(name.endswith(".weight") and ndim == 2 for name, ndim in found.items())
    linear = [f"{prefix}.{stride * index}" for index in range(count)]
    norms = [f"{prefix}.{stride * index + 1}" for index in range(count)] if archive.ours else []
    if prefix == "action_net" and not any(name.endswith(".bias") for name in found):
        for name in linear:  # an ARS `with_bias=False`
            state[f"{name}.bias"] = np.zeros(len(state.get(f"{name}.weight", ())), np.float32)
            found[f"{name}.bias"] = 1
    expected = {f"{name}.weight": 2 for name in linear} | {f"{name}.weight": 1 for name in norms}
    expected |= {f"{name}.bias": 1 for name in (*linear, *norms)}
    if found != expected:
        listed = [", ".join(sorted(names)) or "none" for names in (expected, found)]
        raise NeedsTrustError(
            archive.path, f"expected hidden layers {listed[0]}, found {listed[1]}"
        )
    return linear, norms


def _activation(archive: _Zip, default: str) -> str:
    if archive.ours:
        return "CReLU"
    written = archive.keywords.get("activation_fn")
    name = default if written is None else _class(written)[1]
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise NeedsTrustError(archive.path, f"its activation is {name!r}, not among {known}")
    return name


def _actions(archive: _Zip, space: Any, head: Head, outputs: int) -> dict[str, Any]:
    """Head, bounds and choices for the environment's actions, once the policy is for such."""
    continuous = hasattr(space, "low")
    choices = tuple(map(int, np.ravel(getattr(space, "nvec", ()))))
    wanted = int(np.prod(space.shape)) if continuous else sum(choices) or int(np.prod(space.n))
    found = None if outputs == wanted else f"{outputs} outputs"
    if continuous == (head == "discrete"):
        found = f"{'discrete' if head == 'discrete' else 'continuous'} actions"
    if found is not None:
        raise InputError(
            f"expected a policy for the actions {space}, found one with {found} in "
            f"{archive.path.name}: it is for another environment"
        )
    bounds = (space.low, space.high) if continuous else np.zeros((2, 0))
    low, high = (np.asarray(bound, np.float32) for bound in bounds)
    if not continuous and space.shape and not choices:
        head = "binary"  # MultiBinary
    return {"head": head, "low": low, "high": high, "choices": choices}


def _load_by_sb3(archive: _Zip) -> Any:
    """SB3's own policy object, by unpickling."""
    name, algorithm = archive.path.name, archive.algorithm
    if algorithm not in _ALGORITHMS:
        raise InputError(
            f"expected a policy of {', '.join(_ALGORITHMS)}, found another in {name}: "
            "give it as file.py:name, a function that returns the loaded model"
        )
    try:
        kind = getattr(needed(_ALGORITHMS[algorithm][0], name), algorithm)
        return kind.load(archive.path, device="cpu").policy
    except InputError:
        raise
    except Exception as error:  # whatever the unpickled code raises
        raise InputError(
            f"SB3 cannot load {name} ({type(error).__name__}: {one_line(error)}): load it in "
            "Python and give it as file.py:name"
        ) from error
