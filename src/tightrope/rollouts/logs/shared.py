"""What the readers of all formats need."""

import importlib
from typing import Any

from tightrope.errors import InputError
from tightrope.versions import library_versions

__all__ = ["needed", "subject_of"]


def needed(module: str, what: str) -> Any:
    """The module of the extra `minari`; raises InputError with the remedy if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{what} needs the extra 'minari': pip install \"tightrope[minari]\""
        ) from None


def subject_of(log: str, environment: str | None = None) -> dict[str, Any]:
    """The subject of episodes from a log: its name, and its environment if that is known."""
    subject: dict[str, Any] = {"log": log, "versions": library_versions()}
    if environment is not None:
        subject["environment"] = {"id": environment}
    return subject
