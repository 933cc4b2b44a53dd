"""Which verb is meant, its options, and what happens to errors.

A verb is one frozen dataclass in a module of its own: its fields are the options, their docstrings
the help, and `run` does the work and returns the exit code.
"""

import contextlib
import dataclasses
import difflib
import errno
import importlib
import io
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Collection, Mapping
from math import inf
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from tightrope.cli.mistakes import in_one_line
from tightrope.errors import InputError, one_line

__all__ = ["VERBS", "main"]

_HELP = ("--help", "-h")
_QUIET = "--quiet"
_ABOUT_QUIET = f"{_QUIET}, with any verb: nothing on standard output but JSON, and no progress bar"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
DONE, SAID_NO, WRONG_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130

# The module of each verb has a class of the same name, capitalised.
VERBS = {
    "audit": "measure how often certificates fail, against the truth; resumes",
    "certify": "certify a policy or recorded episodes",
    "check": "say whether a certificate states enough, for machines",
    "collect": "roll out a policy and record whole episodes",
    "compare": "say which of two policies or recordings is better",
    "monitor": "run a policy with a certificate's monitor watching",
    "plan": "forecast what more episodes would certify",
    "report": "draw the page of a certificate anew",
    "study": "train, roll out and certify many policies; resumes",
    "train": "train one of the paper's agents; resumes",
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
        except BrokenPipeError:  # whoever read our output has left
            _drop_output()
        except KeyboardInterrupt:
            _say("interrupted", shown)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                _drop_output()  # it may be standard output that is on the full disk
                where = f" {str(error.filename)!r}" if error.filename else ""
                _say(f"cannot write{where}: {one_line(error)}", shown)
                return WRONG_INPUT
            if os.environ.get("TIGHTROPE_TRACEBACK"):
                traceback.print_exc()
            what = f"{type(error).__name__}: {one_line(error)}"
            _say(f"internal error ({what}): TIGHTROPE_TRACEBACK=1 shows where; report it", shown)
            code = INTERNAL
    return code


def _drop_output() -> None:
    """Python flushes standard output again at its end, and would complain."""
    with contextlib.suppress(OSError, ValueError):  # there may be no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer(arguments: list[str], shown: dict[str, str]) -> int:
    """Run the verb, or show help; `shown` receives how the verb's options are written."""
    verb, name, rest = _verb(arguments)
    if verb is None:
        return DONE
    shown |= {option: flag for option, (flag, _) in _options(verb).items()}
    parsed = _parse(verb, name, [word for word in rest if word != _QUIET])
    if parsed is None:
        return DONE
    return _quietly(parsed) if _QUIET in rest else int(parsed.run())


def _quietly(parsed: Any) -> int:
    """Run a verb without a word on standard output, unless it is the JSON that was asked for.

    Warnings and errors, which are on standard error, are said all the same.
    """
    from tightrope.progress import no_bars

    with contextlib.ExitStack() as stack:
        stack.enter_context(no_bars())
        if not getattr(parsed, "json", False):
            nowhere = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        return int(parsed.run())


def _verb(arguments: list[str]) -> tuple[Any, str, list[str]]:
    """The class that the first words name, these words, and the others.

    There is none if help on the words themselves, or the version, was asked for.
    """
    first, *rest = arguments or ["--help"]
    if first == "--version":
        from tightrope import __version__

        print(f"tightrope {__version__}")
        return None, "", []
    if first in _HELP:
        about = "Tight, honest risk certificates for reinforcement-learning policies."
        _list("tightrope VERB", about, VERBS, "a verb; tightrope --version")
        return None, "", []
    _require_listed("verb", first, VERBS, "tightrope")
    verb = getattr(importlib.import_module(f"tightrope.cli.{first}"), first.capitalize())
    kinds = getattr(verb, "kinds", None)  # of train: a command for each agent
    if kinds is None:
        return verb, first, rest
    if rest and rest[0] in _HELP:
        listed = {kind: _first_line(kinds[kind]) for kind in kinds}
        _list(f"tightrope {first} AGENT", _first_line(verb), listed, "an agent")
        return None, "", []
    _require_listed("agent", rest[0] if rest else None, kinds, f"tightrope {first}")
    return kinds[rest[0]], f"{first} {rest[0]}", rest[1:]


def _list(usage: str, about: str, listed: Mapping[str, str], what: str) -> None:
    """Help on the words to choose from."""
    width = max(map(len, listed))
    print(f"usage: {usage} ...\n\n{about}\n")
    for name, words in listed.items():
        print(f"  {name:<{width}}  {words}")
    print(f"\n{usage} --help shows the options of {what}")
    print(_ABOUT_QUIET)


def _require_listed(what: str, word: str | None, listed: Collection[str], command: str) -> None:
    if word in listed:
        return
    near = difflib.get_close_matches(word or "", listed, n=1)
    hint = f"did you mean {near[0]}?" if near else f"run {command} --help"
    among, found = ", ".join(listed), "none" if word is None else repr(word)
    article = "an" if what[0] in "aeiou" else "a"
    raise InputError(f"expected {article} {what} among {among}, found {found}: {hint}")


def _first_line(kind: Any) -> str:
    return str(kind.__doc__).partition("\n")[0]


def _parse(verb: Any, name: str, arguments: list[str]) -> Any:
    """The verb with its options, None if help was shown; raises InputError in one line."""
    import tyro

    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            return tyro.cli(
                verb,
                prog=f"tightrope {name}",
                args=_whole_numbers(verb, arguments),
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            print(_ABOUT_QUIET)
            return None
        said = in_one_line(words.getvalue(), [*_flags(verb), "--help", _QUIET], _elsewhere(verb))
        raise InputError(f"{said}: run tightrope {name} --help") from None


def _flags(verb: Any) -> list[str]:
    return [flag for flag, _ in _options(verb).values() if flag.startswith("--")]


def _elsewhere(verb: Any) -> dict[str, list[str]]:
    """Flags that the verb has not, and which of its siblings have them."""
    found: dict[str, list[str]] = {}
    for name, kind in getattr(verb, "kinds", {}).items():
        for flag in set(_flags(kind)) - set(_flags(verb)):
            found.setdefault(flag, []).append(name)
    return found


def _options(verb: Any) -> dict[str, tuple[str, Any]]:
    """How each option is written, and its type; also those of records that are options."""
    from tyro.conf import Positional

    found: dict[str, tuple[str, Any]] = {}
    hints = get_type_hints(verb, include_extras=True)
    for name, kind in ((entry.name, hints[entry.name]) for entry in dataclasses.fields(verb)):
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
