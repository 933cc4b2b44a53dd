"""Environments by id, object or function: how one is built, and what its episodes are like.

Any Gymnasium id works; the paper's eleven were checked by hand. Gymnasium is imported when the
first environment is asked for, so that recorded episodes can be read without it.
"""

import copy
import dataclasses
import difflib
import functools
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tightrope.errors import InputError, one_line
from tightrope.imports import import_module, needed, quiet_registration, user_function
from tightrope.records import checked

__all__ = [
    "PAPER_IDS",
    "EnvInfo",
    "EnvKwargs",
    "known_thinning",
    "make_env",
    "recorded_environment",
]

EnvKwargs = Mapping[str, Any] | Sequence[str] | None

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
_GOAL_SEED = 0  # draws Meta-World's fifty goals

_INITIAL_STATE = "reset(seed=...) fixes the initial state and all later randomness of an episode"
_GOAL = (
    "a seed picks one of the 50 goals that Meta-World draws with its goal seed {}; it fixes the "
    "whole episode; results cover these 50 goals, no others"
)


@checked
class EnvInfo:
    """How to build one environment, and what is known of its episodes.

    Attributes:
        id: the name users type; ``module:Name-v0`` imports `module` first.
        suite: which package builds it; ``custom`` for a Python object of the user's own.
        thin: default thinning: every `thin`-th step is kept.
        fixed_length: whether episodes only ever end at a time limit.
        seeds: in words, what the seed of an episode determines.
        goal_seed: the seed of Meta-World's goal set; None elsewhere.
        time_limit: steps after which an episode is truncated; None without a (known) limit.
        kwargs: arguments of `gymnasium.make`, beyond those that are registered.
        factory: builds the environment of the suite ``custom``; not part of the JSON.
    """

    id: str
    suite: Literal["gymnasium", "dm_control", "metaworld", "custom"]
    thin: Annotated[int, Field(ge=1)]
    fixed_length: bool
    seeds: str
    goal_seed: int | None = None
    time_limit: int | None = None
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    factory: Callable[..., Any] | None = None

    @classmethod
    def of(cls, environment: Any, env_kwargs: EnvKwargs = None) -> "EnvInfo":
        """What is known of an environment.

        Args:
            environment: an id of Gymnasium (``module:Name-v0`` imports `module` first), dm_control
                or Meta-World; ``file.py:function``; an environment, which is not used itself but
                built again from its `spec`; or a function or class that returns an environment.
            env_kwargs: arguments of `gymnasium.make`, or of the function.

        Raises:
            InputError: the id is unknown (the nearest are named), its package is missing, or the
                object cannot be built again.
        """
        gym, kwargs = _gymnasium(), _kwargs(env_kwargs)
        if isinstance(environment, EnvInfo):
            if not kwargs:
                return environment
            given, kwargs = environment, {**environment.kwargs, **kwargs}
            if given.factory is not None:
                return _of_factory(given.factory, given.id, kwargs)
            environment = given.id
        if isinstance(environment, gym.Env):
            return _of_instance(environment, kwargs)
        if callable(environment):
            return _of_factory(environment, None, kwargs)
        if not isinstance(environment, str):
            raise InputError(
                f"expected the id of an environment, an environment or a function that returns "
                f"one, found {environment!r}"
            )
        return _of_name(environment, kwargs)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the factory; `kwargs` only where there are any."""
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del record["factory"]
        if not self.kwargs:
            del record["kwargs"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "EnvInfo":
        """What a JSON object describes.

        Raises:
            InputError: a field is missing or unknown, or its value is of another kind.
        """
        try:
            return cls(**record)
        except (InputError, TypeError) as error:
            raise InputError(
                f"expected the record of an environment as tightrope writes it: {one_line(error)}"
            ) from None

    def make(self) -> Any:
        """A new environment with observations in one vector, and actions that are numbers.

        Discrete observations become one-hot, as for SB3.

        Raises:
            InputError: the package is missing, the spaces are of another kind, or only the Python
                object could build it.
        """
        gym = _gymnasium()
        env, spaces = self.build(), gym.spaces
        observed = env.observation_space
        if not observed.is_np_flattenable:
            raise InputError(f"expected numbers as observations, found {observed} in {self.id!r}")
        if not (isinstance(observed, spaces.Box) and len(observed.shape) == 1):
            env = gym.wrappers.FlattenObservation(env)
        kinds = spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary
        if not isinstance(env.action_space, kinds):
            raise InputError(
                f"expected numbers as actions, found {env.action_space} in {self.id!r}"
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


def make_env(environment: Any, env_kwargs: EnvKwargs = None) -> Any:
    """A new environment, named or given as :meth:`EnvInfo.of` takes it."""
    return EnvInfo.of(environment, env_kwargs).make()


def recorded_environment(record: Any) -> EnvInfo:
    """The environment that a certificate, training record or recording names.

    Anyone may have written the record: of what it says only the id is used, and arguments that are
    numbers (a text may name a file). No module is imported because a record says so, whatever else
    is trusted.

    Raises:
        InputError: the record is damaged, or the user has to name the environment in `env`.
    """
    if not isinstance(record, Mapping):
        raise InputError("expected `env`, an environment to run in: none is on record")
    stated = EnvInfo.from_json(record)
    if ":" in stated.id or stated.suite == "custom":
        raise InputError(
            f"expected `env`, found only a record that names {stated.id[:80]!r}: no module is "
            "imported because a file says so; if you know this environment, name it in `env`"
        )
    if not all(isinstance(value, bool | int | float) for value in stated.kwargs.values()):
        raise InputError(
            f"expected `env` and `env_kwargs`, found only a record of {stated.id[:80]!r} with the "
            f"arguments {str(stated.kwargs)[:80]}: if you know them, give both"
        )
    return EnvInfo.of(stated.id, stated.kwargs)


def known_thinning(name: str) -> int | None:
    """The thinning that the paper fixed for an environment, by its id; None for others."""
    return _THINNING.get(_base(name))


def _base(name: str) -> str:
    return name.rpartition("/")[2].rpartition("-v")[0]


def _gymnasium() -> Any:
    return needed("gymnasium", "an environment", "certify")


def _kwargs(given: EnvKwargs) -> dict[str, Any]:
    """Arguments by name, from a mapping or from texts such as ``use_contact_forces=true``."""
    if isinstance(given, Mapping):
        try:
            return dict(json.loads(json.dumps(dict(given), allow_nan=False)))
        except (TypeError, ValueError):
            raise InputError(
                f"expected `env_kwargs` of numbers, texts and lists, which can go on record, found "
                f"{str(dict(given))[:80]}: pass a function that returns the environment"
            ) from None
    found: dict[str, Any] = {}
    for entry in given or ():
        name, equals, value = str(entry).partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f"expected `env_kwargs` NAME=VALUE, found {entry!r}")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = {"True": True, "False": False, "None": None}.get(value, value)
    return found


# --- by name -------------------------------------------------------------------------------------


def _of_name(name: str, kwargs: dict[str, Any]) -> EnvInfo:
    gym = _gymnasium()
    if ".py:" in name:
        return _of_factory(user_function(name), Path(name).name, kwargs)
    if name.startswith("dm_control/"):
        _import("dm_control", "dmc", name)
        _import("shimmy", "dmc", name)
        _require_registered(name)
        info = EnvInfo(name, "dm_control", 5, True, _INITIAL_STATE, kwargs=kwargs)
        limit = _dm_control_limit(name)
        return dataclasses.replace(info, fixed_length=limit is not None, time_limit=limit)
    if re.fullmatch(r"[a-z][a-z-]*-v3", name) and name not in gym.registry:
        known = _import("metaworld", "metaworld", name).ALL_V3_ENVIRONMENTS
        if name not in known:
            raise InputError(_unknown(name, [*known, *gym.registry]))
        if kwargs:
            raise InputError(f"expected no `env_kwargs` for {name!r}: Meta-World takes none")
        limit, seeds = int(known[name].max_path_length), _GOAL.format(_GOAL_SEED)
        return EnvInfo(name, "metaworld", 5, True, seeds, _GOAL_SEED, limit)
    registered = _import_users(name)
    _require_registered(registered)
    fixed = _base(registered) in _FIXED_LENGTH
    thin = known_thinning(registered) or (5 if fixed else 3)
    limit = kwargs.get("max_episode_steps", gym.registry[registered].max_episode_steps)
    return EnvInfo(name, "gymnasium", thin, fixed, _INITIAL_STATE, None, limit, kwargs)


def _make_gymnasium(info: EnvInfo) -> Any:
    if info.suite == "dm_control":
        _import("shimmy", "dmc", info.id)
    registered = _import_users(info.id)
    try:
        return _gymnasium().make(registered, disable_env_checker=True, **info.kwargs)
    except Exception as error:  # Gymnasium's own, or whatever the constructor raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot build {info.id!r}: {line}") from error


@functools.cache
def _dm_control_limit(name: str) -> int | None:
    """Control steps until a task of the suite ends; it is a number of the built environment only.

    None for tasks without a limit, and for dm_control's composer, whose limit is a simulated time.
    """
    env = EnvInfo(name, "dm_control", 5, True, _INITIAL_STATE).build()
    limit = getattr(env.unwrapped._env, "_step_limit", math.inf)
    env.close()
    return math.ceil(limit) if math.isfinite(limit) else None


def _make_metaworld(info: EnvInfo) -> Any:
    import numpy as np

    gym = _gymnasium()
    metaworld = _import("metaworld", "metaworld", info.id)
    benchmark = metaworld.MT1(info.id, seed=info.goal_seed)

    class SeededGoals(gym.Wrapper):  # type: ignore[misc, name-defined]
        """Meta-World ignores reset(seed=...): here the seed picks the goal."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            goal = np.random.default_rng(seed).integers(len(benchmark.train_tasks))
            self.unwrapped.set_task(benchmark.train_tasks[goal])
            return self.env.reset(options=options)

    return SeededGoals(benchmark.train_classes[info.id]())


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
    with warnings.catch_warnings(), quiet_registration():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the packages' own making
        return needed(module, repr(name), extra)


