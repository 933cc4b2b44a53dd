"""One whole episode: an environment stepped for a record, or a roll-out of the user's own.

The only place that steps for a record. A roll-out of one's own is a function of a seed, for
policies with memory or images and for simulators that are no Gymnasium environment.
"""

import ast
import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.imports import user_function
from tightrope.rollouts.episodes import Episode
from tightrope.rollouts.tables import numbers

__all__ = ["OWN_ENVIRONMENT", "OwnRollout", "own_rollout", "roll_out", "stepping"]


def stepping(env: Any, seed: int) -> Generator[NDArray[np.float32], Any, Episode]:
    """Step through an episode: yields each observation, takes the action, returns the episode.

    Everything random in the episode follows from the seed. The action None stops before the end.

    Raises:
        InputError: an observation has another shape than the environment states.
    """
    shape = env.observation_space.shape
    observations: list[NDArray[np.float32]] = []
    actions: list[Any] = []
    rewards: list[float] = []
    success, terminated, truncated = None, False, False

    def copied(given: Any) -> NDArray[np.float32]:
        """A wrong shape must not be broadcast into a row, nor words be read as numbers."""
        found = np.asarray(given)
        if found.shape != shape or found.dtype.kind not in "fiub":
            raise InputError(
                f"expected an observation of shape {shape} from the environment, found shape "
                f"{found.shape} of {found.dtype} after {len(actions)} steps"
            )
        return found.astype(np.float32)  # a copy: environments may reuse theirs

    observation = copied(env.reset(seed=seed)[0])
    while not (terminated or truncated):
        action = yield observation
        if action is None:
            break
        observations.append(observation)
        actions.append(action)
        given, reward, terminated, truncated, info = env.step(action)
        observation = copied(given)
        rewards.append(float(reward))
        if "success" in info:
            success = bool(success) or bool(info["success"])
    return Episode(
        observations=np.stack(observations),
        rewards=np.array(rewards, dtype=np.float64),
        terminated=bool(terminated),
        truncated=bool(truncated),
        seed=seed,
        actions=np.stack(actions),
        final_observation=observation,
        success=success,
    )


def roll_out(act: Callable[[NDArray[np.float32]], Any], env: Any, seed: int) -> Episode:
    """One episode in an environment that `EnvInfo.make` built.

    Args:
        act: the action for an observation; None stops before the end.
        env: the environment.
        seed: of the episode.
    """
    run = stepping(env, seed)
    observation = next(run)
    while True:
        try:
            observation = run.send(act(observation))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


# --- roll-outs of one's own ----------------------------------------------------------------------

OWN_ENVIRONMENT = EnvInfo("its own environment", "custom", 3, False, "whatever the roll-out fixes")
_FIELDS = tuple(field.name for field in fields(Episode))
_ARRAYS = ("observations", "rewards", "actions", "final_observation")


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
        given = self.function(seed)
        found = vars(given) if isinstance(given, Episode) else given
        names = set(found) if isinstance(found, Mapping) else set()
        if not {"observations", "rewards"} <= names <= set(_FIELDS):
            held = f" of {', '.join(map(str, found))}" if names else ""
            raise InputError(
                f"expected an Episode or a dictionary with observations, rewards and other fields "
                f"of one from {self.name}, found {type(given).__name__}{held}"
            )
        arrays = {key: numbers(found[key], key) for key in _ARRAYS if found.get(key) is not None}
        observations, final = arrays["observations"], arrays.get("final_observation")
        steps = len(observations)
        terminated, success = bool(found.get("terminated", False)), found.get("success")
        return Episode(
            observations=observations.reshape(steps, -1 if steps else 1).astype(np.float32),
            rewards=arrays["rewards"].astype(np.float64),
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
    if named and not callable(source):
        raise InputError(f"expected a function of a seed as `rollout`, found {source!r}")
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
    if not file.is_file():  # a pipe would never end
        return False
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
