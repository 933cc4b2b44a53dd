"""Importing what users name: from the working directory as well, and without noise."""

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from tightrope.errors import InputError, one_line

__all__ = [
    "EXTRAS",
    "import_file",
    "import_module",
    "missing_extra",
    "needed",
    "quiet_registration",
    "user_function",
    "user_object",
]

# The extra that brings a package which the base install has not.
EXTRAS = {
    **dict.fromkeys(("torch", "gymnasium", "cloudpickle", "yaml"), "certify"),
    **dict.fromkeys(("stable_baselines3", "sb3_contrib", "tensorboard"), "train"),
    **dict.fromkeys(("pandas", "pyarrow"), "tables"),
    **dict.fromkeys(("minari", "h5py"), "minari"),
    "matplotlib": "plots",
    "mujoco": "mujoco",
    "onnxruntime": "onnx",
}


def import_module(name: str) -> ModuleType:
    """Import as `python -m` does: modules of the working directory count."""
    sys.path.insert(0, "")
    try:
        with quiet_registration():
            return importlib.import_module(name)
    finally:
        sys.path.remove("")


def import_file(path: Path) -> ModuleType:
    """Run a file as a module; its neighbours can be imported, as for a script.

    Raises:
        InputError: there is no such file.
    """
    import cloudpickle

    if not path.is_file():
        raise InputError(f"expected a Python file, found nothing at {str(path)!r}: check the path")
    loader = SourceFileLoader(path.stem, str(path))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    # Dataclasses look their module up.
    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # workers cannot import it by name
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with quiet_registration():
            loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def user_object(place: str) -> tuple[Any, str | None]:
    """What ``file.py:name`` or ``package.module:name`` names, if anything, and its file.

    Raises:
        InputError: the module cannot be imported.
    """
    module, _, name = place.rpartition(":")
    if not module or not name.isidentifier():
        raise InputError(f"expected FILE.py:FUNCTION or MODULE:FUNCTION, found {place!r}")
    try:
        loaded = import_file(Path(module)) if module.endswith(".py") else import_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot import {module!r}: {line}") from error
    return getattr(loaded, name, None), getattr(loaded, "__file__", None)


def user_function(place: str) -> Callable[..., Any]:
    """The function that ``file.py:name`` or ``package.module:name`` names.

    Raises:
        InputError: there is none, or its module cannot be imported.
    """
    found, _ = user_object(place)
    if not callable(found):
        module, _, name = place.rpartition(":")
        raise InputError(f"expected a function {name!r} in {module!r}, found none")
    return found  # type: ignore[no-any-return]


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


def needed(module: str, what: str, extra: str = "") -> Any:
    """The module of an extra; raises InputError with the remedy if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(missing_extra(what, extra or EXTRAS[module.partition(".")[0]])) from None


def missing_extra(what: str, extra: str) -> str:
    """What to say of something that the base install cannot do."""
    return f'{what} needs the extra {extra!r}: pip install "tightrope[{extra}]"'
