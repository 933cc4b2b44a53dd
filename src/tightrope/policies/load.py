"""From what a user names to a policy: the one place that looks at suffixes."""

import inspect
import io
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import sha256
from tightrope.imports import import_file, import_module
from tightrope.policies.mlp import load_mlp
from tightrope.policies.policy import FunctionPolicy, Policy, as_policy
from tightrope.policies.record import find_record, policy_file
from tightrope.policies.sb3 import load_sb3
from tightrope.policies.zoo import find_run

__all__ = ["load_policy"]

_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"  # of ONNX Runtime

_TORCH = (".pt", ".ts", ".pt2")  # TorchScript, and torch.export
_KINDS = (
    "a Stable-Baselines3 .zip, tightrope's own .safetensors, a TorchScript .pt, a torch.export "
    ".pt2, an .onnx file, a folder that tightrope train or rl-baselines3-zoo wrote, "
    "file.py:name or package.module:name"
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
        source: a path (also of a folder that `train` or rl-baselines3-zoo wrote), ``file.py:name``,
            ``package.module:name``, or a Python object (:func:`tightrope.policies.as_policy`).
        env: an environment that `EnvInfo.make` built.
        normalize: observation statistics of an SB3 zip: a VecNormalize pickle or an .npz
            (:func:`tightrope.policies.vecnormalize.read_statistics`). False says that a policy is
            to act without those that it was trained with.
        trust: allow loading what executes code from the file, as programs of torch always do.
        sample: draw actions from the policy's distribution instead of taking its mode.

    Raises:
        InputError: there is no such policy, it is damaged, or it needs `trust` or `normalize`.
    """
    if isinstance(normalize, bool) and normalize:
        raise InputError("expected a file of statistics or False as `normalize`, found True")
    given: Path | Literal[False] | None = Path(normalize) if normalize else normalize  # type: ignore[assignment]
    if not isinstance(source, str | Path):
        if isinstance(given, Path):
            raise InputError(f"expected an SB3 zip with `normalize`, found {source!r}")
        return as_policy(source, sample=sample, normalize=given)
    text, path = str(source), Path(source)
    run = None if find_record(path) else find_run(path)
    if run is not None:
        path, given = run.policy, run.require_statistics() if given is None else given
    elif path.is_dir():
        path = _in_folder(path)
    if path.suffix == ".zip":
        _require_file(path)
        alone = run is not None and run.normalized is None
        return load_sb3(path, env, normalize=given, trust=trust, sample=sample, alone=alone)
    if given:
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
        return FunctionPolicy(_Program(path.absolute()), path.name, sha256(path))
    module, colon, attribute = text.rpartition(":")
    if colon and module and attribute.isidentifier():
        return _from_module(module, attribute, sample, given)
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


def _from_module(module: str, attribute: str, sample: bool, normalize: Any) -> Policy:
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


# --- programs: TorchScript, torch.export and ONNX files ---------------------------------------


@dataclass
class _Program:
    """A compiled program from observations to actions, by the suffix of its file.

    ``.onnx`` runs in ONNX Runtime, ``.pt2`` as a torch.export program, ``.pt`` and ``.ts`` as
    TorchScript, each on one thread. It is loaded where it is first called, in each process.
    """

    path: Path
    _run: Any = field(default=None, repr=False)

    def __call__(self, observations: NDArray[np.float32]) -> Any:
        if self._run is None:
            load = _load_onnx if self.path.suffix == ".onnx" else _load_torch
            self._run = load(self.path)
        return self._run(np.ascontiguousarray(observations))

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_run": None}


def _load_onnx(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            f"{path.name!r} needs the extra 'onnx': pip install \"tightrope[onnx]\""
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        with tempfile.TemporaryDirectory() as nothing:
            # Weights in files beside it are not in the digest, and may be anyone's files.
            options.add_session_config_entry(_WEIGHTS_FOLDER, nothing)
            session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
    except Exception as error:  # onnxruntime has its own exception for each of its modules
        raise InputError(f"cannot load {str(path)!r}: {one_line(error)}") from None
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1:
        raise InputError(
            f"expected one input in {path.name}, found {[entry.name for entry in inputs]}"
        )
    size = inputs[0].shape[0]

    def run(observations: NDArray[np.float32]) -> NDArray[Any]:
        feed = lambda rows: session.run([outputs[0].name], {inputs[0].name: rows})[0]  # noqa: E731
        return _in_pieces(feed, observations, size if isinstance(size, int) else None)

    return run


def _load_torch(path: Path) -> Any:
    import torch

    batch = 1  # of a program that takes only one size
    writer = "torch.export.save" if path.suffix == ".pt2" else "torch.jit.save"
    try:
        stream = io.BytesIO(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both loaders warn of their own internals
            if path.suffix == ".pt2":
                exported = torch.export.load(stream)
                batch = _example_batch(exported)
                program: Any = exported.module()
            else:
                program = torch.jit.load(  # type: ignore[no-untyped-call]
                    stream, map_location="cpu"
                ).eval()
    except Exception as error:  # torch raises many kinds for a damaged file
        raise InputError(
            f"cannot load {str(path)!r} as what {writer} writes: {one_line(error)}"
        ) from None

    def feed(rows: NDArray[np.float32]) -> NDArray[Any]:
        with torch.inference_mode():
            return np.asarray(program(torch.from_numpy(np.ascontiguousarray(rows))).numpy())

    size: int | None = 0

    def run(observations: NDArray[np.float32]) -> NDArray[Any]:
        nonlocal size
        if size == 0:  # first call: does the program take any batch, or one row at a time?
            try:
                feed(observations)
                size = None
            except (RuntimeError, AssertionError):
                size = batch
        return _in_pieces(feed, observations, size)

    return run


def _example_batch(exported: Any) -> int:
    """The number of rows that a program was exported with."""
    positional: Any = exported.example_inputs[0] if exported.example_inputs else ()
    return int(positional[0].shape[0]) if len(positional) else 1


def _in_pieces(feed: Any, observations: NDArray[np.float32], size: int | None) -> NDArray[Any]:
    """Feed all rows at once, or `size` at a time to a program made for that many."""
    rows = len(observations)
    if size is None or size == rows:
        return np.asarray(feed(observations))
    padded = np.concatenate([observations, np.repeat(observations[-1:], -rows % size, axis=0)])
    pieces = [feed(padded[start : start + size]) for start in range(0, len(padded), size)]
    return np.concatenate(pieces)[:rows]
