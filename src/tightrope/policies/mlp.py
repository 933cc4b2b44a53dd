"""A feed-forward policy in numpy, and its .safetensors file: no torch, no pickle, fast to call."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import load_tensors, save_tensors, sha256

__all__ = ["ACTIVATIONS", "POLICY_FORMAT", "Head", "MLPPolicy", "Normalizer", "load_mlp"]
__all__ += ["save_mlp"]

POLICY_FORMAT = "tightrope.policy/1"

Floats = NDArray[np.float32]
Head = Literal["squashed", "clipped", "discrete", "binary"]

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "ReLU": lambda x: np.maximum(x, 0.0, out=x),
    "Tanh": lambda x: np.tanh(x, out=x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "LeakyReLU": lambda x: np.where(x > 0, x, np.float32(1e-2) * x),
    "SiLU": lambda x: x * _special().expit(x),
    "GELU": lambda x: x * _special().ndtr(x),
    "Sigmoid": lambda x: _special().expit(x),
    "Softplus": lambda x: np.logaddexp(x, 0.0, dtype=np.float32),
    "CReLU": lambda x: np.maximum(np.concatenate([x, -x], axis=1), 0.0),  # twice the width
}
_EPSILON = np.float32(1e-5)  # of layer norm: torch's default


@dataclass(frozen=True)
class Normalizer:
    """Observation statistics frozen at the end of training: clip((x - mean) / scale).

    Attributes:
        mean: (features,) in float64, as SB3 has it: differences from a large mean are small.
        scale: (features,) standard deviations, positive.
        clip: largest magnitude of the result, for all features or (features,) for each.
        source: where the statistics come from, for a person.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    clip: float | NDArray[np.float64]
    source: str = "statistics of its own"

    def __call__(self, observations: Floats) -> Floats:
        """Scaled observations."""
        scaled = (observations - self.mean) / self.scale
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)

    @classmethod
    def of(cls, moments: Any, epsilon: float, clip: float, source: str = "") -> "Normalizer":
        """From running means and variances.

        Raises:
            ValueError: a number is not finite, a variance is negative, or shapes differ.
        """
        mean, variance = (np.ravel(np.asarray(each, np.float64)) for each in moments)
        with np.errstate(invalid="ignore"):
            scale = np.sqrt(variance + epsilon)
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("expected finite means and positive variances")
        if mean.shape != scale.shape:
            raise ValueError(f"expected as many variances as means, found {scale.shape}")
        if not clip > 0:
            raise ValueError(f"expected a positive limit to clip to, found {clip}")
        return cls(mean, scale, float(clip), source)