def _require_registered(name: str) -> None:
    """Raise InputError, with what to use instead, unless Gymnasium has this id and can build it."""
    registry = _gymnasium().registry
    if _is_built(name):
        return
    later = [known for known in registry if _base(known) == _base(name) and _is_built(known)]
    if re.fullmatch(r"\w+-v\d+", name) and any(_version(known) > _version(name) for known in later):
        instead = min((k for k in later if _version(k) > _version(name)), key=_version)
        contact = " with `env_kwargs` use_contact_forces=true (its 111 observations)"
        raise InputError(
            f"expected an id that Gymnasium has, found {name!r}, which it dropped: use {instead}"
            f"{contact if instead == 'Ant-v4' else ''}"
        )
    raise InputError(_unknown(name, [*filter(_is_built, registry), *PAPER_IDS]))


def _is_built(name: str) -> bool:
    """Whether Gymnasium has an id, and more than a note that it moved elsewhere."""
    entry = _gymnasium().registry.get(name)
    return entry is not None and "raise" not in getattr(entry.entry_point, "__name__", "")


def _version(name: str) -> int:
    found = name.rpartition("-v")[2]
    return int(found) if found.isdigit() else -1


def _unknown(name: str, known: list[str]) -> str:
    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(lowered[match] for match in near)}?" if near else ""
    return (
        f"expected the id of an environment, found {name!r}: {hint or 'check its spelling'} "
        f"(another package's: its module first, as module:{name.rpartition('/')[2]})"
    )


