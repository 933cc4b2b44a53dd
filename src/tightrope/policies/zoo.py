"""Run folders of rl-baselines3-zoo: the policy, its statistics and its environment.

Two layouts: that of ``logs/ppo/Hopper-v4_1`` (``Hopper-v4.zip``, ``Hopper-v4/vecnormalize.pkl``,
``Hopper-v4/args.yml``, ``Hopper-v4/config.yml``), and that of published repositories
(``ppo-Hopper-v4.zip``, ``vec_normalize.pkl``, ``args.yml``, ``config.yml``, ``env_kwargs.yml``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.environments import EnvInfo
from tightrope.errors import InputError, one_line
from tightrope.policies.vecnormalize import find_statistics
from tightrope.policies.yaml_data import read_yaml

__all__ = ["ZooRun", "find_run", "run_environment"]

_FILES = ("args.yml", "config.yml")
_METRICS = "train_eval_metrics.zip"  # in published repositories; no policy
_TIME_FEATURE = "TimeFeatureWrapper"
_FLATTENING = ("FlattenObservation", "FlattenDictWrapper")  # done here for every environment


@dataclass(frozen=True)
class ZooRun:
    """What a run folder says about one of its policies.

    Attributes:
        policy: its zip.
        statistics: of its observations; None if there are none.
        normalized: whether it was trained on normalised observations.
        environment: id of the environment; None if nothing names it.
        arguments: of the environment.
        config: hyperparameters as the zoo wrote them.
    """

    policy: Path
    statistics: Path | None
    normalized: bool
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
    """The run that a folder, or a zip in it, belongs to; None if it is no run of the zoo.

    Raises:
        InputError: its files are damaged, or it has several policies to choose from.
    """
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or (path.suffix == ".zip" and path.is_file())):
        return None
    places = [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]
    place = next((each for each in places if any((each / n).is_file() for n in _FILES)), None)
    if place is None or not any(folder.glob("*.zip")):
        return None
    arguments, config = (_read(place / name) for name in _FILES)
    environment = arguments.get("env")
    if environment is None and place != folder:
        environment = place.name
    policy = path if path != folder else _policy(folder, environment, arguments.get("algo"))
    statistics = find_statistics(policy)
    if statistics is None and place != folder:
        statistics = find_statistics(place / policy.name)
    normalize = config.get("normalize", statistics is not None)
    if isinstance(normalize, str):  # "{'norm_obs': True, 'norm_reward': False}", "dict(...)"
        normalize = re.search(r"norm_obs['\"]?\s*[:=]\s*False", normalize) is None
    elif isinstance(normalize, Mapping):
        normalize = normalize.get("norm_obs", True)
    kwargs = arguments.get("env_kwargs") or _read(place / "env_kwargs.yml")
    if not isinstance(kwargs, Mapping):
        raise InputError(f"expected arguments by name as env_kwargs in {str(place)!r}")
    kwargs = {name: value for name, value in kwargs.items() if name != "render_mode"}
    name = None if environment is None else str(environment)
    return ZooRun(policy, statistics, bool(normalize), name, kwargs, config)


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


def _policy(folder: Path, environment: Any, algorithm: Any) -> Path:
    """The last policy: named after its environment, or the only one."""
    name = str(environment).replace("/", "-")
    for stem in (name, f"{algorithm}-{name}"):
        if (folder / f"{stem}.zip").is_file():
            return folder / f"{stem}.zip"
    zips = [path for path in sorted(folder.glob("*.zip")) if path.name != _METRICS]
    if len(zips) != 1:
        listed = ", ".join(path.name for path in zips[:6]) or "no policy"
        raise InputError(
            f"expected {name}.zip in {str(folder)!r}, found {listed}: give one of them, such as "
            f"{str(folder / 'best_model.zip')!r}"
        )
    return zips[0]


def run_environment(run: ZooRun, env_kwargs: Any = None) -> EnvInfo:
    """The environment of a run, with its arguments and wrappers.

    Anyone may have written the files: no module is imported because they say so, and arguments
    are taken if they are numbers, as a text may name a file.

    Args:
        run: a run.
        env_kwargs: arguments from the user, which count more.

    Raises:
        InputError: nothing names it, or it needs what only `env` can give.
    """
    folder, name = str(run.policy.parent), run.environment
    if name is None or ":" in name:
        found = (
            "no args.yml that names one" if name is None else f"{name[:80]!r}, a module to import"
        )
        raise InputError(f"expected `env`, found {found} in {folder!r}: if you know it, give it")
    stacked = run.config.get("frame_stack")
    if stacked and stacked != 1:
        raise InputError(
            f"expected a policy of single observations, found one of {str(stacked)[:20]} stacked "
            f"frames in {folder!r}: give `env` as file.py:function, a function that returns an "
            "environment that stacks them"
        )
    wrappers = [
        _wrapper(run, wrapper, kwargs)
        for key in ("env_wrapper", "vec_env_wrapper")
        for wrapper, kwargs in _wrappers(run.config.get(key))
        if wrapper.rpartition(".")[2] not in _FLATTENING
    ]
    if not all(_is_number(value) for value in run.arguments.values()):
        raise InputError(
            f"expected `env` and `env_kwargs`, found the arguments {str(dict(run.arguments))[:80]} "
            f"in {folder!r}: if you know them, give both"
        )
    info = EnvInfo.of(EnvInfo.of(name, run.arguments), env_kwargs)
    if not wrappers:
        return info
    env = info.build()
    for wrapper in wrappers:
        env = wrapper(env)
    return EnvInfo.of(env)


def _is_number(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return all(isinstance(each, bool | int | float) for each in several)


def _wrappers(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments: one name, or a list of names or of {name: arguments}."""
    found: list[tuple[str, dict[str, Any]]] = []
    for each in value if isinstance(value, list) else [] if value is None else [value]:
        pairs = each.items() if isinstance(each, Mapping) else [(str(each), {})]
        found += [(str(name), kwargs if isinstance(kwargs, dict) else {}) for name, kwargs in pairs]
    return found


def _wrapper(run: ZooRun, name: str, kwargs: dict[str, Any]) -> Any:
    kind = name.rpartition(".")[2]
    if kind == _TIME_FEATURE and set(kwargs) <= {"max_steps", "test_mode"}:
        from tightrope.policies.time_feature import TimeFeature

        return lambda env: TimeFeature(env, **kwargs)
    raise InputError(
        f"expected no wrapper but {_TIME_FEATURE}, found {name[:100]!r} in the config.yml of "
        f"{str(run.policy.parent)!r}: give `env` as file.py:function, a function that returns "
        f"{kind[:60]}(gymnasium.make({run.environment!r}))"
    )
