"""Roll-outs of one's own, a function of a seed: for policies with memory, images or simulators."""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.imports import user_function
from tightrope.rollouts.arrays import numbers
from tightrope.rollouts.episodes import Episode

__all__ = ["OWN_ENVIRONMENT", "OwnRollout", "own_rollout"]

OWN_ENVIRONMENT = EnvInfo("its own environment", "custom", 3, False, "whatever the roll-out fixes")
_FIELDS = tuple(field.name for field in fields(Episode))


@dataclass(frozen=True)
class OwnRollout:
    """A function of a seed that rolls out one whole episode of a frozen policy.

    Attributes:
        name: for a person.
        digest: SHA-256 of the file with the function; None for an object in memory.
        function: returns an `Episode`, or a dictionary of its fields: `observations` (steps,
            features), `rewards` (steps,), and `terminated` (or else it counts as truncated);
            `truncated`, `actions`, `final_observation` and `success` if there are any.
    """

    name: str
    digest: str | None
    function: Callable[[int], Any]

    def __call__(self, seed: int) -> Episode:
        """The episode of a seed.

        Raises:
            InputError: the function returns something else, or an episode that is not whole.
        """
        found = self.function(seed)
        if isinstance(found, Episode):
            found = {name: getattr(found, name) for name in _FIELDS}
        if not isinstance(found, Mapping) or not {"observations", "rewards"} <= set(found):
            raise InputError(
                f"expected an Episode or a dictionary with observations and rewards from "
                f"{self.name}, found {type(found).__name__}"
            )
        if unknown := sorted(set(found) - set(_FIELDS), key=str):
            raise InputError(
                f"expected {', '.join(_FIELDS)} from {self.name}, found {unknown[0]!r}"
            )
        arrays = {
            key: numbers(found[key], key, self.name)
            for key in ("observations", "rewards", "actions", "final_observation")
            if found.get(key) is not None
        }
        observations, rewards = arrays["observations"], arrays["rewards"].astype(np.float64)
        if rewards.ndim != 1 or not len(rewards) or len(observations) != len(rewards):
            raise InputError(
                f"expected as many observations as rewards, at least one, from {self.name}, found "
                f"shapes {observations.shape} and {rewards.shape}"
            )
        terminated, success = bool(found.get("terminated", False)), found.get("success")
        final = arrays.get("final_observation")
        return Episode(
            observations=observations.astype(np.float32).reshape(len(rewards), -1),
            rewards=rewards,
            terminated=terminated,
            truncated=bool(found.get("truncated", not terminated)),
            seed=seed,
            actions=arrays.get("actions"),
            final_observation=None if final is None else final.astype(np.float32).reshape(-1),
            success=None if success is None else bool(success),
        )


def own_rollout(source: Any, *, named: bool = False) -> OwnRollout | None:
    """The roll-out that a source is: a function, or ``file.py:name`` of one, of a `seed` alone.

    Args:
        source: anything that may be a policy.
        named: whether the user says that it is a roll-out, whatever its parameter is called.

    Raises:
        InputError: it should be one and is not.
    """
    if isinstance(source, OwnRollout):
        return source
    if isinstance(source, str | Path):
        file, _, name = str(source).rpartition(":")
        if not named and not (file.endswith(".py") and _takes_seed(Path(file), name)):
            return None
        function = user_function(str(source))
        digest = sha256(Path(file)) if file.endswith(".py") else None
        return OwnRollout(f"{Path(file).name}:{name}", digest, function)
    if not callable(source):
        if named:
            raise InputError(f"expected a function of a seed as `rollout`, found {source!r}")
        return None
    try:
        parameters = list(inspect.signature(source).parameters)
    except (TypeError, ValueError):
        parameters = []
    if not named and parameters != ["seed"]:
        return None
    name = getattr(source, "__qualname__", type(source).__name__)
    return OwnRollout(f"{getattr(source, '__module__', 'python')}.{name}", None, source)


def _takes_seed(file: Path, name: str) -> bool:
    """Whether a file defines a function of a seed by that name; the file is not run for it."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and [argument.arg for argument in node.args.args] == ["seed"]
        for node in body
    )
