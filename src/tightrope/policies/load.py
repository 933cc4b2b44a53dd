"""From what a user names to a policy: the one place that looks at suffixes."""

import inspect
import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import sha256
from tightrope.imports import needed, user_object
from tightrope.policies.mlp import load_mlp
from tightrope.policies.policy import FunctionPolicy, Policy, as_policy
from tightrope.policies.record import find_record, policy_file
from tightrope.policies.sb3 import load_sb3

__all__ = ["load_policy"]

_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"  # of ONNX Runtime

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
    from tightrope.policies.zoo import find_run  # with gymnasium

    if isinstance(normalize, str):
        normalize = Path(normalize)
    if not isinstance(normalize, Path | None) and normalize is not False:
        raise InputError(f"expected statistics or False as `normalize`, found {normalize!r}")
    if not isinstance(source, str | Path):
        if isinstance(normalize, Path):
            raise InputError(f"expected an SB3 zip with `normalize`, found {source!r}")
        return as_policy(source, sample=sample, normalize=normalize)
    text, path, alone = str(source), Path(source), False
    recorded = find_record(path)  # also checks that the policy is the one that was trained
    run = find_run(path) if recorded is None else None
    if recorded is not None:
        path = recorded[0]
    elif run is not None:
        path, alone = run.policy, run.normalized is None
        normalize = run.require_statistics() if normalize is None else normalize
    elif path.is_dir():
        path = policy_file(path) or path
    is_file = path.suffix in (".zip", ".safetensors", *_PROGRAMS)
    if is_file and not path.is_file():
        raise InputError(f"expected a policy file, found nothing at {text!r}: check the path")
    if path.suffix == ".zip":
        return load_sb3(path, env, normalize=normalize, trust=trust, sample=sample, alone=alone)
    if isinstance(normalize, Path):
        raise InputError(f"expected an SB3 zip with `normalize`, found {text!r}")
    if path.suffix == ".safetensors":
        return load_mlp(path, sample=sample)
    if not is_file:
        return _of_name(text, sample, normalize)
    if path.suffix != ".onnx" and not trust:
        raise InputError(
            f"expected `trust` with {text!r}, found none: torch runs a {path.suffix} file as a "
            "program that can read and write your files: pass `trust` if you trust its author, "
            "or export the policy as .onnx, which needs none"
        )
    if sample:
        raise InputError(f"expected an SB3 policy for `sample`, found {text!r}")
    # A link is not resolved: the suffix that was looked at says what loads it.
    return FunctionPolicy(_Program(path.absolute()), path.name, sha256(path))


def _of_name(name: str, sample: bool, normalize: Literal[False] | None) -> Policy:
    module, _, attribute = name.rpartition(":")
    if not module or not attribute.isidentifier():
        found = f"{name!r}, a folder without a policy" if Path(name).is_dir() else repr(name)
        raise InputError(f"expected {_KINDS}, found {found}")
    source, file = user_object(name)
    try:
        if inspect.isroutine(source) and not _parameters(source):
            source = source()  # a factory: it returns the policy
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        line = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"expected a policy from {name!r}, found {line}") from error
    digest = sha256(Path(file)) if file else None
    return as_policy(source, name=name, digest=digest, sample=sample, normalize=normalize)


def _parameters(function: Any) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ("observations",)  # of a function in C, which does not say


# --- programs: TorchScript, torch.export and ONNX files -------------------------------------------


@dataclass
class _Program:
    """A compiled program from observations to actions, by the suffix of its file.

    It runs on one thread, and is loaded where it is first called, in each process.
    """

    path: Path
    feed: Callable[[NDArray[np.float32]], NDArray[Any]] | None = None
    rows: int | None = None  # of each call, if it was made for that many only

    def __call__(self, observations: NDArray[np.float32]) -> Any:
        observations = np.ascontiguousarray(observations)
        if self.feed is None:
            try:
                self.feed, size = _PROGRAMS[self.path.suffix](self.path)
            except InputError:
                raise
            except Exception as error:  # each library raises many kinds for a damaged file
                line = f"{type(error).__name__}: {one_line(error)}"
                raise InputError(f"cannot load {str(self.path)!r}: {line}") from None
            try:
                return self.feed(observations)
            except Exception:  # each library has its own
                self.rows = size
        if self.rows is None:
            return self.feed(observations)
        padding = np.repeat(observations[-1:], -len(observations) % self.rows, axis=0)
        padded = np.concatenate([observations, padding])
        pieces = np.split(padded, len(padded) // self.rows)
        return np.concatenate([self.feed(piece) for piece in pieces])[: len(observations)]

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "feed": None, "rows": None}


def _load_onnx(path: Path) -> tuple[Any, int]:
    """What runs it, and the number of rows that it was made for if it takes only one."""
    onnxruntime = needed("onnxruntime", repr(path.name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as nothing:
        # Weights in files beside it are not in the digest, and may be anyone's files.
        options.add_session_config_entry(_WEIGHTS_FOLDER, nothing)
        session = onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    inputs, output = session.get_inputs(), session.get_outputs()[0].name
    if len(inputs) != 1:
        raise InputError(
            f"expected one input in {path.name}, found {[entry.name for entry in inputs]}"
        )
    size = inputs[0].shape[0]
    feed = lambda rows: session.run([output], {inputs[0].name: rows})[0]  # noqa: E731
    return feed, size if isinstance(size, int) else 1


def _load_torch(path: Path) -> tuple[Any, int]:
    """What runs it, and the number of rows that it was made for if it takes only one."""
    import torch

    size, stream = 1, io.BytesIO(path.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both loaders warn of their own internals
        if path.suffix == ".pt2":
            exported = torch.export.load(stream)
            program: Any = exported.module()
            size = len(exported.example_inputs[0][0]) if exported.example_inputs else 1
        else:
            load: Any = torch.jit.load
            program = load(stream, map_location="cpu").eval()

    def feed(rows: NDArray[np.float32]) -> NDArray[Any]:
        with torch.inference_mode():
            return np.asarray(program(torch.from_numpy(rows)).numpy())

    return feed, size


_PROGRAMS: dict[str, Callable[[Path], tuple[Any, int]]] = {
    ".onnx": _load_onnx,
    **dict.fromkeys((".pt", ".ts", ".pt2"), _load_torch),
}