# --- Python objects ------------------------------------------------------------------------------


def _of_instance(env: Any, kwargs: dict[str, Any]) -> EnvInfo:
    """What is known of its id if it differs by arguments alone, or else what builds its `spec`."""
    import cloudpickle

    gym = _gymnasium()
    if env.spec is None:
        raise InputError(
            f"expected an environment that Gymnasium can build again, found {env} without a "
            "`spec`: pass a function that returns it, or register it and pass its id"
        )
    spec = copy.copy(env.spec)
    # Without the window that it may have been shown in.
    spec.kwargs = {k: v for k, v in {**spec.kwargs, **kwargs}.items() if k != "render_mode"}
    registered = gym.registry.get(spec.id)
    if (
        registered is not None
        and not spec.additional_wrappers
        and spec.max_episode_steps == registered.max_episode_steps
        and cloudpickle.dumps(spec.kwargs) == cloudpickle.dumps(registered.kwargs)
    ):
        return EnvInfo.of(str(spec.id))
    given = ", ".join(f"{name}={' '.join(repr(v).split())}" for name, v in spec.kwargs.items())
    wrappers = "".join(f" in {wrapper.name}" for wrapper in spec.additional_wrappers)
    build = functools.partial(gym.make, spec, disable_env_checker=True)
    return _of_factory(build, f"{spec.id}{f'({given})' if given else ''}{wrappers}", {})


def _of_factory(factory: Callable[..., Any], name: str | None, kwargs: dict[str, Any]) -> EnvInfo:
    """What `factory` builds, by that name, the id of what it returns, or its own."""
    gym = _gymnasium()
    function: Any = factory.func if isinstance(factory, functools.partial) else factory
    own = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
    info = EnvInfo(name or own, "custom", 3, False, _INITIAL_STATE, kwargs=kwargs, factory=factory)
    env = info.build()
    name = name or (env.spec.id if env.spec is not None else own)
    limits, inner = [], env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    thin = known_thinning(name.partition("(")[0])
    if thin is None and env.spec is not None:
        thin = known_thinning(env.spec.id)
    env.close()
    return dataclasses.replace(info, id=name, thin=thin or 3, time_limit=min(limits, default=None))


def _make_custom(info: EnvInfo) -> Any:
    if info.factory is None:
        raise InputError(
            f"cannot build {info.id!r} from its record: it was a Python object; pass the object, "
            "or a function that returns it, as `env`"
        )
    try:
        env = info.factory(**info.kwargs)
    except Exception as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"cannot build {info.id!r}: {line}; expected a function that returns a new environment"
        ) from error
    if not isinstance(env, _gymnasium().Env):
        raise InputError(f"expected a gymnasium.Env from {info.id}, found {env!r}")
    return env
