"""Episodes and policies by whatever name a user gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.environments import Recipe, recipe
from tightrope.errors import InputError
from tightrope.files import refuse_to_overwrite, tensors_format
from tightrope.policies import (
    POLICY_FORMAT,
    RECORD_FILE,
    TrainingRecord,
    find_record,
    policy_file,
)
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.logs import (
    export_arrays,
    import_arrays,
    import_frame,
    import_minari,
    is_frame,
    is_minari_id,
    require_hdf5,
)
from tightrope.rollouts.storage import FORMAT, load, save

__all__ = [
    "PolicySource",
    "check_destination",
    "is_recording",
    "load_episodes",
    "policy_source",
    "write_episodes",
]

_ARRAYS = (".npz", ".hdf5", ".h5")
_PROGRAMS = (".zip", ".safetensors", ".pt", ".ts", ".pt2", ".onnx")  # as load_policy knows them
_RECORDINGS = (
    "recorded episodes (.safetensors, .npz, .hdf5, or the id or folder of a Minari dataset)"
)
_POLICIES = (
    "a Stable-Baselines3 .zip, a .safetensors, .pt, .pt2 or .onnx policy, a folder that tightrope "
    "train wrote, file.py:name or package.module:name"
)
_NAMES = "the arrays observations, rewards, terminals and timeouts"
_TABLE = (
    f"load it with pandas and pass the frame to tightrope.certify, or make it an .npz of {_NAMES}"
)
_PICKLE = (
    f"unpickling executes code, so load it yourself and pass {_NAMES} to tightrope.certify as a "
    "dictionary, or write them as an .npz"
)
_REMEDIES = {
    **dict.fromkeys((".csv", ".tsv", ".parquet", ".feather"), _TABLE),
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
}


@dataclass(frozen=True)
class PolicySource:
    """What to roll out, and where.

    Attributes:
        policy: as :func:`tightrope.policies.load_policy` takes it.
        environment: the one that the user named, or the one that the policy was trained in.
        record: of the training, if there is one beside the policy.
    """

    policy: Any
    environment: Recipe
    record: TrainingRecord | None


def policy_source(source: Any, env: Any = None, *, trust: bool = False) -> PolicySource:
    """The policy that `source` names, in the environment `env` or that of its training record.

    A record is a file that anyone may have written: a module that it names is imported only if the
    user names it as well, in `env`, or trusts the file.

    Raises:
        InputError: there is no such policy, neither names an environment, or the record is damaged
            or of another policy.
    """
    found = None
    if isinstance(source, str | Path):
        _require_policy(source)
        found = find_record(source)
    policy, record = (source, None) if found is None else found
    if env is not None:
        return PolicySource(policy, recipe(env), record)
    named = repr(str(source)) if isinstance(source, str | Path) else type(source).__name__
    if record is None:
        raise InputError(f"expected `env`, an environment to roll out {named} in, found none")
    trained = Recipe.from_json(record.environment)
    if ":" in trained.id:
        if not trust:
            raise InputError(
                f"expected `env` {trained.id!r} or `trust`: the training record of {named} names "
                "an environment whose module would be imported, which executes code"
            )
        recipe(trained.id)  # imports the module, also from the working directory
    return PolicySource(policy, trained, record)


def is_recording(source: Any) -> bool:
    """Whether a source is, or names, recorded episodes rather than a policy."""
    if not isinstance(source, str | Path):
        return isinstance(source, Episodes | Mapping) or is_frame(source) or _is_list(source)
    path = Path(source)
    if path.suffix == ".safetensors":
        return tensors_format(path) != POLICY_FORMAT
    if path.is_dir():  # a Minari dataset, or what training wrote
        return policy_file(path) is None and not (path / RECORD_FILE).is_file()
    if path.suffix in _ARRAYS:
        return True
    return not path.exists() and is_minari_id(str(source))


def load_episodes(source: Any) -> Episodes:
    """Recorded episodes, whatever they are in.

    Args:
        source: the name of a file (tightrope's own .safetensors, or .npz or .hdf5 with the D4RL
            names) or of a Minari dataset (id or folder); a dictionary of arrays with the D4RL
            names; a data frame (:func:`tightrope.rollouts.import_frame` has its columns); a list of
            `Episode`; or `Episodes`, which are returned as they are.

    Raises:
        InputError: there is no such recording, or it is damaged.
    """
    if isinstance(source, Episodes):
        return source
    if isinstance(source, Mapping):
        return import_arrays(source)
    if is_frame(source):
        return import_frame(source)
    if _is_list(source):
        return join(source)
    if not isinstance(source, str | Path):
        raise InputError(
            f"expected {_RECORDINGS}, a dictionary of arrays, a data frame or a list of episodes, "
            f"found {type(source).__name__}"
        )
    path = Path(source)
    if path.suffix == ".safetensors":
        return load(path)
    if path.suffix in _ARRAYS:
        return import_arrays(path)
    if is_recording(source):
        return import_minari(source)
    raise _refusal(_RECORDINGS, source)


def _is_list(source: Any) -> bool:
    return isinstance(source, Sequence) and all(isinstance(entry, Episode) for entry in source)


def _require_policy(source: str | Path) -> None:
    """Raise InputError for a name that no policy can have, or that nothing has."""
    path = Path(source)
    module, colon, name = str(source).rpartition(":")
    if path.is_dir():
        return
    if colon and module and name.isidentifier():
        if not module.endswith(".py"):
            return
        path = Path(module)
    elif path.suffix not in _PROGRAMS:
        if is_recording(source):
            raise InputError(
                f"expected a policy, found {str(source)!r}, a name of recorded episodes"
            )
        table = path.suffix in _REMEDIES
        raise _refusal(f"{'a policy' if table else _POLICIES} or {_RECORDINGS}", source)
    if not path.is_file():
        raise InputError(f"expected a policy, found nothing at {str(path)!r}: check the path")
    if path.suffix == ".safetensors" and tensors_format(path) == FORMAT:
        raise InputError(f"expected a policy, found recorded episodes in {str(source)!r}")


def _refusal(expected: str, source: str | Path) -> InputError:
    path = Path(source)
    if not path.exists():
        return InputError(f"expected {expected}, found nothing at {str(source)!r}: check the path")
    remedy = f": {_REMEDIES[path.suffix]}" if path.suffix in _REMEDIES else ""
    return InputError(f"expected {expected}, found {str(source)!r}{remedy}")


def check_destination(path: str | Path) -> None:
    """Raise InputError unless `path` is a new file name with the suffix of a known format."""
    if Path(path).suffix not in (".safetensors", *_ARRAYS):
        raise InputError(
            f"expected a name ending in .safetensors, .npz or .hdf5, found {str(path)!r}"
        )
    refuse_to_overwrite(Path(path))
    if Path(path).suffix in (".hdf5", ".h5"):
        require_hdf5()


def write_episodes(episodes: Episodes, path: str | Path) -> None:
    """Write episodes to a new file, in the format that its suffix names.

    Raises:
        InputError: the file exists, cannot be written, or the suffix is unknown.
    """
    check_destination(path)
    if Path(path).suffix == ".safetensors":
        save(episodes, path)
    else:
        export_arrays(episodes, path)
