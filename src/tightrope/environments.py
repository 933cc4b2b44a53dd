"""One recipe per environment: its id, wrappers, thinning, time limit, and what its seeds mean.

A recipe is data: it goes to worker processes and into files as JSON, and `make` builds the
environment from it. Any Gymnasium id works; the paper's eleven have recipes checked by hand.
Environments that are Python objects have recipes, too; their JSON says what they were, but only
the object itself can build them again.
"""

import copy
import dataclasses
import difflib
import functools
import importlib
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tightrope.errors import InputError, one_line
from tightrope.imports import import_module, quiet_registration

__all__ = ["PAPER_IDS", "Recipe", "known_thinning", "recipe", "recorded_environment"]

Suite = Literal["gymnasium", "dm_control", "metaworld", "custom"]

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
        suite: which package builds it; ``custom`` for a Python object of the user's own.
        thin: default thinning: every `thin`-th step is kept.
        fixed_length: whether episodes only ever end at a time limit.
        seeds: in words, what the seed of an episode determines.
        goal_seed: the seed of Meta-World's goal set; None elsewhere.
        time_limit: steps after which an episode is truncated; None if there is no limit, or none
            that is known.
        factory: builds the environment of the suite ``custom``; not part of the JSON.
    """

    id: str
    suite: Suite
    thin: int
    fixed_length: bool
    seeds: str
    goal_seed: int | None = None
    time_limit: int | None = None
    factory: Callable[[], Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The recipe as a JSON object, without the factory."""
        return {name: getattr(self, name) for name in _RECORDED}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Recipe":
        """The recipe a JSON object describes.

        Raises:
            InputError: a field is missing or unknown, or its value is of another kind.
        """
        if set(record) != set(_RECORDED):
            raise InputError(
                f"expected a recipe with the fields {sorted(_RECORDED)}, found "
                f"{str(sorted(record))[:200]}"
            )
        kinds = {"id": str, "suite": str, "thin": int, "fixed_length": bool, "seeds": str}
        fits = all(type(record[name]) is kind for name, kind in kinds.items())
        fits = fits and record["suite"] in get_args(Suite) and record["thin"] >= 1
        numbers = [record[name] for name in ("goal_seed", "time_limit")]
        if not fits or not all(number is None or type(number) is int for number in numbers):
            raise InputError(f"expected a recipe as tightrope writes it, found {str(record)[:200]}")
        return cls(**record)

    def make(self) -> Any:
        """A new environment with flat Box observations and Box or Discrete actions.

        Raises:
            InputError: the package is missing, the spaces are of another kind, or only the Python
                object could build it.
        """
        import gymnasium as gym

        env = self.build()
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

    def build(self) -> Any:
        """A new environment as its makers have it, whatever its spaces are."""
        makers = {"metaworld": _make_metaworld, "custom": _make_custom}
        with quiet_registration(), warnings.catch_warnings():
            # Silenced on purpose: the paper's results are for v4, which Gymnasium keeps for
            # reproducibility and calls out of date on every construction.
            warnings.filterwarnings(
                "ignore",
                message=r".*The environment .* is out of date",
                category=DeprecationWarning,
            )
            return makers.get(self.suite, _make_gymnasium)(self)


_RECORDED = tuple(field.name for field in dataclasses.fields(Recipe) if field.name != "factory")


def recipe(environment: Any) -> Recipe:
    """The recipe of an environment.

    Args:
        environment: an id of Gymnasium (``module:Name-v0`` imports `module` first), dm_control or
            Meta-World; an environment, which is not used itself but built anew from its `spec`; or
            a function or class that returns an environment. A recipe is returned as it is.

    Raises:
        InputError: the id is unknown (the nearest are named), its package is missing, or the
            object cannot be built anew.
    """
    import gymnasium as gym

    if isinstance(environment, Recipe):
        return environment
    if isinstance(environment, gym.Env):
        return _of_instance(environment)
    if callable(environment):
        return _of_factory(environment)
    if not isinstance(environment, str):
        raise InputError(
            f"expected the id of an environment, an environment or a function that returns one, "
            f"found {environment!r}"
        )
    name = environment
    if name.startswith("dm_control/"):
        _import("dm_control", "dmc", name)
        _import("shimmy", "dmc", name)
        _require_registered(name)
        limit = _dm_control_limit(name)
        return Recipe(name, "dm_control", 5, limit is not None, _INITIAL_STATE, None, limit)
    if re.fullmatch(r"[a-z][a-z-]*-v3", name) and name not in gym.registry:
        known = _import("metaworld", "metaworld", name).ALL_V3_ENVIRONMENTS
        if name not in known:
            raise InputError(_unknown(name, [*known, *gym.registry]))
        limit, seeds = int(known[name].max_path_length), _GOAL.format(_GOAL_SEED)
        return Recipe(name, "metaworld", 5, True, seeds, _GOAL_SEED, limit)
    registered = _import_users(name)
    _require_registered(registered)
    base = registered.rpartition("/")[2].rpartition("-v")[0]
    fixed = base in _FIXED_LENGTH
    thin = _THINNING.get(base, 5 if fixed else 3)
    limit = gym.registry[registered].max_episode_steps
    return Recipe(name, "gymnasium", thin, fixed, _INITIAL_STATE, None, limit)


