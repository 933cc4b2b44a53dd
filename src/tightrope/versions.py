"""The versions behind an artefact: physics and numerics differ between releases."""

import functools
import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["library_versions"]

_PACKAGES = (
    "tightrope",
    "numpy",
    "scipy",
    "torch",
    "stable_baselines3",
    "gymnasium",
    "mujoco",
    "dm_control",
    "metaworld",
)


def library_versions() -> dict[str, str]:
    """Installed versions of Python and of the packages that results depend on."""
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
