"""Policies stored as programs: TorchScript, torch.export and ONNX files.

Their runtimes cannot travel between processes, so these hold the path and load it on first use.
"""

import contextlib
import io
import re
import tempfile
import warnings
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import require_plausible

__all__ = ["ProgramPolicy"]

# Of TorchScript's operations these reach files; those of extensions and of C++ classes may.
_REACHING = re.compile(rb"\b(?:from_file|save|ops|classes)\b")
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"  # of ONNX Runtime


@dataclass
class ProgramPolicy:
    """A compiled program from observations to actions, by the suffix of its file.

    ``.onnx`` runs in ONNX Runtime, ``.pt2`` as a torch.export program, ``.pt``/``.pth``/``.ts``
    as TorchScript, each on one thread. Without `trust` nothing of a .pt2 is read, and no
    TorchScript whose operations reach files.
    """

    path: Path
    name: str
    digest: str | None
    deterministic: bool = True
    noise_size: int = 0
    trust: bool = False
    _run: Any = field(default=None, repr=False)

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        if self._run is None:
            onnx = self.path.suffix == ".onnx"
            self._run = _load_onnx(self.path) if onnx else _load_torch(self.path, trust=self.trust)
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


def _load_torch(path: Path, *, trust: bool) -> Any:
    if path.suffix == ".pt2" and not trust:
        # Its JSON has expressions and guards that torch evaluates as Python, and pickles.
        raise InputError(
            f"cannot load {str(path)!r} safely: torch executes code from a .pt2 file: pass `trust` "
            "if you trust its author, or export the network as TorchScript or ONNX"
        )
    import torch

    batch = 1  # of a program that takes only one size
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both loaders warn of their own internals
            if path.suffix == ".pt2":
                exported = torch.export.load(io.BytesIO(path.read_bytes()))
                batch = _example_batch(exported)
                program: Any = exported.module()
            else:
                program = torch.jit.load(  # type: ignore[no-untyped-call]
                    _script(path, trust=trust), map_location="cpu"
                ).eval()
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds for a damaged file
        raise InputError(f"cannot load {str(path)!r}: {one_line(error)}") from None

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


def _script(path: Path, *, trust: bool) -> io.BytesIO:
    """A TorchScript archive, written anew from the members that were looked at.

    Another reader of the same bytes could find other members: torch is given no choice.

    Raises:
        InputError: it is no TorchScript, or it has operations that reach files and no `trust`.
    """
    content = path.read_bytes()
    members: dict[str, bytes] = {}
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            require_plausible(path, sum(entry.file_size for entry in archive.infolist()))
            members = {name: archive.read(name) for name in archive.namelist()}
    _refuse_objects(path, content, members)
    named = {
        found.decode()
        for name, member in members.items()
        for found in (_REACHING.findall(member) if name.endswith((".py", ".pkl")) else ())
    }
    if named and not trust:
        raise InputError(
            f"cannot load {str(path)!r} safely: its program names {', '.join(sorted(named))}, "
            "which can read and write files: pass `trust` if you trust the file's author"
        )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    made.seek(0)
    return made


def _refuse_objects(path: Path, content: bytes, members: Collection[str]) -> None:
    """Explain that what `torch.save` writes is no program: weights, or a pickle of a module."""
    import torch

    saved = content[:2] == b"\x80\x02"  # how torch.save wrote before it wrote zips
    if members:
        saved = not any(name.endswith("constants.pkl") or "/code/" in name for name in members)
        saved = saved and any(name.endswith("data.pkl") for name in members)
    if saved:
        found = "a pickled object, which would execute code"
        with contextlib.suppress(Exception):  # anything but tensors and plain containers
            torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            found = "weights without their network, as torch.save(module.state_dict()) writes"
        raise InputError(
            f"expected a TorchScript program in {path.name}, found {found}: export the module with "
            "torch.jit.script(module).save(file) or torch.export, or give it as file.py:name"
        )
    if not members:
        raise InputError(f"cannot load {str(path)!r}: expected a TorchScript archive, found none")


def _in_pieces(feed: Any, observations: NDArray[np.float32], size: int | None) -> NDArray[Any]:
    """Feed all rows at once, or `size` at a time to a program made for that many."""
    rows = len(observations)
    if size is None or size == rows:
        return np.asarray(feed(observations))
    padded = np.concatenate([observations, np.repeat(observations[-1:], -rows % size, axis=0)])
    pieces = [feed(padded[start : start + size]) for start in range(0, len(padded), size)]
    return np.concatenate(pieces)[:rows]
