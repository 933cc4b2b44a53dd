"""Folders with one trained policy of SB3: the policy, its statistics and its environment.

Three layouts: that of rl-baselines3-zoo's ``logs/ppo/Hopper-v4_1`` (``Hopper-v4.zip``,
``Hopper-v4/vecnormalize.pkl``, ``Hopper-v4/args.yml``, ``Hopper-v4/config.yml``); that of the
repositories it publishes (``ppo-Hopper-v4.zip``, ``vec_normalize.pkl``, ``args.yml``,
``config.yml``, ``env_kwargs.yml``); and that of repositories without these files.
"""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from tightrope.environments import EnvInfo, EnvKwargs, stated_environment
from tightrope.errors import InputError, one_line
from tightrope.policies.inert import read_yaml
from tightrope.policies.vecnormalize import find_statistics

__all__ = ["TimeFeature", "ZooRun", "find_run", "run_environment"]

_FILES = ("args.yml", "config.yml")
_METRICS = "train_eval_metrics.zip"  # in published repositories; no policy
_FLATTENING = ("FlattenObservation", "FlattenDictWrapper")  # done here for every environment


@dataclass(frozen=True)
class ZooRun:
    """What a run folder says about one of its policies.

    Attributes:
        policy: its zip.
        statistics: of its observations; None if there are none.
        normalized: whether it was trained on normalised observations; None if nothing says so.
        environment: id of the environment; None if nothing names it.
        arguments: of the environment.
        config: hyperparameters as the zoo wrote them.
    """

    policy: Path
    statistics: Path | None
    normalized: bool | None
    environment: str | None
    arguments: Mapping[str, Any]
    config: Mapping[str, Any]

    def require_statistics(self) -> Path | None:
        """The statistics that the policy needs; raises InputError if they are missing."""
        if self.normalized and self.statistics is None:
            raise InputError(
                f"expected vecnormalize.pkl or vec_normalize.pkl near {str(self.policy)!r}, which "
                "was trained with `normalize`, found neither: give the file as `normalize`"
            )
        return self.statistics if self.normalized else None


def find_run(source: str | Path) -> ZooRun | None:
    """The run that a folder, or a zip in it, belongs to; None if it is no run.

    Raises:
        InputError: its files are damaged, or it has several policies to choose from.
    """
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or (path.suffix == ".zip" and path.is_file())):
        return None
    places = [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]
    found = next((each for each in places if any((each / n).is_file() for n in _FILES)), None)
    zips = [each for each in sorted(folder.glob("*.zip")) if each.name != _METRICS]
    alone = found is None and path == folder and len(zips) == 1 and _is_policy(zips[0])
    if not zips or (found is None and not alone):
        return None
    place = found or folder
    arguments, config = (_read(place / name) for name in _FILES)
    environment = arguments.get("env") or (place.name if place != folder else None)
    policy = path if path != folder else _policy(folder, zips, environment, arguments.get("algo"))
    named = re.fullmatch(r"[a-z0-9_]+-(\w[\w-]*-v\d+)", policy.stem)  # such as ppo-Hopper-v4
    environment = environment or (named and named[1])
    statistics = find_statistics(policy) or find_statistics(place / policy.name)
    kwargs = arguments.get("env_kwargs") or _read(place / "env_kwargs.yml")
    if not isinstance(kwargs, Mapping):
        raise InputError(f"expected arguments by name as env_kwargs in {str(place)!r}")
    return ZooRun(
        policy,
        statistics,
        None if alone else _normalizes(config, statistics is not None),
        None if environment is None else str(environment),
        {name: value for name, value in kwargs.items() if name != "render_mode"},
        config,
    )


def _is_policy(path: Path) -> bool:
    """Whether a zip is SB3's."""
    if not path.is_file():  # a link may lead to a device or a pipe, which never ends
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"data", "policy.pth"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _normalizes(config: Mapping[str, Any], default: bool) -> bool:
    """Whether observations were normalised, in each form that the zoo knows."""
    normalize = config.get("normalize", default)
    keywords = config.get("normalize_kwargs")
    if isinstance(normalize, str):  # "{'norm_obs': True, 'norm_reward': False}", "dict(...)"
        normalize = re.search(r"norm_obs['\"]?\s*[:=]\s*False", normalize) is None
    elif isinstance(normalize, Mapping):
        keywords, normalize = normalize, True
    off = isinstance(keywords, Mapping) and not keywords.get("norm_obs", True)
    return bool(normalize) and not off


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = read_yaml(path.read_text())
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read {str(path)!r}: {one_line(error)}") from None
    if not isinstance(content or {}, dict):
        raise InputError(f"expected names and values in {str(path)!r}, found another document")
    return content or {}


