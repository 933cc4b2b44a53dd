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

from tightrope.environments import EnvInfo, EnvKwargs
from tightrope.errors import InputError, one_line
from tightrope.policies.inert import read_yaml
from tightrope.policies.vecnormalize import find_statistics

__all__ = ["ZooRun", "find_run", "run_environment"]

_FILES = ("args.yml", "config.yml")
_METRICS = "train_eval_metrics.zip"  # in published repositories; no policy
_TIME_FEATURE, _KNOWN = "TimeFeatureWrapper", ("max_steps", "test_mode")
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
    place = next((each for each in places if any((each / n).is_file() for n in _FILES)), None)
    zips = [each for each in sorted(folder.glob("*.zip")) if each.name != _METRICS]
    if place is None:
        return _published(zips[0]) if path == folder and len(zips) == 1 else None
    if not zips:
        return None
    arguments, config = (_read(place / name) for name in _FILES)
    environment = arguments.get("env") or (place.name if place != folder else None)
    policy = path if path != folder else _policy(folder, zips, environment, arguments.get("algo"))
    environment = environment or _environment(policy)
    statistics = find_statistics(policy)
    if statistics is None and place != folder:
        statistics = find_statistics(place / policy.name)
    kwargs = arguments.get("env_kwargs") or _read(place / "env_kwargs.yml")
    if not isinstance(kwargs, Mapping):
        raise InputError(f"expected arguments by name as env_kwargs in {str(place)!r}")
    kwargs = {name: value for name, value in kwargs.items() if name != "render_mode"}
    name = None if environment is None else str(environment)
    normalized = _normalizes(config, statistics is not None)
    return ZooRun(policy, statistics, normalized, name, kwargs, config)


def _published(policy: Path) -> ZooRun | None:
    """The run of the only zip in a folder, if it is SB3's."""
    if not policy.is_file():  # a link may lead to a device or a pipe, which never ends
        return None
    try:
        with zipfile.ZipFile(policy) as archive:
            if not {"data", "policy.pth"} <= set(archive.namelist()):
                return None
    except (OSError, zipfile.BadZipFile):
        return None
    return ZooRun(policy, find_statistics(policy), None, _environment(policy), {}, {})


def _environment(policy: Path) -> str | None:
    """The id in a name such as ``ppo-Hopper-v4.zip``."""
    found = re.fullmatch(r"[a-z0-9_]+-(\w[\w-]*-v\d+)", policy.stem)
    return found[1] if found else None


def _normalizes(config: Mapping[str, Any], default: bool) -> bool:
    """Whether observations were normalised, in each form that the zoo knows."""
    normalize = config.get("normalize", default)
    keywords = config.get("normalize_kwargs")
    if isinstance(normalize, str):  # "{'norm_obs': True, 'norm_reward': False}", "dict(...)"
        normalize = re.search(r"norm_obs['\"]?\s*[:=]\s*False", normalize) is None
    elif isinstance(normalize, Mapping):
        keywords, normalize = normalize, True
    return bool(normalize) and not (
        isinstance(keywords, Mapping) and not keywords.get("norm_obs", True)
    )


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
    for stem in (name, f"{algorithm}-{name}"):
        if (folder / f"{stem}.zip").is_file():
            return folder / f"{stem}.zip"
    if len(zips) != 1:
        listed = ", ".join(path.name for path in zips[:6])
        raise InputError(
            f"expected {name}.zip in {str(folder)!r}, found {listed}: give one of them, such as "
            f"{str(folder / 'best_model.zip')!r}"
        )
    return zips[0]


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
    if env is not None:
        return _wrapped(EnvInfo.of(env, env_kwargs), _wrappers(run))
    folder, name = str(run.policy.parent), run.environment
    if name is None or ":" in name:
        found = "no file that names one" if name is None else f"{name[:80]!r}, a module to import"
        raise InputError(f"expected `env`, found {found} in {folder!r}: if you know it, give it")
    stacked = run.config.get("frame_stack")
    if stacked and stacked != 1:
        raise InputError(
            f"expected a policy of single observations, found one of {str(stacked)[:20]} stacked "
            f"frames in {folder!r}: give `env` as file.py:function, a function that returns an "
            "environment that stacks them"
        )
    wrappers = _wrappers(run)
    unknown = next((path for path, _ in wrappers if _TIME_FEATURE not in path), None)
    if unknown is not None:
        raise InputError(
            f"expected no wrapper but {_TIME_FEATURE}, found {unknown[:100]!r} in the config.yml "
            f"of {folder!r}: give `env` as file.py:function, a function that returns "
            f"{unknown.rpartition('.')[2][:60]}(gymnasium.make({name!r}))"
        )
    if not all(_is_number(value) for value in run.arguments.values()):
        raise InputError(
            f"expected `env` and `env_kwargs`, found the arguments {str(dict(run.arguments))[:80]} "
            f"in {folder!r}: if you know them, give both"
        )
    return _wrapped(EnvInfo.of(EnvInfo.of(name, run.arguments), env_kwargs), wrappers)


def _wrapped(info: EnvInfo, wrappers: list[tuple[str, dict[str, Any]]]) -> EnvInfo:
    """With the time as a feature, if it is among the wrappers."""
    given = [kwargs for path, kwargs in wrappers if _TIME_FEATURE in path]
    if not given:
        return info
    from tightrope.policies.time_feature import TimeFeature

    env = info.build()
    for kwargs in given:
        known = {name: value for name, value in kwargs.items() if name in _KNOWN}
        env = TimeFeature(env, **known)
    return EnvInfo.of(env)


def _is_number(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return all(isinstance(each, bool | int | float) for each in several)


def _wrappers(run: ZooRun) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments: one name, or a list of names or of {name: arguments}."""
    found: list[tuple[str, dict[str, Any]]] = []
    for key in ("env_wrapper", "vec_env_wrapper"):
        value = run.config.get(key)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            pairs = each.items() if isinstance(each, Mapping) else [(each, {})]
            found += [(str(path), kw if isinstance(kw, dict) else {}) for path, kw in pairs]
    return [pair for pair in found if pair[0].rpartition(".")[2] not in _FLATTENING]
