"""Write docs/commands.md from the functions that are the command: python docs/tools/commands.py.

Their arguments and the fields of their records are the options; nothing is said twice. A test fails
if the page is not what this writes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tightrope.cli.app import COMMANDS, app
from tightrope.cli.flags import Flag

PAGE = Path(__file__).parents[1] / "commands.md"
_HEAD = """# Commands

Every command and every option, with its default. This page is written by `docs/tools/commands.py`
from the same functions that the command itself is made of; `tightrope COMMAND --help-all` shows the
same, `--help` the common options.

`--quiet`, with any command, leaves standard output empty (JSON excepted) and shows no progress bar.
`tightrope --version` shows the version.

| exit code | means |
|---|---|
| 0 | done |
| 1 | no: of `verify`, `check`, `audit`, `certify --until`, `plan`; or jobs of a `study` failed |
| 2 | wrong input: one line says what was expected, what was found and what to do |
| 70 | an internal error; `TIGHTROPE_TRACEBACK=1` shows where |
| 130 | interrupted |
"""


def page() -> str:
    """The page."""
    sections = [_HEAD]
    for words, function in commands():
        sections.append(_section(" ".join(("tightrope", *words)), function))
    return "\n".join(sections)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words of each command and its function; for train, those of each agent."""
    verbs = app()
    for verb in (verb for group in COMMANDS.values() for verb in group):
        function = verbs[verb].default_command
        if function is None:
            yield from (((verb, word), verbs[verb][word].default_command) for word in verbs[verb])
        else:
            yield (verb,), function


def _section(command: str, function: Any) -> str:
    about = " ".join(str(function.__doc__).partition("Args:")[0].split())
    named = [flag for flag in function.flags.values() if flag.positional or flag.required]
    usage = " ".join([command, *(flag.label for flag in named)])
    rows = [_row(f"`{flag.label}`", _default(flag), flag.help) for flag in function.flags.values()]
    head = f"## {command}\n\n{about}\n\n`{usage}`, and:\n"
    return "\n".join([head, "| option | default | is |", "|---|---|---|", *rows, ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(flag: Flag) -> str:
    return "needed" if flag.required else f"`{flag.default}`" if flag.default else ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