def _policy(folder: Path, zips: list[Path], environment: Any, algorithm: Any) -> Path:
    """The last policy: named after its environment, or the only one."""
    name = str(environment).replace("/", "-")
    usual = [folder / f"{stem}.zip" for stem in (name, f"{algorithm}-{name}")]
    named = [path for path in usual if path in zips]
    if not named and len(zips) > 1:
        listed = ", ".join(path.name for path in zips[:6])
        raise InputError(
            f"expected {name}.zip in {str(folder)!r}, found {listed}: give one of them, such as "
            f"{str(folder / 'best_model.zip')!r}"
        )
    return (named or zips)[0]


def run_environment(run: ZooRun, env: str | None = None, env_kwargs: EnvKwargs = None) -> EnvInfo:
    """The environment of a run, with its arguments and wrappers.

    Anyone may have written the files: no module is imported because they say so, and arguments
    are taken if they are numbers, as a text may name a file.

    Args:
        run: a run.
        env: an id from the user instead of the run's; with it, wrappers that are not known are
            left to the user.
        env_kwargs: arguments from the user, which count more.

    Raises:
        InputError: nothing names it, or it needs what only `env` can give.
    """
    wrappers = _wrappers(run)
    timed = [kwargs for name, kwargs in wrappers if "TimeFeatureWrapper" in name]
    if env is None:
        folder, name = str(run.policy.parent), run.environment
        if name is None:
            raise InputError(f"expected `env`, found no file that names one in {folder!r}")
        frames = run.config.get("frame_stack") or 1
        unknown = [path for path, _ in wrappers if "TimeFeatureWrapper" not in path]
        if unknown or frames != 1:
            wrapper = unknown[0] if unknown else "gymnasium.wrappers.FrameStackObservation"
            found = repr(wrapper[:100]) if unknown else f"{str(frames)[:20]} stacked frames"
            raise InputError(
                f"expected no wrapper but TimeFeatureWrapper, found {found} in the config.yml of "
                f"{folder!r}: give `env` as file.py:function, a function that returns "
                f"{wrapper.rpartition('.')[2][:60]}(gymnasium.make({name[:80]!r}))"
            )
        info = EnvInfo.of(stated_environment(name, run.arguments), env_kwargs)
    else:
        info = EnvInfo.of(env, env_kwargs)
    for kwargs in timed:
        known = {name: kwargs[name] for name in ("max_steps", "test_mode") if name in kwargs}
        info = EnvInfo.of(TimeFeature(info.build(), **known))
    return info


def _wrappers(run: ZooRun) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments: one name, or a list of names or of {name: arguments}."""
    found: list[tuple[str, dict[str, Any]]] = []
    for key in ("env_wrapper", "vec_env_wrapper"):
        value = run.config.get(key)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            pairs = each.items() if isinstance(each, Mapping) else [(each, {})]
            found += [(str(path), kw if isinstance(kw, dict) else {}) for path, kw in pairs]
    return [pair for pair in found if pair[0].rpartition(".")[2] not in _FLATTENING]


class TimeFeature(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """Appends 1 - t / limit to observations, as sb3-contrib's TimeFeatureWrapper does.

    Args:
        env: an environment of vectors, or of a dictionary with a vector `observation`.
        max_steps: limit of an episode whose environment has none.
        test_mode: append 1 at every step, to see whether the policy depends on the time.
    """

    def __init__(self, env: Any, max_steps: int = 1000, test_mode: bool = False) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_steps=max_steps, test_mode=test_mode)
        super().__init__(env)
        space = env.observation_space
        keyed = isinstance(space, gym.spaces.Dict)
        vector = space["observation"] if keyed else space
        low, high = np.append(vector.low, 0.0), np.append(vector.high, 1.0)
        kind: Any = vector.dtype
        longer = gym.spaces.Box(low.astype(kind), high.astype(kind), dtype=kind)
        together = {**space, "observation": longer} if keyed else {}
        self.observation_space = gym.spaces.Dict(together) if keyed else longer
        self.limit = (env.spec and env.spec.max_episode_steps) or max_steps
        self.test_mode, self.steps = test_mode, 0

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        self.steps = 0
        observation, info = self.env.reset(**kwargs)
        return self._with_time(observation), info

    def step(self, action: Any) -> Any:
        """Take one step."""
        self.steps += 1
        observation, *rest = self.env.step(action)
        return (self._with_time(observation), *rest)

    def _with_time(self, observation: Any) -> Any:
        if isinstance(observation, dict):
            return {**observation, "observation": self._with_time(observation["observation"])}
        left = 1.0 if self.test_mode else 1.0 - self.steps / self.limit
        return np.append(observation, np.array(left, observation.dtype))
