"""What the command prints: help, answers, and one line for what is wrong."""

import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from tightrope.errors import as_lines, printable

__all__ = ["command_help", "say", "show", "verbs_help"]

_LABEL = 26  # columns of the names of options
_ABOUT = """\
Risk certificates for reinforcement-learning policies: what does a policy return, how often
does it fail, how wrong are predictions of its return, and with what confidence?"""
_END = """\
First: tightrope certify --demo        Then: tightrope COMMAND --help, --help-all
With any command: --quiet (nothing on standard output but JSON, no bar). tightrope --version"""


def show(text: str, *, lines: bool = False) -> None:
    """Print a line, or the lines of a text; control characters of names are escaped."""
    print(as_lines(text.split("\n")) if lines else printable(text))


def say(message: str) -> None:
    """One line on standard error."""
    print(f"tightrope: {printable(message)}", file=sys.stderr)


def verbs_help(groups: Mapping[str, Mapping[str, str]], command: str = "tightrope") -> str:
    """Help on the words to choose from."""
    width = max(len(verb) for group in groups.values() for verb in group)
    lines = [f"Usage: {command} {'COMMAND' if command == 'tightrope' else 'AGENT'} [OPTIONS]", ""]
    lines += [_ABOUT, ""] if command == "tightrope" else []
    for title, verbs in groups.items():
        lines += [title, *(f"  {verb:<{width}}  {words}" for verb, words in verbs.items())]
    return "\n".join([*lines, "", _END])


def command_help(command: str, function: Any, everything: bool) -> str:
    """Help on a command: its common options, or all of them."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    sources = [flag for flag in function.flags if flag.positional]
    options = [flag for flag in function.flags if not flag.positional]
    needed = " ".join(flag.label for flag in options if flag.required)
    words = [flag.flag if flag.required else f"[{flag.flag}]" for flag in sources]
    usage = " ".join(["Usage:", command, *words, needed]).rstrip()
    lines = [f"{usage} [OPTIONS]", "", *textwrap.wrap(function.__doc__.split("\n\n")[0], width), ""]
    for flag in sources:
        lines += _entry(flag.flag, flag.help, width, len(flag.flag) + 4)
    lines += [""] * bool(sources and options) + ["Options"] * bool(options)
    shown = [flag for flag in options if everything or flag.common or flag.required]
    for flag in shown:
        about = flag.help if everything else _first_sentence(flag.help)
        note = "required" if flag.required else flag.shown_default
        lines += _entry(flag.label, f"{about} [{note}]" if note else about, width, _LABEL + 4)
    left = [flag.flag for flag in options if flag not in shown]
    if left:
        few = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
        lines += _entry("--help-all", f"{len(left)} more: {few}", width, _LABEL + 4)
    return "\n".join(line.rstrip() for line in lines)


def _first_sentence(words: str) -> str:
    """As far as the first sentence, or its first part, goes."""
    ends = [place for mark in (". ", "; ") if (place := words.find(mark)) > 0]
    return words[: min(ends)] if ends else words.rstrip(".")


def _entry(label: str, words: str, width: int, indent: int) -> list[str]:
    """A name and what is said about it, beside it or, for a long name, below."""
    first, *rest = textwrap.wrap(words, max(width - indent, 30)) or [""]
    if len(label) > indent - 4:
        return [f"  {label}", *(f"{'':{indent}}{line}" for line in (first, *rest))]
    head = f"  {label:<{indent - 4}}  {first}"
    return [head, *(f"{'':{indent}}{line}" for line in rest)]
