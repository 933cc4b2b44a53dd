"""What the readers of all formats need."""

from typing import Any

from tightrope.versions import library_versions

__all__ = ["subject_of"]


def subject_of(log: str, environment: str | None = None) -> dict[str, Any]:
    """The subject of episodes from a log: its name, and its environment if that is known."""
    subject: dict[str, Any] = {"log": log, "versions": library_versions()}
    if environment is not None:
        subject["environment"] = {"id": environment}
    return subject