def recorded_environment(record: Any) -> Recipe:
    """The recipe of the environment that a certificate, training record or recording names.

    Anyone may have written the record: of what it says only the id is used, and no environment
    whose module would have to be imported is taken from it, whatever else is trusted.

    Raises:
        InputError: the record is damaged, or the user has to name the environment in `env`.
    """
    if not isinstance(record, Mapping):
        raise InputError("expected `env`, an environment to run in: none is on record")
    stated = Recipe.from_json(dict(record))
    if ":" in stated.id or stated.suite == "custom":
        raise InputError(
            f"expected `env`, found only a record that names {stated.id[:80]!r}: no module is "
            "imported because a file says so; if you know this environment, name it in `env`"
        )
    return recipe(stated.id)


def known_thinning(name: str) -> int | None:
    """The thinning that the paper fixed for an environment, by its id; None for others."""
    return _THINNING.get(name.rpartition("/")[2].rpartition("-v")[0])


def _of_instance(env: Any) -> Recipe:
    """The recipe of its id if it is as registered, or else one that builds it from its `spec`."""
    import cloudpickle
    import gymnasium as gym

    spec = env.spec
    if spec is None:
        raise InputError(
            f"expected an environment that Gymnasium can build anew, found {env} without a `spec`: "
            "pass a function that returns it, or register it and pass its id"
        )
    kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    registered = gym.registry.get(spec.id)
    if (
        registered is not None
        and not spec.additional_wrappers
        and spec.max_episode_steps == registered.max_episode_steps
        and cloudpickle.dumps(kwargs) == cloudpickle.dumps(registered.kwargs)
    ):
        return recipe(str(spec.id))
    given = ", ".join(f"{name}={' '.join(repr(value).split())}" for name, value in kwargs.items())
    wrappers = "".join(f" in {wrapper.name}" for wrapper in spec.additional_wrappers)
    spec = copy.copy(spec)
    spec.kwargs = kwargs  # without the window that it may have been shown in
    build = functools.partial(gym.make, spec, disable_env_checker=True)
    return _of_factory(build, f"{spec.id}{f'({given})' if given else ''}{wrappers}")


def _of_factory(factory: Callable[[], Any], name: str | None = None) -> Recipe:
    """A recipe that calls `factory`, by that name, the id of what it returns, or its own."""
    import gymnasium as gym

    function: Any = factory.func if isinstance(factory, functools.partial) else factory
    own = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
    env = Recipe(name or own, "custom", 3, False, _INITIAL_STATE, factory=factory).build()
    name = name or (env.spec.id if env.spec is not None else own)
    limits, inner = [], env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    env.close()
    return Recipe(
        id=name,
        suite="custom",
        thin=known_thinning(name.partition("(")[0]) or 3,
        fixed_length=False,
        seeds=_INITIAL_STATE,
        time_limit=min(limits, default=None),
        factory=factory,
    )


def _make_custom(recipe: Recipe) -> Any:
    import gymnasium as gym

    if recipe.factory is None:
        raise InputError(
            f"cannot build {recipe.id!r} from its record: it was a Python object; pass the object, "
            "or a function that returns it, as `env`"
        )
    try:
        env = recipe.factory()
    except Exception as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"cannot build {recipe.id!r}: {line}; expected a function without arguments that "
            "returns a new environment"
        ) from error
    if not isinstance(env, gym.Env):
        raise InputError(f"expected a gymnasium.Env from {recipe.id}, found {env!r}")
    return env


def _make_gymnasium(recipe: Recipe) -> Any:
    import gymnasium as gym

    if recipe.suite == "dm_control":
        _import("shimmy", "dmc", recipe.id)
    registered = _import_users(recipe.id)
    try:
        return gym.make(registered, disable_env_checker=True)
    except Exception as error:  # Gymnasium's own, or whatever the constructor raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot build {recipe.id!r}: {line}") from error


@functools.cache
def _dm_control_limit(name: str) -> int | None:
    """Control steps until a task of the suite ends; it is a number of the built environment only.

    None for tasks without a limit, and for dm_control's composer, whose limit is a simulated time.
    """
    env = Recipe(name, "dm_control", 5, True, _INITIAL_STATE).build()
    limit = getattr(env.unwrapped._env, "_step_limit", math.inf)
    env.close()
    return math.ceil(limit) if math.isfinite(limit) else None


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


def _import_users(name: str) -> str:
    """The id in ``module:Name-v0``, Gymnasium's form for environments of others; import `module`.

    The import registers them.
    """
    module, _, registered = name.rpartition(":")
    if module:
        try:
            import_module(module)
        except Exception as error:  # whatever the user's own code raises
            raise InputError(f"cannot import {module!r}: {one_line(error)}") from error
    return registered


def _import(module: str, extra: str, name: str) -> Any:
    if extra == "dmc" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "disabled")  # else it warns of a missing screen
    try:
        with warnings.catch_warnings(), quiet_registration():
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
