"""Policies stored as programs: TorchScript, torch.export and ONNX files.

Their runtimes cannot travel between processes, so these hold the path and load it on first use.
"""

import io
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line

__all__ = ["ProgramPolicy"]

_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"  # of ONNX Runtime


@dataclass
class ProgramPolicy:
    """A compiled program from observations to actions, by the suffix of its file.

    ``.onnx`` runs in ONNX Runtime, ``.pt2`` as a torch.export program, ``.pt`` and ``.ts`` as
    TorchScript, each on one thread. Programs of torch can do whatever you can: `load_policy` makes
    them only with `trust`.
    """

    path: Path
    name: str
    digest: str | None
    deterministic: bool = True
    noise_size: int = 0
    _run: Any = field(default=None, repr=False)

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        if self._run is None:
            load = _load_onnx if self.path.suffix == ".onnx" else _load_torch
            self._run = load(self.path)
        return np.asarray(self._run(np.ascontiguousarray(observations)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}


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
