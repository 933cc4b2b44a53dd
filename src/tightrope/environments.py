"""One recipe per environment: its id, wrappers, thinning, and what its seeds mean.

A recipe is data: it goes to worker processes and into files as JSON, and `make` builds the
environment from it. Any Gymnasium id works; the paper's eleven have recipes checked by hand.
"""

import dataclasses
import difflib
import os
import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tightrope.errors import InputError

__all__ = ["PAPER_IDS", "Recipe", "known_thinning", "recipe"]

Suite = Literal["gymnasium", "dm_control", "metaworld"]

PAPER_IDS = (
    *("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Humanoid-v4"),
    "dm_control/ball_in_cup-catch-v0",
    "dm_control/reacher-easy-v0",
    "dm_control/walker-walk-v0",
    *("drawer-open-v3", "window-open-v3", "reach-v3"),
)

# Thinning fixed by the paper, for every version of these environments.
_THINNING = {"Ant": 5, "HalfCheetah": 5, "Humanoid": 3, "Hopper": 3, "Walker2d": 3}
# Gymnasium environments that only ever end at their time limit.
_FIXED_LENGTH = ("HalfCheetah", "Pendulum", "Pusher", "Reacher", "Swimmer", "HumanoidStandup")
_GOAL_SEED = 0  # draws Meta-World's fifty goals; part of the recipe

_INITIAL_STATE = "reset(seed=...) fixes the initial state and all later randomness of an episode"
_GOAL = (
    "a seed picks one of the 50 goals that Meta-World draws with its goal seed {}; it fixes the "
    "whole episode; results cover these 50 goals, no others"
)


@dataclass(frozen=True)
class Recipe:
    """How to build one environment, and what is known of its episodes.

    Attributes:
        id: the name users type; ``module:Name-v0`` imports `module` first.
        suite: which package builds it.
        thin: default thinning: every `thin`-th step is kept.
        fixed_length: whether episodes only ever end at a time limit.
        seeds: in words, what the seed of an episode determines.
        goal_seed: the seed of Meta-World's goal set; None elsewhere.
    """

    id: str
    suite: Suite
    thin: int
    fixed_length: bool
    seeds: str
    goal_seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The recipe as a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Recipe":
        """The recipe a JSON object describes.

        Raises:
            InputError: a field is missing or unknown, or its value is of another kind.
        """
        expected = {field.name for field in dataclasses.fields(cls)}
        if set(record) != expected:
            raise InputError(
                f"expected a recipe with the fields {sorted(expected)}, found {sorted(record)}"
            )
        goal = record["goal_seed"]
        kinds = {"id": str, "suite": str, "thin": int, "fixed_length": bool, "seeds": str}
        fits = all(type(record[name]) is kind for name, kind in kinds.items())
        fits = fits and record["suite"] in get_args(Suite) and record["thin"] >= 1
        if not fits or not (goal is None or type(goal) is int):
            raise InputError(f"expected a recipe as tightrope writes it, found {record}")
        return cls(**record)

    def make(self) -> Any:
        """A new environment with flat Box observations and Box or Discrete actions.

        Raises:
            InputError: the package is missing, or the spaces are of another kind.
        """
        import gymnasium as gym

        with warnings.catch_warnings():
            # Silenced on purpose: the paper's results are for v4, which Gymnasium keeps for
            # reproducibility and calls out of date on every construction.
            warnings.filterwarnings(
                "ignore",
                message=r".*The environment .* is out of date",
                category=DeprecationWarning,
            )
            env = _make_metaworld(self) if self.suite == "metaworld" else _make_gymnasium(self)
        if isinstance(env.observation_space, gym.spaces.Dict | gym.spaces.Tuple) or (
            isinstance(env.observation_space, gym.spaces.Box)
            and len(env.observation_space.shape) != 1
        ):
            env = gym.wrappers.FlattenObservation(env)
        if not isinstance(env.observation_space, gym.spaces.Box):
            raise InputError(
                f"expected Box or Dict observations, found {env.observation_space} in {self.id!r}"
            )
        if not isinstance(env.action_space, gym.spaces.Box | gym.spaces.Discrete):
            raise InputError(
                f"expected Box or Discrete actions, found {env.action_space} in {self.id!r}"
            )
        return env


