"""Rebuilding the perceptron of an SB3 zip from its weights and plain descriptions.

What is rebuilt are the multilayer perceptrons of PPO, A2C, SAC, TD3, DDPG and DQN, and those of our
own agents; everything that could make them another function is refused.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.policies.mlp import ACTIVATIONS, Head, MLPPolicy, Normalizer

__all__ = ["OUR_MODULE", "OUR_SCALING", "NeedsTrustError", "policy_module", "rebuild"]

# policy_kwargs that change neither the actor's function nor how it is read here
_HARMLESS = {
    *("net_arch", "activation_fn", "use_sde", "log_std_init", "ortho_init", "n_critics"),
    *("share_features_extractor", "optimizer_class", "optimizer_kwargs", "normalize_images"),
    *("critics", "critic_norm", "learned_norm", "halved", "scaled"),
}
OUR_MODULE = "tightrope.agents.policies"  # SACPolicy and PPOPolicy
OUR_SCALING = ("actor.features_extractor.mean", "actor.features_extractor.deviation")


class NeedsTrustError(InputError):
    """A policy cannot be rebuilt; SB3 itself could load it, which executes code."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"cannot rebuild {path.name} without executing it ({reason}): pass `trust` if you "
            "trust the file's author, since loading it then executes code"
        )


def rebuild(
    path: Path,
    env: Any,
    data: dict[str, Any],
    state: dict[str, Any],
    *,
    name: str,
    digest: str,
    normalizer: Normalizer | None,
    sample: bool,
) -> MLPPolicy:
    """The policy with these weights, for the spaces of `env`.

    Args:
        path: of the zip, for messages.
        env: an environment with flat observations.
        data: SB3's JSON.
        state: weights by their names.
        name: of the policy, for a person.
        digest: of the policy's files.
        normalizer: what its observations go through first.
        sample: whether it samples its actions.

    Raises:
        NeedsTrustError: it is more than a perceptron.
        InputError: weights are missing, it does not fit the environment, or cannot sample.
    """
    activation = _activation(path, data)
    ours = policy_module(data) == OUR_MODULE
    try:
        layers, norms, head, log_std = _actor(path, state, ours=ours)
        weights = tuple(np.ascontiguousarray(state[f"{name}.weight"].T) for name in layers)
        biases = tuple(state[f"{name}.bias"] for name in layers)
        scales = tuple((state[f"{name}.weight"], state[f"{name}.bias"]) for name in norms)
        says = bool((data.get("policy_kwargs") or {}).get("scaled"))
        if ours and (says or any(name in state for name in OUR_SCALING)):
            normalizer = _own_scaling(path, state, len(weights[0]), normalizer)
    except KeyError as error:
        raise InputError(f"expected the weights {error} in {path.name}, found none") from None
    low, high = _bounds(path, env, head, len(biases[-1]))
    if sample and log_std is None:
        raise InputError(f"{path.name} holds a deterministic policy: leave out `sample`")
    return MLPPolicy(
        name=name,
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


def _own_scaling(
    path: Path, state: dict[str, Any], features: int, other: Normalizer | None
) -> Normalizer:
    """By the mean and deviation that the policy was trained with."""
    if other is not None:
        raise InputError(f"expected no `normalize` for {path.name}: it scales observations itself")
    mean, deviation = (np.asarray(state[name], np.float64) for name in OUR_SCALING)
    if not (mean.shape == deviation.shape == (features,)):
        raise InputError(
            f"expected means and deviations of {features} features in {path.name}, found "
            f"{mean.shape} and {deviation.shape}"
        )
    try:
        variance = np.where(deviation >= 1e-6, deviation**2, 0.0)  # none is refused
        return Normalizer.of(mean, variance, 0.0, np.inf, "its warm-up")
    except ValueError as error:
        raise InputError(f"cannot read the scaling in {path.name}: {error}") from None


def policy_module(data: dict[str, Any]) -> str:
    """From the plain-text description that SB3 writes beside each pickle."""
    described = data.get("policy_class")
    return str(described.get("__module__", "")) if isinstance(described, dict) else ""


def _activation(path: Path, data: dict[str, Any]) -> str:
    kwargs = data.get("policy_kwargs") or {}
    described = {key: value for key, value in kwargs.items() if not key.startswith(":")}
    unknown = sorted(set(described) - _HARMLESS)
    if unknown or data.get("use_sde"):
        used = ", ".join(unknown) or "state-dependent exploration"
        raise NeedsTrustError(path, f"its policy uses {used}")
    module = policy_module(data)
    if module == OUR_MODULE:
        return "CReLU"  # always
    if not module.startswith("stable_baselines3."):
        raise NeedsTrustError(path, f"policy class from {module or 'an unknown module'!r}")
    default = "Tanh" if module == "stable_baselines3.common.policies" else "ReLU"
    written = str(described.get("activation_fn", ""))
    match = re.search(r"activation\.(\w+)'>", written)
    name = match.group(1) if match else default
    if (written and not match) or name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise NeedsTrustError(path, f"its activation is {written or name!r}, not among {known}")
    return name


def _actor(
    path: Path, state: dict[str, Any], *, ours: bool
) -> tuple[list[str], list[str], Head, Any]:
    """Names of the actor's linear layers and layer norms in order, its head, and its spread."""
    extractors = ("features_extractor", "actor.features", "q_net.features")
    # Critics take no part in acting; those of REDQ are one ensemble of three-dimensional tensors.
    idle = ("critic.", "critic_target.", "q_net_target.")
    known = OUR_SCALING if ours else ()
    acting = [name for name in state if not name.startswith(idle) and name not in known]
    if any(name.startswith(extractors) or np.ndim(state[name]) > 2 for name in acting):
        raise NeedsTrustError(path, "it has a learned feature extractor")
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
    if "q_net.q_net.0.weight" in state:  # DQN; its exploration is no part of the policy
        layers, _ = _stack(path, state, "q_net.q_net", with_norms=False)
        return layers, [], "discrete", None
    raise NeedsTrustError(path, f"it has the weights {', '.join(sorted(state)[:4]) or 'none'}, ...")


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
        listed = [", ".join(sorted(names)) or "none" for names in (expected, weights)]
        raise NeedsTrustError(path, f"expected hidden layers {listed[0]}, found {listed[1]}")
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
