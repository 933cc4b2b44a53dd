"""Importing what users name: from the working directory as well, and without noise."""

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from tightrope.errors import InputError

__all__ = ["import_module", "needed", "on_first_use", "quiet_registration"]


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are imported when they are first asked for.

    Args:
        package: its name.
        homes: the module inside of it that each name comes from.
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return found


def import_module(name: str) -> ModuleType:
    """Import as `python -m` does: modules of the working directory count."""
    sys.path.insert(0, "")
    try:
        with quiet_registration():
            return importlib.import_module(name)
    finally:
        sys.path.remove("")


@contextlib.contextmanager
def quiet_registration() -> Iterator[None]:
    """Do not say that a Gymnasium environment is registered again, as on a second import.

    One filter comes and goes, so that those which an imported module sets remain.
    """
    warnings.filterwarnings("ignore", message=r".*Overriding environment \S+ already in registry")
    ours = warnings.filters[0]
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # an imported module has reset them all
            warnings.filters.remove(ours)  # type: ignore[attr-defined]


def needed(module: str, what: str, extra: str = "minari") -> Any:
    """The module of an extra; raises InputError with the remedy if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{what} needs the extra '{extra}': pip install \"tightrope[{extra}]\""
        ) from None
