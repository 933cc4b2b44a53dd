"""The command: which verb is meant, what help shows, and what happens to errors."""

import contextlib
import difflib
import errno
import inspect
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import cyclopts
from cyclopts import App, exceptions

from tightrope.cli.text import command_help, say, verbs_help
from tightrope.errors import InputError, one_line

__all__ = ["COMMANDS", "app", "main"]

DONE, SAID_NO, WRONG_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130
_HELP = {"--help", "-h", "--help-all"}
# The extra that brings a package which the base install has not.
_EXTRAS = {
    **dict.fromkeys(("torch", "gymnasium", "cloudpickle"), "certify"),
    **dict.fromkeys(("stable_baselines3", "sb3_contrib", "tensorboard"), "train"),
    **dict.fromkeys(("pandas", "pyarrow"), "tables"),
    "matplotlib": "plots",
    "mujoco": "mujoco",
    "onnxruntime": "onnx",
    "h5py": "minari",
}
_VERBS_EXTRAS = {"train": "train", "study": "studies", "audit": "studies"}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

# By group and verb: what `tightrope --help` says. The module of a verb has a function of its name.
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
    for group in COMMANDS.values():
        for verb in group:
            target = "app" if verb == "train" else verb
            verbs.command(f"tightrope.cli.{verb}:{target}", name=verb)
    return verbs


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    0 done; 1 a check said no; 2 wrong input; 70 an internal error; 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode gets question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    called: list[Any] = []  # the function of the verb, as soon as it is known

    def tell(message: object) -> None:
        say(_in_flags(str(message), called[0] if called else None))

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
        try:
            code = _run(arguments, called)
            sys.stdout.flush()
            return code
        except InputError as error:
            tell(error)
            return INTERRUPTED if getattr(error, "interrupted", False) else WRONG_INPUT
        except BrokenPipeError:  # whoever read our output has left
            _drop_output()
            return INTERRUPTED
        except KeyboardInterrupt:
            say("interrupted")
            return INTERRUPTED
        except Exception as error:
            package = (getattr(error, "name", None) or "").partition(".")[0]
            if isinstance(error, ModuleNotFoundError) and package in _EXTRAS:
                extra = _VERBS_EXTRAS.get(arguments[0], _EXTRAS[package])
                say(f'this needs the extra {extra!r} ({package}): pip install "tightrope[{extra}]"')
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


def _run(arguments: list[str], called: list[Any]) -> int:
    """Run a verb, or show help; `called` receives its function."""
    words = [word for word in arguments if word != "--quiet"]
    asked = _HELP & set(words) or not words
    if asked:
        print(_help([word for word in words if word not in _HELP], "--help-all" in words))
        return DONE
    if words == ["--version"]:
        from tightrope import __version__

        print(f"tightrope {__version__}")
        return DONE
    function, given = parse(words)
    called.append(function)
    with _quiet("--quiet" in arguments, given.kwargs.get("json", False)):
        return int(function(*given.args, **given.kwargs))


def parse(words: list[str]) -> tuple[Any, inspect.BoundArguments]:
    """The function that a command line calls, and its arguments.

    Raises:
        InputError: it is not understood, in one line.
    """
    verbs = app()
    chain, apps, _ = verbs.parse_commands(words)
    function = apps[-1].default_command
    name = " ".join(("tightrope", *chain))
    if function is None:
        _, rest = words[: len(chain)], words[len(chain) :]
        raise InputError(_no_such_verb(name, list(_below(apps[-1], chain)), rest))
    try:
        called, given, _ = verbs.parse_args(words, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        message = f"{_in_one_line(error)}: run {name} --help"
        raise InputError(_in_flags(message, function)) from None
    return called, given


def _below(verbs: App, chain: tuple[str, ...]) -> Iterator[str]:
    if not chain:
        yield from (verb for group in COMMANDS.values() for verb in group)
    else:
        yield from verbs


def _help(words: list[str], everything: bool) -> str:
    if not words:
        return verbs_help(COMMANDS)
    chain, apps, rest = app().parse_commands(words)
    name = " ".join(("tightrope", *chain))
    function = apps[-1].default_command
    if function is not None:
        return command_help(name, function, everything)
    if not chain:
        raise InputError(_no_such_verb(name, list(_below(apps[-1], chain)), rest))
    listed = {verb: _first_line(apps[-1][verb].default_command) for verb in apps[-1]}
    return verbs_help({"Agents": listed}, name)


def _first_line(function: Any) -> str:
    return str(function.__doc__).partition("\n")[0].rstrip(".")


def _no_such_verb(name: str, listed: list[str], rest: list[str]) -> str:
    near = difflib.get_close_matches(rest[0] if rest else "", listed, n=1)
    hint = f"did you mean {near[0]}?" if near else f"run {name} --help"
    what = "a command" if name == "tightrope" else "an agent"
    found = repr(rest[0]) if rest else "none"
    return f"expected {what} among {', '.join(listed)}, found {found}: {hint}"


def _in_one_line(error: cyclopts.CycloptsError) -> str:
    """What was expected and what was found."""
    match error:
        case exceptions.UnknownOptionError():
            word = error.token.keyword or error.token.value
            flags = [name for each in error.argument_collection for name in each.names]
            near = [flag for flag in flags if flag.startswith(word)]
            near += difflib.get_close_matches(word.partition("=")[0], flags, n=1, cutoff=0.7)
            hint = f" (did you mean {near[0]}?)" if near else ""
            return f"expected an option, found {word!r}{hint}"
        case exceptions.UnusedCliTokensError():
            return f"expected nothing more, found {(error.unused_tokens or [''])[0]!r}"
        case exceptions.MissingArgumentError() if error.argument is not None:
            count, _ = error.argument.token_count()
            flag = error.keyword or error.argument.name
            if not flag.startswith("-"):
                return f"expected {flag.upper()}, found none"
            if error.keyword is None and not error.argument.tokens:
                return f"expected {flag}, found none"
            found = len(error.tokens_so_far) or "none"
            many = "a value" if count == 1 else f"{count} values"
            return f"expected {many} for {flag}, found {found}"
        case exceptions.RepeatArgumentError():
            return f"expected {error.token.keyword} once, found it again"
    error.verbose = False
    return one_line(error.__cause__ if isinstance(error.__cause__, InputError) else error)


def _in_flags(message: str, function: Any) -> str:
    """Arguments that the library names in backticks, as the flags of the command."""
    flags = {flag.name: flag.flag for flag in getattr(function, "flags", ())}

    def flag(match: re.Match[str]) -> str:
        return str(flags.get(f"no_{match[1]}" if match[2] else match[1], match[0]))

    return re.sub(r"`([a-z_]+)(=False)?`", flag, message)


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
