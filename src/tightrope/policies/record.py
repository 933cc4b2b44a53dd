"""The record that training leaves beside a policy: where and how it was trained, and its returns.

A folder with `policy.json` (the record), `policy.safetensors` and `policy.zip` is a policy by
itself. Its return range and observation scaling were fixed in training, before any episode of a
certificate existed; so such a policy needs no pilot episodes.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from tightrope.errors import InputError, one_line
from tightrope.files import sha256, write_text
from tightrope.records import checked

__all__ = [
    "POLICY_FILES",
    "RECORD_FILE",
    "RECORD_FORMAT",
    "TrainingRecord",
    "find_record",
    "load_record",
    "policy_file",
    "save_record",
]

RECORD_FORMAT = "tightrope.training/1"
RECORD_FILE = "policy.json"
POLICY_FILES = ("policy.safetensors", "policy.zip")  # the first that is there is the policy

Count = Annotated[int, Field(ge=0)]
Return = Annotated[  # JSON has null for a range of no episode
    float, Field(allow_inf_nan=True), BeforeValidator(lambda x: math.nan if x is None else x)
]


@checked
class TrainingRecord:
    """How a policy was trained, and what was seen meanwhile.

    Attributes:
        agent: what trained it: ``redq``, ``sac`` or ``ppo``.
        environment: the record of the environment.
        steps: environment steps of the training.
        episodes: finished training episodes behind the return range.
        gamma: discount factor of these returns.
        return_low: smallest discounted return seen in training; not finite if no episode finished.
        return_high: largest discounted return seen in training; not finite if no episode finished.
        observation_mean: (features,) mean of the observations in training.
        observation_deviation: (features,) their standard deviation, positive.
        settings: of the run: the agent's hyperparameters and the seed.
        versions: of the libraries.
        digests: SHA-256 of the policy's files, by name.

    Raises:
        InputError: a value is outside its set.
    """

    agent: str
    environment: dict[str, Any]
    steps: Count
    episodes: Count
    gamma: Annotated[float, Field(ge=0, le=1)]
    return_low: Return
    return_high: Return
    observation_mean: Any
    observation_deviation: Any
    settings: dict[str, Any]
    versions: dict[str, str]
    digests: dict[str, str]

    def __post_init__(self) -> None:
        mean = np.shape(self.observation_mean)
        for name in ("observation_mean", "observation_deviation"):
            with np.errstate(over="ignore"):  # too large for float32: found not to be finite
                array = np.array(getattr(self, name), np.float32)
            if array.ndim != 1 or array.shape != mean or not np.isfinite(array).all():
                raise InputError(f"`{name}` must be one finite number for each feature")
            object.__setattr__(self, name, array)
        if not (self.observation_deviation > 0).all():
            raise InputError("`observation_deviation` must be positive")

    def mismatch(self, *, environment: dict[str, Any], gamma: float) -> str | None:
        """Why the record's range is not for such returns, in words; None if it is.

        Args:
            environment: the record of the environment that the policy will be rolled out in.
            gamma: discount factor of the returns to predict.
        """
        if environment != self.environment:
            trained, asked = self.environment.get("id"), environment.get("id")
            what = f"in {trained}, not {asked}" if trained != asked else f"in another {trained}"
            return f"it was trained {what}"
        if gamma != self.gamma:
            return f"its returns have gamma {self.gamma:g}, not {gamma:g}"
        return None

    def __repr__(self) -> str:
        return (
            f"TrainingRecord({self.agent} in {self.environment.get('id')}, {self.steps:,} steps, "
            f"{self.episodes:,} episodes, returns [{self.return_low:g}, {self.return_high:g}], "
            f"{len(self.observation_mean)} features)"
        )


def save_record(record: TrainingRecord, path: Path) -> None:
    """Write a record to a new JSON file.

    Raises:
        InputError: the file exists or cannot be written, or a setting is not for JSON.
    """
    content: dict[str, Any] = {"format": RECORD_FORMAT}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        value = value.tolist() if isinstance(value, np.ndarray) else value
        no_range = field.name in ("return_low", "return_high") and not math.isfinite(value)
        content[field.name] = None if no_range else value
    try:
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(
            f"expected a record of finite numbers and texts: {one_line(error)}"
        ) from None
    write_text(path, text, new=True)


def load_record(path: Path) -> TrainingRecord:
    """Read a record written by :func:`save_record`.

    Raises:
        InputError: there is no such file, it is damaged or of another format.
    """
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.pop("format", None) != RECORD_FORMAT:
            raise ValueError(f"expected the format {RECORD_FORMAT}, found another")
        return TrainingRecord(**content)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{str(path)!r} is damaged or no training record: {one_line(error)}"
        ) from None


def policy_file(folder: Path) -> Path | None:
    """The policy in a folder that training wrote, weights before the zip; None if there is none."""
    return next((folder / name for name in POLICY_FILES if (folder / name).is_file()), None)


def find_record(source: str | Path) -> tuple[Path, TrainingRecord] | None:
    """The policy file that `source` means and its training record; None if it has no record.

    Args:
        source: a folder with `policy.json` and a policy, or one of POLICY_FILES in such a folder.

    Raises:
        InputError: the record is damaged, is alone, or is of another policy than the file.
    """
    path = Path(source)
    if path.is_dir():
        folder, file = path, policy_file(path)
    elif path.name in POLICY_FILES:
        folder, file = path.parent, path if path.is_file() else None
    else:
        return None
    place = folder / RECORD_FILE
    # Strangers may have a policy.json, too.
    if not place.is_file() or b"tightrope.training/" not in place.read_bytes():
        return None
    if file is None:
        raise InputError(f"expected {' or '.join(POLICY_FILES)} beside {str(place)!r}, found none")
    record = load_record(place)
    if record.digests.get(file.name) != sha256(file):
        raise InputError(
            f"expected the policy that {str(place)!r} is about, found another in "
            f"{file.name}: it was changed after training; to use it, move it away from the record"
        )
    return file, record
