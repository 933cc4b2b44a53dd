"""Episodes and policies by whatever name a user gives them, and our own file of episodes.

Our file is .safetensors, arrays and a JSON header, nothing that executes; layout in
docs/formats.md. Files are written whole or not at all and never overwritten.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tightrope.environments import EnvInfo, EnvKwargs, recorded_environment
from tightrope.errors import InputError, reading
from tightrope.files import (
    load_tensors,
    refuse_to_overwrite,
    save_tensors,
    sha256,
    tensors_format,
)
from tightrope.imports import needed
from tightrope.policies import (
    POLICY_FORMAT,
    RECORD_FILE,
    TrainingRecord,
    find_record,
    policy_file,
)
from tightrope.rollouts.columns import Columns
from tightrope.rollouts.datasets import import_lerobot, import_minari, is_lerobot, is_minari_id
from tightrope.rollouts.episodes import Episode, Episodes, join, require_subject
from tightrope.rollouts.logs import NAMES, export_arrays, import_arrays, read_table
from tightrope.rollouts.stepping import OWN_ENVIRONMENT, own_rollout
from tightrope.rollouts.tables import read_frame

__all__ = [
    "FORMAT",
    "RECORDINGS",
    "PolicySource",
    "check_destination",
    "is_recording",
    "load",
    "load_episodes",
    "policy_source",
    "save",
    "write_episodes",
]

FORMAT = "tightrope.episodes/1"
_PROPERTY = "property."  # before the name of a property


def save(episodes: Episodes, path: str | Path) -> None:
    """Write episodes to a new .safetensors file.

    Raises:
        InputError: the file exists or cannot be written.
    """
    arrays = {field.name: getattr(episodes, field.name) for field in fields(episodes)}
    subject, properties = arrays.pop("subject"), arrays.pop("properties")
    arrays |= {f"{_PROPERTY}{name}": values for name, values in properties.items()}
    present = {name: array for name, array in arrays.items() if array is not None}
    save_tensors(Path(path), present, {"format": FORMAT, "subject": subject})


def load(path: str | Path) -> Episodes:
    """Episodes of a file written by :func:`save`.

    Raises:
        InputError: there is no such file, or it is damaged or of another kind.
    """
    arrays, header = load_tensors(Path(path), FORMAT)
    names = sorted(name for name in arrays if name.startswith(_PROPERTY))
    properties = {name.removeprefix(_PROPERTY): arrays.pop(name) for name in names}
    try:
        if not isinstance(header.get("subject"), dict):
            raise InputError("expected a subject, found none")
        require_subject(header["subject"])
        return Episodes(**arrays, properties=properties, subject=header["subject"])
    except InputError as error:
        raise InputError(f"{str(path)!r} is damaged: {error}") from None
    except TypeError:
        found = ", ".join(arrays)[:200]
        raise InputError(f"{str(path)!r} is damaged: expected episodes, found {found}") from None


# --- recordings ----------------------------------------------------------------------------------

# What reads a file, by its suffix.
_READERS: dict[str, Callable[..., Episodes]] = {
    ".safetensors": load,
    **dict.fromkeys((".npz", ".hdf5", ".h5"), import_arrays),
    **dict.fromkeys((".csv", ".tsv", ".parquet"), read_table),
}
_WITH_COLUMNS = (read_table, read_frame, import_lerobot)
_WRITTEN = (".safetensors", ".npz", ".hdf5", ".h5")
RECORDINGS = (
    f"recorded episodes ({', '.join(name for name in _READERS if name != '.h5')}, the folder of a "
    "LeRobot dataset, or the id or folder of a Minari dataset)"
)
_LABELS = {"episode", "episode_index"}  # in a dictionary of columns, not in one of D4RL's arrays


def is_recording(source: Any) -> bool:
    """Whether a source is, or names, recorded episodes rather than a policy."""
    of_policy = isinstance(source, str | Path) and Path(source).suffix == ".safetensors"
    if of_policy and tensors_format(Path(source)) == POLICY_FORMAT:
        return False
    return _reader(source) is not None


def load_episodes(source: Any, columns: Columns = None) -> Episodes:
    """Recorded episodes, whatever they are in.

    Args:
        source: the name of a file (tightrope's own .safetensors; .npz or .hdf5 with the D4RL
            names; a .csv, .tsv or .parquet table), of a LeRobot folder or of a Minari
            dataset (id or folder); a dictionary of arrays with the D4RL names, or of columns; a
            data frame; a list of `Episode`; or `Episodes`, which are returned as they are.
        columns: which column of a table, frame, dictionary or LeRobot dataset is what
            (:func:`tightrope.rollouts.tables.read_frame` has the rule).

    Raises:
        InputError: there is no such recording, it is damaged, or it has no columns to name.
    """
    read = read_frame if columns and isinstance(source, Mapping) else _reader(source)
    named = isinstance(source, str | Path)
    place = repr(str(source)) if named else f"the {type(source).__name__}"
    if columns and read not in _WITH_COLUMNS:
        raise InputError(
            "expected no `columns` but for a table, a data frame, a dictionary or a LeRobot "
            f"dataset, found them for {place}"
        )
    of_file = named and read is not import_minari  # a pipe would never end
    if read is None or (of_file and not (Path(source).is_file() or Path(source).is_dir())):
        kinds = "" if named else ", a dictionary of arrays, a data frame or a list of episodes"
        raise _refusal(f"{RECORDINGS}{kinds}", source)
    given = Path(source) if of_file else source
    if read is load:
        return load(given)
    with reading(place):
        return read(given, columns) if read in _WITH_COLUMNS else read(given)


def _reader(source: Any) -> Callable[..., Episodes] | None:
    """What reads a source; None for a policy, and for what nothing here reads."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_dir():
            minari = not path.exists() and is_minari_id(str(source))
            return _READERS.get(path.suffix, import_minari if minari else None)
        if is_lerobot(path):
            return import_lerobot
        trained = policy_file(path) is not None or (path / RECORD_FILE).is_file()
        if trained:
            return None
        from tightrope.policies import find_run

        return import_minari if find_run(path) is None else None
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):  # a data frame
        return read_frame
    if isinstance(source, Mapping):
        of_rows = _LABELS & set(source) and not set(NAMES) <= set(source)
        return read_frame if of_rows else import_arrays
    if isinstance(source, Episodes):
        return lambda same: same
    of_episodes = isinstance(source, Sequence) and all(isinstance(e, Episode) for e in source)
    return join if of_episodes else None


