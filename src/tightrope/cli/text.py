"""What the command prints: help, answers, and one line for what is wrong."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from tightrope.errors import as_lines, printable

__all__ = ["command_help", "in_flags", "say", "show", "show_json", "verbs_help"]

_LABEL = 30  # columns of an option's name
_ABOUT = """\
Risk certificates for reinforcement-learning policies: what does a policy return, how often
does it fail, how wrong are predictions of its return, and with what confidence?
"""
_END = """\

First: tightrope certify --demo        Then: tightrope COMMAND --help, --help-all
With any command: --quiet (nothing on standard output but JSON, no bar). tightrope --version"""


def show(text: object, *, lines: bool = False) -> None:
    """Print a line, or the lines of a text; control characters of names are escaped."""
    print(as_lines(str(text).split("\n") if lines else [str(text)]))


def show_json(document: Any) -> None:
    """Print a document, which is then all that standard output receives."""
    print(json.dumps(document, indent=1, allow_nan=False))


def say(message: str) -> None:
    """One line on standard error."""
    print(f"tightrope: {printable(message)}", file=sys.stderr)


def in_flags(text: object, function: Any) -> str:
    """Arguments that the library names in backticks, as what is typed for them."""

    def typed(match: re.Match[str]) -> str:
        flag = getattr(function, "flags", {}).get(f"no_{match[1]}" if match[2] else match[1])
        return flag.typed if flag else match[0]

    return re.sub(r"`([a-z_]+)(=False)?`", typed, str(text))


def verbs_help(groups: Mapping[str, Mapping[str, str]], command: str = "tightrope") -> str:
    """Help on the words to choose from."""
    top = command == "tightrope"
    lines = [f"Usage: {command} {'COMMAND' if top else 'AGENT'} [OPTIONS]", ""]
    lines += [_ABOUT] if top else []
    for title, verbs in groups.items():
        lines += [title, *(f"  {verb:<7}  {words}" for verb, words in verbs.items())]
    return "\n".join([*lines, _END])


def command_help(command: str, function: Any, everything: bool) -> str:
    """Help on a command: its common options, or all of them."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    sources = [flag for flag in function.flags.values() if flag.positional]
    options = [flag for flag in function.flags.values() if not flag.positional]
    usage = [flag.typed if flag.required else f"[{flag.typed}]" for flag in sources]
    usage += [flag.label for flag in options if flag.required]
    lines = [" ".join(["Usage:", command, *usage, "[OPTIONS]"]), ""]
    lines += [*textwrap.wrap(function.__doc__.partition("\n\n")[0], width), ""]
    for flag in sources:
        lines += _entry(flag.typed, flag.help, width, len(flag.typed) + 4)
    lines += [""] * bool(sources) + ["Options"] * bool(options)
    shown = [flag for flag in options if everything or flag.common or flag.required]
    for flag in shown:
        about = flag.help if everything else re.split(r"[.;] |\.$", flag.help)[0]
        note = "required" if flag.required else flag.default
        lines += _entry(flag.label, f"{about} [{note}]" if note else about, width, _LABEL)
    if left := [flag.typed for flag in options if flag not in shown]:
        few = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
        lines += _entry("--help-all", f"{len(left)} more: {few}", width, _LABEL)
    return "\n".join(line.rstrip() for line in lines)


def _entry(label: str, words: str, width: int, indent: int) -> list[str]:
    """A name and what is said about it, beside it or, for a long name, below."""
    lines = textwrap.wrap(words, max(width - indent, 30)) or [""]
    head = [f"  {label}"] if len(label) > indent - 4 else []
    body = [f"{'':{indent}}{line}" for line in lines]
    if not head:
        body[0] = f"  {label:<{indent - 2}}{lines[0]}"
    return [*head, *body]