@dataclass(frozen=True, repr=False)
class MLPPolicy:
    """Hidden layers, an output layer, and what turns its output into actions.

    Attributes:
        name: what it is, for a person.
        digest: SHA-256 of the files it came from.
        weights: one (inputs, outputs) matrix per layer, the output layer last.
        biases: one (outputs,) vector per layer.
        activation: a key of ACTIVATIONS, applied after each hidden layer; CReLU doubles the width
            that the next layer sees.
        head: ``squashed`` (tanh, then stretched to the action's bounds; SAC, TD3), ``clipped`` to
            the bounds (PPO), ``discrete`` (the largest logit) or ``binary`` (whether each logit is
            positive).
        low: lower bounds of the action, in its shape; empty for discrete actions.
        high: upper bounds of the action, in its shape; empty for discrete actions.
        normalizer: applied to observations first, if any.
        log_std: a (weights, bias) layer on the last hidden one, or (None, constant); None for a
            deterministic policy. With it the policy samples.
        norms: a (scale, shift) of layer norm per hidden layer, applied before the activation; empty
            for none.
        clip_mean: largest magnitude of the last layer's output (SAC with gSDE).
        choices: logits of each number in a discrete action of several; empty for one number.

    Raises:
        InputError: the layers fit neither one another nor the action's bounds.
    """

    name: str
    digest: str | None
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: str
    head: Head
    low: Floats
    high: Floats
    normalizer: Normalizer | None = None
    log_std: tuple[Floats | None, Floats] | None = None
    norms: tuple[tuple[Floats, Floats], ...] = ()
    clip_mean: float = np.inf
    choices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.head not in get_args(Head) or self.activation not in ACTIVATIONS:
            known = f"{', '.join(get_args(Head))}, and one of {', '.join(ACTIVATIONS)}"
            raise InputError(f"expected one of {known}, found {self.head!r}, {self.activation!r}")
        layers, biases, norms = len(self.weights), len(self.biases), len(self.norms)
        if not 1 <= layers == biases or norms not in (0, layers - 1):
            raise InputError(
                f"expected a bias for each layer, and a layer norm for each hidden one or none, "
                f"found {layers} layers, {biases} biases and {norms} norms"
            )
        try:
            rows = np.zeros((2, len(self.weights[0])), np.float32)
            if self.normalizer is not None and self.normalizer.mean.shape != rows.shape[1:]:
                raise ValueError(f"{self.normalizer.mean.shape} statistics of observations")
            with np.errstate(all="ignore"):
                actions = self.act(rows, np.zeros((2, self.noise_size), np.float32))
        except (ValueError, TypeError, IndexError) as error:
            raise InputError(f"expected layers that fit, found others: {one_line(error)}") from None
        if len(actions) != 2:
            raise InputError(
                f"expected a policy for actions of shape {self.low.shape} between {self.low} and "
                f"{self.high}, found one with {self.biases[-1].size} outputs: is it for another "
                "environment?"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything numeric by name, as it is stored."""
        found: dict[str, Any] = {"low": self.low, "high": self.high}
        for index, pair in enumerate(zip(self.weights, self.biases, strict=True)):
            found[f"{index}.weight"], found[f"{index}.bias"] = pair
        for index, pair in enumerate(self.norms):
            found[f"{index}.norm.weight"], found[f"{index}.norm.bias"] = pair
        if self.log_std is not None:
            found["log_std.weight"], found["log_std.bias"] = self.log_std
        if self.normalizer is not None:
            found["normalizer.mean"] = self.normalizer.mean
            found["normalizer.scale"] = self.normalizer.scale
            found["normalizer.clip"] = np.atleast_1d(self.normalizer.clip)
        return {name: array for name, array in found.items() if array is not None}

    @property
    def deterministic(self) -> bool:
        """Whether the policy acts by its mean, or samples."""
        return self.log_std is None

    @property
    def noise_size(self) -> int:
        """Standard normals needed for one action: one per output if the policy samples."""
        return 0 if self.log_std is None else self.biases[-1].size

    def act(self, observations: Floats, noise: Floats) -> NDArray[Any]:
        """Actions for a block of observations."""
        hidden = observations if self.normalizer is None else self.normalizer(observations)
        activate = ACTIVATIONS[self.activation]
        for index, (weight, bias) in enumerate(
            zip(self.weights[:-1], self.biases[:-1], strict=True)
        ):
            hidden = hidden @ weight  # (batch, width)
            hidden += bias
            if self.norms:
                _normalize(hidden, *self.norms[index])
            hidden = activate(hidden)
        output = hidden @ self.weights[-1] + self.biases[-1]  # (batch, outputs)
        if self.clip_mean < np.inf:
            output = np.clip(output, -self.clip_mean, self.clip_mean)
        if self.head in ("discrete", "binary"):
            return self._choose(output, noise)
        if self.log_std is not None:
            weight_or_none, log_std = self.log_std
            if weight_or_none is not None:  # SAC: depends on the state, limited to [-20, 2]
                log_std = np.clip(hidden @ weight_or_none + log_std, -20.0, 2.0)
            output = output + np.exp(log_std) * noise
        output = output.reshape(-1, *self.low.shape)  # (batch, ...)
        if self.head == "squashed":
            half = np.float32(0.5) * (self.high - self.low)
            output = self.low + half * (np.tanh(output) + np.float32(1.0))
        return np.asarray(np.clip(output, self.low, self.high))

    def _choose(self, logits: Floats, noise: Floats) -> NDArray[Any]:
        """Whole numbers: (batch,), or (batch, numbers) for several."""
        scores: NDArray[Any] = logits
        if self.log_std is not None:  # Gumbel trick on uniforms made from the normals
            uniform = np.clip(_special().ndtr(noise.astype(np.float64)), 1e-300, 1 - 1e-16)
            scores = logits - np.log(-np.log(uniform))
            if self.head == "binary":  # the difference of two such is logistic
                scores = logits + np.log(uniform) - np.log1p(-uniform)
        if self.head == "binary":
            return np.asarray(scores > 0, dtype=np.int8)
        if not self.choices:
            return np.asarray(scores.argmax(axis=1), dtype=np.int64)
        parts = np.split(scores, np.cumsum(self.choices)[:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)

    def __repr__(self) -> str:
        sizes = [self.weights[0].shape[0], *(w.shape[1] for w in self.weights)]
        return (
            f"MLPPolicy({self.name}, {' x '.join(map(str, sizes))}, {self.activation}, {self.head})"
        )


def _normalize(hidden: Floats, scale: Floats, shift: Floats) -> None:
    """Layer norm in place, as torch.nn.LayerNorm; each row's sums are its own."""
    width = np.float32(hidden.shape[1])
    hidden -= np.add.reduce(hidden, axis=1, keepdims=True) / width
    variance = np.einsum("ij,ij->i", hidden, hidden) / width  # (batch,), biased
    hidden /= np.sqrt(variance + _EPSILON)[:, None]
    hidden *= scale
    hidden += shift


def _special() -> Any:
    import scipy.special

    return scipy.special


# --- the file ---------------------------------------------------------------------------------


def save_mlp(policy: MLPPolicy, path: Path, *, environment: str, about: str = "") -> None:
    """Write a policy to a new .safetensors file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    header: dict[str, Any] = {
        "format": POLICY_FORMAT,
        "name": policy.name,
        "activation": policy.activation,
        "head": policy.head,
        "environment": environment,
        "about": about,
    }
    if policy.norms:  # files without them stay as they always were
        header["norms"] = len(policy.norms)
    if policy.clip_mean < np.inf:
        header["clip_mean"] = policy.clip_mean
    if policy.choices:
        header["choices"] = policy.choices
    save_tensors(path, policy.arrays(), header)


def load_mlp(path: Path, *, sample: bool = False) -> MLPPolicy:
    """Read a policy written by :func:`save_mlp`.

    Raises:
        InputError: the file is damaged or of another kind, or the policy cannot sample.
    """
    arrays, header = load_tensors(path, POLICY_FORMAT)
    try:
        layers = range(sum(1 for name in arrays if re.fullmatch(r"\d+\.weight", name)))
        norms = [f"{index}.norm" for index in range(header.get("norms", 0))]
        normalizer = log_std = None
        if "normalizer.mean" in arrays:
            mean, scale, clip = (arrays[f"normalizer.{name}"] for name in ("mean", "scale", "clip"))
            normalizer = Normalizer(mean, scale, clip, path.name)
        if "log_std.bias" in arrays:
            log_std = arrays.get("log_std.weight"), arrays["log_std.bias"]
        policy = MLPPolicy(
            name=header["name"],
            digest=sha256(path),
            weights=tuple(arrays[f"{index}.weight"] for index in layers),
            biases=tuple(arrays[f"{index}.bias"] for index in layers),
            activation=header["activation"],
            head=header["head"],
            low=arrays["low"],
            high=arrays["high"],
            normalizer=normalizer,
            log_std=log_std,
            norms=tuple((arrays[f"{norm}.weight"], arrays[f"{norm}.bias"]) for norm in norms),
            clip_mean=float(header.get("clip_mean", np.inf)),
            choices=tuple(map(int, header.get("choices", ()))),
        )
        unread = sorted(arrays.keys() - policy.arrays().keys())
        if unread:  # another function would be read
            raise ValueError(f"expected {len(norms)} layer norms, found also {unread}")
    except Exception as error:  # a damaged file can fail in any of these steps
        raise InputError(f"{str(path)!r} is damaged or no policy: {one_line(error)}") from None
    if sample and policy.deterministic:
        raise InputError(f"{path.name} holds a deterministic policy: leave out `sample`")
    return policy if sample else dataclasses.replace(policy, log_std=None)