def check_destination(path: str | Path) -> None:
    """Raise InputError unless `path` is a new file name with the suffix of a known format."""
    if Path(path).suffix not in _WRITTEN:
        raise InputError(
            f"expected a name ending in .safetensors, .npz or .hdf5, found {str(path)!r}"
        )
    refuse_to_overwrite(Path(path))
    if Path(path).suffix in (".hdf5", ".h5"):
        needed("h5py", "an .hdf5 log")


def write_episodes(episodes: Episodes, path: str | Path) -> None:
    """Write episodes to a new file, in the format that its suffix names.

    Raises:
        InputError: the file exists, cannot be written, or the suffix is unknown.
    """
    check_destination(path)
    (save if Path(path).suffix == ".safetensors" else export_arrays)(episodes, path)


# --- policies ------------------------------------------------------------------------------------

_POLICIES = (
    "a Stable-Baselines3 .zip, a .safetensors, .pt, .pt2 or .onnx policy, a folder that tightrope "
    "train wrote, file.py:name or package.module:name"
)
_PROGRAMS = (".zip", ".safetensors", ".pt", ".ts", ".pt2", ".onnx")  # as load_policy knows them
_PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True)
class PolicySource:
    """What to roll out, and where.

    Attributes:
        policy: as :func:`tightrope.policies.load_policy` takes it.
        environment: the one that the user named, or the one that the policy was trained in.
        record: of the training, if there is one beside the policy.
    """

    policy: Any
    environment: EnvInfo
    record: TrainingRecord | None = None

    def training(self) -> dict[str, Any]:
        """The training record's digest, for the subject of the episodes; nothing without one."""
        if self.record is None:
            return {}
        return {"training": {"record": sha256(Path(self.policy).parent / RECORD_FILE)}}


def policy_source(source: Any, env: Any = None, env_kwargs: EnvKwargs = None) -> PolicySource:
    """The policy that `source` names, in the environment `env` or that of its training record.

    Arguments of the environment in `env_kwargs` are added to those on record.

    Raises:
        InputError: there is no such policy, neither names an environment, the record is damaged or
            of another policy, or it names an environment that only `env` may name.
    """
    own = own_rollout(source)
    if own is not None:
        if env is not None or env_kwargs:
            raise InputError("expected no `env` with a roll-out of your own, found one")
        return PolicySource(own, OWN_ENVIRONMENT)
    policy, record = source, None
    if isinstance(source, str | Path):
        _require_policy(source)
        policy, record = find_record(source) or (source, None)
        from tightrope.policies import find_run, run_environment

        run = find_run(source) if record is None else None
        # What a function returns is as it is meant; an id is wrapped as in the run.
        if run is not None and (env is None or (isinstance(env, str) and ".py:" not in env)):
            return PolicySource(policy, run_environment(run, env, env_kwargs))
    if env is None and record is None:
        name = repr(str(source)) if isinstance(source, str | Path) else type(source).__name__
        raise InputError(f"expected `env`, an environment to roll out {name} in, found none")
    where = recorded_environment(record.environment) if env is None and record else env
    return PolicySource(policy, EnvInfo.of(where, env_kwargs), record)


def _require_policy(source: str | Path) -> None:
    """Raise InputError for a name that no policy can have, or that nothing has."""
    module, colon, name = str(source).rpartition(":")
    named = colon and module and name.isidentifier()
    path = Path(module if named else source)
    if path.is_dir() or (named and path.suffix != ".py"):
        return
    if not path.is_file() or not (named or path.suffix in _PROGRAMS):
        if path.exists() and is_recording(source):
            raise InputError(f"expected a policy, found recorded episodes, {str(source)!r}")
        raise _refusal(f"{_POLICIES} or {RECORDINGS}", path)
    if tensors_format(path) == FORMAT:
        raise InputError(f"expected a policy, found recorded episodes, {str(source)!r}")


def _refusal(expected: str, source: Any) -> InputError:
    if not isinstance(source, str | Path):
        return InputError(f"expected {expected}, found {type(source).__name__}")
    if not Path(source).exists():
        return InputError(f"expected {expected}, found nothing at {str(source)!r}: check the path")
    remedy = (
        ": unpickling executes code, so load it yourself and pass the arrays "
        f"{', '.join(NAMES)} to tightrope.certify as a dictionary, or write them as an .npz"
    )
    pickled = Path(source).suffix in _PICKLES
    return InputError(f"expected {expected}, found {str(source)!r}{remedy if pickled else ''}")
