"""What a user can get wrong, and how it is said: one line, exit code 2.

Messages of the library name arguments in backticks (`pilot_episodes`); the command shows each of
its own as the flag (--pilot-episodes).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["InputError", "as_lines", "one_line", "printable", "reading"]


class InputError(ValueError):
    """A user's input is wrong: the message says what was expected, found, and what to do."""


def one_line(error: BaseException, limit: int = 200) -> str:
    """What an exception says as one line of at most `limit` characters; its name if nothing."""
    said = isinstance(error, OSError) and error.strerror
    return " ".join(str(said or error).split())[:limit] or type(error).__name__


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Name the source in what is wrong with it, whoever says so: we, a library or the system."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except Exception as error:  # libraries raise many kinds, some of them Python's own
        raise InputError(f"cannot read {source}: {one_line(error)}") from None


def printable(text: str) -> str:
    """Text of one line: control characters in it, line feeds too, are escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def as_lines(lines: Iterable[str]) -> str:
    """A text whose lines are these: a name in one of them cannot begin another."""
    return "\n".join(map(printable, lines))
