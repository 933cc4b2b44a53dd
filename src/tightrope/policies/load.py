"""From what a user names to a policy: the one place that looks at suffixes."""

import inspect
from pathlib import Path
from typing import Any, Literal

from tightrope.errors import InputError, one_line
from tightrope.files import sha256
from tightrope.imports import import_file, import_module
from tightrope.policies.base import Policy
from tightrope.policies.objects import as_policy
from tightrope.policies.programs import ProgramPolicy
from tightrope.policies.record import find_record, policy_file
from tightrope.policies.sb3 import load_sb3
from tightrope.policies.storage import load_mlp

__all__ = ["load_policy"]

_TORCH = (".pt", ".ts", ".pt2")  # TorchScript, and torch.export
_KINDS = (
    "a Stable-Baselines3 .zip, tightrope's own .safetensors, a TorchScript .pt, a torch.export "
    ".pt2, an .onnx file, a folder that tightrope train wrote, file.py:name or package.module:name"
)


def load_policy(
    source: Any,
    env: Any,
    *,
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
    sample: bool = False,
) -> Policy:
    """The policy that `source` names, for the spaces of the environment `env`.

    Args:
        source: a path (also of a folder with a policy and its training record), ``file.py:name``,
            ``package.module:name``, or a Python object (:func:`tightrope.policies.as_policy`).
        env: an environment that `EnvInfo.make` built.
        normalize: observation statistics of an SB3 zip: a VecNormalize pickle (with `trust`), or
            an .npz (:func:`tightrope.policies.statistics.read_statistics`). False says that a
            policy is to act without those that it was trained with.
        trust: allow loading what executes code from the file, as programs of torch always do.
        sample: draw actions from the policy's distribution instead of taking its mode.

    Raises:
        InputError: there is no such policy, it is damaged, or it needs `trust` or `normalize`.
    """
    if isinstance(normalize, bool) and normalize:
        raise InputError("expected a file of statistics or False as `normalize`, found True")
    statistics = Path(normalize) if normalize else None
    unscaled: Literal[False] | None = False if normalize is False else None
    if not isinstance(source, str | Path):
        if statistics is not None:
            raise InputError(f"expected an SB3 zip with `normalize`, found {source!r}")
        return as_policy(source, sample=sample, normalize=unscaled)
    text, path = str(source), Path(source)
    if path.is_dir():
        path = _in_folder(path)
    if path.suffix == ".zip":
        _require_file(path)
        given = statistics or unscaled
        return load_sb3(path, env, normalize=given, trust=trust, sample=sample)
    if statistics is not None:
        raise InputError(f"expected an SB3 zip with `normalize`, found {text!r}")
    if path.suffix == ".safetensors":
        _require_file(path)
        return load_mlp(path, sample=sample)
    if path.suffix in (*_TORCH, ".onnx"):
        _require_file(path)
        if path.suffix in _TORCH and not trust:
            raise InputError(
                f"expected `trust` with {text!r}, found none: torch runs a {path.suffix} file as a "
                "program that can read and write your files: pass `trust` if you trust its author, "
                "or export the policy as .onnx, which needs none"
            )
        if sample:
            raise InputError(f"expected an SB3 policy for `sample`, found {text!r}")
        # A link is not resolved: the suffix that was looked at says what loads it.
        return ProgramPolicy(path.absolute(), path.name, sha256(path))
    module, colon, attribute = text.rpartition(":")
    if colon and module and attribute.isidentifier():
        return _from_module(module, attribute, sample, unscaled)
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


def _from_module(
    module: str, attribute: str, sample: bool, normalize: Literal[False] | None
) -> Policy:
    try:
        loaded = import_file(Path(module)) if module.endswith(".py") else import_module(module)
        if not hasattr(loaded, attribute):
            raise InputError(f"expected {attribute!r} in {module!r}, found no such name")
        source = getattr(loaded, attribute)
        if inspect.isroutine(source) and not _parameters(source):
            source = source()  # a factory: it returns the policy
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"cannot import {attribute!r} from {module!r}: {line}") from error
    file = getattr(loaded, "__file__", None)
    digest = sha256(Path(file)) if file else None
    name = f"{module}:{attribute}"
    return as_policy(source, name=name, digest=digest, sample=sample, normalize=normalize)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("observations", inspect.Parameter.POSITIONAL_ONLY)]
