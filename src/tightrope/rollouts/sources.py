"""Episodes and policies by whatever name a user gives them; how episodes are shared out."""

import re
from dataclasses import dataclass
from pathlib import Path

from tightrope.environments import Recipe, recipe
from tightrope.errors import InputError
from tightrope.files import refuse_to_overwrite
from tightrope.policies import (
    POLICY_FORMAT,
    RECORD_FILE,
    TrainingRecord,
    find_record,
    policy_file,
    stored_format,
)
from tightrope.rollouts.episodes import Episodes
from tightrope.rollouts.logs import export_arrays, import_arrays, import_minari, require_hdf5
from tightrope.rollouts.storage import load, save

__all__ = [
    "PILOT_EPISODES",
    "PolicySource",
    "Shares",
    "check_destination",
    "is_recording",
    "load_episodes",
    "policy_source",
    "share_out",
    "write_episodes",
]

PILOT_EPISODES = 10
_ARRAYS = (".npz", ".hdf5", ".h5")


@dataclass(frozen=True)
class Shares:
    """Episodes by what they may be used for.

    Attributes:
        pilot: fixes the return range and the observation scaling; never part of a bound.
        validation: fits the predictor and enters the bound.
        test: only ever compared with.
        all_episodes: these three, in recorded order.
    """

    pilot: Episodes | None
    validation: Episodes
    test: Episodes | None
    all_episodes: Episodes


@dataclass(frozen=True)
class PolicySource:
    """What to roll out, and where.

    Attributes:
        policy: as :func:`tightrope.policies.load_policy` takes it.
        environment: the one that the user named, or the one that the policy was trained in.
        record: of the training, if there is one beside the policy.
    """

    policy: str | Path
    environment: Recipe
    record: TrainingRecord | None


def policy_source(source: str, env: str | None, *, trust: bool = False) -> PolicySource:
    """The policy that `source` names, in the environment `env` or that of its training record.

    Raises:
        InputError: neither names an environment, or the record is damaged or of another policy.
    """
    found = find_record(source)
    policy, record = (source, None) if found is None else found
    if env is not None:
        return PolicySource(policy, recipe(env), record)
    if record is None:
        raise InputError(f"expected --env ID to roll the policy {source!r} out in, found none")
    trained = Recipe.from_json(record.environment)
    if ":" in trained.id and not trust:
        raise InputError(
            f"expected --env {trained.id} or --trust: the training record of {source!r} names an "
            "environment whose module would be imported, which executes code"
        )
    return PolicySource(policy, trained, record)


def is_recording(source: str | Path) -> bool:
    """Whether a source names recorded episodes rather than a policy."""
    path = Path(source)
    if path.suffix == ".safetensors":
        return stored_format(path) != POLICY_FORMAT
    if path.is_dir():  # a Minari dataset, or what training wrote
        return policy_file(path) is None and not (path / RECORD_FILE).is_file()
    if path.suffix in _ARRAYS:
        return True
    return not path.exists() and re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", str(source)) is not None


def load_episodes(source: str | Path) -> Episodes:
    """Episodes from tightrope's own file, a D4RL-style log, or a Minari dataset (id or folder).

    Raises:
        InputError: there is no such recording, or it is damaged.
    """
    path = Path(source)
    if path.suffix == ".safetensors":
        return load(path)
    if path.suffix in _ARRAYS:
        return import_arrays(path)
    if is_recording(source):
        return import_minari(source)
    raise InputError(
        "expected recorded episodes (.safetensors, .npz, .hdf5, or the id or folder of a Minari "
        f"dataset), found {str(source)!r}"
    )


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


def share_out(
    episodes: Episodes,
    *,
    pilot: int = PILOT_EPISODES,
    validation: int | None = None,
    test: int = 0,
) -> Shares:
    """Share recorded episodes out in recorded order: pilot, validation, test.

    Args:
        episodes: the recording.
        pilot: how many come first; may be 0.
        validation: how many come next; by default all that `test` leaves.
        test: how many come last; may be 0.

    Raises:
        InputError: there are not enough episodes, or a number is negative.
    """
    least = {"pilot": 0, "validation": 1, "test": 0}
    for name, value in (("pilot", pilot), ("validation", validation), ("test", test)):
        if value is not None and (value < least[name] or value != int(value)):
            raise InputError(
                f"{name} episodes must be a whole number of at least {least[name]}, found {value!r}"
            )
    left = len(episodes) - pilot - test
    wanted = max(left, 1) if validation is None else validation
    if wanted > left:
        raise InputError(
            f"expected at least {pilot + wanted + test} episodes ({pilot} pilot + {wanted} "
            f"validation + {test} test), found {len(episodes)}: record more, or lower --episodes, "
            "--test-episodes or --pilot-episodes"
        )
    middle = pilot + wanted
    return Shares(
        pilot=episodes.span(0, pilot) if pilot else None,
        validation=episodes.span(pilot, middle),
        test=episodes.span(middle, middle + test) if test else None,
        all_episodes=episodes.span(0, middle + test),
    )
