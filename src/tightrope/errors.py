"""What a user can get wrong, and how it is said: one line, exit code 2.

Messages of the library name arguments in backticks (`pilot_episodes`); the command shows each of
its own as the flag (--pilot-episodes).
"""

__all__ = ["InputError", "one_line", "printable"]


class InputError(ValueError):
    """A user's input is wrong: the message says what was expected, found, and what to do."""


def one_line(error: BaseException, limit: int = 200) -> str:
    """What an exception says as one line of at most `limit` characters; its name if nothing."""
    said = isinstance(error, OSError) and error.strerror
    return " ".join(str(said or error).split())[:limit] or type(error).__name__


def printable(text: str, *, lines: bool = False) -> str:
    """Text without control characters, which are escaped; with `lines`, line feeds stay."""
    kept = "\n" if lines else ""
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)
