"""What the command answers with one line and exit code 2."""

__all__ = ["InputError"]


class InputError(ValueError):
    """A user's input is wrong: the message says what was expected, found, and what to do."""
