"""A perceptron policy as one .safetensors file: weights and a JSON header, nothing to unpickle."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError, one_line
from tightrope.files import load_tensors, save_tensors, sha256
from tightrope.files import tensors_format as stored_format
from tightrope.policies.mlp import MLPPolicy, Normalizer

__all__ = ["FORMAT", "load_mlp", "save_mlp", "stored_format"]

FORMAT = "tightrope.policy/1"


def save_mlp(policy: MLPPolicy, path: Path, *, environment: str, about: str = "") -> None:
    """Write a policy to a new .safetensors file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    arrays: dict[str, Any] = {"low": policy.low, "high": policy.high}
    for index, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        arrays[f"{index}.weight"], arrays[f"{index}.bias"] = weight, bias
    for index, (scale, shift) in enumerate(policy.norms):
        arrays[f"{index}.norm.weight"], arrays[f"{index}.norm.bias"] = scale, shift
    if policy.normalizer is not None:
        arrays["normalizer.mean"] = policy.normalizer.mean
        arrays["normalizer.scale"] = policy.normalizer.scale
        arrays["normalizer.clip"] = np.atleast_1d(policy.normalizer.clip)
    if policy.log_std is not None:
        weight_or_none, spread = policy.log_std
        arrays["log_std.bias"] = spread
        if weight_or_none is not None:
            arrays["log_std.weight"] = weight_or_none
    header: dict[str, Any] = {
        "format": FORMAT,
        "name": policy.name,
        "activation": policy.activation,
        "head": policy.head,
        "environment": environment,
        "about": about,
    }
    if policy.norms:  # files without them stay as they always were
        header["norms"] = len(policy.norms)
    save_tensors(path, arrays, header)


def load_mlp(path: Path, *, sample: bool = False) -> MLPPolicy:
    """Read a policy written by :func:`save_mlp`.

    Raises:
        InputError: the file is damaged or of another kind, or the policy cannot sample.
    """
    arrays, header = load_tensors(path, FORMAT)
    try:
        layers = sum(1 for name in arrays if re.fullmatch(r"\d+\.weight", name))
        normalizer = None
        if "normalizer.mean" in arrays:
            clip = arrays["normalizer.clip"]  # one for all features, or for each
            normalizer = Normalizer(
                arrays["normalizer.mean"],
                arrays["normalizer.scale"],
                float(clip[0]) if len(clip) == 1 else clip,
                path.name,
            )
        log_std = None
        if "log_std.bias" in arrays:
            log_std = arrays.get("log_std.weight"), arrays["log_std.bias"]
        policy = MLPPolicy(
            name=header["name"],
            digest=sha256(path),
            weights=tuple(arrays[f"{index}.weight"] for index in range(layers)),
            biases=tuple(arrays[f"{index}.bias"] for index in range(layers)),
            activation=header["activation"],
            head=header["head"],
            low=arrays["low"],
            high=arrays["high"],
            normalizer=normalizer,
            log_std=log_std,
            norms=_norms(header, arrays),
        )
    except Exception as error:  # a damaged file can fail in any of these steps
        raise InputError(f"{str(path)!r} is damaged or no policy: {one_line(error)}") from None
    if sample and policy.deterministic:
        raise InputError(f"{path.name} holds a deterministic policy: leave out `sample`")
    return policy if sample else dataclasses.replace(policy, log_std=None)


def _norms(header: dict[str, Any], arrays: dict[str, Any]) -> tuple[tuple[Any, Any], ...]:
    """Layer norms: exactly as many as the header states, or another function would be read."""
    stated = header.get("norms", 0)
    found = {name for name in arrays if ".norm." in name}
    pairs = [(f"{i}.norm.weight", f"{i}.norm.bias") for i in range(len(found) // 2)]
    if stated != len(pairs) or found != {name for pair in pairs for name in pair}:
        raise ValueError(f"expected {stated} layer norms, found {sorted(found) or 'none'}")
    return tuple((arrays[weight], arrays[bias]) for weight, bias in pairs)
