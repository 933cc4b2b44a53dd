"""The command: which verb is meant, what help shows, and what happens to errors."""

import contextlib
import difflib
import errno
import inspect
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import cyclopts
from cyclopts import App

from tightrope.cli.text import command_help, in_flags, say, verbs_help
from tightrope.errors import InputError, one_line
from tightrope.imports import EXTRAS, missing_extra

__all__ = ["COMMANDS", "app", "main", "parse"]

DONE, SAID_NO, WRONG_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130
_HELP = {"--help", "-h", "--help-all"}
_VERBS_EXTRAS = {"train": "train", "study": "studies", "audit": "studies"}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

# By group and verb: what `tightrope --help` says. The verbs of a group are functions of their
# names, in the module that the last word of the group names.
COMMANDS = {
    "Certificates": {
        "certify": "certify a policy, recorded episodes or a table of results",
        "verify": "recompute every number of a certificate",
        "check": "exit with 1 unless given limits are met (for CI)",
        "plan": "forecast what more episodes would certify",
        "report": "write the HTML page of a certificate or a study",
    },
    "Policies and episodes": {
        "collect": "roll out a policy and save its episodes",
        "train": "train an agent of the paper: redq, sac or ppo",
        "compare": "decide which of two policies is better",
        "monitor": "run a policy under a certificate's alarm",
    },
    "Research": {
        "study": "train, roll out and certify many policies",
        "audit": "measure how often certificates are wrong",
    },
}


def app() -> App:
    """The verbs; the module of one is imported when it is called."""
    verbs = App(name="tightrope", help_flags=(), version_flags=(), result_action="return_value")
    for group, listed in COMMANDS.items():
        for verb in listed:
            verbs.command(f"tightrope.cli.{group.split()[-1].lower()}:{verb}", name=verb)
    return verbs


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    0 done; 1 a check said no; 2 wrong input; 70 an internal error; 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode gets question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = [word for word in arguments if word != "--quiet"]
    function, code = None, DONE

    def warn(message: object, *_: object, **__: object) -> None:
        say(in_flags(f"warning: {message}", function))

    with warnings.catch_warnings():
        warnings.showwarning = warn
        try:
            if not words or _HELP & set(words):
                print(_help(words))
            elif words == ["--version"]:
                from tightrope import __version__

                print(f"tightrope {__version__}")
            else:
                function, given = parse(words)
                with _quiet("--quiet" in arguments, given.kwargs.get("json", False)):
                    code = int(function(*given.args, **given.kwargs))
            sys.stdout.flush()
            return code
        except InputError as error:
            say(in_flags(error, function))
            return INTERRUPTED if getattr(error, "interrupted", False) else WRONG_INPUT
        except BrokenPipeError:  # whoever read our output has left
            _drop_output()
            return INTERRUPTED
        except KeyboardInterrupt:
            say("interrupted")
            return INTERRUPTED
        except Exception as error:
            package = (getattr(error, "name", None) or "").partition(".")[0]
            if isinstance(error, ModuleNotFoundError) and package in EXTRAS:
                extra = _VERBS_EXTRAS.get(words[0], EXTRAS[package])
                say(missing_extra(f"this ({package})", extra))
                return WRONG_INPUT
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                _drop_output()  # it may be standard output that is on the full disk
                where = f" {str(error.filename)!r}" if error.filename else ""
                say(f"cannot write{where}: {one_line(error)}")
                return WRONG_INPUT
            if os.environ.get("TIGHTROPE_TRACEBACK"):
                traceback.print_exc()
            what = f"{type(error).__name__}: {one_line(error)}"
            say(f"internal error ({what}): TIGHTROPE_TRACEBACK=1 shows where; report it")
            return INTERNAL


def parse(words: list[str]) -> tuple[Any, inspect.BoundArguments]:
    """The function that a command line calls, and its arguments.

    Raises:
        InputError: it is not understood, in one line.
    """
    verbs = app()
    name, function = _find(verbs, words)
    try:
        called, given, _ = verbs.parse_args(words, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        error.verbose = False
        reason = error.__cause__ if isinstance(error.__cause__, InputError) else error
        message = in_flags(one_line(reason), function)
        raise InputError(f"{message} (run {name} --help)") from None
    return called, given


def _find(verbs: App, words: list[str]) -> tuple[str, Any]:
    """The command that the first words name, as typed, and its function."""
    chain, apps, rest = verbs.parse_commands(words)
    name = " ".join(("tightrope", *chain))
    function = apps[-1].default_command
    if function is None:
        among = list(apps[-1])
        near = difflib.get_close_matches(rest[0] if rest else "", among, n=1)
        hint = f"did you mean {near[0]}?" if near else f"run {name} --help"
        what = "an agent" if chain else "a command"
        found = repr(rest[0]) if rest else "none"
        raise InputError(f"expected {what} among {', '.join(among)}, found {found}: {hint}")
    return name, function


def _help(words: list[str]) -> str:
    """Help on the command that the words name, or on all of them."""
    rest = [word for word in words if word not in _HELP]
    if not rest:
        return verbs_help(COMMANDS)
    verbs = app()
    if rest == ["train"]:
        agents = {
            name: str(verbs["train"][name].default_command.__doc__) for name in verbs["train"]
        }
        listed = {name: text.partition("\n")[0].rstrip(".") for name, text in agents.items()}
        return verbs_help({"Agents": listed}, "tightrope train")
    return command_help(*_find(verbs, rest), "--help-all" in words)


@contextlib.contextmanager
def _quiet(quiet: bool, json: bool) -> Iterator[None]:
    """No word on standard output but JSON, and no bar; warnings and errors are said."""
    if not quiet:
        yield
        return
    from tightrope.progress import no_bars

    with no_bars(), contextlib.redirect_stdout(sys.stdout if json else io.StringIO()):
        yield


def _drop_output() -> None:
    """Python flushes standard output again at its end, and would complain."""
    with contextlib.suppress(OSError, ValueError):  # there may be no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
