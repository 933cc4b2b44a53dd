"""Episodes and policies by whatever name a user gives them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.environments import Recipe, recipe, recorded_environment
from tightrope.errors import InputError
from tightrope.files import refuse_to_overwrite, sha256, tensors_format
from tightrope.policies import (
    POLICY_FORMAT,
    RECORD_FILE,
    TrainingRecord,
    find_record,
    find_run,
    policy_file,
    run_environment,
)
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.logs import (
    NAMES,
    TABLES,
    Given,
    export_arrays,
    import_arrays,
    import_frame,
    import_lerobot,
    import_minari,
    import_table,
    is_frame,
    is_lerobot,
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
_LABELS = {"episode", "episode_index"}  # in a dictionary of columns, not in one of D4RL's arrays
_PROGRAMS = (".zip", ".safetensors", ".pt", ".ts", ".pt2", ".onnx")  # as load_policy knows them
_RECORDINGS = (
    "recorded episodes (.safetensors, .npz, .hdf5, .csv, .tsv, .parquet, .feather, the folder of a "
    "LeRobot dataset, or the id or folder of a Minari dataset)"
)
_POLICIES = (
    "a Stable-Baselines3 .zip, a .safetensors, .pt, .pt2 or .onnx policy, a folder that tightrope "
    "train wrote, file.py:name or package.module:name"
)
_NAMES = "the arrays observations, rewards, terminals and timeouts"
_PICKLE = (
    f"unpickling executes code, so load it yourself and pass {_NAMES} to tightrope.certify as a "
    "dictionary, or write them as an .npz"
)
_REMEDIES = dict.fromkeys((".pkl", ".pickle"), _PICKLE)


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

    def training(self) -> dict[str, Any]:
        """The training record's digest, for the subject of the episodes; nothing without one."""
        if self.record is None:
            return {}
        return {"training": {"record": sha256(Path(self.policy).parent / RECORD_FILE)}}


def policy_source(source: Any, env: Any = None) -> PolicySource:
    """The policy that `source` names, in the environment `env` or that of its training record.

    Raises:
        InputError: there is no such policy, neither names an environment, the record is damaged or
            of another policy, or it names an environment that only `env` may name.
    """
    found = None
    if isinstance(source, str | Path):
        _require_policy(source)
        found = find_record(source)
    policy, record = (source, None) if found is None else found
    if env is not None:
        return PolicySource(policy, recipe(env), record)
    run = find_run(source) if record is None and isinstance(source, str | Path) else None
    if run is not None:
        return PolicySource(policy, recipe(run_environment(run)), None)
    if record is None:
        raise InputError(
            f"expected `env`, an environment to roll out {_named(source)} in, found none"
        )
    return PolicySource(policy, recorded_environment(record.environment), record)


def is_recording(source: Any) -> bool:
    """Whether a source is, or names, recorded episodes rather than a policy."""
    if not isinstance(source, str | Path):
        return isinstance(source, Episodes | Mapping) or is_frame(source) or _is_list(source)
    path = Path(source)
    if path.suffix == ".safetensors":
        return tensors_format(path) != POLICY_FORMAT
    if path.is_dir():  # a dataset of LeRobot or Minari, or what tightrope or rl-zoo trained
        trained = policy_file(path) is not None or (path / RECORD_FILE).is_file()
        return not trained and find_run(path) is None
    if path.suffix in (*_ARRAYS, *TABLES):
        return True
    return not path.exists() and is_minari_id(str(source))


def load_episodes(source: Any, columns: Given = None) -> Episodes:
    """Recorded episodes, whatever they are in.

    Args:
        source: the name of a file (tightrope's own .safetensors; .npz or .hdf5 with the D4RL
            names; a .csv, .tsv, .parquet or .feather table), of a LeRobot folder or of a Minari
            dataset (id or folder); a dictionary of arrays with the D4RL names, or of columns; a
            data frame; a list of `Episode`; or `Episodes`, which are returned as they are.
        columns: which column of a table, frame, dictionary or LeRobot dataset is what
            (:func:`tightrope.rollouts.import_frame` has the rule).

    Raises:
        InputError: there is no such recording, it is damaged, or it has no columns to name.
    """
    if isinstance(source, Mapping) and not columns and not _has_rows(source):
        return import_arrays(source)
    by_columns = _by_columns(source)
    if by_columns is not None:
        return by_columns(source, columns)
    if columns:
        raise InputError(
            "expected no `columns` but for a table, a data frame, a dictionary or a LeRobot "
            f"dataset, found them for {_named(source)}"
        )
    if isinstance(source, Episodes):
        return source
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


def _by_columns(source: Any) -> Callable[[Any, Given], Episodes] | None:
    """What reads a source that has columns."""
    if isinstance(source, Mapping) or is_frame(source):
        return import_frame
    if not isinstance(source, str | Path) or not is_recording(source):
        return None
    if Path(source).suffix in TABLES and not Path(source).is_dir():
        return import_table
    return import_lerobot if is_lerobot(Path(source)) else None


def _has_rows(source: Mapping[str, Any]) -> bool:
    """Whether a dictionary has columns of a table rather than the arrays of D4RL."""
    return bool(_LABELS & set(source)) and not set(NAMES) <= set(source)


def _named(source: Any) -> str:
    return repr(str(source)) if isinstance(source, str | Path) else type(source).__name__


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
        pickled = path.suffix in _REMEDIES
        raise _refusal(f"{'a policy' if pickled else _POLICIES} or {_RECORDINGS}", source)
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