def recipe(environment: "str | Recipe") -> Recipe:
    """The recipe of an environment id; a recipe is returned as it is.

    Raises:
        InputError: the id is unknown (the nearest are named) or its package is missing.
    """
    if isinstance(environment, Recipe):
        return environment
    if not isinstance(environment, str):
        raise InputError(f"expected the id of an environment, found {environment!r}")
    name = environment
    if name.startswith("dm_control/"):
        _import("dm_control", "dmc", name)
        _import("shimmy", "dmc", name)
        _require_registered(name)
        return Recipe(name, "dm_control", 5, True, _INITIAL_STATE)
    import gymnasium as gym

    if re.fullmatch(r"[a-z][a-z-]*-v3", name) and name not in gym.registry:
        known = _import("metaworld", "metaworld", name).ALL_V3_ENVIRONMENTS
        if name not in known:
            raise InputError(_unknown(name, [*known, *gym.registry]))
        return Recipe(name, "metaworld", 5, True, _GOAL.format(_GOAL_SEED), _GOAL_SEED)
    module, _, registered = name.rpartition(":")
    if module:  # Gymnasium's form for environments of others: the import registers them
        _import_users(module)
    _require_registered(registered)
    base = registered.rpartition("/")[2].rpartition("-v")[0]
    fixed = base in _FIXED_LENGTH
    return Recipe(name, "gymnasium", _THINNING.get(base, 5 if fixed else 3), fixed, _INITIAL_STATE)


def known_thinning(name: str) -> int | None:
    """The thinning that the paper fixed for an environment, by its id; None for others."""
    return _THINNING.get(name.rpartition("/")[2].rpartition("-v")[0])


def _make_gymnasium(recipe: Recipe) -> Any:
    import gymnasium as gym

    if recipe.suite == "dm_control":
        _import("shimmy", "dmc", recipe.id)
    try:
        return gym.make(recipe.id, disable_env_checker=True)
    except Exception as error:  # Gymnasium's own, or whatever the constructor raises
        line = f"{type(error).__name__}: {_one_line(error)}"
        raise InputError(f"cannot build {recipe.id!r}: {line}") from error


def _make_metaworld(recipe: Recipe) -> Any:
    import gymnasium as gym
    import numpy as np

    metaworld = _import("metaworld", "metaworld", recipe.id)
    benchmark = metaworld.MT1(recipe.id, seed=recipe.goal_seed)

    class SeededGoals(gym.Wrapper):
        """Meta-World ignores reset(seed=...): here the seed picks the goal."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            goal = np.random.default_rng(seed).integers(len(benchmark.train_tasks))
            sawyer: Any = self.unwrapped
            sawyer.set_task(benchmark.train_tasks[goal])
            return self.env.reset(options=options)

    return SeededGoals(benchmark.train_classes[recipe.id]())


def _import_users(module: str) -> None:
    import importlib
    import sys

    sys.path.insert(0, "")  # as `python -m` does: modules of the working directory count
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the user's own code raises
        raise InputError(f"cannot import {module!r}: {_one_line(error)}") from error
    finally:
        sys.path.remove("")


def _import(module: str, extra: str, name: str) -> Any:
    import importlib

    if extra == "dmc" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "disabled")  # else it warns of a missing screen
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the packages' own making
            return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f'{name!r} needs the extra {extra!r} ({error}): pip install "tightrope[{extra}]"'
        ) from None


def _require_registered(name: str) -> None:
    import gymnasium as gym

    if name not in gym.registry:
        raise InputError(_unknown(name, [*gym.registry, *PAPER_IDS]))


def _unknown(name: str, known: list[str]) -> str:
    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(lowered[match] for match in near)}?" if near else ""
    return f"expected the id of an environment, found {name!r}: {hint or 'check its spelling'}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
