"""From what a user names to a policy: the one place that looks at suffixes."""

import importlib
import inspect
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.policies.base import Policy
from tightrope.policies.objects import as_policy
from tightrope.policies.programs import ProgramPolicy
from tightrope.policies.record import find_record, policy_file
from tightrope.policies.sb3 import load_sb3
from tightrope.policies.storage import load_mlp

__all__ = ["load_policy"]

_KINDS = (
    "a Stable-Baselines3 .zip, tightrope's own .safetensors, a TorchScript .pt, a torch.export "
    ".pt2, an .onnx file, a folder that tightrope train wrote, file.py:name or package.module:name"
)


def load_policy(
    source: Any,
    env: Any,
    *,
    normalize: Path | None = None,
    trust: bool = False,
    sample: bool = False,
) -> Policy:
    """The policy that `source` names, for the spaces of the environment `env`.

    Args:
        source: a path (also of a folder with a policy and its training record), ``file.py:name``,
            ``package.module:name``, or a Python object (:func:`tightrope.policies.as_policy`).
        env: an environment built by a recipe.
        normalize: observation statistics beside an SB3 zip.
        trust: allow loading what executes code from the file.
        sample: draw actions from the policy's distribution instead of taking its mode.

    Raises:
        InputError: there is no such policy, it is damaged, or it needs `trust`.
    """
    if not isinstance(source, str | Path):
        return as_policy(source, sample=sample)
    text, path = str(source), Path(source)
    if path.is_dir():
        path = _in_folder(path)
    if path.suffix == ".zip":
        _require_file(path)
        return load_sb3(path, env, normalize=normalize, trust=trust, sample=sample)
    if normalize is not None:
        raise InputError(f"expected an SB3 zip with --normalize, found {text!r}")
    if path.suffix == ".safetensors":
        _require_file(path)
        return load_mlp(path, sample=sample)
    if path.suffix in (".pt", ".ts", ".pt2", ".onnx"):
        _require_file(path)
        if sample:
            raise InputError(f"expected an SB3 policy for --sample, found {text!r}")
        return ProgramPolicy(path.resolve(), path.name, sha256(path))
    module, colon, attribute = text.rpartition(":")
    if colon and module and attribute.isidentifier():
        return _from_module(module, attribute, sample)
    raise InputError(f"expected {_KINDS}, found {text!r}")


def _in_folder(folder: Path) -> Path:
    recorded = find_record(folder)  # also checks that the policy is the one that was trained
    file = policy_file(folder) if recorded is None else recorded[0]
    if file is None:
        raise InputError(f"expected {_KINDS}, found the folder {str(folder)!r} without a policy")
    return file


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"expected a policy file, found nothing at {str(path)!r}: check the path")


def _from_module(module: str, attribute: str, sample: bool) -> Policy:
    try:
        loaded = _import_file(Path(module)) if module.endswith(".py") else _import_name(module)
        if not hasattr(loaded, attribute):
            raise InputError(f"expected {attribute!r} in {module!r}, found no such name")
        source = getattr(loaded, attribute)
        if inspect.isroutine(source) and not _parameters(source):
            source = source()  # a factory: it returns the policy
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"cannot import {attribute!r} from {module!r}: {line}") from error
    file = getattr(loaded, "__file__", None)
    digest = sha256(Path(file)) if file else None
    return as_policy(source, name=f"{module}:{attribute}", digest=digest, sample=sample)


def _import_name(module: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` does: modules of the working directory count
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove("")


def _import_file(path: Path) -> ModuleType:
    _require_file(path)
    loader = SourceFileLoader(path.stem, str(path))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    # Dataclasses look their module up; its neighbours should be importable, as for a script.
    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # workers cannot import it by name
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("observations", inspect.Parameter.POSITIONAL_ONLY)]
