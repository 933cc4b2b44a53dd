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
        return _checked(dict(found), seed, self.name)


def _checked(found: dict[str, Any], seed: int, name: str) -> Episode:
    """An episode of arrays of the right kinds and one length."""
    arrays: dict[str, Any] = {}
    for key, kind in (
        ("observations", np.float32),
        ("rewards", np.float64),
        ("actions", None),
        ("final_observation", np.float32),
    ):
        value = found.get(key)
        array = None if value is None else np.asarray(value)
        if array is not None and array.dtype.kind not in "biuf":
            raise InputError(f"expected numbers in {key} from {name}, found {array.dtype}")
        arrays[key] = array if array is None or kind is None else array.astype(kind)
    observations, rewards = arrays["observations"], arrays["rewards"]
    if rewards.ndim != 1 or not len(rewards) or observations.shape[:1] != rewards.shape:
        raise InputError(
            f"expected as many observations as rewards, at least one, from {name}, found shapes "
            f"{observations.shape} and {rewards.shape}"
        )
    arrays["observations"] = observations.reshape(len(rewards), -1)
    if arrays["final_observation"] is not None:
        arrays["final_observation"] = arrays["final_observation"].reshape(-1)
    terminated = bool(found.get("terminated", False))
    success = found.get("success")
    return Episode(
        **arrays,
        terminated=terminated,
        truncated=bool(found.get("truncated", not terminated)),
        seed=seed,
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
