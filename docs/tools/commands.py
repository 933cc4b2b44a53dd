"""Write docs/commands.md from the dataclasses that are the command: python docs/tools/commands.py.

The fields are the options, what stands below them is the help; nothing is said twice. A test fails
if the page is not what this writes.
"""

import dataclasses
import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from tyro.conf import Positional

from tightrope.cli.command import VERBS

PAGE = Path(__file__).parents[1] / "commands.md"
_HEAD = """# Commands

Every verb and every option, with its default. This page is written by `docs/tools/commands.py` from
the same records that the command itself is made of; `tightrope VERB --help` shows the same.

`--quiet`, with any verb, leaves standard output empty (JSON excepted) and shows no progress bar.
`--help` shows the options, `tightrope --version` the version.

| exit code | means |
|---|---|
| 0 | done |
| 1 | no: of `verify`, `check`, `audit`, `certify --until`, `plan`; or jobs of a `study` failed |
| 2 | wrong input: one line says what was expected, what was found and what to do |
| 70 | an internal error; `TIGHTROPE_TRACEBACK=1` shows where |
| 130 | interrupted |
"""
_KINDS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclasses.dataclass(frozen=True)
class Option:
    """One line of a table."""

    written: str
    default: str
    says: str


def page() -> str:
    """The page."""
    sections = [_HEAD]
    for verb in VERBS:
        kind = getattr(importlib.import_module(f"tightrope.cli.{verb}"), verb.capitalize())
        sections.append(_section(f"tightrope {verb}", kind, 2))
        for name, each in getattr(kind, "kinds", {}).items():
            sections.append(_section(f"tightrope {verb} {name}", each, 3))
    return "\n".join(sections)


def _section(command: str, kind: Any, level: int) -> str:
    about = " ".join(str(kind.__doc__).split("\n\n")[0].split())
    if hasattr(kind, "kinds") and level == 2:
        listed = ", ".join(f"`{name}`" for name in kind.kinds)
        return f"## {command}\n\n{about} There is a command for each agent: {listed}.\n"
    options = list(_options(kind))
    named = " ".join(each.written for each in options if not each.written.startswith("`--"))
    rows = [f"| {each.written} | {each.default} | {each.says} |" for each in options]
    usage = f"{command} {named.replace('`', '')}".rstrip()
    head = f"{'#' * level} {command}\n\n{about}\n\n`{usage}`, and:\n"
    return "\n".join([head, "| option | default | is |", "|---|---|---|", *rows, ""])


def _options(kind: Any) -> Iterator[Option]:
    """The options of a record, and of the records in it."""
    hints, said = get_type_hints(kind, include_extras=True), _help(kind)
    for entry in dataclasses.fields(kind):
        bare, *notes = (
            get_args(hints[entry.name])
            if get_origin(hints[entry.name]) is Annotated
            else (hints[entry.name],)
        )
        if dataclasses.is_dataclass(bare):
            yield from _options(bare)
            continue
        metavars = [note.metavar for note in notes if getattr(note, "metavar", None)]
        words = said[entry.name].replace("|", "\\|")
        if Positional in notes:
            needed = "" if entry.default is not dataclasses.MISSING else "needed"
            yield Option(f"`{metavars[0]}`", needed, words)
            continue
        flag = f"--{entry.name.replace('_', '-')}"
        value = metavars[0] if metavars else _kind(bare)
        yield Option(f"`{flag} {value}`".replace(" `", "`").replace("|", "\\|"), _of(entry), words)


def _kind(hint: Any) -> str:
    """What a value looks like."""
    if hint is bool:
        return ""
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return "|".join(_kind(each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        inside = get_args(hint)
        several = inside[-1] is Ellipsis
        return f"{_kind(inside[0])} ..." if several else " ".join(map(_kind, inside))
    return _KINDS[hint]


def _of(entry: Any) -> str:
    """The default of a field, as it would be typed."""
    value = entry.default
    if value is dataclasses.MISSING:
        return "needed"
    if isinstance(value, bool):
        return f"on; `--no-{entry.name.replace('_', '-')}`" if value else "off"
    if isinstance(value, tuple):
        return " ".join(f"`{each}`" for each in value).replace("` `", " ")
    return "" if value == "" else f"`{value}`"


def _help(kind: Any) -> dict[str, str]:
    """What stands below each field, also of those that are inherited."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if dataclasses.is_dataclass(each):
            parsed = docstring_parser.parse_from_object(each)
            found |= {
                entry.arg_name: " ".join((entry.description or "").split())
                for entry in parsed.params
                if entry.description
            }
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
