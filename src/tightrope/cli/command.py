"""Which verb is meant, its options, and what happens to errors.

A verb is one frozen dataclass in a module of its own: its fields are the options, their docstrings
the help, and `run` does the work and returns the exit code.
"""

import contextlib
import dataclasses
import difflib
import importlib
import io
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from tightrope.cli.mistakes import in_one_line
from tightrope.errors import InputError, one_line

__all__ = ["VERBS", "main"]

DONE, SAID_NO, WRONG_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130

# The module of each verb has a class of the same name, capitalised.
VERBS = {
    "certify": "certify a policy or recorded episodes",
    "collect": "roll out a policy and record whole episodes",
    "report": "draw the page of a certificate anew",
    "train": "train an agent as the paper does; resumes",
    "verify": "recompute every number of a certificate",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    0 done; 1 a check said no; 2 wrong input; 70 an internal error; 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode gets question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    shown: dict[str, str] = {}
    code = INTERRUPTED
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}", shown)
        try:
            code = _answer(arguments, shown)
            sys.stdout.flush()
        except InputError as error:
            _say(str(error), shown)
            code = INTERRUPTED if getattr(error, "interrupted", False) else WRONG_INPUT
        except BrokenPipeError:  # whoever read our output has left; Python flushes again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            _say("interrupted", shown)
        except Exception as error:
            if os.environ.get("TIGHTROPE_TRACEBACK"):
                traceback.print_exc()
            what = f"{type(error).__name__}: {one_line(error)}"
            _say(f"internal error ({what}): TIGHTROPE_TRACEBACK=1 shows where; report it", shown)
            code = INTERNAL
    return code


def _answer(arguments: list[str], shown: dict[str, str]) -> int:
    """Run the verb, or show help; `shown` receives how the verb's options are written."""
    verb = _verb(arguments)
    if verb is None:
        return DONE
    shown |= {name: flag for name, (flag, _) in _options(verb).items()}
    parsed = _parse(verb, arguments)
    return DONE if parsed is None else int(parsed.run())


def _verb(arguments: list[str]) -> Any:
    """The class of the verb that the arguments name; None if help or the version was asked for."""
    first = arguments[0] if arguments else "--help"
    if first in ("--help", "-h"):
        width = max(map(len, VERBS))
        print("usage: tightrope VERB ...\n")
        print("Tight, honest risk certificates for reinforcement-learning policies.\n")
        for name, words in VERBS.items():
            print(f"  {name:<{width}}  {words}")
        print("\ntightrope VERB --help shows the options of a verb; tightrope --version")
        return None
    if first == "--version":
        from tightrope import __version__

        print(f"tightrope {__version__}")
        return None
    if first not in VERBS:
        near = difflib.get_close_matches(first, VERBS, n=1)
        hint = f"did you mean {near[0]}?" if near else "run tightrope --help"
        raise InputError(f"expected a verb among {', '.join(VERBS)}, found {first!r}: {hint}")
    return getattr(importlib.import_module(f"tightrope.cli.{first}"), first.capitalize())


def _parse(verb: Any, arguments: list[str]) -> Any:
    """The verb with its options, None if help was shown; raises InputError in one line."""
    import tyro

    name, *rest = arguments
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            return tyro.cli(
                verb,
                prog=f"tightrope {name}",
                args=_whole_numbers(verb, rest),
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            return None
        flags = [flag for flag, _ in _options(verb).values() if flag.startswith("--")]
        said = in_one_line(words.getvalue(), [*flags, "--help"])
        raise InputError(f"{said}: run tightrope {name} --help") from None


def _options(verb: Any) -> dict[str, tuple[str, Any]]:
    """How each option is written, and its type; also those of records that are options."""
    from tyro.conf import Positional

    found: dict[str, tuple[str, Any]] = {}
    for name, kind in get_type_hints(verb, include_extras=True).items():
        bare, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        if dataclasses.is_dataclass(bare):
            found |= _options(bare)
        elif Positional in notes:
            found[name] = (next(note.metavar for note in notes if note is not Positional), bare)
        else:
            found[name] = (f"--{name.replace('_', '-')}", bare)
    return found


def _whole_numbers(verb: Any, arguments: list[str]) -> list[str]:
    """1e3 is a whole number, too, where one is expected, or several."""
    hints = {flag: _int_values(kind) for flag, kind in _options(verb).values()}
    result: list[str] = []
    left: float = 0
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            left = hints.get(flag.replace("_", "-"), 0)
            result.append(f"{flag}={_whole(value)}" if equals and left else word)
        else:
            result.append(_whole(word) if left > 0 else word)
            left -= 1
    return result


def _whole(word: str) -> str:
    if re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", word):
        number = float(word)
        if number.is_integer() and number < 2**53:
            return str(int(number))
    return word


def _int_values(kind: Any) -> float:
    """How many values of an option are whole numbers."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if float in parts:
        return 0
    several = [get_args(part) for part in parts if get_origin(part) is tuple]
    if several and int in several[0]:
        return inf if Ellipsis in several[0] else len(several[0])
    return int(int in parts)


def _say(message: str, shown: Mapping[str, str]) -> None:
    """One line on standard error; arguments that are options of the verb appear as flags."""

    def flag(match: re.Match[str]) -> str:
        name = match[1] if match[2] is None else f"no_{match[1]}"
        return shown.get(name, match[0])

    text = re.sub(r"`([a-z_]+)(=False)?`", flag, message)
    print(f"tightrope: {text}", file=sys.stderr)
