"""The command: thin, no logic of its own; a verb imports the heavy packages it needs.

One frozen dataclass is a verb: its fields are the options, its docstrings the help.
"""

import contextlib
import io
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError

__all__ = ["main"]

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]  # --trust, without a --no-trust


class Verb(Protocol):
    """A verb of the command: returns the exit code."""

    def run(self) -> int: ...


@dataclass(frozen=True)
class Collect:
    """Roll out a frozen policy and record whole episodes."""

    policy: Positional[str]
    """An SB3 .zip, a TorchScript .pt, a torch.export .pt2, an .onnx file, file.py:name or
    package.module:name."""
    env: str
    """Id of the environment, such as Hopper-v4, dm_control/walker-walk-v0 or reach-v3."""
    out: Path
    """File to write: .safetensors (tightrope's own), .npz or .hdf5 (D4RL names)."""
    episodes: int = 100
    """How many episodes."""
    seed: int = 0
    """Root of the episodes' seeds; the same seed gives the same episodes."""
    workers: int | None = None
    """Worker processes; by default one per core."""
    normalize: Path | None = None
    """Observation statistics of an SB3 policy: a VecNormalize pickle (needs --trust) or an .npz
    with mean, var, epsilon and clip."""
    trust: Flag = False
    """Allow loading files that execute code."""
    sample: Flag = False
    """Draw actions from the policy's distribution instead of taking its mode."""
    timeout: float = 60.0
    """Seconds without a step after which an environment counts as hanging."""
    keep_partial: Flag = False
    """If an episode fails, write those that finished; they are marked as partial."""

    def run(self) -> int:
        """Collect and save."""
        from tightrope.rollouts import (
            CollectionError,
            check_destination,
            collect,
            write_episodes,
        )

        check_destination(self.out)
        try:
            episodes = collect(
                self.policy,
                self.env,
                self.episodes,
                self.seed,
                workers=self.workers,
                normalize=self.normalize,
                trust=self.trust,
                sample=self.sample,
                timeout=self.timeout,
                progress=True,
            )
        except CollectionError as error:
            if self.keep_partial and error.partial is not None:
                write_episodes(error.partial, self.out)
                kept = f"kept {len(error.partial)} finished episodes in {self.out}"
                raise InputError(f"{error}; {kept}") from None
            raise
        write_episodes(episodes, self.out)
        steps = len(episodes.rewards)
        print(f"{len(episodes)} episodes, {steps:,} steps of {self.env} written to {self.out}")
        return 0


_VERBS: dict[str, Any] = {"collect": Collect}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 a check said no, 2 wrong input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        from tightrope import __version__

        print(f"tightrope {__version__}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _one_line_warning
        try:
            return _parse(arguments or ["--help"]).run()
        except InputError as error:
            print(f"tightrope: {error}", file=sys.stderr)
            return 2
        except BrokenPipeError:  # whoever read our output has left
            sys.stdout = None
            return 0
        except KeyboardInterrupt:
            print("tightrope: interrupted", file=sys.stderr)
            return 130


def _parse(arguments: list[str]) -> Verb:
    """The verb that the arguments name; prints help, or raises InputError in one line."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            verb: Verb = tyro.extras.subcommand_cli_from_dict(
                _VERBS,
                prog="tightrope",
                description="Tight, honest risk certificates for reinforcement-learning policies.",
                args=arguments,
            )
            return verb
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise InputError(_one_line(words.getvalue())) from None


def _one_line(boxed: str) -> str:
    """What tyro says in a box, without the box and its repetition of the help text."""
    lines = [line.strip("╭╮╰╯│─ \t") for line in boxed.splitlines()[1:]]
    said: list[str] = []
    for line in lines:
        if line.startswith(("Argument helptext", "For full helptext")):
            break
        if line:
            said.append(line)
    return f"{'; '.join(said)}: run tightrope --help"


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tightrope: warning: {message}", file=sys.stderr)
