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

__all__ = ["PAPER_IDS", "EnvInfo", "EnvKwargs", "known_thinning", "make_env"]
__all__ += ["recorded_environment", "stated_environment"]

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
        gym, kwargs, name = _gymnasium(), _kwargs(env_kwargs), None
        if isinstance(environment, EnvInfo):
            if not kwargs:
                return environment
            kwargs = {**environment.kwargs, **kwargs}
            name, environment = environment.id, environment.factory or environment.id
        if isinstance(environment, str) and ".py:" in environment:
            name, environment = Path(environment).name, user_function(environment)
        if isinstance(environment, gym.Env):
            return _of_instance(environment, kwargs)
        if callable(environment):
            return _of_factory(environment, name, kwargs)
        if isinstance(environment, str):
            return _of_id(environment, kwargs)
        raise InputError(
            "expected the id of an environment, an environment or a function that returns one, "
            f"found {environment!r}"
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the factory; `kwargs` only where there are any."""
        unwritten = ("factory",) if self.kwargs else ("factory", "kwargs")
        names = [field.name for field in dataclasses.fields(self) if field.name not in unwritten]
        return {name: getattr(self, name) for name in names}

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
        observed, actions = env.observation_space, env.action_space
        if not observed.is_np_flattenable:
            raise InputError(f"expected numbers as observations, found {observed} in {self.id!r}")
        kinds = spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary
        if not isinstance(actions, kinds):
            raise InputError(f"expected numbers as actions, found {actions} in {self.id!r}")
        is_vector = isinstance(observed, spaces.Box) and len(observed.shape) == 1
        return env if is_vector else gym.wrappers.FlattenObservation(env)

    def build(self) -> Any:
        """A new environment as its makers have it, whatever its spaces are."""
        gym = _gymnasium()
        if self.suite == "custom" and self.factory is None:
            raise InputError(
                f"cannot build {self.id!r} from its record: it was a Python object; pass the "
                "object, or a function that returns it, as `env`"
            )
        with quiet_registration(), warnings.catch_warnings():
            # Silenced on purpose: the paper's results are for v4, which Gymnasium keeps for
            # reproducibility and calls out of date on every construction.
            out_of_date = r".*The environment .* is out of date"
            warnings.filterwarnings("ignore", out_of_date, DeprecationWarning)
            try:
                if self.suite == "metaworld":
                    return _make_metaworld(self)
                if self.factory is None:
                    make = functools.partial(gym.make, disable_env_checker=True)
                    return make(_registered(self.id), **self.kwargs)
                env = self.factory(**self.kwargs)
            except InputError:
                raise
            except Exception as error:  # Gymnasium's own, or whatever the user's own code raises
                line = f"{type(error).__name__}: {one_line(error)}"
                remedy = "; expected a function that returns an environment" if self.factory else ""
                raise InputError(f"cannot build {self.id!r}: {line}{remedy}") from error
        if not isinstance(env, gym.Env):
            raise InputError(f"expected a gymnasium.Env from {self.id}, found {env!r}")
        return env


def make_env(environment: Any, env_kwargs: EnvKwargs = None) -> Any:
    """A new environment, named or given as :meth:`EnvInfo.of` takes it."""
    return EnvInfo.of(environment, env_kwargs).make()


def recorded_environment(record: Any) -> EnvInfo:
    """The environment that a certificate, training record or recording names.

    Of what the record says only id and arguments are used, as :func:`stated_environment` does.

    Raises:
        InputError: the record is damaged, or the user has to name the environment in `env`.
    """
    if not isinstance(record, Mapping):
        raise InputError("expected `env`, an environment to run in: none is on record")
    stated = EnvInfo.from_json(record)
    return stated_environment(stated.id, stated.kwargs, known=stated.suite != "custom")


def stated_environment(name: str, kwargs: Mapping[str, Any], *, known: bool = True) -> EnvInfo:
    """The environment that a file names, which anyone may have written.

    No module is imported because it says so, whatever else is trusted, and arguments are used if
    they are numbers (a text may name a file).

    Raises:
        InputError: it is unknown, or the user has to name it in `env`.
    """
    if ":" in name or not known:
        raise InputError(
            f"expected `env`, found only a record that names {name[:80]!r}: no module is "
            "imported because a file says so; if you know this environment, name it in `env`"
        )
    for value in kwargs.values():
        several = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(each, bool | int | float) for each in several):
            raise InputError(
                f"expected `env` and `env_kwargs`, found only a record of {name[:80]!r} with the "
                f"arguments {str(dict(kwargs))[:80]}: if you know them, give both"
            )
    return EnvInfo.of(name, kwargs)


def known_thinning(name: str) -> int | None:
    """The thinning that the paper fixed for an environment, by its id; None for others."""
    return _THINNING.get(_base_and_version(name)[0])


def _base_and_version(name: str) -> tuple[str, int]:
    base, _, version = name.rpartition("/")[2].rpartition("-v")
    return base, int(version) if version.isdecimal() else -1


def _gymnasium() -> Any:
    return needed("gymnasium", "an environment")


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


# --- by id ----------------------------------------------------------------------------------------


def _of_id(name: str, kwargs: dict[str, Any]) -> EnvInfo:
    registry = _gymnasium().registry
    if re.fullmatch(r"[a-z][a-z-]*-v3", name) and name not in registry:
        known = _import("metaworld", name, "metaworld").ALL_V3_ENVIRONMENTS
        if name not in known:
            raise InputError(_unknown(name, [*known, *registry]))
        if kwargs:
            raise InputError(f"expected no `env_kwargs` for {name!r}: Meta-World takes none")
        steps, seeds = int(known[name].max_path_length), _GOAL.format(_GOAL_SEED)
        return EnvInfo(name, "metaworld", 5, True, seeds, _GOAL_SEED, steps)
    registered = _registered(name)
    _require_buildable(registered)
    if name.startswith("dm_control/"):
        limit = _dm_control_limit(name)
        info = EnvInfo(name, "dm_control", 5, limit is not None, _INITIAL_STATE)
    else:
        fixed = _base_and_version(registered)[0] in _FIXED_LENGTH
        limit = kwargs.get("max_episode_steps", registry[registered].max_episode_steps)
        thin = known_thinning(registered) or (5 if fixed else 3)
        info = EnvInfo(name, "gymnasium", thin, fixed, _INITIAL_STATE)
    return dataclasses.replace(info, time_limit=limit, kwargs=kwargs)


def _registered(name: str) -> str:
    """The id in Gymnasium's registry, once what registers it is imported.

    That is `module` for ``module:Name-v0``, Gymnasium's form for environments of others.
    """
    if name.startswith("dm_control/"):
        _import("dm_control", name, "dmc")
        _import("shimmy", name, "dmc")
    module, _, registered = name.rpartition(":")
    if module:
        try:
            import_module(module)
        except Exception as error:  # whatever the user's own code raises
            raise InputError(f"cannot import {module!r}: {one_line(error)}") from error
    return registered


def _import(module: str, name: str, extra: str) -> Any:
    if extra == "dmc" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "disabled")  # else it warns of a missing screen
    with warnings.catch_warnings(), quiet_registration():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the packages' own making
        return needed(module, repr(name), extra)


@functools.cache
def _dm_control_limit(name: str) -> int | None:
    """Control steps until a task of the suite ends; only the built environment shows it."""
    env = EnvInfo(name, "dm_control", 5, True, _INITIAL_STATE).build()
    env.close()
    return _limit(env)


def _limit(env: Any) -> int | None:
    """Steps after which a built environment truncates; None if it shows no such limit.

    That of dm_control's composer is a simulated time.
    """
    limits = [getattr(getattr(env.unwrapped, "_env", None), "_step_limit", math.inf)]
    while env is not env.unwrapped:
        if isinstance(env, _gymnasium().wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return math.ceil(min(limits)) if math.isfinite(min(limits)) else None


def _make_metaworld(info: EnvInfo) -> Any:
    import numpy as np

    gym = _gymnasium()
    metaworld = _import("metaworld", info.id, "metaworld")
    benchmark = metaworld.MT1(info.id, seed=info.goal_seed)

    class SeededGoals(gym.Wrapper):  # type: ignore[misc, name-defined]
        """Meta-World ignores reset(seed=...): here the seed picks the goal."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            goal = np.random.default_rng(seed).integers(len(benchmark.train_tasks))
            self.unwrapped.set_task(benchmark.train_tasks[goal])
            return self.env.reset(options=options)

    return SeededGoals(benchmark.train_classes[info.id]())


def _require_buildable(name: str) -> None:
    """Raise InputError, with what to use instead, unless Gymnasium has this id and can build it."""
    # Of some ids it has no more than a note that they moved elsewhere.
    built = [
        known
        for known, spec in _gymnasium().registry.items()
        if "raise" not in getattr(spec.entry_point, "__name__", "")
    ]
    if name in built:
        return
    base, version = _base_and_version(name)
    parsed = {known: _base_and_version(known) for known in built}
    later = [known for known in built if parsed[known][0] == base and parsed[known][1] > version]
    if later and re.fullmatch(r"\w+-v\d+", name):
        instead = min(later, key=lambda known: parsed[known][1])
        contact = " with `env_kwargs` use_contact_forces=true (its 111 observations)"
        raise InputError(
            f"expected an id that Gymnasium has, found {name!r}, which it dropped: use {instead}"
            f"{contact if instead == 'Ant-v4' else ''}"
        )
    raise InputError(_unknown(name, [*built, *PAPER_IDS]))


def _unknown(name: str, known: list[str]) -> str:
    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(lowered[match] for match in near)}?" if near else ""
    return (
        f"expected the id of an environment, found {name!r}: {hint or 'check its spelling'} "
        f"(another package's: its module first, as module:{name.rpartition('/')[2]})"
    )


# --- Python objects -------------------------------------------------------------------------------


def _of_instance(env: Any, kwargs: dict[str, Any]) -> EnvInfo:
    """What is known of its id if it is as registered, or else what builds its `spec`."""
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
    function: Any = factory.func if isinstance(factory, functools.partial) else factory
    own = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
    info = EnvInfo(name or own, "custom", 3, False, _INITIAL_STATE, kwargs=kwargs, factory=factory)
    env = info.build()
    env.close()
    registered = env.spec.id if env.spec is not None else own
    name = name or registered
    thin = known_thinning(name.partition("(")[0]) or known_thinning(registered) or 3
    return dataclasses.replace(info, id=name, thin=thin, time_limit=_limit(env))
